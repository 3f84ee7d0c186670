"""Prints the constants of `auto` as a table: `python -m nightfit.methods.auto.constants [kind]`."""

import sys

from nightfit.methods.auto.constants.catalogue import KINDS, entries


def main(kinds: list[str]) -> None:
    """Print the constants of the given kinds; all if none is given."""
    print("| constant | value | unit | meaning | reason |\n|---|---|---|---|---|")
    for entry in entries():
        if entry.kind in (kinds or KINDS):
            reason = f"{entry.kind}: {entry.reason}"
            print(f"| `{entry.section}.{entry.name}` | `{entry.value}` | {entry.unit} | {entry.meaning} | {reason} |")


if __name__ == "__main__":
    main(sys.argv[1:])
