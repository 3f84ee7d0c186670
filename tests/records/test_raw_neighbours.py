"""Neighbours as exports have them: a text that changed, a value that became null, a row that moved to another day, for every kind.

Values pass files, reader, kinds of columns and targets before a query sees them. Whatever they are, one unit moves an answer by at most the
query's sensitivity, and a row that lies in another file moves none.
"""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nightfit.plugins import members
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import SumQuery
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.queries.histograms import Histogram
from nightfit.queries.magnitudes import NORM_GRID, Norm
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import SecondMoment
from nightfit.queries.whitened_gradients import GradientAndMoment, WhitenedGradient
from nightfit.records import columns
from nightfit.records.columns import Missing
from nightfit.records.columns.boolean import Boolean
from nightfit.records.columns.category import Category
from nightfit.records.columns.date import Date
from nightfit.records.columns.number import Number
from nightfit.records.columns.product import Product
from nightfit.records.encoding import Encoding
from nightfit.records.outcomes import Outcome
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.types import Adjacency, Integers

ENCODING = Encoding.in_order(
    {
        "sex": Category(levels=("F", "M"), missing="indicator"),
        "ward": Category(levels=("1", "2"), missing=Missing.DROP),
        "age": Number(bounds=(0.0, 110.0), knots=(50.0,), missing=40.0),
        "creatinine": Number(transform="log", missing="indicator"),
        "emergency": Boolean(),
        "admitted": Date(parts=("weekday", "hour"), days_since="2026-01-01", zone="Europe/Berlin"),
        "sex and age": Product(of=("sex", "age")),
    }
)
SCHEMA = pa.schema(
    {
        "day": pa.int8(),
        "patient": pa.string(),
        "sex": pa.dictionary(pa.int32(), pa.string()),
        "ward": pa.float64(),
        "age": pa.decimal128(12, 2),
        "creatinine": pa.string(),
        "emergency": pa.bool_(),
        "admitted": pa.timestamp("us", tz="UTC"),
        "outcome": pa.string(),
        "visits": pa.int32(),
        "days": pa.float64(),
    }
)
MOMENTS = st.integers(0, 10**6).map(lambda hours: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(hours=hours))
VALUES: dict[str, Any] = {
    "day": st.integers(1, 2),
    "sex": st.sampled_from(["F", "M", "X", "", " F", "Ü, \"'", None]),
    "ward": st.sampled_from([1.0, 1.0, 2.0, 2.0, 3.0, 1.5, math.inf, None]),  # a record without a ward is dropped
    "age": st.sampled_from([Decimal(0), Decimal("44.5"), Decimal(-3), Decimal("9999999999.99"), None]),
    "creatinine": st.sampled_from(["0.9", "1.3", " 1e300 ", "-1", "high", None]),
    "emergency": st.sampled_from([True, False, None]),
    "admitted": MOMENTS | st.none(),
    "outcome": st.sampled_from(["home", "moved", "died", "Died", "", None]),
    "visits": st.sampled_from([0, 1, 2, 7, 7, -1, 2**31 - 1, None]),
    "days": st.sampled_from([1.0, 30.0, 365.0, 1e300, 0.0, -1.0, math.inf, None]),
}
ROW = st.fixed_dictionaries(VALUES)
MANY = len(ENCODING.features)
SHAPE = Preprocessing(
    features=ENCODING.names,
    encoding=ENCODING,
    target="visits",
    centre=(0.0,) * MANY,
    scale=tuple(1.0 if feature.indicator else 10.0 for feature in ENCODING.features),
    reach=tuple(1.0 if feature.indicator else math.inf for feature in ENCODING.features),
    intercept=True,
    imputes=False,
)
TARGETS: dict[str, dict[str, Any]] = {
    "numbers": {"outcome": Outcome(transform="log1p")},
    "counts": {"target_domain": Target.COUNTS, "outcome": Outcome(exposure="days", exposures=(1.0, 366.0))},
    "label": {"target": "outcome", "target_domain": Target.LABELS, "outcome": Outcome(labels=("died",), rest=True)},
    "classes": {"target": "outcome", "target_domain": Target.CLASSES, "outcome": Outcome(labels=("home", "moved", "died"))},
}
SCALED = Rows(centre=np.full(MANY + 1, 0.1), scale=np.ones(MANY + 1), reach=np.r_[np.full(MANY, 4.0), 1.0])
TURNED = Rotation.of(np.eye(MANY + 1))
WEIGHTS = np.linspace(-0.5, 0.5, MANY + 1)


