"""Counts of secret levels: how far a neighbour moves them, which levels are told, and what an attacker learns from the names."""

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import binom, norm

from nightfit.privacy.account import InMemoryAccount
from nightfit.privacy.audit import lower_bound
from nightfit.privacy.events import ThresholdedEvent
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise, OperatingSystemNoise, SeededNoise
from nightfit.queries.level_counts import LevelCounts, largest_above, packed, unpacked
from nightfit.shards.levels import chosen_counts
from nightfit.types import Adjacency

NAMES = tuple(f"L{number}".encode() for number in range(12))
QUERY = LevelCounts(column="ward", per_unit=3, most=5, bits=20)


def event(query: LevelCounts = QUERY, *, sigma: float = 4.0, threshold: float = 20.0, **changed: Any) -> ThresholdedEvent:
    """Of a query, with sigma and threshold in counts."""
    stated = {
        "label": "levels",
        "sensitivity": query.sensitivity(Adjacency.REPLACE_ONE),
        "sigma": sigma * query.contribution,
        "threshold": int(threshold * query.contribution),
        "contribution": query.contribution,
        "coordinates": query.coordinates,
        "most": query.most,
        "adjacency": Adjacency.REPLACE_ONE,
        "removal": query.sensitivity(Adjacency.ADD_REMOVE),
    }
    return ThresholdedEvent(**{**stated, **changed})


def told(counts: dict[str, int], noise: Any, paid: ThresholdedEvent, query: LevelCounts = QUERY) -> tuple[str, ...]:
    account = InMemoryAccount(events={paid.label: paid}, secret=bytes(32))
    return Gate(account=account, records=None, noise=noise).discover(paid.label, query, lambda _: counts)  # type: ignore[arg-type]


def counted(rows: list[tuple[int, int]], per_unit: int) -> Counter[int]:
    """Counts of rows (person, level), in whatever order they come and however often one is repeated."""
    pairs = np.unique(np.array(rows, dtype=np.uint64).reshape(-1, 2), axis=0)
    found = chosen_counts(pairs[:, 0], pairs[:, 1].astype(np.int64), NAMES, per_unit)
    return Counter({code: int(count) for code, count in enumerate(found) if count})


