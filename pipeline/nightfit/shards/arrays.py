"""The exact integer sum of a query over numpy or lazy Dask arrays. Imports dask."""

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import dask
import dask.array as da
import numpy as np

from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import slots_of
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.manifest import DataError
from nightfit.shards.merging import answered, passes_of, split
from nightfit.types import Array, Block, Integers

SLICE_BYTES = 2**25
KEPT_BYTES = 2**30
TOGETHER_BYTES = 2**28
FAILED = "a chunk of the arrays could not be read as numbers or made: check that the Dask graph of X and y computes"


class ArrayRecords:
    """Raw features X (rows x features) and target y, bounded by public preprocessing.

    numpy arrays are summed in slices, which are bounded once and kept where all of them take a gigabyte at most, and else bounded anew
    for every question. Dask arrays are summed chunk by chunk, on whatever scheduler Dask is set to, and
    are computed anew for every question: `persist` them first if they fit in memory. Only shapes and types are looked at here.
    """

    def __init__(self, X: Any, y: Any, preprocessing: Preprocessing) -> None:
        _check_shapes(X, y, len(preprocessing.features))
        if preprocessing.unit is not None:
            raise DataError("arrays have rows and no persons: protect persons with Parquet shards, by data.unit in refit.yaml")
        self.preprocessing = preprocessing
        self.lazy = isinstance(X, da.Array) or isinstance(y, da.Array)
        if self.lazy:
            rows = max(1, SLICE_BYTES // (8 * preprocessing.columns))
            X = X.rechunk({1: -1}) if isinstance(X, da.Array) else da.from_array(X, chunks=(rows, -1), name=False)
            y = y.rechunk((X.chunks[0],)) if isinstance(y, da.Array) else da.from_array(y, chunks=(X.chunks[0],), name=False)
        self.X, self.y = X, y
        self._kept: list[Block] | None = None

    def aggregate(self, query: Query) -> Integers:
        """The query's integers summed over every record, exactly once each: the same for any slicing or chunking."""
        if isinstance(query, GroupedQuery):
            return self._together(query)
        if not self.lazy:
            return functools.reduce(query.merge, (query.chunk(block) for block in self._bounded()))
        return self._merged(query, [dask.delayed(guarded)(query, X, y, start, self.preprocessing) for X, y, start in self._chunks()])

    def _together(self, query: GroupedQuery) -> Integers:
        """The question answered for whole groups of records, a range of groups at a time: the same integers as of all at once."""
        totals = []
        for edges in passes_of(query.blocks, self._bytes(), TOGETHER_BYTES):
            if not self.lazy:
                pieces = split(query, self._bounded(), edges)
                totals += [answered(query, [piece]) for piece in pieces]
                continue
            parts = [
                dask.delayed(guarded_split, nout=len(edges) - 1)(query, X, y, start, self.preprocessing, edges)
                for X, y, start in self._chunks()
            ]
            meetings = [dask.delayed(guarded_meet)(query, [part[place] for part in parts]) for place in range(len(edges) - 1)]
            totals.append(self._merged(query, meetings))
        return functools.reduce(query.merge, totals)

    def _bytes(self) -> int:
        """What all bounded records take: features, target and slot of each."""
        return int(self.y.shape[0]) * 8 * (self.preprocessing.columns + 2)

    def _bounded(self) -> Iterable[Block]:
        slices = bounded(self.X, self.y, 0, self.preprocessing)
        if self._bytes() > KEPT_BYTES:
            return slices
        if self._kept is None:
            self._kept = list(slices)
        return self._kept

    def _chunks(self) -> Iterator[tuple[Any, Any, int]]:
        """Lazy X, lazy y and first row number of each chunk."""
        starts = np.cumsum([0, *self.y.chunks[0]]).tolist()
        return zip(self.X.to_delayed().ravel(), self.y.to_delayed().ravel(), starts[:-1], strict=True)

    def _merged(self, query: Query, parts: list[Any]) -> Integers:
        sums = dask.compute(*parts)
        if any(part is None for part in sums):
            raise DataError(FAILED)
        return functools.reduce(query.merge, sums)

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        raise DataError(
            "arrays in memory have one owner already: local reports are for Parquet shards (privacy.trust: local in refit.yaml)"
        )


def rows_of(X: Any) -> int:
    """The number of rows, which must be known without computing anything."""
    shape = np.shape(X)
    if len(shape) != 2 or np.isnan(shape[0]):
        raise DataError("X must have rows and columns of known number: for a Dask array of unknown chunks call compute_chunk_sizes() first")
    return int(shape[0])


def bounded(X: Array, y: Array, first: int, preprocessing: Preprocessing) -> Iterator[Block]:
    """Bounded copies, of a few megabytes each, of one chunk whose first row has this number."""
    step = max(1, SLICE_BYTES // (8 * preprocessing.columns))
    for start in range(0, max(1, len(y)), step):
        raw, target = (np.asarray(part[start : start + step], dtype=np.float64) for part in (X, y))
        yield preprocessing.block(raw, target, slots_of("array", first + start, len(target)))


def summed(query: Query, X: Array, y: Array, first: int, preprocessing: Preprocessing) -> Integers:
    """The sum over one chunk whose first row has this number."""
    return functools.reduce(query.merge, (query.chunk(block) for block in bounded(X, y, first, preprocessing)))


def guarded(query: Query, X: Array, y: Array, first: int, preprocessing: Preprocessing) -> Integers | None:
    """The task over one chunk. It never raises: Dask prints the arguments of a task that does."""
    try:
        return summed(query, X, y, first, preprocessing)
    except Exception:
        return None


def guarded_split(query: GroupedQuery, X: Array, y: Array, first: int, preprocessing: Preprocessing, edges: tuple[int, ...]) -> Any:
    """The task that splits one chunk by ranges of groups. It never raises."""
    try:
        return split(query, bounded(X, y, first, preprocessing), edges)
    except Exception:
        return (None,) * (len(edges) - 1)


def guarded_meet(query: GroupedQuery, pieces: list[Any]) -> Integers | None:
    """The task in which the rows of a range of groups meet. It never raises."""
    try:
        return answered(query, pieces)
    except Exception:
        return None


def _check_shapes(X: Any, y: Any, features: int) -> None:
    rows = rows_of(X)
    if X.shape[1] != features:
        raise DataError(f"X has {X.shape[1]} columns, bounds and names were given for {features}")
    if y.shape != (rows,):
        raise DataError(f"X has {rows} rows and y the shape {y.shape}: y must be one number per row")
    for name, array in (("X", X), ("y", y)):
        if array.dtype.kind not in "biuf":
            raise DataError(f"{name} holds {array.dtype}: encode it as numbers or booleans")