def queries(kind: str) -> list[SumQuery]:
    """A gradient of the loop, and what `auto` asks about rows and residuals."""
    loss: Any = {"numbers": Squared(), "counts": Poisson(high=50.0), "label": Logistic(), "classes": Softmax(classes=3)}[kind]
    of_rows: list[SumQuery] = [
        Histogram(measure=Norm(rows=SCALED), log_grid=NORM_GRID, bits=20),
        SecondMoment(rows=SCALED, cap=2.0, bits=12),
    ]
    shared: dict[str, Any] = {"rows": SCALED, "rotation": TURNED, "loss": loss, "clip": 1.5, "cap": 2.0}
    if kind == "classes":
        return [*of_rows, GradientAndMoment(weights=np.column_stack([WEIGHTS, -WEIGHTS]), bits=12, **shared)]
    plain = GradientSum(loss=loss, bounding=L2Clip(bound=0.7), weights=WEIGHTS, bits=30, rows=SCALED)
    return [*of_rows, plain, WhitenedGradient(weights=WEIGHTS, bits=20, **shared)]


def answers(folder: Path, records: list[dict[str, Any]], kind: str, unit: str | None) -> list[Integers]:
    """The integers of all queries about the records, written into a folder for each day."""
    for day in (1, 2):
        place = folder / f"day={day}" / "part.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([one for one in records if one["day"] == day], SCHEMA), place)
    shape = replace(SHAPE, **TARGETS[kind], **({} if unit is None else {"unit": unit, "rows_per_unit": 3}))
    data = ShardedDataset(scan(str(folder)), shape)
    return [query.finalise(data.aggregate(query)) for query in queries(kind)]


def distance(one: Integers, other: Integers) -> int:
    return sum((int(a) - int(b)) ** 2 for a, b in zip(one.ravel(), other.ravel(), strict=True))


def test_every_kind_of_column_is_among_the_raw_records() -> None:
    assert {column.name for _, column in ENCODING.columns} == set(members(columns))


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("unit", [None, "patient"], ids=["record", "person"])
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_neighbour_in_raw_records_moves_an_answer_by_at_most_the_sensitivity(
    kind: str, unit: str | None, data: Any, tmp_path: Path
) -> None:
    """Under replace_one a record, or all rows of a person, become any others, on any days. A unit adds what it adds where it is alone."""
    drawn, most = data.draw(st.lists(ROW, min_size=4, max_size=8)), 1 if unit is None else 5
    others = [{**row, "patient": data.draw(st.sampled_from(["b", "c", None]))} for row in drawn]
    before, after = ([{**row, "patient": "a"} for row in data.draw(st.lists(ROW, min_size=1, max_size=most))] for _ in range(2))
    sets = (others, before, after, [*others, *before])
    without, one, other, whole = (answers(tmp_path / str(number), rows, kind, unit) for number, rows in enumerate(sets))
    for place, query in enumerate(queries(kind)):
        assert distance(one[place], other[place]) <= Fraction(query.sensitivity(Adjacency.REPLACE_ONE)) ** 2
        assert distance(one[place], 0 * one[place]) <= Fraction(query.sensitivity(Adjacency.ADD_REMOVE)) ** 2
        np.testing.assert_array_equal(whole[place], without[place] + one[place])


@pytest.mark.parametrize("kind", TARGETS)
@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(rows=st.lists(ROW, min_size=2, max_size=6), ids=st.lists(st.sampled_from(["a", "b", None]), min_size=6, max_size=6))
@pytest.mark.parametrize("unit", [None, "patient"], ids=["record", "person"])
def test_a_row_that_moves_to_another_day_moves_no_answer(
    kind: str, unit: str | None, rows: list[dict[str, Any]], ids: list[str | None], tmp_path: Path
) -> None:
    here = [{**row, "patient": who} for row, who in zip(rows, ids, strict=False)]
    there = [*here[1:], {**here[0], "day": 3 - here[0]["day"]}]
    for one, other in zip(
        *(answers(tmp_path / str(number), records, kind, unit) for number, records in enumerate((here, there))), strict=True
    ):
        np.testing.assert_array_equal(one, other)
