"""Count the units of each level of a raw column, straight from Parquet, a part of the persons at a time. Imports pyarrow.

Two columns are read, a batch at a time, in this process: they are small beside the rows of a fit. Persons are read in as many readings as
keep what is held small; the names of all levels that occur are held at once.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nightfit.numerics.prf import Slots
from nightfit.queries.level_counts import LevelCounts
from nightfit.records.columns.category import OTHER
from nightfit.records.persons import range_index
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.failures import failing_by_name, translated
from nightfit.shards.listing import opened
from nightfit.shards.manifest import Manifest, check_unchanged
from nightfit.shards.raw_columns import as_text
from nightfit.shards.read import hash_ids
from nightfit.types import Integers

BATCH_ROWS = 2**16
PERSON_ROWS = 2**23  # rows of persons in one reading: 200 MB of pairs at most, while they are sorted
LONGEST_LEVEL = 200  # bytes: a longer text is a note, not a level

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RawLevels:
    """The raw columns of a data set, whose unit and buckets are those of `preprocessing`."""

    manifest: Manifest
    preprocessing: Preprocessing

    def count(self, query: LevelCounts) -> Mapping[str, int]:
        """Units of each level that occurs. A person counts once in at most query.per_unit of the levels of all its rows.

        Guarantee: which of its levels a person counts in is a function of that person's rows alone, and a row without an id belongs to
        no person and counts nowhere; neither does a null, a text that is too long or no UTF-8, nor the word `other`. Broken by
        test_a_person_counts_in_few_levels_wherever_the_rows_lie.

        Raises
        ------
        DataError
            If a shard cannot be read, or changed since the plan was made.
        """
        check_unchanged(self.manifest)
        with translated():
            counts: Mapping[str, int] = failing_by_name(lambda: self._counts(query))
        check_unchanged(self.manifest)
        return counts

    def _counts(self, query: LevelCounts) -> Mapping[str, int]:
        names: dict[bytes, int] = {}
        person = self.preprocessing.unit is not None
        ranges = max(1, -(-self.manifest.rows // PERSON_ROWS)) if person else 1
        total = np.zeros(0, dtype=np.int64)
        for number in range(ranges):
            found = self._of_persons(query, names, number, ranges) if person else self._of_records(query.column, names)
            total = np.pad(total, (0, len(found) - len(total))) + found
        return {text: int(total[code]) for name, code in names.items() if total[code] and (text := _level(name)) is not None}

    def _of_records(self, column: str, names: dict[bytes, int]) -> Integers:
        counts: dict[int, int] = {}
        for _, codes in self._batches(column, names):
            for code, times in zip(*np.unique(codes, return_counts=True), strict=True):
                counts[int(code)] = counts.get(int(code), 0) + int(times)
        return np.array([counts.get(code, 0) for code in range(len(names))], dtype=np.int64)

    def _of_persons(self, query: LevelCounts, names: dict[bytes, int], number: int, ranges: int) -> Integers:
        """Of the persons of one range of slots."""
        held = [np.empty((0, 2), dtype=np.uint64)]
        for slots, codes in self._batches(query.column, names):
            mine = range_index(slots, ranges) == number
            held.append(np.column_stack([slots[mine], codes[mine].astype(np.uint64)]))
            if sum(map(len, held[1:])) > BATCH_ROWS * 16:
                held = [np.unique(np.concatenate(held), axis=0)]
        pairs = np.unique(np.concatenate(held), axis=0)
        return chosen_counts(pairs[:, 0], pairs[:, 1].astype(np.int64), tuple(names), query.per_unit)

    def _batches(self, column: str, names: dict[bytes, int]) -> Iterator[tuple[Slots, Codes]]:
        """Slots of the persons and codes of the levels of each batch, of the rows that count; new names are entered."""
        shape = self.preprocessing
        identity = shape.unit if shape.unit is not None else shape.row_id if shape.buckets is not None else None
        wanted = list(dict.fromkeys([column, *([identity] if identity is not None else [])]))
        for shard in self.manifest.shards:
            filesystem, location = opened(shard.location, shard.options)
            with filesystem.open(location, "rb") as handle:
                for batch in pq.ParquetFile(handle).iter_batches(BATCH_ROWS, columns=wanted):
                    texts = _bytes(batch.column(column))
                    counts = pc.is_valid(texts)
                    if shape.unit is not None:
                        counts = pc.and_(counts, pc.is_valid(batch.column(shape.unit)))
                    kept = counts.to_numpy(zero_copy_only=False)
                    slots = np.zeros(len(batch), dtype=np.uint64) if identity is None else hash_ids(batch.column(identity))
                    if shape.buckets is not None:
                        kept &= shape.buckets.hold(slots)
                    yield slots[kept], _codes(texts.filter(pa.array(kept)), names)


def chosen_counts(slots: Slots, codes: Codes, names: tuple[bytes, ...], per_unit: int) -> Integers:
    """How many persons count in each level, from distinct pairs: each in those `per_unit` of its levels whose hash with it is least."""
    from pandas.util import hash_array

    if not len(slots):
        return np.zeros(len(names), dtype=np.int64)
    hashed = np.asarray(hash_array(np.array(names, dtype=object), categorize=False), dtype=np.uint64)
    with np.errstate(over="ignore"):
        priority = hash_array(hashed[codes] * np.uint64(0x9E3779B97F4A7C15) ^ slots, categorize=False)
    order = np.lexsort((codes, priority, slots))
    first = np.searchsorted(slots[order], slots[order], side="left")
    kept = order[np.arange(len(order)) - first < per_unit]
    return np.bincount(codes[kept], minlength=len(names)).astype(np.int64)


def _bytes(column: Any) -> Any:
    """A column of texts, or of codes as texts, as bytes: a text need not be UTF-8."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        column = as_text(column)
    return column.cast(pa.large_binary())


def _codes(texts: Any, names: dict[bytes, int]) -> Codes:
    """The number of each text; new ones are numbered on."""
    encoded = texts.dictionary_encode()
    numbers = np.array([names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()], dtype=np.int64)
    return numbers[encoded.indices.to_numpy(zero_copy_only=False)] if len(numbers) else np.empty(0, dtype=np.int64)


def _level(name: bytes) -> str | None:
    """The text as a level; None if it cannot be one."""
    if not 0 < len(name) <= LONGEST_LEVEL:
        return None
    try:
        text = name.decode()
    except UnicodeDecodeError:
        return None
    return None if text == OTHER else text
