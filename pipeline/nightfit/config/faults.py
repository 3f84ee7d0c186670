"""Faults of a configuration in words: each by its place, with the nearest valid name. Imports pydantic."""

import difflib
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel

from nightfit.config.sections import TAGS, LocalCluster, LocalMethodSection, MethodSection, RemoteCluster
from nightfit.config.sections.target import ExposureSection, TargetSection
from nightfit.types import NightfitError

MOST_SHOWN = 80  # characters of a wrong value: a line of a screen


class ConfigError(NightfitError):
    """The configuration is not valid; nothing was read or charged."""


def describe(fault: Any, root: type[BaseModel]) -> str:
    """One fault of pydantic's as a sentence with its place."""
    place = [str(part) for part in fault["loc"] if not str(part).startswith(("<", "dict[", "function-"))]
    if fault["type"] == "extra_forbidden":
        return f"unknown key {'.'.join(place)!r}{nearest(place[-1], _keys(fault['loc'][:-1], root))}"
    if fault["type"] == "missing":
        return f"{'.'.join(place)} is missing: {_purpose(place, root)}"
    where = f"{'.'.join(place)}: " if place else ""
    if fault["type"] == "invalid_key":
        return f"{where}a key is a name: write it in quotes"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{where}{message}" + (f" (got {shown(fault['input'])})" if isinstance(fault["input"], (int, float, str)) else "")


def shown(value: object) -> str:
    """A value as it is written, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python prints
        return "a number of too many digits"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


_SECTIONS: dict[str, type[BaseModel]] = {
    "<section>": MethodSection,
    "<reports>": LocalMethodSection,
    "<local>": LocalCluster,
    "<remote>": RemoteCluster,
    "<target>": TargetSection,
    "<exposure>": ExposureSection,
    **TAGS,
}


def _section(place: Iterable[Any], root: type[BaseModel]) -> type[BaseModel]:
    """The section at a place."""
    section = root
    for part in place:
        if part in _SECTIONS:
            section = _SECTIONS[part]
        elif part in section.model_fields:
            annotation = section.model_fields[part].annotation
            options = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type) and issubclass(kind, BaseModel)]
            section = options[0] if options else section
    return section


def _keys(place: Iterable[Any], root: type[BaseModel]) -> list[str]:
    """The valid keys of the section at a place."""
    return [name for name in _section(place, root).model_fields if name != "folder"]


def _purpose(place: list[str], root: type[BaseModel]) -> str:
    """What a missing key is for."""
    field = _section(place[:-1], root).model_fields.get(place[-1])
    return (field.description if field else None) or "it has no default"


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"
