"""MkDocs hook: reference pages made from the code itself, so that they cannot drift from it. Imports nightfit and mkdocs.

A line `<!-- generated: NAME -->` of a page is replaced by what the function of that name in PARTS returns: the keys of refit.yaml from
the JSON schema of nightfit.config, the commands and options from the Typer application, and the Python objects, which mkdocstrings then
renders from their docstrings.
"""

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

import nightfit
from nightfit.cli import app
from nightfit.config import schema
from nightfit.config.template import configuration, hospital_start
from nightfit.plugins import members

MARK = re.compile(r"^<!-- generated: (.+) -->$", re.MULTILINE)
LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
NAMED = {
    "losses": "nightfit.problem.losses",
    "links": "nightfit.problem.links",
    "penalties": "nightfit.problem.penalties",
    "gradient estimators": "nightfit.methods.loop.gradient_estimators",
    "solvers": "nightfit.methods.loop.solvers",
    "local randomisers": "nightfit.privacy.local.randomisers",
}
PROTOCOLS = (
    "nightfit.problem.losses.Loss",
    "nightfit.problem.links.Link",
    "nightfit.problem.penalties.Penalty",
    "nightfit.queries.boundings.Bounding",
    "nightfit.methods.loop.gradient_estimators.GradientEstimator",
    "nightfit.methods.loop.solvers.Solver",
    "nightfit.queries.base.SumQuery",
    "nightfit.queries.base.SelectionQuery",
    "nightfit.queries.base.SmoothQuery",
    "nightfit.methods.procedure.Procedure",
)


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    return MARK.sub(lambda found: "\n".join(PARTS[found[1]]()), markdown)


def keys() -> Iterator[str]:
    """A table of the keys of every section, in the order in which the configuration has them."""
    whole = schema()
    yield '<div class="keys" markdown>'
    yield from _section("`refit.yaml`", "", whole, whole["$defs"])
    yield "\n</div>"


def _section(title: str, path: str, section: dict[str, Any], defined: dict[str, Any]) -> Iterator[str]:
    yield f"\n## {title}\n"
    if path and "description" in section:
        yield f"{section['description']}\n"
    yield "| key | default | value | meaning |\n|---|---|---|---|"
    deeper: list[tuple[str, str, dict[str, Any]]] = []
    for key, said in section["properties"].items():
        full = f"{path}.{key}" if path else key
        inner = _sections_of(said, defined)
        deeper += [(_titled(full, one) if len(inner) > 1 else f"`{full}`", full, one) for one in inner]
        default = "required" if key in section.get("required", ()) else _default(said.get("default"), bool(inner))
        yield f"| `{full}` | {default} | {_value(said, defined)} | {_cell(said.get('description', ''))} |"
    for heading, full, one in deeper:
        yield from _section(heading, full, one, defined)


def _titled(full: str, section: dict[str, Any]) -> str:
    """The key, and what tells this section from others that it may be: the key that it must have."""
    if "required" not in section:
        return f"`{full}`"
    first = section["required"][0]
    values = section["properties"][first].get("enum", ())
    return f"`{full}` with " + (" or ".join(f"`{first}: {value}`" for value in values) or f"`{first}`")


def _sections_of(said: dict[str, Any], defined: dict[str, Any]) -> list[dict[str, Any]]:
    """The sections that a key's value may be."""
    found = [_resolved(one, defined) for one in (said, *said.get("anyOf", ()), *said.get("oneOf", ()))]
    return [one for one in found if "properties" in one]


def _resolved(said: dict[str, Any], defined: dict[str, Any]) -> dict[str, Any]:
    return defined[said["$ref"].rsplit("/", 1)[-1]] if "$ref" in said else said


