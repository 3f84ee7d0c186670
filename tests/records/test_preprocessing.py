"""From raw columns to a bounded block: every record is defined, by public facts alone."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import ANYWHERE, Target, treatment
from nightfit.types import Array

REGRESSION = Preprocessing(
    features=("age", "income"),
    target="cost",
    centre=(50.0, 1e4),
    scale=(50.0, 2e4),
    target_centre=300.0,
    target_scale=40.0,
    intercept=True,
)
CLAMPED = replace(REGRESSION, target_reach=(-1.0, 1.0))
CLASSIFICATION = replace(REGRESSION, target_centre=0.0, target_scale=1.0, target_domain=Target.LABELS)
COUNTS = replace(CLASSIFICATION, target_domain=Target.COUNTS, target_reach=(0.0, 20.0))
every_kind = pytest.mark.parametrize(
    "preprocessing", [REGRESSION, CLAMPED, CLASSIFICATION, COUNTS], ids=["regression", "clamped", "classification", "counts"]
)
EXTREMES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -5e-324, -0.0]
BAD = [math.nan, math.inf, -math.inf]


def good(rows: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.normal((50, 1e4), (60, 3e4), (rows, 2)), rng.choice([0.0, 1.0], rows)


def test_features_are_centred_scaled_and_clamped_beside_a_column_of_ones() -> None:
    block = REGRESSION.block(np.array([[75.0, 1e4], [-1e9, 1e9]]), np.array([340.0, 1e6]))
    assert block.X.tolist() == [[0.5, 0.0, 1.0], [-1.0, 1.0, 1.0]]
    assert block.y.tolist() == [1.0, (1e6 - 300) / 40]
    assert block.X.flags.c_contiguous
    assert block.X.dtype == block.y.dtype == np.float64


def test_a_target_with_bounds_is_clamped_and_one_without_is_not() -> None:
    targets = np.array([1e308, -1e308, 310.0])
    assert CLAMPED.block(np.zeros((3, 2)), targets).y.tolist() == [1.0, -1.0, 0.25]
    assert np.all(np.abs(REGRESSION.block(np.zeros((3, 2)), targets).y[:2]) > 1e300)


def test_without_an_intercept_there_is_no_column_of_ones() -> None:
    preprocessing = replace(REGRESSION, intercept=False)
    assert preprocessing.columns == 2
    assert preprocessing.block(np.array([[50.0, 1e4]]), np.zeros(1)).X.tolist() == [[0.0, 0.0]]


@every_kind
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("place", [0, 1, None])
def test_a_record_that_is_not_finite_becomes_a_row_of_zeros_with_target_zero(
    preprocessing: Preprocessing, bad: float, place: int | None
) -> None:
    raw, target = good(3)
    if place is None:
        target[1] = bad
    else:
        raw[1, place] = bad
    block = preprocessing.block(raw, target)
    assert not block.X[1].any()
    assert block.y[1] == 0
    assert block.X[[0, 2], 2].all()


@every_kind
@settings(max_examples=100, deadline=None)
@given(
    record=st.lists(st.one_of(st.floats(), st.sampled_from(EXTREMES)), min_size=3, max_size=3),
    place=st.integers(0, 4),
)
def test_one_record_changes_no_other_row_and_never_stops_a_run(preprocessing: Preprocessing, record: list[float], place: int) -> None:
    raw, target = good(5)
    before = preprocessing.block(raw, target)
    raw[place], target[place] = record[:2], record[2]
    after = preprocessing.block(raw, target)
    others = np.arange(5) != place
    assert before.X[others].tobytes() == after.X[others].tobytes()
    assert before.y[others].tobytes() == after.y[others].tobytes()
    assert np.all(np.abs(after.X) <= 1)
    assert not np.isnan(after.y).any()


@every_kind
@settings(max_examples=50, deadline=None)
@given(cut=st.integers(0, 6), seed=st.integers(0, 2**32 - 1))
def test_a_row_is_the_same_in_any_block(preprocessing: Preprocessing, cut: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    raw, target = rng.standard_cauchy((6, 2)) * 1e4, rng.choice([*EXTREMES, 0.0, 1.0], 6)
    together = preprocessing.block(raw, target)
    parts = [preprocessing.block(raw[:cut], target[:cut]), preprocessing.block(raw[cut:], target[cut:])]
    assert np.concatenate([part.X for part in parts]).tobytes() == together.X.tobytes()
    assert np.concatenate([part.y for part in parts]).tobytes() == together.y.tobytes()


@pytest.mark.parametrize(("labels", "expected"), [([0, 1], [-1, 1]), ([-1, 1], [-1, 1]), ([-0.0, 0.0], [-1, -1]), ([1, 1], [1, 1])])
def test_labels_zero_and_one_or_minus_one_and_one_become_minus_one_and_one(labels: list[float], expected: list[float]) -> None:
    block = CLASSIFICATION.block(good(2)[0], np.array(labels, dtype=float))
    assert block.y.tolist() == expected
    assert block.X[:, 2].all()


@pytest.mark.parametrize(
    ("domain", "inside", "outside"),
    [
        (Target.REAL, [-2.5, 0.0, 1e308], BAD),
        (Target.COUNTS, [0.0, -0.0, 1.0, 20.0, 1e300], [-1.0, 0.5, 5e-324, 19.999, *BAD]),
        (Target.NON_NEGATIVE, [0.0, -0.0, 0.5, 1e300], [-5e-324, -1.0, *BAD]),
        (Target.POSITIVE, [5e-324, 0.5, 1e300], [0.0, -0.0, -1.0, *BAD]),
        (Target.LABELS, [-1.0, 0.0, 1.0], [2.0, 0.5, *BAD]),
    ],
)
def test_a_target_outside_of_its_domain_makes_a_row_of_zeros(domain: Target, inside: list[float], outside: list[float]) -> None:
    preprocessing = replace(CLASSIFICATION, target_domain=domain)
    used, null = (preprocessing.block(good(len(values))[0], np.array(values)) for values in (inside, outside))
    assert used.X[:, 2].all()
    assert domain is Target.LABELS or used.y.tolist() == inside
    assert not null.X.any()
    assert not null.y.any()


def test_bounds_of_a_target_that_is_not_scaled_clamp_it_and_do_nothing_else() -> None:
    assert COUNTS.block(good(4)[0], np.array([0.0, 3.0, 20.0, 1e6])).y.tolist() == [0.0, 3.0, 20.0, 20.0]
    assert COUNTS.in_original_units(np.array([1.0, 0.0, 0.5]))[0].tolist() == [1.0 / 50.0, 0.0]


@pytest.mark.parametrize(
    ("domain", "reach"),
    [(Target.COUNTS, (0.5, 20.0)), (Target.COUNTS, (0.0, 2.5)), (Target.COUNTS, (-3.0, -1.0)), (Target.POSITIVE, (-1.0, 0.0))],
)
def test_bounds_that_would_clamp_a_target_out_of_its_domain_are_refused(domain: Target, reach: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=f"the target's values are {domain}: its bounds .* must be {domain} too"):
        replace(COUNTS, target_domain=domain, target_reach=reach)


@pytest.mark.parametrize("domain", [domain for domain in Target if domain is not Target.REAL])
def test_only_a_real_target_is_scaled(domain: Target) -> None:
    with pytest.raises(ValueError, match="only a target of real numbers is centred and scaled"):
        replace(REGRESSION, target_domain=domain)


@pytest.mark.parametrize(
    ("domain", "scalable", "bounds", "expected"),
    [
        (Target.REAL, True, (0.0, 600.0), (300.0, 300.0, (-1.0, 1.0))),
        (Target.REAL, False, (0.0, 600.0), (0.0, 1.0, (0.0, 600.0))),
        (Target.COUNTS, False, (0.0, 9.0), (0.0, 1.0, (0.0, 9.0))),
        (Target.LABELS, False, (0.0, 1.0), (0.0, 1.0, ANYWHERE)),
        (Target.REAL, True, None, (0.0, 1.0, ANYWHERE)),
    ],
)
def test_the_loss_decides_what_public_bounds_do_to_a_target(
    domain: Target, scalable: bool, bounds: tuple[float, float] | None, expected: tuple[float, float, tuple[float, float]]
) -> None:
    made = replace(CLASSIFICATION, target_domain=domain, **treatment(domain, scalable, bounds))
    assert (made.target_centre, made.target_scale, made.target_reach) == expected


def test_what_is_stored_of_numbers_and_labels_has_the_words_it_always_had() -> None:
    for preprocessing in (REGRESSION, CLAMPED, CLASSIFICATION):
        stored = preprocessing.as_dict()
        assert set(stored) == {"columns", "target", "intercept", "classification"}
        assert set(stored["target"]) == {"name", "centre", "scale", "clamp"}
    assert CLAMPED.as_dict()["target"]["clamp"] == [260.0, 340.0]
    assert COUNTS.as_dict()["target"] == {"name": "cost", "centre": 0.0, "scale": 1.0, "clamp": [0.0, 20.0], "domain": "counts"}


@pytest.mark.parametrize("label", [2.0, -2.0, 0.5, 1 + 1e-15, 5e-324, 1e308, *BAD])
def test_any_other_label_makes_a_row_of_zeros(label: float) -> None:
    block = CLASSIFICATION.block(good(2)[0], np.array([label, 1.0]))
    assert not block.X[0].any()
    assert block.y.tolist() == [0.0, 1.0]
    assert block.X[1].any()


def test_the_raw_arrays_are_left_as_they_were() -> None:
    raw, target = good(4)
    raw[0, 0] = target[1] = math.nan
    kept = raw.copy(), target.copy()
    CLAMPED.block(raw, target)
    assert np.array_equal(raw, kept[0], equal_nan=True)
    assert np.array_equal(target, kept[1], equal_nan=True)


def test_no_rows_make_an_empty_block() -> None:
    block = REGRESSION.block(np.empty((0, 2)), np.empty(0))
    assert block.X.shape == (0, 3)
    assert len(block) == 0


@pytest.mark.parametrize("intercept", [True, False])
def test_coefficients_in_original_units_predict_what_the_scaled_model_predicts(intercept: bool) -> None:
    preprocessing = replace(REGRESSION, intercept=intercept)
    rng = np.random.default_rng(1)
    raw = rng.uniform((0, -1e4), (100, 3e4), (50, 2))
    weights = rng.normal(size=preprocessing.columns)
    coef, offset = preprocessing.in_original_units(weights)
    X, finite = preprocessing.features_of(raw)
    assert finite.all()
    np.testing.assert_allclose(raw @ coef + offset, 300 + 40 * (X @ weights), rtol=1e-12)


@every_kind
@pytest.mark.parametrize("intercept", [True, False])
def test_preprocessing_survives_a_round_trip_through_json(preprocessing: Preprocessing, intercept: bool) -> None:
    preprocessing = replace(preprocessing, intercept=intercept)
    assert Preprocessing.from_dict(json.loads(json.dumps(preprocessing.as_dict()))) == preprocessing


def test_the_stored_form_names_the_public_bounds() -> None:
    stored = CLAMPED.as_dict()
    assert stored["columns"]["age"]["clamp"] == [0.0, 100.0]
    assert stored["target"]["clamp"] == [260.0, 340.0]
    assert REGRESSION.as_dict()["target"]["clamp"] is None


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_a_scale_that_is_not_positive_and_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="low < high"):
        replace(REGRESSION, scale=(1.0, value))
    with pytest.raises(ValueError, match="low < high"):
        replace(REGRESSION, target_scale=value)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_centre_that_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        replace(REGRESSION, centre=(1.0, value))


def test_bounds_that_do_not_match_the_features_are_refused() -> None:
    with pytest.raises(ValueError, match="same length"):
        replace(REGRESSION, centre=(1.0,))


def test_a_column_without_bounds_is_not_clamped_and_is_stored_as_such() -> None:
    made = Preprocessing(
        features=("a", "b"),
        target="y",
        centre=(0.0, 5.0),
        scale=(1.0, 2.0),
        reach=(float("inf"), 1.0),
        intercept=True,
    )
    assert made.block(np.array([[1e9, 100.0]]), np.zeros(1)).X.tolist() == [[1e9, 1.0, 1.0]]
    assert not made.bounded
    assert Preprocessing.from_dict(made.as_dict()) == made
