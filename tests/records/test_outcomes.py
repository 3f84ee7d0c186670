"""How the raw values of a target are read: labels of any type, transforms, exposures; no value is an error."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.records.expressions import of
from nightfit.records.outcomes import AS_IT_IS, INVERSES, Outcome
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.release.export import standalone
from nightfit.shards.raw_columns import target

CASES = {
    "text": (pa.array(["died", "home", None, "x"]), "died", ["home", "died"]),
    "dictionary": (pa.array(["died", "home", None, "x"]).dictionary_encode(), "died", ["home", "died"]),
    "integers": (pa.array([7, 3, None, 5]), "7", ["3", "7"]),
    "booleans": (pa.array([True, False, None, None]), "true", ["false", "true"]),
}


def shape(outcome: Outcome, domain: Target, **more: Any) -> Preprocessing:
    return Preprocessing(
        features=("a",), target="y", centre=(0.0,), scale=(1.0,), intercept=True, target_domain=domain, outcome=outcome, **more
    )


def read(column: Any, outcome: Outcome, domain: Target, **others: Any) -> Any:
    return target(pa.RecordBatch.from_pydict({"y": column, **others}), shape(outcome, domain))


@pytest.mark.parametrize("column", list(CASES))
def test_labels_of_any_type_are_read_and_an_undeclared_or_missing_one_is_missing(column: str) -> None:
    values, positive, classes = CASES[column]
    rest = read(values, Outcome(labels=(positive,), rest=True), Target.LABELS)
    both = read(values, Outcome(labels=tuple(classes)), Target.LABELS)
    np.testing.assert_array_equal(rest, [1.0, 0.0, math.nan, math.nan if values[3].as_py() is None else 0.0])
    np.testing.assert_array_equal(both, [1.0, 0.0, math.nan, math.nan])


def test_several_classes_are_read_as_the_places_of_their_labels() -> None:
    made = Outcome(labels=("home", "transferred", "died"))
    np.testing.assert_array_equal(read(pa.array(["died", "home", "gone", None]), made, Target.CLASSES), [2.0, 0.0, math.nan, math.nan])


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.text(max_size=3), st.sampled_from(["a", "b", "c"])), min_size=1, max_size=20), st.randoms())
def test_an_outcome_is_read_the_same_whatever_the_others_are(values: list[str | None], random: Any) -> None:
    made, order = Outcome(labels=("a", "b", "c")), list(range(len(values)))
    random.shuffle(order)
    whole = read(pa.array(values, pa.string()), made, Target.CLASSES)
    shuffled = read(pa.array([values[place] for place in order], pa.string()), made, Target.CLASSES)
    np.testing.assert_array_equal(whole[order], shuffled)
    for place, value in enumerate(values):
        np.testing.assert_array_equal(read(pa.array([value], pa.string()), made, Target.CLASSES), whole[place : place + 1])


def test_a_record_without_a_label_is_a_row_of_zeros() -> None:
    made = shape(Outcome(labels=("a", "b", "c")), Target.CLASSES)
    block = made.block(np.ones((3, 1)), np.array([math.nan, 1.0, 2.0]))
    assert not block.X[0].any()
    assert block.X[1:].all()
    np.testing.assert_array_equal(block.y, [0.0, 1.0, 2.0])


@pytest.mark.parametrize("transform", list(INVERSES))
def test_a_transform_and_its_inverse_cancel_and_a_value_outside_of_it_is_missing(transform: str) -> None:
    made = Outcome(transform=transform)
    values = np.array([0.5, 1.0, 7.0, 1e6])
    np.testing.assert_allclose(made.restored(made.transformed(values)), values, rtol=1e-12)
    if transform != "none":
        block = shape(made, Target.REAL).block(np.ones((4, 1)), np.array([-5.0, math.nan, math.inf, 4.0]))
        assert block.X[:, 0].tolist() == [0.0, 0.0, 0.0, 1.0]


@pytest.mark.parametrize("transform", list(INVERSES))
def test_an_exported_formula_takes_a_prediction_back_as_the_model_does(transform: str) -> None:
    made, values = Outcome(transform=transform), np.array([-3.0, 0.0, 0.7, 30.0, math.nan])
    found = standalone.evaluate(made.restored_expression(of("margin")).as_list(), {}, {}, values)
    np.testing.assert_allclose(found, made.restored(values), rtol=1e-12, atol=1e-15)


def test_bounds_of_a_transformed_target_clamp_it() -> None:
    made = shape(Outcome(transform="log1p"), Target.REAL, target_centre=1.0, target_scale=1.0, target_reach=(-1.0, 1.0))
    block = made.block(np.ones((2, 1)), np.array([1e9, math.e - 1]))
    np.testing.assert_allclose(block.y, [1.0, 0.0], atol=1e-12)


def test_a_count_is_divided_by_its_clamped_exposure() -> None:
    made = Outcome(exposure="days", exposures=(1.0, 10.0))
    days = pa.array([2.0, 0.5, 100.0, 0.0, None, -1.0, 4.0, 4.0])
    counts = pa.array([4.0, 3.0, 20.0, 1.0, 1.0, 1.0, 2.5, None])
    rates = read(counts, made, Target.COUNTS, days=days)
    np.testing.assert_array_equal(rates, [2.0, 3.0, 2.0, *[math.nan] * 5])
    block = shape(made, Target.COUNTS).block(np.ones((8, 1)), rates)
    assert block.X[:, 0].tolist() == [1.0] * 3 + [0.0] * 5


@pytest.mark.parametrize(
    "outcome",
    [
        AS_IT_IS,
        Outcome(labels=("a",), rest=True),
        Outcome(labels=("a", "b", "c")),
        Outcome(transform="log1p"),
        Outcome(exposure="days", exposures=(1.0, 366.0)),
    ],
)
def test_an_outcome_survives_being_stored(outcome: Outcome) -> None:
    domain = {1: Target.LABELS, 3: Target.CLASSES}.get(len(outcome.labels), Target.REAL)
    made = shape(outcome, Target.COUNTS if outcome.exposure else domain)
    assert Preprocessing.from_dict(made.as_dict()) == made
    assert AS_IT_IS.as_dict() == {}


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("declared twice", {"labels": ("a", "a")}),
        ("one label", {"labels": ("a",)}),
        ("one label", {"labels": ("a", "b"), "rest": True}),
        ("transforms", {"transform": "cube"}),
        ("0 < low", {"exposure": "days", "exposures": (0.0, 1.0)}),
    ],
)
def test_what_cannot_be_read_is_refused(said: str, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=said):
        Outcome(**wrong)


def test_a_decimal_target_is_a_number() -> None:
    column = pa.array([Decimal("1.50"), None], type=pa.decimal128(12, 2))
    np.testing.assert_array_equal(read(column, AS_IT_IS, Target.REAL), [1.5, math.nan])
