"""Read Parquet into bounded blocks, inside a task: files are checked against the manifest, and no error holds a value. Imports pyarrow."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightfit.numerics.prf import Slots, slots_of
from nightfit.records.coded_rows import StagedBlock
from nightfit.records.encoding import Encoding
from nightfit.records.persons import PersonRows, as_block, group_by_person, range_index
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.failures import FileChanged, Undecodable
from nightfit.shards.listing import opened
from nightfit.shards.manifest import Manifest, Shard, size_and_stamp
from nightfit.shards.raw_columns import encoded, fill
from nightfit.shards.raw_columns import target as target_of
from nightfit.types import Array, Block

Read = tuple[Array, Any]  # features of a batch, and its columns
BATCH_BYTES = 2**25  # decoded rows in memory at a time: a few batches are small beside any worker
PERSON_BYTES = 2**25  # ungrouped rows that are held before they are grouped, for the same reason
WIDE_COLUMNS, RANGE_COLUMNS, WIDE_BYTES = 2**14, 2048, 2**26  # see _read_by_column_ranges
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
class PersonRange:
    """The persons of range `number` of `ranges` ranges of slots, wherever in the chunks their rows are."""

    number: int
    ranges: int
    chunks: tuple[Chunk, ...]


def chunks_of(manifest: Manifest, columns: int, target_bytes: int) -> tuple[Chunk, ...]:
    """Cut a data set into chunks of about target_bytes decoded, in the manifest's order; a row group is never cut."""
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


def blocks(source: Chunk | PersonRange, preprocessing: Preprocessing, into: Array | None = None) -> Iterator[StagedBlock]:
    """The bounded records of a chunk in blocks of a few megabytes each, or the persons of a range in one block.

    The rows of a chunk's blocks are written one after the other to `into`, if that is given; rows of numbers and codes are not.
    """
    if isinstance(source, PersonRange):
        yield load_persons(source, preprocessing)
        return
    start, layout = 0, preprocessing.layout
    for raw, batch, piece, seen in _batches(source, preprocessing):
        ids = None if preprocessing.buckets is None else hash_ids(batch.column(preprocessing.row_id))
        out = None if into is None else into[start : start + len(raw)]
        if out is not None and len(out) < len(raw):
            raise FileChanged
        block = preprocessing.block(raw, target_of(batch, preprocessing), _slots(batch.num_rows, piece, seen), ids, out)
        yield block if layout is None else layout.coded(block)
        start += len(raw)


def person_rows(chunk: Chunk, preprocessing: Preprocessing) -> Iterator[PersonRows]:
    """A chunk's rows of persons, a few megabytes at a time. A row without an id belongs to no person and is left out."""
    assert preprocessing.unit is not None
    for raw, batch, _, _ in _batches(chunk, preprocessing):
        identified = pc.is_valid(batch.column(preprocessing.unit))
        kept = batch.filter(identified)
        priorities = None if preprocessing.row_id is None else hash_ids(kept.column(preprocessing.row_id))
        slots, rows = hash_ids(kept.column(preprocessing.unit)), identified.to_numpy(zero_copy_only=False)
        yield preprocessing.person_rows(raw[rows], target_of(kept, preprocessing), slots, priorities)


def load_persons(source: PersonRange, preprocessing: Preprocessing) -> Block:
    """All persons of a range, read from every chunk."""
    held = [no_person_rows(preprocessing)]
    for rows in (rows for chunk in source.chunks for rows in person_rows(chunk, preprocessing)):
        held.append(rows.select(range_index(rows.block.slots, source.ranges) == source.number))
        if sum(len(piece) for piece in held[1:]) * preprocessing.columns * 8 > PERSON_BYTES:
            held = [group_by_person(held, preprocessing.rows_per_unit)]
    return as_block(group_by_person(held, preprocessing.rows_per_unit))


def no_person_rows(preprocessing: Preprocessing) -> PersonRows:
    """Zero rows, of the right width and types."""
    return PersonRows(empty_block(0, preprocessing), np.empty(0, dtype=np.uint64))


