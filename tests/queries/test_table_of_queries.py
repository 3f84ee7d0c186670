"""The table of contents of `nightfit.queries` lists everything that has a sensitivity, and tests that exist."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

import nightfit
import nightfit.queries
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import ShrunkenSum
from nightfit.types import Adjacency, Block

ROOT = Path(__file__).parents[2]
SENSITIVITIES = ("sensitivity", "score_sensitivity", "smoothness")
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def classes_of(package: Any) -> Iterator[type]:
    """Every class that a module of the package defines."""
    for entry in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not entry.name.endswith("__main__"):
            module = importlib.import_module(entry.name)
            yield from (kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == entry.name)


def has_sensitivity(kind: type) -> bool:
    """Whether it, or a class that it inherits from, declares one; protocols declare it for others."""
    if getattr(kind, "_is_protocol", False):
        return False
    return any(name in vars(base) or name in getattr(base, "__annotations__", {}) for base in kind.__mro__ for name in SENSITIVITIES)


def table() -> dict[str, tuple[str, str]]:
    """Module and tests of each query that the table lists."""
    return {name: (module, tests) for name, module, _, tests in ROW.findall(nightfit.queries.__doc__ or "")}


def test_the_table_lists_every_class_with_a_sensitivity() -> None:
    found = {
        kind.__name__: kind.__module__.removeprefix("nightfit.queries.") for kind in classes_of(nightfit.queries) if has_sensitivity(kind)
    }
    assert len(found) > 15
    assert {name: module for name, (module, _) in table().items()} == found


def test_a_class_with_a_sensitivity_would_be_found() -> None:
    class Asked:
        def sensitivity(self, adjacency: Adjacency) -> float:
            return 1.0

    class Smooth:
        smoothness: float

    assert has_sensitivity(Asked)
    assert has_sensitivity(type("Inherited", (Smooth,), {}))
    assert not has_sensitivity(Block)


def test_every_test_that_the_table_or_a_guarantee_names_exists() -> None:
    written = "\n".join(path.read_text() for folder in ("tests", "pipeline/nightfit/contracts") for path in (ROOT / folder).rglob("*.py"))
    named = {test for _, tests in table().values() for test in re.findall(r"test_\w+", tests)}
    for kind in classes_of(nightfit.queries):
        named |= set(re.findall(r"test_\w+", kind.__doc__ or ""))
    assert len(named) > 15
    assert [name for name in named if f"def {name}(" not in written] == []


def test_every_query_has_a_guarantee_that_names_its_tests() -> None:
    """A guarantee is a paragraph `Guarantee:` that says by which test it is broken."""
    for kind in classes_of(nightfit.queries):
        if has_sensitivity(kind):
            said = kind.__doc__ or ""
            assert "Guarantee: " in said, kind
            assert set(re.findall(r"test_\w+", table()[kind.__name__][1])) & set(re.findall(r"test_\w+", said)), kind


def test_nothing_outside_of_the_queries_defines_a_sensitivity() -> None:
    """An auditor finds every sensitivity in one package."""
    outside = [kind for kind in classes_of(nightfit) if not kind.__module__.startswith("nightfit.queries.")]
    defined = [kind for kind in outside if {"sensitivity", "score_sensitivity"} & {name for name, _ in inspect.getmembers(kind, callable)}]
    assert [kind for kind in defined if kind.__module__.startswith("nightfit.")] == []


values = st.floats(-1e9, 1e9) | st.sampled_from([np.inf, -np.inf, np.nan, 1e308, -1e308, 0.0])


@settings(max_examples=50, deadline=None)
@given(
    X=arrays(np.float64, (4, 2), elements=st.floats(-1, 1)),
    y=arrays(np.float64, 4, elements=values),
    other=arrays(np.float64, 3, elements=values),
    bits=st.integers(8, 40),
)
def test_a_neighbour_moves_a_sum_with_clipped_targets_by_at_most_the_sensitivity(X, y, other, bits) -> None:  # type: ignore[no-untyped-def]
    query = ShrunkenSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.array([0.5, -2.0]), bits=bits, target=3.0)
    replaced, target = X.copy(), y.copy()
    replaced[0], target[0] = np.clip(np.nan_to_num(other[:2]), -1, 1), other[2]
    one, two = (query.finalise(query.chunk(Block(rows, at))) for rows, at in ((X, y), (replaced, target)))
    moved = sum((int(a) - int(b)) ** 2 for a, b in zip(one, two, strict=True))
    assert moved <= Fraction(query.sensitivity(Adjacency.REPLACE_ONE)) ** 2
    clipped = query.finalise(query.chunk(Block(X, np.clip(y, -3.0, 3.0))))
    assert one.tolist() == clipped.tolist()
