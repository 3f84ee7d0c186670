"""Small data sets that differ in one unit. Imports records and below.

Values go through the plan's own preprocessing, so that clamps and unknown labels are part of what is attacked.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nightfit.numerics.prf import Slots, slots_of
from nightfit.records.persons import as_block, group_by_person
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.types import Adjacency, Array, Block

WILD = (0.0, -0.0, 1.0, -1.0, 0.5, 5e-324, 1e12, -1e12, 1e300, -1e300, np.inf, -np.inf, np.nan)  # each may be any cell of a record
FAR = 1e12  # beyond every clamp, and far from overflow
MOST_ROWS_OF_A_PERSON = 40


@dataclass(frozen=True)
class Neighbours:
    """Two blocks that differ in their first unit, the block of the others, and the second block's first unit alone."""

    name: str
    first: Block
    second: Block
    others: Block
    unit: Block


@dataclass(frozen=True)
class Unit:
    """The rows of one unit: encoded features and targets as they would be read."""

    X: Array
    y: Array


def worst_cases(shape: Preprocessing, units: int, adjacency: Adjacency) -> Iterator[Neighbours]:
    """Neighbours of which each is the worst for some kind of query.

    alone: all other units are null, so that nothing but the changed one is heard. among others: an ordinary data set, by which adaptive
    queries choose their bounds. alike: everybody says the same, so that whoever is drawn together is seen.
    """
    rng, far, low = np.random.default_rng(0), *_targets(shape.target_domain)
    features, rows = len(shape.features), 1 if shape.unit is None else min(shape.rows_per_unit, MOST_ROWS_OF_A_PERSON)
    extreme = Unit(np.full((rows, features), FAR), np.full(rows, far))
    opposite = Unit(-extreme.X, extreme.y) if shape.target_domain is Target.LABELS else Unit(extreme.X, np.full(rows, low))
    null = Unit(np.full((1, features), np.nan), np.full(1, np.nan))
    usual = [Unit(rng.choice([-1.0, 1.0], (1, features)), np.atleast_1d(_usual(shape.target_domain, rng))) for _ in range(units - 1)]
    slots = slots_of("audit", 0, units)
    for name, others in (("alone", [null] * (units - 1)), ("among others", usual), ("alike", [extreme] * (units - 1))):
        without = block_of(shape, others, slots[1:])
        replaced = {Adjacency.REPLACE_ONE: [opposite], Adjacency.ZERO_OUT: [null], Adjacency.ADD_REMOVE: []}[adjacency]
        yield Neighbours(
            name=name,
            first=block_of(shape, [*replaced, *others], slots[-units + 1 - len(replaced) :]),
            second=block_of(shape, [extreme, *others], slots),
            others=without,
            unit=block_of(shape, [extreme], slots[:1]),
        )


def block_of(shape: Preprocessing, units: list[Unit], slots: Slots) -> Block:
    """The block of units with these slots."""
    if not units:
        return Block(np.empty((0, shape.columns)), np.empty(0))
    X, y = np.concatenate([unit.X for unit in units]), np.concatenate([unit.y for unit in units])
    if shape.unit is None:
        return shape.block(X, y if shape.target else None, slots)
    owners = np.repeat(slots, [len(unit.y) for unit in units])
    rows = shape.person_rows(X, y if shape.target else None, owners)
    return as_block(group_by_person([rows], shape.rows_per_unit))


def wild_unit(shape: Preprocessing, rng: np.random.Generator) -> Unit:
    """A unit of any values: often whole rows are alike, null or far away."""
    features, rows = len(shape.features), 1 if shape.unit is None else int(rng.integers(1, MOST_ROWS_OF_A_PERSON + 1))
    shown = rng.choice(WILD[:-3], (rows, features)) if rng.random() < 0.7 else np.full((rows, features), rng.choice(WILD))
    return Unit(np.where(rng.random((rows, features)) < 0.05, rng.choice(WILD), shown), rng.choice([*WILD, 2.0, 1e6], rows))


def _targets(domain: Target) -> tuple[float, float]:
    """The two ends of what a target may be."""
    return {Target.REAL: (FAR, -FAR), Target.LABELS: (1.0, 0.0), Target.POSITIVE: (FAR, 1 / FAR)}.get(domain, (FAR, 0.0))


def _usual(domain: Target, rng: np.random.Generator) -> float:
    if domain is Target.LABELS:
        return float(rng.integers(0, 2))
    value = float(rng.normal())
    return value if domain is Target.REAL else float(round(abs(value)) + (domain is Target.POSITIVE))
