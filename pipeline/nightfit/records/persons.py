"""Group rows by person and keep at most a public number of rows of each. Imports numerics and types.

Rows arrive in any order and from any file. Each has its person's slot, a hash of the id, and a priority of its own. Of each person the
rows with the smallest priorities are kept, in that order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.prf import Slots
from nightfit.types import Array, Block, runs_of

UNUSABLE = np.uint64(2**64 - 1)  # the priority of a row with a null or an unusable value: the last


@dataclass(frozen=True, slots=True)
class PersonRows:
    """Rows of persons that are not grouped yet, with a priority each. The repr shows no value, because Dask prints task arguments."""

    block: Block
    priorities: Slots

    def __repr__(self) -> str:
        return "PersonRows(...)"

    def __len__(self) -> int:
        return len(self.priorities)

    def select(self, rows: Any) -> "PersonRows":
        """Some of the rows, by mask or index."""
        block = self.block
        return PersonRows(Block(block.X[rows], block.y[rows], block.slots[rows]), self.priorities[rows])


def group_by_person(pieces: Sequence[PersonRows], most: int) -> PersonRows:
    """Sort rows by person and keep of each person the `most` usable rows with the smallest priorities.

    A person without a usable row keeps one row of zeros. Persons are in the order of their slots, rows in the order of their priorities.

    Guarantee: what is kept of a person is a function of that person's rows alone, as a set: no other person, file, place or order
    of arrival enters, so that neighbours differ in this person's contribution and in no other, even where rows come or go and move
    all others to other places. And group([group(a), group(b)]) = group([a, b]), so pieces may be cut early. Broken
    by test_the_rows_kept_of_a_person_depend_on_no_one_else and test_rows_may_be_brought_together_in_any_order_and_grouping.
    """
    rows = _concatenate(pieces)
    slots, priorities = rows.block.slots, rows.priorities
    order = np.lexsort((priorities, slots))
    slot, priority = slots[order], priorities[order]
    if ((slot[1:] == slot[:-1]) & (priority[1:] == priority[:-1]) & (priority[1:] != UNUSABLE)).any():
        order = np.lexsort((row_hashes(rows.block.X, rows.block.y), priorities, slots))
    ordered = rows.select(order)
    starts = runs_of(ordered.block.slots)
    rank = np.arange(len(order)) - np.repeat(starts[:-1], np.diff(starts))
    return ordered.select((rank < most) & ((ordered.priorities != UNUSABLE) | (rank == 0)))


def as_block(grouped: PersonRows) -> Block:
    """The block of rows that `group_by_person` returned; each person is one unit."""
    block = grouped.block
    return Block(block.X, block.y, block.slots, runs_of(block.slots))


def row_hashes(X: Array, y: Array) -> Slots:
    """A 64-bit hash of each row's numbers, of several models' targets too; different rows share one with probability 2^-64."""
    out = np.empty(len(y), dtype=np.uint64)
    if y.ndim > 1:
        X, y = np.column_stack([X, y[:, 1:]]), np.ascontiguousarray(y[:, 0])
    _hash_rows(np.ascontiguousarray(X), y, out)
    return out


def range_index(slots: Slots, ranges: int) -> Slots:
    """Index of the range that a person falls in, of `ranges` equal ranges of slots: floor(ranges h / 2^32) of the slot's upper half h."""
    return ((slots >> np.uint64(32)) * np.uint64(ranges)) >> np.uint64(32)


def _concatenate(pieces: Sequence[PersonRows]) -> PersonRows:
    if len(pieces) == 1:
        return pieces[0]
    block = Block(
        np.concatenate([piece.block.X for piece in pieces]),
        np.concatenate([piece.block.y for piece in pieces]),
        np.concatenate([piece.block.slots for piece in pieces]),
    )
    return PersonRows(block, np.concatenate([piece.priorities for piece in pieces]))


@compiled
def _mix(h: Any, value: Any) -> Any:
    """One step of splitmix64 (Steele, Lea, Flood 2014) over the bits of a number."""
    z = (h ^ np.float64(value).view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def _hash_rows(X: Any, y: Any, out: Any) -> None:
    for i in range(len(y)):
        h = _mix(np.uint64(0), y[i])
        for j in range(X.shape[1]):
            h = _mix(h, X[i, j])
        out[i] = h
