"""Every number of `auto` lies in one place, with its reason."""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nightfit.methods.auto.constants import __main__ as listing
from nightfit.methods.auto.constants.catalogue import KINDS, _documented, entries

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "pipeline" / "nightfit"
AUTO, QUERIES = SOURCE / "methods" / "auto", SOURCE / "queries"
CONSTANTS = AUTO / "constants"
PLAIN = {0, 1, 2, 0.5}  # numbers of formulas: zero, one, two, a half
MODULES = [path for path in sorted(AUTO.glob("*.py")) if path.name != "tuning.py"]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def numbers_named_in(path: Path) -> Iterator[str]:
    """The names that a module gives to numbers, arrays of numbers, or tuples and dictionaries with any."""
    module = importlib.import_module(module_of(path))
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            for name in (part.id for part in ast.walk(target) if isinstance(part, ast.Name)):
                if is_number(getattr(module, name)):
                    yield name


def is_number(value: object) -> bool:
    if isinstance(value, tuple | list):
        return any(is_number(part) for part in value)
    if isinstance(value, dict):
        return any(is_number(part) for part in value.values())
    return isinstance(value, int | float | np.ndarray | np.generic) and not isinstance(value, bool)


def literals_of(path: Path) -> Iterator[float]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
            yield node.value


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_module_of_auto_names_or_hides_a_number(path: Path) -> None:
    assert list(numbers_named_in(path)) == []
    assert set(literals_of(path)) <= PLAIN


def test_a_number_in_a_module_would_be_found(tmp_path: Path) -> None:
    """The two checks above see what they must."""
    assert {"WIDEST_WINDOW", "TAIL_DECAY"} <= set(numbers_named_in(CONSTANTS / "histograms.py"))
    assert "INTERCEPT_CURVATURE" in set(numbers_named_in(CONSTANTS / "coordinates.py"))
    assert "MIXTURE_VARIANCES" in set(numbers_named_in(CONSTANTS / "shrinkage.py"))
    (tmp_path / "hidden.py").write_text("def f(x):\n    return min(x, 0.35)\n")
    assert not set(literals_of(tmp_path / "hidden.py")) <= PLAIN


def test_every_constant_says_its_meaning_its_unit_and_its_reason() -> None:
    found = list(entries())
    assert {entry.kind for entry in found} == set(KINDS)
    named = [name for path in CONSTANTS.glob("*.py") for name in numbers_named_in(path)]
    assert sorted(entry.name for entry in found if entry.section != "tuning") == sorted(named)
    for text in ("", "A number. Unit: none.", "A number. Unit: none. Reason (taste): it looks good."):
        with pytest.raises(ValueError, match="needs a text"):
            list(_documented("s", ast.parse(f'A: Final = 1.0\n"""{text}"""\n').body))


def test_no_two_constants_share_a_name() -> None:
    """Neither inside `auto` nor with its queries: one name means one number."""
    places = [*AUTO.rglob("*.py"), *QUERIES.glob("*.py")]
    names = Counter(name for path in places if path.name != "catalogue.py" for name in numbers_named_in(path))
    names.update(entry.name for entry in entries() if entry.section == "tuning")
    assert [name for name, count in names.items() if count > 1] == []


def test_every_constant_is_used() -> None:
    source = "\n".join(path.read_text() for path in AUTO.rglob("*.py"))
    used = Counter(re.findall(r"\b\w+\b", re.sub(r'""".*?"""', "", source, flags=re.DOTALL)))
    assert [entry.name for entry in entries() if used[entry.name] < 2] == []


def test_what_a_reason_names_exists() -> None:
    """Sections of the record of experiments, tests, other constants."""
    record = (ROOT / "benchmarks" / "EXPERIMENTS.md").read_text()
    sections = set(re.findall(r"^#{2,3} (.+)$", record, re.MULTILINE))
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    found = {entry.name: entry for entry in entries()}
    for entry in found.values():
        also = re.match(r"as `?(\w+)`?\.", entry.reason)
        reason = found[also[1]] if also else entry
        assert reason.kind == entry.kind, f"{entry.name} has another kind than {reason.name}"
        if entry.kind == "experiment":
            quoted = re.findall(r'"([^"]+)"', reason.reason)
            assert quoted, entry.name
            assert set(quoted) <= sections, entry.name
        for name in re.findall(r"test_\w+", entry.meaning + entry.reason):
            assert f"def {name}(" in tests, name
        for name in re.findall(r"\b[A-Z]{2,}_[A-Z_]+\b", entry.meaning + entry.reason):
            assert name in found, f"{entry.name} speaks of {name}"


def test_the_record_of_experiments_names_tests_that_exist() -> None:
    tests = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = re.findall(r"test_\w+", (ROOT / "benchmarks" / "EXPERIMENTS.md").read_text())
    assert named
    assert [name for name in named if f"def {name}(" not in tests] == []


def test_the_specification_names_constants_that_exist() -> None:
    text = (ROOT / "docs" / "explanation" / "auto.md").read_text()
    known = {entry.name for entry in entries()}
    named = set(re.findall(r"\b[A-Z]{2,}(?:_[A-Z]+)+\b", text))
    assert len(named) > 50
    assert named <= known


def test_the_constants_of_a_kind_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    listing.main(["unsupported"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert len(rows) == sum(entry.kind == "unsupported" for entry in entries())
    assert all("| unsupported: " in row for row in rows)
    listing.main([])
    assert len(capsys.readouterr().out.splitlines()) == 2 + len(list(entries()))


def test_modules_and_functions_of_auto_and_its_queries_are_short() -> None:
    for path in [*AUTO.rglob("*.py"), *QUERIES.glob("*.py")]:
        text = path.read_text()
        assert len(text.splitlines()) <= 300, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                words = len((ast.get_docstring(node, clean=False) or "").splitlines())
                assert (node.end_lineno or 0) - node.lineno + 1 - words <= 40, f"{path}: {node.name}"
