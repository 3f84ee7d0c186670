"""A configuration from names and types of columns and the number of rows: never from a row. Imports template and packages below."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nightfit.config.template import Start
from nightfit.records.columns import dictionary, numeric, temporal, textual

PERSON = r"(patient|person|subject|member|insured|beneficiary|client|participant|resident|individual)"
PERSON_ID = rf"{PERSON}(_?(id|key|number|nr|no|code|pseudonym|hash))?|pid|mrn|nhs_?(number|no)|pseudonym"
RECORD_ID = r"(visit|encounter|admission|record|row|event|case|stay|claim|episode|note)_?(id|key|number|nr|no)|id|uuid|rowid"
OTHER_ID = r".*_(id|key|uuid|hash|pseudonym)"
CODE = r".*(_code|_class|_type|_status|_category|_group)|sex|gender|ward|drg|icd(10)?"
IDS = ("int", "uint", "string", "large_string", "dictionary<values=string", "binary", "large_binary", "fixed_size_binary")
MOST_LISTED = 40  # columns of numbers: more are not worth a line each
LEVELS = "public levels, as [a, b], a file with one per line, or discover; what records hold is not public, so it was not read"


@dataclass(frozen=True, kw_only=True, slots=True)
class Schema:
    """What footers and folders tell: the Arrow type of each column, the number of rows, and the hive keys of the folders."""

    types: Mapping[str, str]
    rows: int
    keys: tuple[str, ...] = ()


def schema_start(path: str, data_set: str, target: str, loss: str | None, schema: Schema) -> Start:
    """Kinds from types and names; the unit from a column that is named like a person's id, the blocks from a hive key. Without a stated
    loss, a target that is text or a boolean is a label.

    delta is the power of ten at or below 1 / (100 rows), and over all refits 1 / (10 rows).
    """
    digits = max(6, math.ceil(math.log10(100 * max(1, schema.rows))))
    person, row_id = (_named(schema, pattern, target) for pattern in (PERSON_ID, RECORD_ID))
    columns: dict[str, dict[str, Any]] = {}
    out: list[str] = []
    for name, kind in schema.types.items():
        if name in (target, person, row_id):
            continue
        fields = None if _like(OTHER_ID, name) and kind.startswith(IDS) else described(name, kind)
        if fields is None:
            out.append(name)
        else:
            columns[name] = fields
    numbers = [name for name, fields in columns.items() if fields == {"kind": "number"}]
    listed = {name: fields for name, fields in columns.items() if len(numbers) <= MOST_LISTED or name not in numbers}
    notes = {name: LEVELS for name, fields in columns.items() if None in fields.values()}
    labelled = textual(schema.types[target]) or dictionary(schema.types[target])
    notes |= {"exclude": "ids, and types that no kind of column reads"} if out else {}
    if person is not None:
        notes["unit"] = "by its name the id of a person: all rows of one are protected together; write record to protect single rows"
    return Start(
        path=path,
        target=target,
        data_set=data_set,
        columns=listed,
        default={"kind": "number"} if len(numbers) > MOST_LISTED else None,
        exclude=tuple(out),
        unit=person or "record",
        row_id=row_id,
        blocks=_blocks(schema, person),
        notes=notes,
        labelled=labelled,
        loss=loss or ("logistic" if labelled or schema.types[target] == "bool" else "squared"),
        delta=f"1.0e-{digits}",
        lifetime_delta=f"1.0e-{digits - 1}",
    )


def described(name: str, kind: str) -> dict[str, Any] | None:
    """The fields of a column of this name and Arrow type, None for what is to be filled in; None if no kind reads it."""
    if kind == "bool":
        return {"kind": "boolean"}
    if textual(kind) or (dictionary(kind) and numeric(kind)) or (_like(CODE, name) and kind.startswith(("int", "uint"))):
        return {"kind": "category", "levels": None}
    if numeric(kind):
        return {"kind": "number"}
    return {"kind": "date", "parts": ["weekday", "month"]} if temporal(kind) else None


def _blocks(schema: Schema, person: str | None) -> str | None:
    """A hive key divides records; a person's rows return under many keys, so persons are divided by a hash of their id."""
    if not schema.keys:
        return None
    return schema.keys[-1] if person is None else "hash:64"


def _named(schema: Schema, pattern: str, target: str) -> str | None:
    """The first column that is named so and has the type of an id."""
    return next((name for name, kind in schema.types.items() if name != target and _like(pattern, name) and kind.startswith(IDS)), None)


def _like(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name.lower()) is not None
