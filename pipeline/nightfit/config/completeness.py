"""What a configuration leaves open, place by place, and the configuration with those places filled. Imports nothing of nightfit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PLACEHOLDER = "(still to be filled in)"
LEVELS = (
    "fill in the public levels: a list, a file with one per line, or `discover` with `at_most: 40`, which `nightfit discover` pays for; "
    "levels match exactly, with case"
)
UNITS = "fill in the public number of persons, from an annual report or the like; it is never counted in the data"
LABEL = (
    "fill in the label whose probability is wanted, or write `classes: [home, moved, died]` in its place and kind: multinomial below; "
    "labels match exactly, with case and type"
)
PARTS = "fill in which parts count: [weekday, month, hour, {days_since: 2020-01-01}]"
CURES: dict[str, tuple[str, Any]] = {"levels": (LEVELS, [PLACEHOLDER]), "parts": (PARTS, ["weekday"])}
OTHERWISE = "fill it in, or remove the key"


@dataclass(frozen=True, slots=True)
class Open:
    """A place that has no value yet, and what belongs there."""

    place: str
    cure: str


def still_open(content: Mapping[str, Any]) -> list[Open]:
    """The places under `data` that are still to be filled in, in the order of the file."""
    data = content.get("data")
    if not isinstance(data, Mapping):
        return []
    found = []
    for key, value in data.items():
        if key == "columns" and isinstance(value, Mapping):
            found += [place for name, fields in value.items() for place in _of_column(str(name), fields)]
        elif key == "target" and isinstance(value, Mapping):
            found += [Open(f"data.target.{part}", LABEL if part == "positive" else OTHERWISE) for part, one in value.items() if one is None]
        elif value is None:
            found.append(Open(f"data.{key}", UNITS if key == "units" else OTHERWISE))
    return found


def filled(content: Mapping[str, Any]) -> dict[str, Any]:
    """The same with a placeholder in every open place, so that the other faults can be told at once."""
    data = content.get("data")
    if not isinstance(data, Mapping):
        return dict(content)
    made = {key: value for key, value in data.items() if value is not None}
    if "units" in data:
        made.setdefault("units", 1)
    if isinstance(data.get("target"), Mapping):
        stand_in = {"positive": PLACEHOLDER} if data["target"].get("positive", "") is None else {}
        made["target"] = {part: one for part, one in data["target"].items() if one is not None} | stand_in
    if isinstance(data.get("columns"), Mapping):
        made["columns"] = {name: _filled(fields) for name, fields in data["columns"].items()}
    return {**content, "data": made}


def _of_column(name: str, fields: Any) -> list[Open]:
    if fields is None:
        return [Open(f"data.columns.{name}", "describe it, as in {kind: number}, or remove it")]
    if not isinstance(fields, Mapping):
        return []
    return [
        Open(f"data.columns.{name}.{key}", CURES.get(str(key), (OTHERWISE, None))[0]) for key in _keys(fields) if fields.get(key) is None
    ]


def _keys(fields: Mapping[str, Any]) -> list[str]:
    """The keys of a column, with those that its kind needs."""
    needed = {"category": "levels", "date": "parts"}.get(str(fields.get("kind")))
    return [*fields, *([needed] if needed is not None and needed not in fields else [])]


def _filled(fields: Any) -> Any:
    if fields is None:
        return {"kind": "number"}
    if not isinstance(fields, Mapping):
        return fields
    values = {key: fields.get(key) for key in _keys(fields)}
    stand_ins = {key: CURES[key][1] for key, value in values.items() if value is None and key in CURES}
    return {**{key: value for key, value in values.items() if value is not None}, **stand_ins}
