"""From Parquet to bounded blocks, inside a Dask task: checked against the manifest, never raising a value. Imports pyarrow."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pandas.util import hash_array

from nightfit.numerics.prf import Slots, slots_of
from nightfit.records.persons import Loose, persons, range_of, together
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.manifest import Manifest, Shard, stamp_of
from nightfit.types import Array, Block

BATCH_BYTES = 2**25
TOGETHER_BYTES = 2**25
WIDE_COLUMNS, RANGE_COLUMNS, WIDE_BYTES = 2**14, 2048, 2**26
BUFFER_BYTES = 2**18  # of each column: without buffers, or with pre_buffer, pyarrow holds the whole of a row group, however large


@dataclass(frozen=True, slots=True)
class Piece:
    """Some row groups of one shard."""

    shard: Shard
    row_groups: tuple[int, ...]

    @property
    def rows(self) -> int:
        return sum(self.shard.row_groups[group] for group in self.row_groups)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The pieces that one task reads: small shards together, large ones by row groups."""

    number: int
    pieces: tuple[Piece, ...]

    @property
    def rows(self) -> int:
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class Gathering:
    """The persons of one of `ranges` ranges of slots, wherever in these chunks their rows lie."""

    number: int
    ranges: int
    chunks: tuple[Chunk, ...]


class Changed(Exception):
    """A file is not the one that was planned on. Carries no text: its message is fixed where it is shown."""


