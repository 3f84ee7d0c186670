"""Whether the columns of a data set can be read as a configuration wants them, from their types in the footers. Imports the manifest."""

import re
from collections.abc import Iterable

from nightfit.records.columns import ABSENT, Levels, coded, dictionary, numeric, occurs, temporal
from nightfit.records.encoding import Encoding
from nightfit.records.outcomes import Outcome
from nightfit.shards.manifest import DataError, Manifest, hive_keys


def check_columns(manifest: Manifest, columns: Iterable[str], role: str = "a target") -> None:
    """Raise a DataError that names a missing column, or one that is neither numeric nor boolean."""
    for column in columns:
        check_there(manifest, column)
        kind = manifest.types[column]
        if not numeric(kind):
            labels = role == "a target" and coded(kind)
            cure = "declare its labels, as in target: {column: .., positive: ..}" if labels else "write it as one of these"
            raise DataError(
                f"column {column!r} in {manifest.shards[0].name} has type {kind}: {role} must be numbers or booleans "
                f"(integers, floats, decimals); {cure}"
            )


def check_target(manifest: Manifest, column: str, outcome: Outcome) -> None:
    """Raise a DataError that names a target, or its exposure, that is missing or whose type cannot be read."""
    if not outcome.labels:
        check_columns(manifest, [column])
        check_columns(manifest, outcome.columns, "an exposure")
        return
    check_there(manifest, column)
    if not coded(manifest.types[column]):
        raise DataError(
            f"column {column!r} in {manifest.shards[0].name} has type {manifest.types[column]}: labels are text, whole numbers or "
            "booleans; write it as one of these"
        )
    check_levels(manifest, column, outcome.labels)


def check_kinds(manifest: Manifest, encoding: Encoding, *, fitted: bool = False) -> None:
    """Raise a DataError that names a raw column that is missing, or whose type its kind cannot read, and the cure.

    Where a model was `fitted`, its kinds do not change any more, and its levels must be possible.
    """
    for name in encoding.readings:
        check_there(manifest, name)
        column, kind = encoding.described[name], manifest.types[name]
        if kind != ABSENT and not column.accepts(kind):
            described = f"describe it in data.columns by {proposed(kind)}, or list it under data.exclude"
            raise DataError(
                f"column {name!r} in {manifest.shards[0].name} has type {kind}, which the kind {column.name} cannot read: "
                + ("the model was fitted with this kind; write the column as in the fit" if fitted else described)
            )
        if fitted and isinstance(column.reading, Levels):
            check_levels(manifest, name, column.reading.levels)


def check_levels(manifest: Manifest, column: str, levels: Iterable[str]) -> None:
    """Raise a DataError that names a level, or a label, that a column of this type cannot hold: it would count for nobody."""
    kind = manifest.types[column]
    never = next((level for level in levels if not occurs(level, kind)), None)
    if never is not None:
        read = "true and false" if kind == "bool" else "numbers without leading zeros or spaces, such as 47"
        raise DataError(
            f"{never!r} cannot occur in column {column!r}, which has type {kind} in {manifest.shards[0].name}: its values are {read}; "
            "write it so, or leave it out, or write the column as text"
        )


def proposed(kind: str) -> str:
    """A description of a column of this Arrow type, as data.columns wants it."""
    if kind == "bool":
        return "{kind: boolean}"
    if numeric(kind) and not dictionary(kind):
        return "{kind: number}"
    if temporal(kind):
        return "{kind: date, parts: [weekday, month]}"
    return "{kind: category, levels: [...]}" if coded(kind) else "another kind, once it is written as numbers, text or dates"


def check_there(manifest: Manifest, column: str) -> None:
    """Raise a DataError that names a missing column."""
    if column not in manifest.types:
        near = [name for name in manifest.types if name.lower() == column.lower()]
        if column in hive_keys(manifest):
            raise DataError(f"{column!r} is the key of a folder, and no column of the files: write it into them as a column to use it")
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(manifest.types)[:20])}"
        raise DataError(f"column {column!r} is missing in {manifest.shards[0].name}: {hint}")


def check_id_column(manifest: Manifest, column: str) -> None:
    """Raise a DataError for a column that cannot identify persons: it is missing, or equal ids may look different in it."""
    if column not in manifest.types:
        raise DataError(f"column {column!r}, data.unit, is missing in {manifest.shards[0].name}: name the column that identifies a person")
    kind = re.sub(r"^dictionary<values=(\w+).*$", r"\1", manifest.types[column])
    if not kind.startswith(("int", "uint", "string", "large_string", "binary", "large_binary", "fixed_size_binary")):
        raise DataError(
            f"column {column!r}, data.unit, has type {manifest.types[column]} in {manifest.shards[0].name}: a person's id is an integer, "
            "text or bytes; write it as one of these"
        )
