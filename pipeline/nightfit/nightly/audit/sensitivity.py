"""Whether a neighbour moves a query farther than its sensitivity: a search, in whole numbers. Imports packages below."""

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nightfit.nightly.audit.neighbours import Unit, block_of, wild_unit
from nightfit.nightly.fit import asked_of
from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import Slots, slots_of
from nightfit.planning.plan import Plan
from nightfit.privacy.account import InMemoryAccount, by_label
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.privacy.noise import SeededNoise
from nightfit.queries.base import GroupedQuery, Query
from nightfit.types import Adjacency, Array, Block, Integers, NightfitError

FEW = 8  # units of a searched data set: few, so that values of the changed one are not lost among others
DIVISION = bytes(16)  # any key divides units into those that are fitted on and those that are held out
PIECES = 3  # that a data set is cut into, to see that its sum is the same


@dataclass(frozen=True)
class Reached:
    """How far the farthest of the neighbours moved a query, as a share of what its event declares; above 1 is a violation."""

    label: str
    share: float


@dataclass
class Searcher:
    """Tries neighbours on each query that comes by. `Records`, `Noise` and a part of the account of the gate."""

    plan: Plan
    count: int
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    shares: dict[str, float] = field(default_factory=dict)
    label: str = ""
    query: Any = None

    def __post_init__(self) -> None:
        self.noise = SeededNoise(self.rng)

    private = False

    def heard(self, event: Event) -> None:
        self.label = event.label

    def aggregate(self, query: Query) -> Integers:
        self.query = query
        return query.chunk(block_of(self.shape, [wild_unit(self.shape, self.rng) for _ in range(FEW)], slots_of("audit", 0, FEW)))

    def reported(self, query: ReportQuery, key: Key) -> Integers:
        raise NightfitError("local reports have no sum to search")

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        """|sum - neighbour's sum| against the sensitivity, in Python's integers."""
        self._search(lambda one, other: _norm(one, other) / self.query.sensitivity(self.adjacency))
        return self.noise.discrete_gaussian(values, sigma)

    def largest(self, scores: Integers, count: int, scale: float) -> Integers:
        self._search(lambda one, other: int(np.abs(one - other).max()) / self.query.score_sensitivity(self.adjacency))
        return self.noise.largest(scores, count, scale)

    def smooth(self, values: Array, scales: Array, family: str, spread: float, grid: float) -> Integers:
        """A value moves by no more than the smooth bound on either side, and the bound by no more than a factor of e^smoothness."""

        def share(one: tuple[Array, Array], other: tuple[Array, Array]) -> float:
            least = np.minimum(one[1], other[1])
            moved = np.abs(one[0] - other[0]) / least
            factor = np.abs(np.log(one[1] / other[1])) / self.query.smoothness
            return float(max(moved.max(), factor.max()))

        self._search(share)
        return self.noise.smooth(values, scales, family, spread, grid)

    def uniform_integer(self, count: int) -> int:
        return self.noise.uniform_integer(count)

    @property
    def shape(self) -> Any:
        return self.plan.specification.preprocessing

    @property
    def adjacency(self) -> Adjacency:
        return self.plan.specification.budget.adjacency

    def _search(self, share: Any) -> None:
        worst = max(share(one, other) for one, other in self._pairs())
        self.shares[self.label] = max(self.shares.get(self.label, 0.0), worst)

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        """Finished totals of neighbours; each total is computed whole and from pieces, and must be the same."""
        null = Unit(np.full((1, len(self.shape.features)), np.nan), np.full(1, np.nan))
        for number in range(self.count):
            changed, *others = units = [wild_unit(self.shape, self.rng) for _ in range(FEW)]
            if self.rng.random() < 0.3:
                others = [changed] * (FEW - 1)  # duplicates
            opposite = Unit(-changed.X, changed.y if self.rng.random() < 0.5 else -changed.y)
            replaced = {
                Adjacency.REPLACE_ONE: [opposite if self.rng.random() < 0.5 else wild_unit(self.shape, self.rng)],
                Adjacency.ZERO_OUT: [null],
                Adjacency.ADD_REMOVE: [],
            }[self.adjacency]
            first = 0 if self.plan.evaluation is None else FEW * number  # so that the changed unit is now in one part, now in the other
            slots = slots_of("audit", first, len(units))
            yield self._total([changed, *others], slots), self._total([*replaced, *others], slots[FEW - len(others) - len(replaced) :])

    def _total(self, units: list[Unit], slots: Slots) -> Any:
        block = block_of(self.shape, units, slots)
        whole = self.query.chunk(block)
        if not isinstance(self.query, GroupedQuery):
            cuts = np.sort(self.rng.integers(0, block.units + 1, PIECES - 1))
            number = np.searchsorted(cuts, np.arange(block.units), side="right")
            first, *rest = (self.query.chunk(_units(block, number == piece)) for piece in range(PIECES))
            if not (functools.reduce(self.query.merge, rest, first) == whole).all():
                self.shares[self.label] = math.inf  # what depends on the cut has no sensitivity
        return self.query.finalise(whole)


def searched(plan: Plan, count: int) -> tuple[Reached, ...]:
    """Search each query of a plan for neighbours that move it too far.

    Parameters
    ----------
    plan : Plan
        Of the audited configuration.
    count : int
        Neighbours for each query: random units of NaN, infinities, subnormal, huge and equal values, in any partitioning.
    """
    searcher = Searcher(plan=plan, count=count)
    account = _Announcing(events=by_label(plan.events), secret=bytes(32), heard=searcher.heard)
    with np.errstate(all="ignore"):
        asked_of(plan, Gate(account=account, records=searcher, noise=searcher), DIVISION)
    return tuple(Reached(label, share) for label, share in searcher.shares.items())


@dataclass(frozen=True, kw_only=True)
class _Announcing(InMemoryAccount):
    """An account that says which query is asked."""

    heard: Any

    def asked(self, event: Event) -> Integers | None:
        self.heard(event)
        return super().asked(event)


def _units(block: Block, chosen: Any) -> Block:
    """Some of a block's units."""
    return block.select_units(chosen if block.starts is None else np.repeat(chosen, np.diff(block.starts)))


def _norm(one: Integers, other: Integers) -> float:
    return math.sqrt(sum((int(a) - int(b)) ** 2 for a, b in zip(one.tolist(), other.tolist(), strict=True)))