def _batches(chunk: Chunk, preprocessing: Preprocessing) -> Iterator[tuple[Array, Any, Piece, int]]:
    """Features (rows x columns) and the other columns of each batch, its piece, and how many rows of the piece came before it.

    Features are valid until the next ones are asked for.
    """
    row_id = preprocessing.row_id if preprocessing.reads_row_ids else None
    targets = (name for one in preprocessing.targets for name in (one.target, *one.outcome.columns))
    others = (*targets, row_id, preprocessing.unit)
    encoding = preprocessing.encoded
    names = list(dict.fromkeys([*encoding.readings, *(name for name in others if name is not None)]))
    rows = max(1, BATCH_BYTES // (8 * max(len(names), preprocessing.columns)))
    for piece in chunk.pieces:
        filesystem, location = opened(piece.shard.location, piece.shard.options)
        _check_unchanged(filesystem, location, piece.shard)
        seen = 0
        with filesystem.open(location, "rb") as handle:
            if len(names) > WIDE_COLUMNS:
                whole_groups = pq.ParquetFile(handle, page_checksum_verification=True)
                parts = _read_by_column_ranges(whole_groups, piece, encoding, [*filter(None, others)])
            else:
                batches = parquet_file(handle).iter_batches(rows, row_groups=list(piece.row_groups), columns=names)
                buffer = np.empty((len(encoding.features), min(rows, piece.rows)))
                parts = ((encoded(batch, encoding, buffer), batch) for batch in batches)
            for raw, batch in _named_if_damaged(parts, filesystem, location, piece, names):
                yield raw, batch, piece, seen
                seen += len(raw)
        _check_unchanged(filesystem, location, piece.shard)
        if seen != piece.rows:
            raise FileChanged


def raw_rows(chunk: Chunk, preprocessing: Preprocessing) -> tuple[Array, Array]:
    """The features of a whole chunk before they are clamped, and its targets in their own units: NaN where a record has none."""
    X, y, start = np.empty((chunk.rows, len(preprocessing.features))), np.empty(chunk.rows), 0
    for raw, batch, _, _ in _batches(chunk, preprocessing):
        target = np.asarray(target_of(batch, preprocessing))
        usable = preprocessing.outcome.domain(preprocessing.target_domain).holds(preprocessing.outcome.transformed(target))
        X[start : start + len(raw)], y[start : start + len(raw)] = raw, np.where(usable, target, np.nan)
        start += len(raw)
    return X, y


def parquet_file(handle: Any) -> Any:
    """An opened file that is read through small buffers; a page that has a checksum must be what its checksum says."""
    return pq.ParquetFile(handle, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)


def _named_if_damaged(parts: Iterator[Read], filesystem: Any, location: str, piece: Piece, names: list[str]) -> Iterator[Read]:
    """The same parts; if one cannot be decoded, shard and row group are named.

    Guarantee: the name is a fact about the file's bytes and its footer, never a value: no value of a file that can be read is an error.
    Broken by test_a_damaged_page_is_named_by_shard_and_row_group and test_no_text_of_any_bytes_is_an_error.
    """
    try:
        yield from parts
    except MemoryError:
        raise
    except (pa.ArrowException, OSError):
        _check_unchanged(filesystem, location, piece.shard)
        group = _damaged_group(filesystem, location, piece, names)
        if group is None:
            raise
    else:
        return
    raise Undecodable(piece.shard.name, group)


def _damaged_group(filesystem: Any, location: str, piece: Piece, names: list[str]) -> int | None:
    """The first row group of the piece that cannot be decoded; None if all can now, or the file cannot be reached."""
    with filesystem.open(location, "rb") as handle:
        parquet = parquet_file(handle)
        for group in piece.row_groups:
            try:
                for first in range(0, len(names), RANGE_COLUMNS):
                    for _ in parquet.iter_batches(row_groups=[group], columns=names[first : first + RANGE_COLUMNS]):
                        pass
            except (pa.ArrowException, OSError) as failure:
                reached = getattr(failure, "errno", None) is None  # the operating system and the network say what failed
                return group if reached else None
    return None


def hash_ids(ids: Any) -> Slots:
    """A 64-bit hash of each id, whatever its type; null counts as an empty id."""
    from pandas.util import hash_array  # here: most refits have no ids, and pandas takes half a second to import

    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    if pa.types.is_fixed_size_binary(ids.type):
        ids = ids.cast(pa.binary())
    texts = ids if pa.types.is_binary(ids.type) or pa.types.is_large_binary(ids.type) else ids.cast(pa.string()).cast(pa.binary())
    return np.asarray(hash_array(texts.fill_null(b"").to_numpy(zero_copy_only=False), categorize=False), dtype=np.uint64)


def _read_by_column_ranges(parquet: Any, piece: Piece, encoding: Encoding, others: list[str]) -> Iterator[tuple[Array, Any]]:
    """Features (rows x columns) and the other columns of a piece with very many columns.

    An open column takes pyarrow about 10 KB beside its values, whatever its length. So at most RANGE_COLUMNS of a row group are open at a
    time, and only the wanted rows of them are kept. A row group of more than WIDE_BYTES is read once for each window of its rows.
    """
    raw = list(encoding.readings)
    for group in piece.row_groups:
        held = piece.shard.row_groups[group]
        rest = _read_columns(parquet, group, others or raw[:1])
        windows = max(1, -(-held * len(encoding.features) * 8 // WIDE_BYTES))
        edges = [held * number // windows for number in range(windows + 1)]
        width = max(1, min(RANGE_COLUMNS, BATCH_BYTES // (8 * held)))
        for start, stop in itertools.pairwise(edges):
            out = np.empty((stop - start, len(encoding.features)))
            for first in range(0, len(raw), width):
                names = raw[first : first + width]
                batch = _read_columns(parquet, group, names).slice(start, stop - start)
                for name in names:
                    fill(batch, name, encoding, out)
            encoding.combine(out)
            yield out, rest.slice(start, stop - start)


def _read_columns(parquet: Any, group: int, names: list[str]) -> Any:
    """Some columns of a row group as one batch."""
    return parquet.read_row_group(group, columns=names, use_threads=False).combine_chunks().to_batches()[0]


def _slots(rows: int, piece: Piece, seen: int) -> Slots:
    """Hashes of the file's name and the rows' numbers in it.

    Guarantee: no two records share a slot, whatever their ids are, so every record has coins of its own. Broken by
    test_records_that_share_an_id_are_sampled_one_by_one.
    """
    ends = np.cumsum([0, *(piece.shard.row_groups[group] for group in piece.row_groups)])
    first = np.cumsum([0, *piece.shard.row_groups])
    parts = []
    for number, group in enumerate(piece.row_groups):
        start, stop = max(seen, ends[number]), min(seen + rows, ends[number + 1])
        if start < stop:
            parts.append(slots_of(piece.shard.name, int(first[group] + start - ends[number]), int(stop - start)))
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)


def _check_unchanged(filesystem: Any, location: str, shard: Shard) -> None:
    try:
        same = size_and_stamp(filesystem, location) == (shard.size, shard.stamp)
    except OSError:
        same = False
    if not same:
        raise FileChanged


def empty_block(rows: int, preprocessing: Preprocessing) -> Block:
    """A dense block of uninitialised rows."""
    X, y = np.empty((rows, preprocessing.columns), dtype=preprocessing.dtype), np.empty((rows, *preprocessing.target_columns))
    return Block(X, y, np.empty(rows, dtype=np.uint64))


def empty_rows(rows: int, preprocessing: Preprocessing) -> StagedBlock:
    """Uninitialised rows, as they are staged."""
    layout = preprocessing.layout
    return empty_block(rows, preprocessing) if layout is None else layout.empty(rows, preprocessing.dtype)


def resident(block: Block, preprocessing: Preprocessing) -> StagedBlock:
    """Rows as they are kept in memory."""
    return block if preprocessing.layout is None else preprocessing.layout.coded(block)


def load(chunk: Chunk | PersonRange, preprocessing: Preprocessing) -> StagedBlock:
    """A whole chunk, or all persons of a range, as one block."""
    if isinstance(chunk, PersonRange):
        return resident(load_persons(chunk, preprocessing), preprocessing)
    if preprocessing.layout is not None:
        pieces: list[Any] = list(blocks(chunk, preprocessing))
        return preprocessing.layout.empty(0, preprocessing.dtype).joined(pieces)
    whole = empty_block(chunk.rows, preprocessing)
    start = 0
    for block in blocks(chunk, preprocessing, whole.X):
        rows = slice(start, start + len(block))
        whole.y[rows], whole.slots[rows] = block.y, block.slots
        start += len(block)
    return whole
