"""Whether the columns of a data set can be read as a configuration wants them, from their types in the footers. Imports the manifest."""

import re
from collections.abc import Iterable

from nightfit.records.columns import coded, numeric, temporal, textual
from nightfit.records.encoding import Encoding
from nightfit.records.outcomes import Outcome
from nightfit.shards.manifest import DataError, Manifest


def check_columns(manifest: Manifest, columns: Iterable[str]) -> None:
    """Raise a DataError that names a missing column, or one that is neither numeric nor boolean."""
    for column in columns:
        check_there(manifest, column)
        kind = manifest.types[column]
        if not numeric(kind):
            cure = "declare its labels, as in target: {column: .., positive: ..}" if coded(kind) else "write it as one of these"
            raise DataError(
                f"column {column!r} in {manifest.shards[0].name} has type {kind}: a target must be numbers or booleans "
                f"(integers, floats, decimals); {cure}"
            )


def check_target(manifest: Manifest, column: str, outcome: Outcome) -> None:
    """Raise a DataError that names a target, or its exposure, that is missing or whose type cannot be read."""
    if not outcome.labels:
        check_columns(manifest, [column, *outcome.columns])
        return
    check_there(manifest, column)
    if not coded(manifest.types[column]):
        raise DataError(
            f"column {column!r} in {manifest.shards[0].name} has type {manifest.types[column]}: labels are text, whole numbers or "
            "booleans; write it as one of these"
        )


def check_kinds(manifest: Manifest, encoding: Encoding) -> None:
    """Raise a DataError that names a raw column that is missing, or whose type its kind cannot read, and the cure."""
    for name in encoding.readings:
        check_there(manifest, name)
        column, kind = encoding.described[name], manifest.types[name]
        if not column.accepts(kind):
            raise DataError(
                f"column {name!r} in {manifest.shards[0].name} has type {kind}, which the kind {column.name} cannot read: "
                f"describe it in data.columns by {proposed(kind)}, or list it under data.exclude"
            )


def proposed(kind: str) -> str:
    """A description of a column of this Arrow type, as data.columns wants it."""
    if kind == "bool":
        return "{kind: boolean}"
    if numeric(kind):
        return "{kind: number}"
    if temporal(kind):
        return "{kind: date, parts: [weekday, month]}"
    return "{kind: category, levels: [...]}" if textual(kind) else "another kind, once it is written as numbers, text or dates"


def check_there(manifest: Manifest, column: str) -> None:
    """Raise a DataError that names a missing column."""
    if column not in manifest.types:
        near = [name for name in manifest.types if name.lower() == column.lower()]
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
