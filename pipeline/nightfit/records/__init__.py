"""From a raw record to a bounded row, by public facts alone.

- `preprocessing`: `Preprocessing`, which centres, scales and clamps columns and encodes labels, and its inverse
- `columns`, `encoding`: kinds of columns, one per file, and the features that they make
- `targets`: which values a target may have, and what its public bounds do to it
- `persons`: at most a public number of rows of each person, chosen by that person's rows alone

Imports `numerics` and `types`. Strings and dates are parsed by `shards`, which hands over numbers and hashed ids.
"""
