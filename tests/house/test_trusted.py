"""The files that an auditor reads (docs/explanation/privacy.md): every module that states a guarantee, and modules that exist."""

import ast
import re
from pathlib import Path

from nightfit.release.assumptions import Assumption

ROOT = Path(__file__).parents[2]
CODE, PAGE = ROOT / "pipeline" / "nightfit", (ROOT / "docs" / "explanation" / "privacy.md").read_text()


def rows_of(header: str) -> list[list[str]]:
    lines = PAGE[PAGE.index(header) :].splitlines()[2:]
    return [line.strip("|").split("|") for line in lines[: next(number for number, line in enumerate(lines) if not line.startswith("|"))]]


def listed() -> set[str]:
    """Modules and folders of the first table, relative to the package: `privacy/gate`, `privacy/local/`, `queries/`."""
    found = set()
    for row in rows_of("| what must hold |"):
        for link, names in re.findall(r"\]\(\.\./\.\./pipeline/nightfit/([\w./]+)\)(.*?)(?=\[|$)", row[1]):
            named = re.findall(r"`([\w/]+)`", names)
            if link.endswith(".py"):
                found.add(link.removesuffix(".py"))
            elif not named or "every" in names:
                found.add(f"{link}/")
            else:
                found |= {f"{link}/{name}" for name in named}
    return found


def untrusted() -> set[str]:
    return {name for row in rows_of("| where | what it states") for name in re.findall(r"`([\w/]+)`", row[0])}


def guaranteeing() -> list[str]:
    """Modules one of whose docstrings has a `Guarantee:` paragraph."""
    found = []
    for path in sorted(CODE.rglob("*.py")):
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
        said = (ast.get_docstring(node) or "" for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, documented))
        if any(re.search(r"^\s*Guarantee: ", text, re.MULTILINE) for text in said):
            found.append(path.relative_to(CODE).with_suffix("").as_posix())
    return found


def covers(name: str, module: str) -> bool:
    return module == name or module.startswith(name if name.endswith("/") else f"{name}/")


def test_every_module_that_states_a_guarantee_is_in_one_of_the_two_lists() -> None:
    found = guaranteeing()
    assert len(found) > 60
    assert [module for module in found if not any(covers(name, module) for name in listed() | untrusted())] == []


def test_the_lists_name_modules_that_exist_and_no_module_twice() -> None:
    for name in listed() | untrusted():
        assert (CODE / name).is_dir() or (CODE / f"{name}.py").is_file(), name
    assert not listed() & untrusted()


def test_every_assumption_of_a_release_is_on_the_page() -> None:
    said = {name for row in rows_of("| name | what it says |") for name in re.findall(r"`(\w+)`", row[0])}
    assert {str(assumption) for assumption in Assumption} <= said


def test_every_test_that_a_guarantee_or_a_page_names_exists() -> None:
    tests = [*CODE.rglob("test_*.py"), *(ROOT / "tests").rglob("*.py")]
    known = {path.stem for path in tests}
    for path in tests:
        known |= set(re.findall(r"def (test_\w+)", path.read_text()))
    pages = [*CODE.rglob("*.py"), *(ROOT / "flows").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"]
    named = {name: path.name for path in pages for name in re.findall(r"\btest_\w+", path.read_text())}
    assert len(named) > 100
    assert {name: path for name, path in named.items() if name not in known} == {}
