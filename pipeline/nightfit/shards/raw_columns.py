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
WHOLE = 2.0**53  # below it a float64 tells whole numbers apart
DAY_LETTERS, MINUTE_LETTERS, SECOND_LETTERS = 10, 16, 19  # of 2026-01-31, 2026-01-31T23:59 and 2026-01-31T23:59:59
TO_THE_MINUTE = r"^.{16} ?(Z|[+-].*)?$"
OFFSET = r"T\d\d:\d\d(?::\d\d(?:[.,]\d+)?)? ?(?P<sign>[Z+-])(?:(?P<hours>[01]\d):?(?P<minutes>[0-5]\d)?)?$"


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
    """The numbers of a batch's target, NaN where missing; None where there is no target, a column for each of several models."""
    if preprocessing.several:
        found = (target(batch, one) for one in preprocessing.several)
        return np.column_stack([values for values in found if values is not None])
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
    texts = as_text(column)
    found = pc.fill_null(pc.index_in(texts, value_set=pa.array(levels, type=texts.type)), len(levels))
    out: Codes = found.to_numpy(zero_copy_only=False).astype(np.int64)
    out[pc.is_null(texts).to_numpy(zero_copy_only=False)] = NULL
    return out


def as_text(column: Any) -> Any:
    """A column of codes as text: a whole number by its digits, in whatever type it is stored; missing where it is no finite number."""
    column = _plain(column)
    if not (pa.types.is_floating(column.type) or pa.types.is_decimal(column.type)):
        return column if _is_text(column.type) else column.cast(pa.string())
    values = numbers(column)
    finite = np.isfinite(values)
    whole = finite & (np.abs(values) < WHOLE) & (values == np.floor(values))
    digits = pa.array(np.where(whole, values, 0.0).astype(np.int64)).cast(pa.string())
    return pc.if_else(pa.array(whole), digits, pa.array(values, mask=~finite).cast(pa.string()))


def instants(column: Any, zone: str) -> Instants:
    """Microseconds since 1970-01-01T00:00 by the wall clock of `zone`; NEVER where it is null or no time."""
    column = _plain(column)
    if _is_text(column.type):
        column = _parsed(column, zone)
    elif pa.types.is_timestamp(column.type) and column.type.tz is not None:
        column = pc.local_timestamp(column.cast(pa.timestamp("us", tz=zone), safe=False))
    whole = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
    out: Instants = pc.fill_null(whole, NEVER).to_numpy(zero_copy_only=False).astype(np.int64)
    return out


def _parsed(texts: Any, zone: str) -> Any:
    """Text as time stamps by the wall clock of `zone`, or as they are written where they name no offset from UTC: a date with a time of
    day, else a date; null where it is neither, or no day of the calendar.
    """
    written = pc.replace_substring(pc.utf8_trim_whitespace(texts), " ", "T", max_replacements=1)
    day = pc.utf8_slice_codeunits(written, 0, DAY_LETTERS)
    to_the_minute = pc.if_else(pc.match_substring_regex(written, TO_THE_MINUTE), written, pa.scalar(None, written.type))
    moments = _time_of(written, SECOND_LETTERS, "%Y-%m-%dT%H:%M:%S")
    found = pc.coalesce(moments, _time_of(to_the_minute, MINUTE_LETTERS, "%Y-%m-%dT%H:%M"), _time_of(day, DAY_LETTERS, "%Y-%m-%d"))
    existing = pc.equal(pc.cast(pc.strftime(found, "%Y-%m-%d"), day.type), day)  # strptime reads February 31 as March 3
    found = pc.if_else(existing, found, pa.scalar(None, found.type))
    offset = _offset(written)
    there = pc.local_timestamp(pc.subtract(found, offset).cast(pa.timestamp("us", tz=zone)))
    return pc.coalesce(there, found)


def _time_of(texts: Any, letters: int, form: str) -> Any:
    """The first letters of each text as a time stamp; null where they are none."""
    return pc.strptime(pc.utf8_slice_codeunits(texts, 0, letters), form, "us", error_is_null=True)


def _offset(texts: Any) -> Any:
    """How far the wall clock of a written time is ahead of UTC: 2026-01-31T23:59:59+01:00 by an hour; null where it is not written."""
    sign, hours, minutes = (pc.struct_field(pc.extract_regex(texts, OFFSET), part) for part in ("sign", "hours", "minutes"))
    zulu = pc.equal(sign, "Z")
    ahead = pc.add(pc.multiply(_whole(hours), 60), _whole(minutes))
    stated = pc.or_(pc.and_(zulu, pc.equal(hours, "")), pc.and_(pc.invert(zulu), pc.not_equal(hours, "")))
    signed = pc.multiply(ahead, pc.if_else(pc.equal(sign, "-"), -60_000_000, 60_000_000))
    return pc.if_else(stated, signed, pa.scalar(None, pa.int64())).cast(pa.duration("us"))


def _whole(digits: Any) -> Any:
    """Text of digits as whole numbers; none are zero."""
    return pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64())


def _plain(column: Any) -> Any:
    """A column without a dictionary, and without text that is no UTF-8."""
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    column = column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column
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