def _value(said: dict[str, Any], defined: dict[str, Any]) -> str:
    """What may be written, in words."""
    said = _resolved(said, defined)
    either = [one for one in (*said.get("anyOf", ()), *said.get("oneOf", ())) if one.get("type") != "null"]
    if either:
        return " or ".join(dict.fromkeys(_value(one, defined) for one in either))
    if "properties" in said:
        return "a section"
    if "enum" in said:
        return ", ".join(f"`{one}`" for one in said["enum"])
    if said.get("type") == "array":
        return "[low, high]" if "prefixItems" in said else f"a list of {_value(said['items'], defined)}s"
    limits = [f"{words} {said[name]:g}" for name, words in LIMITS.items() if name in said]
    kind = {"integer": "whole number", "string": "text", "boolean": "`true`, `false`", "object": "a mapping"}.get(
        said.get("type", ""), "number"
    )
    return ", ".join([kind, *limits])


def _default(value: Any, of_section: bool) -> str:
    """The default as it would be written; that of a section is in the section's own table."""
    if of_section and not isinstance(value, str):
        return ""
    return f"`{'none' if value is None else value if isinstance(value, str) else json.dumps(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def template() -> Iterator[str]:
    """What `nightfit init` writes."""
    yield f"```yaml\n{configuration('refit.yaml', hospital_start('data/hospital'))}```"


def names() -> Iterator[str]:
    """The members of every package that a configuration names by a word, with what each says of itself."""
    for title, package in NAMED.items():
        yield f"\n### {title.capitalize()}\n\n| name | what it is |\n|---|---|"
        for name, examples in members(importlib.import_module(package)).items():
            said = inspect.getdoc(type(examples[0])) or ""
            yield f"| `{name}` | {_cell(_first(said))} |"


def _first(text: str) -> str:
    """The first paragraph, in one line."""
    return " ".join(text.partition("\n\n")[0].split())


def commands() -> Iterator[str]:
    """Every command with its arguments and options."""
    yield '<div class="keys" markdown>'
    yield from _command("nightfit", typer.main.get_command(app), 2)
    yield "\n</div>"


def _command(name: str, command: Any, level: int) -> Iterator[str]:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    inner = getattr(command, "commands", {})
    yield f"\n{'#' * level} `{name}`\n\n{command.help or ''}\n"
    used = [*(_metavar(one) if one.required else f"[{_metavar(one)}]" for one in arguments), *(["COMMAND"] if inner else [])]
    yield f"```text\n{' '.join([name, *(['[OPTIONS]'] if options else []), *used])}\n```\n"
    rows = [*(_row(f"`{_metavar(one)}`", one) for one in arguments), *(_row(_option(one), one) for one in options)]
    if rows:
        yield "\n".join(["| | default | meaning |", "|---|---|---|", *rows])
    for below, one in inner.items():
        yield from _command(f"{name} {below}", one, 3)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _option(parameter: Any) -> str:
    spelled = ", ".join(f"`{one}`" for one in (*parameter.opts, *parameter.secondary_opts))
    return spelled if parameter.is_flag else f"{spelled} {_metavar(parameter)}"


def _row(spelled: str, parameter: Any) -> str:
    absent = "required" if parameter.required else "" if parameter.default in (None, False) else f"`{parameter.default}`"
    return f"| {spelled} | {absent} | {_cell(parameter.help or '')} |"


def public() -> list[str]:
    """The names that `from nightfit import ...` offers, classes first."""
    names = [name for name in nightfit.__all__ if not name.startswith("__")]
    return sorted(names, key=lambda name: (name[0].islower(), name))


def shared() -> list[str]:
    """The base classes that document what several public classes have."""
    bases = (base for name in public() for base in getattr(getattr(nightfit, name), "__mro__", ()))
    paths = (f"{base.__module__}.{base.__name__}" for base in bases if base.__name__ not in public() and not base.__name__.startswith("_"))
    return list(dict.fromkeys(path for path in paths if path.startswith("nightfit.")))


def api() -> Iterator[str]:
    """A mkdocstrings block for each object of the public interface, for what they share, and for each protocol of an extension."""
    for title, paths in {
        "The package `nightfit`": [f"nightfit.{name}" for name in public()],
        "Shared by these": shared(),
        "What an extension implements": PROTOCOLS,
    }.items():
        yield from (f"\n## {title}\n", *(f"::: {path}\n" for path in paths)) if paths else ()


PARTS = {"keys": keys, "template": template, "names": names, "commands": commands, "api": api}
