"""All rows of a person together: at most a public number of each, chosen and ordered by the person's own rows. Imports numba, keyed, types.

Rows come loose, in any order and from any file, each with its person's slot (a hash of the id) and a ticket of its own. A person's rows
with the smallest tickets are kept, in that order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.prf import Slots
from nightfit.types import Array, Block, runs_of

UNUSABLE = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Loose:
    """Rows of persons with a ticket each; UNUSABLE for a row that is null or bad. The repr shows no value."""

    block: Block
    tickets: Slots

    def __repr__(self) -> str:
        return "Loose(...)"

    def __len__(self) -> int:
        return len(self.tickets)

    def select(self, rows: Any) -> "Loose":
        block = self.block
        return Loose(Block(block.X[rows], block.y[rows], block.slots[rows]), self.tickets[rows])


def together(pieces: Sequence[Loose], most: int) -> Loose:
    """Of every person the usable rows with the `most` smallest tickets, in that order, persons in the order of their slots; or, where
    none is usable, one row of zeros.

    Guarantee: what is kept of a person is a function of that person's rows alone, as a set: no other person, file, place or order
    of arrival enters, so that neighbours differ in this person's contribution and in no other, even where rows come or go and move
    all others to other places. And together([together(a), together(b)]) = together([a, b]), so pieces may be cut early. Broken
    by test_the_rows_kept_of_a_person_depend_on_no_one_else and test_rows_may_be_brought_together_in_any_order_and_grouping.
    """
    loose = _joined(pieces)
    slots, tickets = loose.block.slots, loose.tickets
    order = np.lexsort((tickets, slots))
    here, drawn = slots[order], tickets[order]
    if ((here[1:] == here[:-1]) & (drawn[1:] == drawn[:-1]) & (drawn[1:] != UNUSABLE)).any():
        order = np.lexsort((tickets_of(loose.block.X, loose.block.y), tickets, slots))
    sorted_ = loose.select(order)
    starts = runs_of(sorted_.block.slots)
    rank = np.arange(len(order)) - np.repeat(starts[:-1], np.diff(starts))
    return sorted_.select((rank < most) & ((sorted_.tickets != UNUSABLE) | (rank == 0)))


def persons(loose: Loose) -> Block:
    """The block of rows that were brought together, a person a unit."""
    block = loose.block
    return Block(block.X, block.y, block.slots, runs_of(block.slots))


def tickets_of(X: Array, y: Array) -> Slots:
    """A hash of each row's own numbers: rows that share it are, but for a chance of 2^-64, equal."""
    out = np.empty(len(y), dtype=np.uint64)
    _hashed(np.ascontiguousarray(X), y, out)
    return out


def range_of(slots: Slots, ranges: int) -> Slots:
    """Which of so many equal ranges of slots a person falls in: floor(ranges slot / 2^64), but for the slot's lower half."""
    return ((slots >> np.uint64(32)) * np.uint64(ranges)) >> np.uint64(32)


def _joined(pieces: Sequence[Loose]) -> Loose:
    if len(pieces) == 1:
        return pieces[0]
    block = Block(
        np.concatenate([piece.block.X for piece in pieces]),
        np.concatenate([piece.block.y for piece in pieces]),
        np.concatenate([piece.block.slots for piece in pieces]),
    )
    return Loose(block, np.concatenate([piece.tickets for piece in pieces]))


@compiled
def _mixed(h: Any, value: Any) -> Any:
    """One step of splitmix64 (Steele, Lea, Flood 2014) over the bits of a number."""
    z = (h ^ np.float64(value).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def _hashed(X: Any, y: Any, out: Any) -> None:
    for i in range(len(y)):
        h = _mixed(np.uint64(0), y[i])
        for j in range(X.shape[1]):
            h = _mixed(h, X[i, j])
        out[i] = h
