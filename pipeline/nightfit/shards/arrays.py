"""The exact integers of a query over numpy or lazy Dask arrays. Imports dask and pyarrow."""

import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa

from nightfit.numerics.keystream import Key
from nightfit.numerics.linear_algebra import one_thread
from nightfit.numerics.prf import Slots, slots_of
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import GroupedQuery, Query
from nightfit.records.persons import as_block, group_by_person
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.grouping import aggregate_range, range_passes, split_by_range
from nightfit.shards.manifest import DataError
from nightfit.shards.read import hash_ids
from nightfit.shards.tree import reduced
from nightfit.types import Array, Block, Integers

SLICE_BYTES = 2**25  # of bounded rows at a time
KEPT_BYTES = 2**30  # of bounded rows that are kept between queries, at most
GROUPING_BYTES = 2**28  # of rows that are brought together at a time
FAILED = "a chunk of the arrays could not be read as numbers or made: check that the Dask graph of X and y computes"


class ArrayRecords:
    """Raw features X and target y, bounded by public preprocessing.

    numpy arrays are summed in slices, one on each processor, Dask arrays chunk by chunk on Dask's current scheduler. Bounded slices and
    chunks are kept between queries, where they were made, if all of them have at most KEPT_BYTES; else they are made again for every
    query: `persist` larger Dask arrays first if they fit in memory. Only shapes and types are checked, never a value.

    Parameters
    ----------
    X : numpy or Dask array of shape (rows, features)
        Raw features.
    y : numpy or Dask array of shape (rows,)
        Raw target.
    preprocessing : Preprocessing
        How records become bounded rows.
    persons : HashedIds, optional
        Whose each row is, where persons are units; numpy arrays only.
    """

    def __init__(self, X: Any, y: Any, preprocessing: Preprocessing, persons: Any = None) -> None:
        _check_shapes(X, y, len(preprocessing.features))
        self.preprocessing, self.persons = preprocessing, persons
        self.lazy = isinstance(X, da.Array) or isinstance(y, da.Array)
        _check_persons(preprocessing, persons, len(y), self.lazy)
        if self.lazy:
            rows = max(1, SLICE_BYTES // (8 * preprocessing.columns))
            X = X.rechunk({1: -1}) if isinstance(X, da.Array) else da.from_array(X, chunks=(rows, -1), name=False)
            y = y.rechunk((X.chunks[0],)) if isinstance(y, da.Array) else da.from_array(y, chunks=(X.chunks[0],), name=False)
        self.X, self.y = X, y
        self._kept: list[Block] | None = None
        self._persisted: list[Any] | None = None

    def aggregate(self, query: Query) -> Integers:
        """The query's integers over every record, each counted once: the same for any slicing or chunking."""
        if isinstance(query, GroupedQuery):
            return self._aggregate_groups(query)
        if not self.lazy:
            return functools.reduce(query.merge, self._each(query.chunk))
        if self._bytes() > KEPT_BYTES:
            return self._merge(
                query, [dask.delayed(aggregate_task)(query, X, y, start, self.preprocessing) for X, y, start in self._chunks()]
            )
        if self._persisted is None:
            kept = [dask.delayed(bounded_task)(X, y, start, self.preprocessing) for X, y, start in self._chunks()]
            self._persisted = list(dask.persist(*kept))
        return self._merge(query, [dask.delayed(aggregate_kept_task)(query, blocks) for blocks in self._persisted])

    def _each(self, function: Callable[[Block], Integers]) -> Iterator[Integers]:
        """The function of every bounded slice, of as many at a time as there are processors.

        BLAS has one thread for each meanwhile.
        """
        blocks = iter(self._bounded())
        if self.persons is not None:  # who are one block
            yield from map(function, blocks)
            return
        processors = len(os.sched_getaffinity(0))
        with one_thread(), ThreadPoolExecutor(processors) as threads:
            while some := list(itertools.islice(blocks, processors)):
                yield from threads.map(function, some)

    def _aggregate_groups(self, query: GroupedQuery) -> Integers:
        """The query's integers for whole groups of records, a range of groups at a time."""
        totals = []
        for edges in range_passes(query.blocks, self._bytes(), GROUPING_BYTES):
            if not self.lazy:
                pieces = split_by_range(query, self._bounded(), edges)
                totals += [aggregate_range(query, [piece]) for piece in pieces]
                continue
            parts = [
                dask.delayed(split_task, nout=len(edges) - 1)(query, X, y, start, self.preprocessing, edges)
                for X, y, start in self._chunks()
            ]
            ranges = [dask.delayed(range_task)(query, [part[place] for part in parts]) for place in range(len(edges) - 1)]
            totals.append(self._merge(query, ranges))
        return functools.reduce(query.merge, totals)

    def _bytes(self) -> int:
        """Bytes of all bounded records: features, target and slot of each."""
        return int(self.y.shape[0]) * 8 * (self.preprocessing.columns + 2)

    def _bounded(self) -> Iterable[Block]:
        """The bounded slices of numpy arrays, or all persons as one block."""
        if self.persons is not None:
            self._kept = self._kept or [self._grouped()]
            return self._kept
        slices = bounded(self.X, self.y, 0, self.preprocessing, len(os.sched_getaffinity(0)))
        if self._bytes() > KEPT_BYTES:
            return slices
        if self._kept is None:
            self._kept = list(slices)
        return self._kept

    def _grouped(self) -> Block:
        """All persons, with at most `rows_per_unit` rows of each; rows without an id belong to nobody."""
        slots, known = self.persons.slots, self.persons.known
        raw, target = (np.asarray(part, dtype=np.float64)[known] for part in (self.X, self.y))
        rows = self.preprocessing.person_rows(raw, target, slots[known])
        return as_block(group_by_person([rows], self.preprocessing.rows_per_unit))

    def _chunks(self) -> Iterator[tuple[Any, Any, int]]:
        """Lazy X, lazy y and the first row number of each chunk."""
        starts = np.cumsum([0, *self.y.chunks[0]]).tolist()
        return zip(self.X.to_delayed().ravel(), self.y.to_delayed().ravel(), starts[:-1], strict=True)

    def _merge(self, query: Query, parts: list[Any]) -> Integers:
        """The merged integers of lazy tasks, added by a tree where they are large; a DataError if one failed."""
        with one_thread():
            sums = dask.compute(*reduced(query, parts, lambda some: dask.delayed(merge_task)(query, some)))
        if any(part is None for part in sums):
            self._persisted = None  # what failed is made again if it is asked for again
            raise DataError(FAILED)
        return functools.reduce(query.merge, sums)

    def reported(self, question: ReportQuery, key: Key) -> Integers:
        raise DataError(
            "arrays in memory have one owner already: local reports are for Parquet shards (privacy.trust: local in refit.yaml)"
        )


@dataclass(frozen=True, slots=True)
class HashedIds:
    """The hash of each row's id, and which rows have one. The repr shows no value."""

    slots: Slots
    known: Any

    def __repr__(self) -> str:
        return "HashedIds(...)"


def hash_values(ids: Any) -> HashedIds:
    """Hashes of whole numbers, text or bytes; anything else is no id.

    Guarantee: an id's hash is that of its text or bytes, whatever the other ids are, as of an id in a Parquet shard.
    """
    texts = [_id_text(value) for value in ids.tolist()]
    return HashedIds(hash_ids(pa.array(texts, pa.binary())), np.array([text is not None for text in texts], dtype=bool))


def _id_text(value: Any) -> bytes | None:
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return str(int(value)).encode()
    if isinstance(value, str):
        return value.encode(errors="surrogatepass")
    return value if isinstance(value, bytes) else None


def together(function: Callable[[Array, Array], Array], one: Any, other: Any) -> Any:
    """A function of two numpy arrays of the same length, chunk by chunk where one of them is a Dask array."""
    if not isinstance(one, da.Array) and not isinstance(other, da.Array):
        return function(one, other)
    return da.map_blocks(function, da.asarray(one), da.asarray(other), dtype=np.float64, meta=np.empty(0))


def row_count(X: Any) -> int:
    """The number of rows of X; a DataError if it is not known without computing."""
    shape = np.shape(X)
    if len(shape) != 2 or np.isnan(shape[0]):
        raise DataError("X must have rows and columns of known number: for a Dask array of unknown chunks call compute_chunk_sizes() first")
    return int(shape[0])


def bounded(X: Array, y: Array, first: int, preprocessing: Preprocessing, multiple: int = 1) -> Iterator[Block]:
    """Bounded blocks of at most SLICE_BYTES of one chunk, whose first row has the number `first`; a multiple of so many, of equal sizes."""
    slices = multiple * max(1, -(-len(y) * 8 * preprocessing.columns // (SLICE_BYTES * multiple)))
    step = max(1, -(-len(y) // slices))
    for start in range(0, max(1, len(y)), step):
        raw, target = (np.asarray(part[start : start + step], dtype=np.float64) for part in (X, y))
        yield preprocessing.block(raw, target, slots_of("array", first + start, len(target)))


def aggregate_task(query: Query, X: Array, y: Array, first: int, preprocessing: Preprocessing) -> Integers | None:
    """The query's integers over one chunk; None for any failure, because Dask prints the arguments of a task that raises."""
    try:
        return functools.reduce(query.merge, (query.chunk(block) for block in bounded(X, y, first, preprocessing)))
    except Exception:
        return None


def merge_task(query: Query, sums: Sequence[Integers | None]) -> Integers | None:
    """The merged integers of some chunks; None for any failure, of theirs too."""
    try:
        found = [part for part in sums if part is not None]
        return functools.reduce(query.merge, found) if len(found) == len(sums) else None
    except Exception:
        return None


def bounded_task(X: Array, y: Array, first: int, preprocessing: Preprocessing) -> list[Block] | None:
    """The bounded blocks of one chunk; None for any failure."""
    try:
        return list(bounded(X, y, first, preprocessing))
    except Exception:
        return None


def aggregate_kept_task(query: Query, blocks: list[Block] | None) -> Integers | None:
    """The query's integers over the bounded blocks of one chunk; None for any failure."""
    try:
        return None if blocks is None else functools.reduce(query.merge, map(query.chunk, blocks))
    except Exception:
        return None


def split_task(query: GroupedQuery, X: Array, y: Array, first: int, preprocessing: Preprocessing, edges: tuple[int, ...]) -> Any:
    """The rows of one chunk by ranges of groups; None for each range on any failure."""
    try:
        return split_by_range(query, bounded(X, y, first, preprocessing), edges)
    except Exception:
        return (None,) * (len(edges) - 1)


def range_task(query: GroupedQuery, pieces: list[Any]) -> Integers | None:
    """The query's integers for a range of groups, from the pieces of all chunks; None for any failure."""
    try:
        return aggregate_range(query, pieces)
    except Exception:
        return None


def _check_persons(preprocessing: Preprocessing, persons: Any, rows: int, lazy: bool) -> None:
    """Refuse persons without ids, ids without persons, of another number, and of Dask arrays."""
    if (preprocessing.unit is None) != (persons is None):
        raise DataError("persons are units if and only if each row's id is given")
    if persons is not None and (lazy or len(persons.slots) != rows):
        raise DataError("persons are those of numpy arrays, with one id for each row")


def _check_shapes(X: Any, y: Any, features: int) -> None:
    rows = row_count(X)
    if X.shape[1] != features:
        raise DataError(f"X has {X.shape[1]} columns, bounds and names were given for {features}")
    if y.shape != (rows,):
        raise DataError(f"X has {rows} rows and y the shape {y.shape}: y must be one number per row")
    for name, array in (("X", X), ("y", y)):
        if array.dtype.kind not in "biuf":
            raise DataError(f"{name} holds {array.dtype}: encode it as numbers or booleans")
