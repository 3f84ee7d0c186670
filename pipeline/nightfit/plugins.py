"""Finds the members of a room (losses, penalties, ...): a member is one file, its name is the file's name. Imports nothing of ours."""

import difflib
import importlib
import pkgutil
from dataclasses import asdict
from types import ModuleType
from typing import Any


def members(room: ModuleType) -> dict[str, tuple[Any, ...]]:
    """Each file of a room with the EXAMPLES it ends in, by the file's name."""
    found = {}
    for entry in pkgutil.iter_modules(room.__path__):
        module = importlib.import_module(f"{room.__name__}.{entry.name}")
        if hasattr(module, "EXAMPLES"):
            found[entry.name] = module.EXAMPLES
    return found


def member(room: ModuleType, name: str) -> type:
    """The class that the file `name` of a room defines; an unknown name is refused with the nearest valid one."""
    found = members(room)
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        kind = room.__name__.rpartition(".")[2]
        raise ValueError(f"{name!r} is not one of the {kind}: {', '.join(found)}{hint}")
    cls: type = type(found[name][0])
    return cls


def named(thing: Any) -> str:
    """The name of the file that defines it, in words."""
    name = name_of(type(thing))
    return "no" if name == "none" else name.replace("_", " ")


def name_of(kind: type) -> str:
    """The name of the file that defines a class."""
    return kind.__module__.rpartition(".")[2]


def described(thing: Any) -> dict[str, Any]:
    return {"kind": name_of(type(thing)), **asdict(thing)}
