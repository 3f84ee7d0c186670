"""Raw Arrow columns as numbers, codes and instants: any type an export may have, and no value is an error."""

import math
from datetime import datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightfit.records.columns import NEVER, NULL
from nightfit.shards.raw_columns import codes, instants, numbers
from nightfit.shards.read import hash_ids

EPOCH = datetime(1970, 1, 1)
MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None, 0], pa.int8()),
        pa.array([1, None, 0], pa.uint64()),
        pa.array([1.0, None, 0.0], pa.float32()),
        pa.array([Decimal("1.00"), None, Decimal(0)], pa.decimal128(12, 2)),
        pa.array([Decimal("1.00"), None, Decimal(0)], pa.decimal256(50, 4)),
        pa.array([True, None, False]),
        pa.array([" 1", "one", "0e7"]),
        pa.array(["+1.", None, ".0"], pa.large_string()),
        pa.array(["1", "1_000", "0"]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_of_number_becomes_a_number_or_is_missing(column):
    np.testing.assert_array_equal(numbers(column), [1.0, math.nan, 0.0])


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["10", None, "20", "30"]),
        pa.array(["10", None, "20", "30"], pa.large_string()),
        pa.array(["10", None, "20", "30"]).dictionary_encode(),
        pa.array([10, None, 20, 30], pa.int16()),
        pa.array([10, None, 20, 30]).dictionary_encode(),
        pa.array([10.0, None, 20.0, 20.5]),
        pa.array([10.0, math.inf, 20.0, 1e30], pa.float32()),
        pa.array([Decimal("10.00"), None, Decimal(20), Decimal("30.50")], pa.decimal128(12, 2)),
    ],
    ids=lambda column: str(column.type),
)
def test_every_type_of_category_becomes_codes(column):
    np.testing.assert_array_equal(codes(column, ("20", "10")), [1, NULL, 0, 2])


def test_a_column_without_any_value_is_missing_in_every_kind():
    nothing = pa.nulls(2)
    assert np.isnan(numbers(nothing)).all()
    assert codes(nothing, ("a",)).tolist() == [NULL, NULL]
    assert instants(nothing, "UTC").tolist() == [NEVER, NEVER]


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("2026-07-31T10:00:00Z", datetime(2026, 7, 31, 12)),
        ("2026-07-31 10:00:00.125+00:00", datetime(2026, 7, 31, 12)),
        ("2026-01-31 10:00-0530", datetime(2026, 1, 31, 16, 30)),
        ("2026-01-31 10:00 +01", datetime(2026, 1, 31, 10)),
        ("2026-01-31 10:15", datetime(2026, 1, 31, 10, 15)),
        ("2026-01-31 10:15:30", datetime(2026, 1, 31, 10, 15, 30)),
        ("2026-01-31 at ten", datetime(2026, 1, 31)),
    ],
)
def test_text_with_an_offset_is_read_by_the_wall_clock_and_without_one_as_it_is_written(text, there):
    assert instants(pa.array([text, None]), "Europe/Berlin").tolist() == [(there - EPOCH) // MICROSECOND, NEVER]


def test_a_null_in_a_dictionary_is_missing():
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), pa.array(["a", None]))
    np.testing.assert_array_equal(codes(column, ("a",)), [0, NULL, NULL])


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2037, 1, 1)), st.sampled_from(["s", "ms", "us", "ns"]))
def test_instants_are_read_by_the_wall_clock(moment, unit):
    moment = moment.replace(microsecond=0)
    plain = pa.array([moment, None], pa.timestamp(unit))
    expected = (moment - EPOCH) // MICROSECOND
    assert instants(plain, "Europe/Berlin").tolist() == [expected, NEVER]
    there = moment.replace(tzinfo=ZoneInfo("UTC")).astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
    zoned = pa.array([moment], pa.timestamp(unit, tz="UTC"))
    assert instants(zoned, "Europe/Berlin").tolist() == [(there - EPOCH) // MICROSECOND]
    texts = pa.array([moment.isoformat(), moment.isoformat(" "), moment.date().isoformat(), "soon", None])
    midnight = (datetime.combine(moment.date(), datetime.min.time()) - EPOCH) // MICROSECOND
    assert instants(texts, "UTC").tolist() == [expected, expected, midnight, NEVER, NEVER]
    days = pa.array([moment.date(), None])
    assert instants(days, "UTC").tolist() == instants(days.cast(pa.date64()), "UTC").tolist() == [midnight, NEVER]


@given(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=4),
    st.sampled_from(["s", "ms", "us", "ns"]),
    st.sampled_from([None, "UTC"]),
)
def test_no_instant_is_an_error(raw, unit, zone):
    column = pa.array(raw, pa.int64()).cast(pa.timestamp(unit, tz=zone))
    assert len(instants(column, "Europe/Berlin")) == len(raw)


@given(st.lists(st.none() | st.text(max_size=12), min_size=1, max_size=6))
def test_no_text_is_an_error(raw):
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(raw, kind)
        assert not np.isinf(numbers(column)).any()
        assert len(codes(column, ("a", "b"))) == len(instants(column, "UTC")) == len(raw)


@given(st.lists(st.none() | st.binary(max_size=12), min_size=1, max_size=6), st.sampled_from([pa.string(), pa.large_string()]))
def test_no_text_of_any_bytes_is_an_error(raw, kind):
    """Parquet readers do not check text: a value that is no UTF-8 is missing, and all others are what they are without it."""
    column = unchecked(raw, kind)
    kept = pa.array([value.decode() if value is not None and is_text(value) else None for value in raw], kind)
    levels = ("a", "0")
    for one in (column, column.dictionary_encode()):
        np.testing.assert_array_equal(numbers(one), numbers(kept))
        np.testing.assert_array_equal(codes(one, levels), codes(kept, levels))
        np.testing.assert_array_equal(instants(one, "UTC"), instants(kept, "UTC"))
        assert len(hash_ids(one)) == len(raw)


def unchecked(raw, kind):
    """Text of these bytes, as a Parquet reader makes it."""
    binary = pa.array(raw, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind, len(binary), binary.buffers(), binary.null_count)


def is_text(value):
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_a_date_that_does_not_exist_is_missing():
    assert instants(pa.array(["2026-02-31", "2026-13-01", "20260101", ""]), "UTC").tolist() == [NEVER] * 4
