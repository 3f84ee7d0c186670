"""Finds the members of an extensible package (losses, penalties, ...), ours and those of installed plug-ins. Imports types.

A member is a class with a `name` of its own, which configurations, plans and releases call it. Its module ends in `EXAMPLES`, a tuple
of instances. A package's members are those of its modules and those that installed distributions announce in the entry-point group
`nightfit.<package>`:

    [project.entry-points."nightfit.losses"]
    capped_poisson = "my_losses.capped_poisson"
"""

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any

from nightfit.types import NightfitError


class PluginError(NightfitError):
    """An installed plug-in cannot be used."""


def members(package: ModuleType) -> dict[str, tuple[Any, ...]]:
    """The examples of every member of a package, by the member's name.

    Raises
    ------
    PluginError
        If a plug-in cannot be imported, has no examples, or takes a name that exists.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for where, module in _modules(package):
        examples = getattr(module, "EXAMPLES", ())
        if not examples:
            raise PluginError(f"{where} has no EXAMPLES: end the module in a tuple of instances")
        name = type(examples[0]).name
        if name in found:
            raise PluginError(f"{where} calls itself {name!r}, and {_kind(package)} has a member of that name already: rename it")
        found[name] = examples
    return found


def _modules(package: ModuleType) -> Iterator[tuple[str, ModuleType]]:
    """Where a member comes from, in words, and its module; ours come first and may be helpers, which have no examples."""
    yield from _ours(package.__name__, tuple(package.__path__))
    for point in _announced(f"nightfit.{_kind(package)}"):
        where = f"the plug-in {point.value}{f' of {point.dist.name}' if point.dist else ''}"
        try:
            module = point.load()
        except Exception as error:
            raise PluginError(f"{where} cannot be imported: {error}; repair or uninstall it") from error
        yield where, module


@functools.cache
def _ours(package: str, path: tuple[str, ...]) -> tuple[tuple[str, ModuleType], ...]:
    """Our own modules that end in examples; looked up once in a process, as reading a release asks for members dozens of times."""
    modules = [importlib.import_module(f"{package}.{entry.name}") for entry in pkgutil.iter_modules(path)]
    return tuple((module.__name__, module) for module in modules if hasattr(module, "EXAMPLES"))


@functools.cache
def _announced(group: str) -> tuple[EntryPoint, ...]:
    """Entry points of installed distributions, in the order of their names; looked up once in a process, as it reads every folder."""
    return tuple(sorted(entry_points(group=group), key=lambda point: (point.name, point.value)))


def _kind(package: ModuleType) -> str:
    return package.__name__.rpartition(".")[2]


def member(package: ModuleType, name: str) -> type:
    """The class of a name; an unknown name is refused with the nearest valid one."""
    found = members(package)
    if name not in found:
        near = difflib.get_close_matches(name, found, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"{name!r} is not one of the {_kind(package)}: {', '.join(found)}{hint}")
    cls: type = type(found[name][0])
    return cls


def named(thing: Any) -> str:
    """A member's name, in words."""
    name = name_of(type(thing))
    return "no" if name == "none" else name.replace("_", " ")


def name_of(kind: Any) -> str:
    """The name of a member's class."""
    return str(kind.name)


def described(thing: Any) -> dict[str, Any]:
    """A member by name and fields, as plans and releases store it."""
    return {"kind": name_of(type(thing)), **asdict(thing)}
