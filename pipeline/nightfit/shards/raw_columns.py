"""Raw Arrow columns as numbers, whole codes or instants, by Arrow's own compiled functions. Imports pyarrow.

No value is an error here: what cannot be read as its kind is missing.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nightfit.records.columns import NEVER, NULL, Clock, Codes, Instants, Levels, Reading
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?$"
DAY_LETTERS, SECOND_LETTERS = 10, 19  # of 2026-01-31 and 2026-01-31T23:59:59


def encoded(batch: Any, encoding: Encoding, buffer: Array | None = None) -> Array:
    """The features of a batch (rows x features), NaN where missing; each feature's values lie one after the other, as Arrow has them.

    They are written to `buffer` (features x rows) if it is given, which may have more rows.
    """
    out = (np.empty((len(encoding.features), batch.num_rows)) if buffer is None else buffer[:, : batch.num_rows]).T
    for name in encoding.readings:
        fill(batch, name, encoding, out)
    encoding.combine(out)
    return out


def fill(batch: Any, name: str, encoding: Encoding, out: Array) -> None:
    """Write the features of one raw column of a batch."""
    encoding.fill(name, read(batch.column(name), encoding.readings[name]), out)


def target(batch: Any, preprocessing: Preprocessing) -> Array | None:
    """The numbers of a batch's target, NaN where missing; None where there is no target."""
    if preprocessing.target is None:
        return None
    outcome, column = preprocessing.outcome, batch.column(preprocessing.target)
    if outcome.labels:
        return outcome.of_codes(codes(column, outcome.labels))
    raw = numbers(column)
    if outcome.exposure is None:
        return raw
    return outcome.per_exposure(preprocessing.target_domain, raw, numbers(batch.column(outcome.exposure)))


def read(column: Any, reading: Reading) -> Any:
    """A column as its kind wants it."""
    if isinstance(reading, Levels):
        return codes(column, reading.levels)
    return instants(column, reading.zone) if isinstance(reading, Clock) else numbers(column)


def numbers(column: Any) -> Array:
    """A column of numbers, booleans or text as float64; NaN where it is null or no number."""
    column = _plain(column)
    if pa.types.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    elif _is_text(column.type):
        trimmed = pc.utf8_trim_whitespace(column)
        column = pc.if_else(pc.match_substring_regex(trimmed, NUMBER), trimmed, pa.scalar(None, trimmed.type))
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(zero_copy_only=False), dtype=np.float64)


def codes(column: Any, levels: tuple[str, ...]) -> Codes:
    """The index of each value among the levels, len(levels) for any other value, NULL where it is null."""
    column = _plain(column)
    texts = column if _is_text(column.type) else column.cast(pa.string())
    found = pc.fill_null(pc.index_in(texts, value_set=pa.array(levels, type=texts.type)), len(levels))
    out: Codes = found.to_numpy(zero_copy_only=False).astype(np.int64)
    out[pc.is_null(texts).to_numpy(zero_copy_only=False)] = NULL
    return out


def instants(column: Any, zone: str) -> Instants:
    """Microseconds since 1970-01-01T00:00 by the wall clock of `zone`; NEVER where it is null or no time."""
    column = _plain(column)
    if _is_text(column.type):
        column = _parsed(column)
    elif pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column.cast(pa.timestamp("us", tz=zone), safe=False))
    whole = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    out: Instants = pc.fill_null(whole, NEVER).to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def _parsed(texts: Any) -> Any:
    """Text as time stamps without a zone: a date with a time of day, else a date; null where it is neither, or no day of the calendar."""
    written = pc.replace_substring(pc.utf8_trim_whitespace(texts), " ", "T", max_replacements=1)
    day = pc.utf8_slice_codeunits(written, 0, DAY_LETTERS)
    moments = pc.strptime(pc.utf8_slice_codeunits(written, 0, SECOND_LETTERS), "%Y-%m-%dT%H:%M:%S", "us", error_is_null=True)
    found = pc.coalesce(moments, pc.strptime(day, "%Y-%m-%d", "us", error_is_null=True))
    existing = pc.equal(pc.cast(pc.strftime(found, "%Y-%m-%d"), day.type), day)  # strptime reads February 31 as March 3
    return pc.if_else(existing, found, pa.scalar(None, found.type))


def _plain(column: Any) -> Any:
    """A column without a dictionary, and without text that is no UTF-8."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return _decodable(column) if _is_text(column.type) else column


def _decodable(texts: Any) -> Any:
    """Text with null for every value that is no UTF-8: Parquet readers pass it on, and Arrow's functions stop at it.

    Guarantee: a value is missing or kept by itself, whatever the others are. Broken by test_no_text_of_any_bytes_is_an_error.
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.cast(pa.large_binary() if pa.types.is_large_string(texts.type) else pa.binary())
        return pa.array([_text_of(value) for value in raw.to_pylist()], texts.type)
    return texts


def _text_of(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
