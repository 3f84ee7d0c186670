"""Rows of numbers and codes: what is kept of rows with many levels. Imports encoding and below.

A category of any number of levels is one at most once in a row. So its columns are kept as one code, which is a hundredth of their bytes,
and a sum of gradients touches one weight for it. Whatever else is asked sees dense rows, a few megabytes at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.numerics.coded_rows import coded, coded_squares, decoded
from nightfit.numerics.dot_products import LANES
from nightfit.numerics.prf import Slots
from nightfit.records.encoding import Encoding
from nightfit.types import PIECE_BYTES, Array, Block, Integers, Units, runs_of


@dataclass(frozen=True)
class Layout:
    """Which columns of a block are kept as numbers, and which as codes.

    Parameters
    ----------
    columns : int
        Of the dense block.
    categories : tuple of (int, int)
        First column and number of columns of each category. In a row at most one of them is one, and the others are zero.
    """

    columns: int
    categories: tuple[tuple[int, int], ...]

    @cached_property
    def firsts(self) -> Integers:
        """The first column of each category."""
        return np.array([first for first, _ in self.categories], dtype=np.int64)

    @cached_property
    def widths(self) -> Integers:
        """The number of columns of each category."""
        return np.array([width for _, width in self.categories], dtype=np.int64)

    @cached_property
    def numbers(self) -> Integers:
        """The columns that are kept as numbers."""
        return np.setdiff1d(np.arange(self.columns), self._of_categories)

    @cached_property
    def order(self) -> Integers:
        """The column of each place that a code may name: the numbers, -1 for none, and the columns of categories."""
        return np.concatenate([self.numbers, [-1], self._of_categories]).astype(np.int64)

    @cached_property
    def code(self) -> np.dtype[Any]:
        """The type of a code."""
        return np.dtype(np.uint16 if len(self.order) <= 2**16 else np.uint32)

    @property
    def codes(self) -> int:
        """Codes of a row: one for each category, and none behind them up to a multiple of eight."""
        return -(-len(self.categories) // LANES) * LANES

    @cached_property
    def _of_categories(self) -> Integers:
        return np.array([first + k for first, width in self.categories for k in range(width)], dtype=np.int64)

    def row_bytes(self, itemsize: int) -> int:
        """Bytes of a row's numbers, codes and square."""
        return itemsize * len(self.numbers) + self.code.itemsize * self.codes + 8

    def coded(self, block: Block) -> "CodedBlock":
        """The same rows, kept as numbers and codes."""
        rows = self.empty(len(block), block.X.dtype)
        coded(block.X, self.numbers, self.firsts, self.widths, rows.numbers, rows.codes)
        coded_squares(rows.numbers, rows.codes, (self.order >= 0).astype(np.float64), rows.squares)
        return replace(rows, y=block.y, slots=block.slots, starts=block.starts)

    def empty(self, rows: int, dtype: npt.DTypeLike) -> "CodedBlock":
        """Uninitialised rows."""
        return CodedBlock(
            layout=self,
            numbers=np.empty((rows, len(self.numbers)), dtype=dtype),
            codes=np.empty((rows, self.codes), dtype=self.code),
            squares=np.empty(rows),
            y=np.empty(rows),
            slots=np.empty(rows, dtype=np.uint64),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CodedBlock(Units):
    """Records as numbers and codes. It has no `X`: what reads one takes `pieces`. The repr shows no value.

    Guarantee: `dense` gives the block that was coded. Broken by test_rows_come_back_from_their_codes.

    Parameters
    ----------
    layout : Layout
        Which columns they stand for.
    numbers : array, rows x numbers
        C-contiguous.
    codes : array of unsigned integers, rows x codes
        The place in `layout.order` of each category's column that is one.
    squares : array, one per row
        Squared norms of the rows, which no weights change.
    y, slots, starts : arrays
        As in `Block`.
    """

    layout: Layout
    numbers: Array
    codes: npt.NDArray[Any]
    squares: Array
    y: Array
    slots: Slots
    starts: Integers | None = None

    def __repr__(self) -> str:
        return "CodedBlock(...)"

    @property
    def arrays(self) -> tuple[npt.NDArray[Any], ...]:
        """What is kept of the rows, in the order of a file."""
        return self.numbers, self.codes, self.squares, self.y, self.slots

    def select_units(self, rows: npt.NDArray[np.bool_]) -> "CodedBlock":
        """The block of the selected rows; the mask must select all rows of a unit or none."""
        return self._of([array[rows] for array in self.arrays])

    def first(self, rows: int) -> "CodedBlock":
        """The first rows; each is a unit."""
        return replace(self._of([array[:rows] for array in self.arrays]), starts=None)

    def joined(self, others: Sequence["CodedBlock"]) -> "CodedBlock":
        """The rows of this block and of others."""
        return self._of([np.concatenate(arrays) for arrays in zip(self.arrays, *(other.arrays for other in others), strict=True)])

    def dense(self) -> Block:
        """All rows with all columns."""
        X = np.empty((len(self), self.layout.columns), dtype=self.numbers.dtype)
        decoded(self.numbers, self.codes, self.layout.order, X)
        return Block(X, self.y, self.slots, self.starts)

    def parts(self, most: int) -> Iterator[tuple[slice, "CodedBlock"]]:
        """Blocks of at most so many bytes if they were dense, and which units they are; one at least. Persons are not cut: a part may be
        larger by the rows of its last one.
        """
        step = max(1, most // (self.numbers.itemsize * self.layout.columns))
        first, starts = 0, np.arange(len(self) + 1) if self.starts is None else self.starts
        while True:
            last = min(int(np.searchsorted(starts, starts[first] + step)), self.units)
            rows = slice(int(starts[first]), int(starts[last]))
            yield slice(first, last), self._of([array[rows] for array in self.arrays])
            first = last
            if first >= self.units:
                return

    def pieces(self, most: int = PIECE_BYTES) -> Iterator[tuple[slice, Block]]:
        """`parts`, dense."""
        return ((rows, part.dense()) for rows, part in self.parts(most))

    def _of(self, arrays: Sequence[npt.NDArray[Any]]) -> "CodedBlock":
        numbers, codes, squares, y, slots = arrays
        starts = None if self.starts is None else runs_of(slots)
        return CodedBlock(layout=self.layout, numbers=numbers, codes=codes, squares=squares, y=y, slots=slots, starts=starts)


def zeros_and_ones(encoding: Encoding, centre: tuple[float, ...], scale: tuple[float, ...]) -> tuple[tuple[int, int], ...]:
    """First column and number of columns of each category whose zeros and ones bounded rows keep."""
    return tuple(
        (place.start, place.stop - place.start)
        for name, place in encoding.places.items()
        if encoding.described[name].one_hot and not any(centre[place]) and {*scale[place]} == {1.0}
    )


def largest_square(encoding: Encoding, centre: tuple[float, ...], scale: tuple[float, ...], columns: int) -> int:
    """The largest squared norm of a row whose columns lie in [-1, 1]: a category adds at most one, whatever its number of levels.

    Broken by test_no_row_is_longer_than_its_categories_allow.
    """
    return columns - sum(width - 1 for _, width in zeros_and_ones(encoding, centre, scale))


@lru_cache(maxsize=8)  # a batch asks again for the layout of the one before
def layout_of(encoding: Encoding, centre: tuple[float, ...], scale: tuple[float, ...], columns: int, itemsize: int) -> Layout | None:
    """The categories whose zeros and ones bounded rows keep, as codes, if that halves the bytes of a row."""
    layout = Layout(columns, zeros_and_ones(encoding, centre, scale))
    return layout if layout.categories and 2 * layout.row_bytes(itemsize) <= itemsize * columns else None


StagedBlock = Block | CodedBlock
