"""What a data team looks at first: shares of missing values, unknown levels and values at their bounds. Imports weighted_counts and
below.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from nightfit.queries.histograms import ROUND_DOWN
from nightfit.queries.weighted_counts import MISSING, Groups, WeightedCounts
from nightfit.records.columns.category import OTHER, Category
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import WHOLE, Array, Block, Draw, Integers

MOST_CHECKED = 64
"""Checks with a number of their own. Noise grows with their root; those of all columns together are in the three means."""

ROWS_SHARE, MEAN_SHARE, SINGLE_SHARE = 0.2, 0.15, 0.35
"""Squared weights of the number of rows, of each of the three means, and of all single checks together: 0.2 + 3 0.15 + 0.35 = 1."""


class CheckKind(StrEnum):
    """What is counted."""

    MISSING = "missing"
    UNKNOWN = "unknown"
    AT_BOUNDS = "at_bounds"


KINDS = tuple(CheckKind)


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One yes or no of a row: whether a column of its block is not a number, or lies at or beyond an end of [low, high].

    Parameters
    ----------
    kind : CheckKind
        What that means.
    column : str
        The raw column.
    place : int
        The block's column.
    low, high : float
        Infinite ends of what is missing say that it is not a number.
    """

    kind: CheckKind
    column: str
    place: int
    low: float = -math.inf
    high: float = math.inf

    def of(self, X: Array) -> npt.NDArray[np.bool_]:
        """Whether it holds for each row."""
        x = X[:, self.place]
        if self.kind is CheckKind.MISSING and self.high == math.inf:
            return np.isnan(x)
        held: npt.NDArray[np.bool_] = (x <= self.low) | (x >= self.high)
        return held

    def within(self, low: float, high: float) -> "Check":
        """The same for a tighter range."""
        return replace(self, low=max(self.low, low), high=min(self.high, high))


def checks_of(shape: Preprocessing, fitted: Preprocessing) -> tuple[Check, ...]:
    """The checks of blocks that `shape` makes, of a fit that clamps features as `fitted` says. How many there are is public.

    A missing value is seen where it has an indicator, or where blocks keep it as not a number. A value is at its bounds if it lies at or
    beyond an end of its public bounds, or of the release's clamp; a public bound of zero does not count, where zero is usual.
    """
    return tuple(_checks(shape, fitted))


def _checks(shape: Preprocessing, fitted: Preprocessing) -> Iterator[Check]:
    encoding = shape.encoded
    for name, column in encoding.columns:
        places = range(encoding.places[name].start, encoding.places[name].stop)
        if column.reading is None or not places:
            continue
        by_name = {feature.name: place for feature, place in zip(encoding.made[name], places, strict=True)}
        first, feature = places[0], encoding.made[name][0]
        if f"{name} {MISSING}" in by_name:
            yield _indicator(CheckKind.MISSING, name, by_name[f"{name} {MISSING}"], shape)
        elif feature.imputed and not shape.imputes:
            yield Check(kind=CheckKind.MISSING, column=name, place=first)
        if isinstance(column, Category) and f"{name}={OTHER}" in by_name:
            yield _indicator(CheckKind.UNKNOWN, name, by_name[f"{name}={OTHER}"], shape)
        if not feature.indicator:
            low, high = (_in_units(end, first, shape) for end in (feature.low or -math.inf, feature.high or math.inf))
            reach = fitted.reach[first] if fitted.reach else 1.0
            ends = (fitted.centre[first] - reach * fitted.scale[first], fitted.centre[first] + reach * fitted.scale[first])
            yield Check(kind=CheckKind.AT_BOUNDS, column=name, place=first, low=low, high=high).within(
                *(_in_units(end, first, shape) for end in ends)
            )


def _indicator(kind: CheckKind, column: str, place: int, shape: Preprocessing) -> Check:
    return Check(kind=kind, column=column, place=place, high=_in_units(0.5, place, shape))


def _in_units(value: float, place: int, shape: Preprocessing) -> float:
    """A feature's value in the block's units."""
    return (value - shape.centre[place]) / shape.scale[place]


@dataclass(frozen=True, kw_only=True)
class CheckCounts(WeightedCounts):
    """The number of rows; for each kind the sum over rows of the share of its checks that hold; then the number of rows for which each of
    the first MOST_CHECKED checks holds.

    Guarantee: a row adds weights times numbers in [0, 1], rounded down: sqrt(0.2) for itself, sqrt(0.15) for each of three shares, and
    sqrt(0.35 / m) for each of m checks, a norm of at most 1. So a unit's counts have a norm of at most 1: `squared_norm` is 1. A null
    record adds nothing. Broken by test_a_neighbour_moves_an_evaluation_by_at_most_its_sensitivity and, for persons, by
    test_a_person_moves_an_evaluation_by_at_most_its_sensitivity.

    Parameters
    ----------
    checks : tuple of Check
        What is looked at.
    bits : int
        A unit's norm is 2^bits steps.
    """

    checks: tuple[Check, ...]
    bits: int
    draw: Draw = WHOLE
    groups: Groups | None = None

    @property
    def single(self) -> tuple[Check, ...]:
        """The checks with a number of their own."""
        return self.checks[:MOST_CHECKED]

    @property
    def weights(self) -> Array:
        """Of each coordinate."""
        each = SINGLE_SHARE / max(len(self.single), 1)
        return np.sqrt([ROWS_SHARE, *[MEAN_SHARE] * len(KINDS), *[each] * len(self.single)])

    @property
    def width(self) -> int:
        return 1 + len(KINDS) + len(self.single)

    def chunk(self, block: Block) -> Integers:
        counts, weights = np.zeros(self.coordinates, dtype=np.int64), self.weights
        for X, _, each, first in self.tiles(block):
            for place, (weight, shares) in enumerate(zip(weights, self.shares(X), strict=True)):
                np.add.at(counts, first + place, np.floor(each * (weight * ROUND_DOWN) * shares).astype(np.int64))
        return counts

    def shares(self, X: Array) -> list[Array]:
        """Of each coordinate the number in [0, 1] of each row."""
        held = [check.of(X).astype(np.float64) for check in self.checks]
        means = []
        for kind in KINDS:
            of_kind = [values for check, values in zip(self.checks, held, strict=True) if check.kind is kind]
            means.append(sum(of_kind, np.zeros(len(X))) / max(len(of_kind), 1))
        return [np.ones(len(X)), *means, *held[:MOST_CHECKED]]