persons = st.dictionaries(st.integers(0, 2**64 - 1), st.lists(st.integers(0, 11), max_size=9), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(people=persons, other=st.lists(st.integers(0, 11), max_size=9), stranger=st.integers(0, 2**64 - 1), per_unit=st.integers(1, 5))
def test_a_neighbour_moves_the_counts_of_levels_by_at_most_the_sensitivity(people: Any, other: Any, stranger: int, per_unit: int) -> None:
    query = LevelCounts(column="ward", per_unit=per_unit, most=5, bits=20)
    leaver = next(iter(people))
    stays = {person: levels for person, levels in people.items() if person != leaver}
    one, without, two = (
        counted([(person, level) for person, levels in some.items() for level in levels], per_unit)
        for some in (people, stays, {**stays, **({} if stranger in stays else {stranger: other})})
    )
    for a, b, adjacency in ((one, two, Adjacency.REPLACE_ONE), (one, without, Adjacency.ADD_REMOVE)):
        steps = [query.contribution * (a[code] - b[code]) for code in range(12)]
        assert sum(step**2 for step in steps) <= Fraction(query.sensitivity(adjacency)) ** 2
        assert sum(step != 0 for step in steps) <= query.coordinates


def test_the_sensitivity_of_counts_of_levels_is_reached() -> None:
    one, two = (counted([(person, level) for level in levels], 3) for person, levels in ((1, (0, 1, 2)), (2, (3, 4, 5))))
    moved = sum((one[code] - two[code]) ** 2 for code in range(12)) * QUERY.contribution**2
    assert moved == pytest.approx(QUERY.sensitivity(Adjacency.REPLACE_ONE) ** 2, rel=1e-12)


def test_a_level_of_one_unit_alone_is_told_no_more_often_than_stated() -> None:
    """A unit that alone has three levels: any of them is told in at most the stated share of runs, and in not much less."""
    paid, runs = event(sigma=4.0, threshold=1 + 4.0 * 2.0), 4000
    stated, exact = float(paid.told_mass), 1 - float(norm.cdf(2.0)) ** 3
    assert exact <= stated <= 1.1 * exact
    noise, alone = SeededNoise(np.random.default_rng(7)), {"a": 1, "b": 1, "c": 1}
    often = sum(bool(told(alone, noise, paid)) for _ in range(runs))
    assert often <= binom.ppf(1 - 1e-6, runs, stated)
    assert often >= binom.ppf(1e-6, runs, exact)
    assert Fraction(paid.gaussian.mass) >= paid.told_mass + paid.counts.lattice_mass


def test_a_threshold_without_the_contribution_would_be_found_out() -> None:
    """The chance is counted from one unit's own contribution, not from zero."""
    paid = event(sigma=1.0, threshold=4.0)
    assert float(paid.told_mass) == pytest.approx(3 * norm.sf(3.0), rel=1e-9)


@pytest.mark.statistical
def test_the_right_noise_of_levels_is_not_caught_and_half_the_noise_is() -> None:
    """An attacker who knows all other units sees the names, and guesses whether one unit has `a` or `b`."""
    query = LevelCounts(column="ward", per_unit=1, most=5, bits=20)
    mu = 2.0
    sigma = math.sqrt(2) / mu
    paid = event(query, sigma=sigma, threshold=10.5)

    def score(counts: dict[str, int], noise: SeededNoise, by: float) -> float:
        names = told(counts, noise, event(query, sigma=sigma * by, threshold=10.5), query)
        return float("b" in names) - float("a" in names)

    def caught(by: float) -> float:
        noise = SeededNoise(np.random.default_rng(11))
        first, second = ([score(counts, noise, by) for _ in range(6000)] for counts in ({"a": 11, "b": 10}, {"a": 10, "b": 11}))
        return lower_bound(np.array(first), np.array(second), delta=1e-5).mu

    assert 0.5 < caught(1.0) <= mu == pytest.approx(paid.sensitivity / paid.sigma, rel=1e-9)
    assert caught(0.25) > mu


def test_only_told_levels_are_stored_whatever_was_counted_and_in_which_order() -> None:
    paid = event(threshold=20.0)
    stored = []
    for counts in ({"b": 30, "a": 25, "x": 3}, {"a": 25, "y": 20, "z": 1, "b": 30, "é": 2}):
        account = InMemoryAccount(events={"levels": paid}, secret=bytes(32))
        gate = Gate(account=account, records=None, noise=NoNoise())  # type: ignore[arg-type]
        assert gate.discover("levels", QUERY, lambda _, counts=counts: counts) == ("a", "b")
        stored.append(account.answers["levels"].tolist())
        assert gate.discover("levels", QUERY, lambda _: pytest.fail("an answered query is not asked again")) == ("a", "b")
    assert stored[0] == stored[1] == packed(("a", "b")).tolist()


def test_at_most_as_many_levels_are_told_as_the_plan_says_the_largest_of_them() -> None:
    counts = {f"L{number}": 30 + number for number in range(9)}
    assert told(counts, NoNoise(), event()) == ("L4", "L5", "L6", "L7", "L8")
    assert told({}, OperatingSystemNoise(), event()) == ()
    assert told({"a": 1000, "b": 1}, OperatingSystemNoise(), event()) == ("a",)


@dataclass
class Recorder:
    """An account that writes down what happens to it."""

    events: dict[str, ThresholdedEvent]
    happened: list[str] = field(default_factory=list)

    def asked(self, event: ThresholdedEvent) -> None:
        self.happened.append("asked")

    def answered(self, event: ThresholdedEvent, answer: Any) -> None:
        self.happened.append(f"answered {unpacked(answer)}")


def test_levels_are_asked_counted_and_answered_in_this_order() -> None:
    account = Recorder(events={"levels": event()})

    def count(query: LevelCounts) -> dict[str, int]:
        account.happened.append("counted")
        return {"a": 50}

    Gate(account=account, records=None, noise=NoNoise()).discover("levels", QUERY, count)  # type: ignore[arg-type]
    assert account.happened == ["asked", "counted", "answered ('a',)"]


@pytest.mark.parametrize(
    "changed",
    [
        {"sensitivity": QUERY.sensitivity(Adjacency.ADD_REMOVE)},
        {"removal": QUERY.contribution / 2},
        {"contribution": QUERY.contribution // 2},
        {"most": 4},
        {"coordinates": 2},
    ],
)
def test_levels_that_were_not_reserved_like_this_are_refused_before_anything_is_read(changed: dict[str, Any]) -> None:
    with pytest.raises(GateError):
        told({"a": 50}, NoNoise(), event(**changed))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8).filter(lambda text: text.isprintable()), max_size=5, unique=True))
def test_levels_survive_being_stored(levels: list[str]) -> None:
    assert unpacked(packed(levels)) == tuple(levels)


def test_the_largest_above_a_threshold_are_sorted_by_name() -> None:
    assert largest_above(("c", "b", "a"), np.array([30, 20, 25]), 19, 2) == ("a", "c")
    assert largest_above(("c", "b", "a"), np.array([30, 20, 25]), 25, 3) == ("c",)
