"""The contract of every column kind, found by walking, and what an encoding makes of raw columns."""

import math
from dataclasses import replace
from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.records import columns
from nightfit.records.columns import NEVER, NULL, Clock, Levels, Missing, Numbers
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.category import Category
from nightfit.records.columns.date import MONTHS, WEEKDAYS, Date
from nightfit.records.columns.number import Number
from nightfit.records.columns.product import Product
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing

KINDS = {"number": Number, "boolean": Boolean, "category": Category, "date": Date, "product": Product}
READ = [example for kind in KINDS.values() for example in __import__(kind.__module__, fromlist=["EXAMPLES"]).EXAMPLES if example.reading]

anything = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


def values(column, draw, rows):
    """What a reader may hand over, hostile values included."""
    match column.reading:
        case Numbers():
            return np.array(draw(st.lists(anything | st.sampled_from([0.0, 1.0]), min_size=rows, max_size=rows)))
        case Levels(levels):
            return np.array(draw(st.lists(st.integers(NULL, len(levels)), min_size=rows, max_size=rows)), dtype=np.int64)
        case Clock():
            instants = st.integers(-(2**63), 2**63 - 1)
            return np.array(draw(st.lists(instants, min_size=rows, max_size=rows)), dtype=np.int64)


def encoded(column, raw):
    out = np.empty((len(raw), len(column.features("c"))))
    column.encode(raw, out)
    return out


def test_every_file_is_a_kind_of_column():
    import pkgutil

    assert {entry.name for entry in pkgutil.iter_modules(columns.__path__)} == {kind.name for kind in KINDS.values()}


@pytest.mark.parametrize("column", READ, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_value_is_encoded_as_a_number_or_as_missing(column, data):
    out = encoded(column, values(column, data.draw, 4))
    assert not np.isinf(out).any()
    for feature, row in zip(column.features("c"), out.T, strict=True):
        known = row[~np.isnan(row)]
        if feature.indicator:
            assert np.isin(known, (0.0, 1.0)).all()
        if feature.low is not None:
            assert (known >= feature.low).all()
        if feature.high is not None:
            assert (known <= feature.high).all()


@pytest.mark.parametrize("column", READ, ids=str)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_record_is_encoded_the_same_whatever_the_others_are(column, data):
    raw = values(column, data.draw, 3)
    np.testing.assert_array_equal(encoded(column, raw)[1:2], encoded(column, raw[1:2]))


def test_bounds_are_clamps_and_zero_stays_zero():
    assert encoded(Number(bounds=(0.0, 110.0)), np.array([-3.0, 0.0, 50.0, 1e300, math.inf])).ravel()[:4].tolist() == [
        0.0,
        0.0,
        50.0,
        110.0,
    ]


def test_what_is_not_finite_or_outside_of_a_transform_is_missing():
    assert np.isnan(encoded(Number(), np.array([math.inf, -math.inf, math.nan]))).all()
    assert np.isnan(encoded(Number(transform="log1p"), np.array([-0.5]))).all()
    assert np.isnan(encoded(Number(transform="log"), np.array([0.0]))).all()


def test_knots_bend_the_line_in_the_columns_own_units():
    out = encoded(Number(bounds=(10.0, 60.0), knots=(18.0, 30.0)), np.array([15.0, 20.0, 40.0]))
    np.testing.assert_allclose(out, [[15, 0, 0], [20, 2, 0], [40, 22, 10]])
    assert [feature.name for feature in Number(knots=(18.0, 30.0)).features("bmi")] == ["bmi", "bmi > 18", "bmi > 30"]


def test_a_missing_number_has_an_indicator_of_its_own_or_counts_as_stated():
    assert encoded(Number(missing=Missing.INDICATOR), np.array([2.0, math.nan]))[:, 1].tolist() == [0.0, 1.0]
    assert encoded(Number(missing=7.0), np.array([2.0, math.nan])).ravel().tolist() == [2.0, 7.0]


def test_a_boolean_is_nothing_but_yes_or_no():
    assert np.isnan(encoded(Boolean(), np.array([2.0, math.nan, 0.5]))).all()
    assert encoded(Boolean(), np.array([1.0, 0.0])).ravel().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("column", [one for one in READ if isinstance(one, Category)], ids=str)
def test_a_record_has_one_level_at_most(column):
    out = encoded(column, np.arange(NULL + column.drops, len(column.levels) + 1))
    assert (out.sum(axis=1) <= 1).all()
    assert ((out == 0) | (out == 1)).all()


def test_unknown_and_missing_levels_are_other():
    sex = Category(levels=("F", "M"))
    assert [feature.name for feature in sex.features("sex")] == ["sex=F", "sex=M", "sex=other"]
    np.testing.assert_array_equal(encoded(sex, np.array([0, 1, 2, NULL])), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]])
    assert encoded(Category(levels=("F", "M"), missing="F"), np.array([NULL]))[0].tolist() == [1, 0, 0]
    assert encoded(Category(levels=("F", "M"), reference="F"), np.array([0, 1])).tolist() == [[0, 0], [1, 0]]