def chunks_of(manifest: Manifest, columns: int, target_bytes: int) -> tuple[Chunk, ...]:
    """Cut a data set into chunks of about target_bytes decoded, in the manifest's order; a row group is never cut here."""
    most = max(1, target_bytes // (8 * (columns + 1)))
    groups = [(shard, number) for shard in manifest.shards for number, rows in enumerate(shard.row_groups) if rows]
    batches: list[list[tuple[Shard, int]]] = []
    filled = most
    for shard, number in groups:
        rows = shard.row_groups[number]
        if filled + rows > most:
            batches.append([])
            filled = 0
        batches[-1].append((shard, number))
        filled += rows
    return tuple(Chunk(number, _pieces(batch)) for number, batch in enumerate(batches))


def _pieces(batch: list[tuple[Shard, int]]) -> tuple[Piece, ...]:
    shards = {shard.location: shard for shard, _ in batch}
    return tuple(Piece(shard, tuple(number for other, number in batch if other.location == place)) for place, shard in shards.items())


def blocks(source: Chunk | Gathering, preprocessing: Preprocessing) -> Iterator[Block]:
    """The chunk's records as bounded blocks of a few megabytes each, or the gathered persons as one."""
    if isinstance(source, Gathering):
        yield gathered(source, preprocessing)
        return
    for raw, batch, piece, seen in _batches(source, preprocessing):
        yield preprocessing.block(raw, _target(batch, preprocessing), _slots(batch, preprocessing.row_id, piece, seen))


def loose(chunk: Chunk, preprocessing: Preprocessing) -> Iterator[Loose]:
    """The chunk's rows of persons, a few megabytes at a time; a row without an id belongs to nobody and is left out."""
    assert preprocessing.unit is not None
    for raw, batch, _, _ in _batches(chunk, preprocessing):
        identified = pc.is_valid(batch.column(preprocessing.unit))
        named = batch.filter(identified)
        tickets = None if preprocessing.row_id is None else hashed(named.column(preprocessing.row_id))
        slots, rows = hashed(named.column(preprocessing.unit)), identified.to_numpy(zero_copy_only=False)
        yield preprocessing.loose(raw[rows], _target(named, preprocessing), slots, tickets)


def gathered(source: Gathering, preprocessing: Preprocessing) -> Block:
    """All persons of a range, read from every chunk."""
    held = [nobody(preprocessing)]
    for rows in (rows for chunk in source.chunks for rows in loose(chunk, preprocessing)):
        held.append(rows.select(range_of(rows.block.slots, source.ranges) == source.number))
        if sum(len(piece) for piece in held[1:]) * preprocessing.columns * 8 > TOGETHER_BYTES:
            held = [together(held, preprocessing.rows_per_unit)]
    return persons(together(held, preprocessing.rows_per_unit))


def nobody(preprocessing: Preprocessing) -> Loose:
    """No rows."""
    return Loose(room_for(0, preprocessing), np.empty(0, dtype=np.uint64))


def _batches(chunk: Chunk, preprocessing: Preprocessing) -> Iterator[tuple[Array, Any, Piece, int]]:
    """Features (rows x columns) and the other columns, with the piece that they are of and how many of its rows came before them."""
    others = (preprocessing.target, preprocessing.row_id, preprocessing.unit)
    names = [*preprocessing.features, *(name for name in others if name is not None)]
    rows = max(1, BATCH_BYTES // (8 * len(names)))
    for piece in chunk.pieces:
        filesystem, location = fsspec.core.url_to_fs(piece.shard.location)
        _check(filesystem, location, piece.shard)
        seen = 0
        with filesystem.open(location, "rb") as handle:
            if len(names) > WIDE_COLUMNS:
                parts = _by_ranges(pq.ParquetFile(handle), piece, preprocessing.features, [*filter(None, others)])
            else:
                parquet = pq.ParquetFile(handle, buffer_size=BUFFER_BYTES, pre_buffer=False)
                batches = parquet.iter_batches(rows, row_groups=list(piece.row_groups), columns=list(dict.fromkeys(names)))
                parts = ((matrix(batch, preprocessing.features), batch) for batch in batches)
            for raw, batch in parts:
                yield raw, batch, piece, seen
                seen += len(raw)
        _check(filesystem, location, piece.shard)
        if seen != piece.rows:
            raise Changed


def _target(batch: Any, preprocessing: Preprocessing) -> Array | None:
    return None if preprocessing.target is None else numbers(batch.column(preprocessing.target))


def hashed(ids: Any) -> Slots:
    """64 bits of each id, whatever its type; null counts as an empty one."""
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_fixed_size_binary(ids.type):
        ids = ids.cast(pa.binary())
    texts = ids if pa.types.is_binary(ids.type) or pa.types.is_large_binary(ids.type) else ids.cast(pa.string()).cast(pa.binary())
    return np.asarray(hash_array(texts.fill_null(b"").to_numpy(zero_copy_only=False), categorize=False), dtype=np.uint64)


def _by_ranges(parquet: Any, piece: Piece, features: tuple[str, ...], others: list[str]) -> Iterator[tuple[Array, Any]]:
    """Features (rows x columns) and the other columns of a piece with very many columns.

    An open column takes pyarrow some 10 KB beside its values, whatever its length, so only so many are open at once: those of a row
    group's range, of which the wanted rows are kept. A row group of more than WIDE_BYTES is read once for each window of its rows.
    """
    for group in piece.row_groups:
        held = piece.shard.row_groups[group]
        rest = _whole(parquet, group, others or [features[0]])
        windows = max(1, -(-held * len(features) * 8 // WIDE_BYTES))
        edges = [held * number // windows for number in range(windows + 1)]
        width = max(1, min(RANGE_COLUMNS, BATCH_BYTES // (8 * held)))
        for start, stop in itertools.pairwise(edges):
            raw = np.empty((stop - start, len(features)))
            for first in range(0, len(features), width):
                names = features[first : first + width]
                raw[:, first : first + width] = matrix(_whole(parquet, group, list(names)).slice(start, stop - start), names)
            yield raw, rest.slice(start, stop - start)


def _whole(parquet: Any, group: int, names: list[str]) -> Any:
    """Some columns of a row group as one batch."""
    return parquet.read_row_group(group, columns=names, use_threads=False).combine_chunks().to_batches()[0]


def _slots(batch: Any, row_id: str | None, piece: Piece, seen: int) -> Slots:
    """Hashes of the records' ids, or of the file's name and the rows' numbers in it."""
    if row_id is not None:
        return hashed(batch.column(row_id))
    ends = np.cumsum([0, *(piece.shard.row_groups[group] for group in piece.row_groups)])
    first = np.cumsum([0, *piece.shard.row_groups])
    parts = []
    for number, group in enumerate(piece.row_groups):
        start, stop = max(seen, ends[number]), min(seen + batch.num_rows, ends[number + 1])
        if start < stop:
            parts.append(slots_of(piece.shard.name, int(first[group] + start - ends[number]), int(stop - start)))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _check(filesystem: Any, location: str, shard: Shard) -> None:
    try:
        same = stamp_of(filesystem, location) == (shard.size, shard.stamp)
    except OSError:
        same = False
    if not same:
        raise Changed


def room_for(rows: int, preprocessing: Preprocessing) -> Block:
    """A block to be filled."""
    return Block(np.empty((rows, preprocessing.columns), dtype=preprocessing.dtype), np.empty(rows), np.empty(rows, dtype=np.uint64))


def load(chunk: Chunk, preprocessing: Preprocessing) -> Block:
    """The whole chunk as one block."""
    whole = room_for(chunk.rows, preprocessing)
    start = 0
    for block in blocks(chunk, preprocessing):
        rows = slice(start, start + len(block))
        whole.X[rows], whole.y[rows], whole.slots[rows] = block.X, block.y, block.slots
        start += len(block)
    return whole


def matrix(batch: Any, names: tuple[str, ...]) -> Array:
    """The named columns as rows x columns of float64, null as NaN."""
    out = np.empty((batch.num_rows, len(names)))
    for j, name in enumerate(names):
        out[:, j] = numbers(batch.column(name))
    return out


def numbers(column: Any) -> Array:
    """A column of numbers or booleans as float64, null as NaN."""
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    return np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)
