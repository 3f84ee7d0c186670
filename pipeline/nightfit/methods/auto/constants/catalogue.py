"""The documentation of every constant as data: name, value, meaning, unit, reason. Imports the standard library."""

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nightfit.methods.auto import constants, tuning

KINDS = ("derived", "experiment", "numerical", "unsupported")
FORM = re.compile(r"(?P<meaning>.+?\.) Unit: (?P<unit>.+?)\. Reason \((?P<kind>\w+)\): (?P<reason>.+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A documented constant. `kind` is one of KINDS."""

    name: str
    section: str
    value: str
    meaning: str
    unit: str
    kind: str
    reason: str


def entries() -> Iterator[Entry]:
    """Every constant of `auto`, then every field of `Tuning`, in the order of their files.

    Raises
    ------
    ValueError
        If one has no text below it, or a text of another form.
    """
    for module in pkgutil.iter_modules(constants.__path__):
        if not module.name.startswith("_") and module.name != "catalogue":
            path = importlib.import_module(f"{constants.__name__}.{module.name}").__file__
            yield from _documented(module.name, ast.parse(Path(str(path)).read_text()).body)
    (fields,) = (node for node in ast.parse(Path(tuning.__file__).read_text()).body if isinstance(node, ast.ClassDef))
    yield from _documented("tuning", fields.body)


def _documented(section: str, body: list[ast.stmt]) -> Iterator[Entry]:
    """The annotated assignments of a body, each with the text below it."""
    for node, below in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or node.value is None:
            continue
        name, text = ast.unparse(node.target), ""
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            text = " ".join(str(below.value.value).split())
        found = FORM.fullmatch(text)
        if found is None or found["kind"] not in KINDS:
            raise ValueError(
                f"{section}.{name} needs a text 'Meaning. Unit: ... Reason (kind): ...' with one of the kinds {', '.join(KINDS)}"
            )
        yield Entry(name=name, section=section, value=ast.unparse(node.value), **found.groupdict())