@given(st.datetimes(min_value=datetime(1900, 1, 1), max_value=datetime(2100, 1, 1)))
def test_parts_of_a_date_are_those_of_the_calendar(moment):
    column = Date(parts=("year", "month", "weekday", "hour"), days_since="2020-01-01")
    instant = (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    named = dict(zip([feature.name for feature in column.features("d")], encoded(column, np.array([instant]))[0], strict=True))
    assert named["d year"] == moment.year
    assert named[f"d={MONTHS[moment.month - 1]}"] == 1
    assert named[f"d={WEEKDAYS[moment.weekday()]}"] == 1
    angle = 2 * math.pi * (moment.hour * 3600 + moment.minute * 60 + moment.second + moment.microsecond / 1e6) / 86400
    assert named["d hour sine"] == pytest.approx(math.sin(angle), abs=1e-9)
    assert math.floor(named["d days since 2020-01-01"]) == (moment.date() - date(2020, 1, 1)).days


def test_a_missing_date_is_missing_in_every_part():
    column = Date(parts=("weekday",), days_since="2020-01-01", missing=Missing.INDICATOR)
    assert np.isnan(encoded(column, np.array([NEVER]))[0, :-1]).all()
    assert encoded(column, np.array([NEVER, 0]))[:, -1].tolist() == [1.0, 0.0]


def test_an_interaction_multiplies_features_and_names_them():
    encoding = Encoding((("emergency", Boolean()), ("age", Number(bounds=(0, 110))), ("both", Product(of=("emergency", "age")))))
    out = encoding.encode({"emergency": np.array([1.0, 0.0, math.nan]), "age": np.array([40.0, 50.0, 60.0])}, 3)
    assert [feature.name for feature in encoding.features] == ["emergency", "age", "emergency * age"]
    assert out[:2, 2].tolist() == [40.0, 0.0]
    assert np.isnan(out[2, 2])
    assert (encoding.features[2].low, encoding.features[2].high) == (0.0, 110.0)


def test_a_record_with_a_missing_value_is_left_out_only_where_its_column_says_so():
    encoding = Encoding((("a", Number(missing=Missing.DROP)), ("b", Number())))
    shape = Preprocessing(features=("a", "b"), encoding=encoding, target=None, centre=(0.5, 0.5), scale=(1.0, 1.0), intercept=True)
    raw = encoding.encode({"a": np.array([1.0, math.nan, 1.0]), "b": np.array([math.nan, 1.0, 1.0])}, 3)
    assert shape.block(raw, None).X.tolist() == [[0.5, 0.0, 1.0], [0.0, 0.0, 0.0], [0.5, 0.5, 1.0]]
    kept = replace(shape, imputes=False).block(raw, None).X
    assert np.isnan(kept[0, 1])
    assert not kept[1].any()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Number(bounds=(3, 1)), "low < high"),
        (lambda: Number(bounds=(-1, 1), transform="log"), "outside of what log is defined for"),
        (lambda: Number(transform="cube"), "not one of the transforms"),
        (lambda: Number(knots=(3.0, 2.0)), "knots must rise"),
        (lambda: Category(levels=()), "at least one level"),
        (lambda: Category(levels=("a", "b", "a")), "the level 'a' is listed twice"),
        (lambda: Category(levels=("a", "other")), "remove it from the levels"),
        (lambda: Category(levels=("a",), reference="b"), "is not one of a, other"),
        (lambda: Date(), "at least one part"),
        (lambda: Date(parts=("minute",)), "not a part of a date"),
        (lambda: Date(parts=("hour",), zone="Mars"), "not a time zone"),
        (lambda: Encoding((("a", Number()), ("a", Number()))), "described twice"),
        (lambda: Encoding((("p", Product(of=("a", "b"))),)), "must be described before it"),
        (lambda: Encoding((("a", Category(levels=("x",))), ("a=x", Number()))), "two columns make a feature named"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(made, said):
    with pytest.raises(ValueError, match=said):
        made()
