"""What a guarantee takes for granted is listed in the release, the report, the estimator and the documentation, by the same names."""

from pathlib import Path

import numpy as np
import pytest

from nightfit.estimators import PrivateLinearRegression
from nightfit.planning.plan import make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.privacy.accounting import Currency
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.assembly import assumptions_of
from nightfit.release.assumptions import SENTENCES, Assumption
from nightfit.types import Adjacency

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "privacy.md"
SHAPE = {"features": ("x",), "target": "y", "centre": (0.0,), "scale": (1.0,), "intercept": True}
EVERYWHERE = {Assumption.BOUNDS_ARE_PUBLIC, Assumption.ONE_LEDGER, Assumption.ENTROPY_IS_SECRET}


def assumed(budget=None, method=None, **shape):
    said = Specification(
        name="m",
        data_set="d",
        preprocessing=Preprocessing(**{**SHAPE, **shape}),
        budget=Budget(**{"epsilon": 1.0, "delta": 1e-6, "unit": shape.get("unit") or "record", **(budget or {})}),
        loss=Squared(),
        penalty=penalty_of({}),
        method=Method(**(method or {"mean": "clipped"})),
    )
    return set(assumptions_of(make(said, 2000))) - EVERYWHERE


RECORDS = {Assumption.EXACT_INTEGERS, Assumption.ROW_COUNT_IS_PUBLIC, Assumption.RECORDS_ARE_UNITS}


def test_a_plan_assumes_what_its_unit_adjacency_and_noise_need():
    assert assumed() == RECORDS
    assert assumed(row_id="visit") == RECORDS | {Assumption.RECORD_IDS_ARE_STABLE}
    hidden = {Assumption.EXACT_INTEGERS, Assumption.STATED_UNITS_ARE_PUBLIC}
    assert assumed({"adjacency": Adjacency.ADD_REMOVE}) == hidden | {Assumption.RECORDS_ARE_UNITS}
    assert assumed(unit="patient", rows_per_unit=3, row_id="visit") == hidden | {Assumption.PERSON_IDS_ARE_TRUE}


def test_noise_that_follows_the_data_is_named_as_floating_point():
    smooth = {"mean": "trimmed", "noise": "laplace_log_normal", "bound": 4.0, "steps": 1}
    assert assumed({"currency": Currency.ZCDP}, smooth) == RECORDS - {Assumption.EXACT_INTEGERS} | {Assumption.FLOATING_POINT_NOISE}


def test_an_estimator_shows_what_its_guarantee_assumes():
    rng = np.random.default_rng(0)
    model = PrivateLinearRegression(epsilon=1.0, delta=1e-6, bounds=(-3, 3), target_bounds=(-5, 5))
    model.fit(rng.normal(size=(500, 2)), rng.normal(size=500))
    assert set(model.guarantee_["assumptions"]) == {str(name) for name in RECORDS | EVERYWHERE}
    assert [name for name, _ in model.release_.assumptions] == model.guarantee_["assumptions"]
    assert all(sentence for _, sentence in model.release_.assumptions)


@pytest.mark.parametrize("assumption", Assumption)
def test_every_assumption_has_its_sentence_in_the_documentation(assumption):
    assert f"| `{assumption}` | {SENTENCES[assumption]} |" in PAGE.read_text()
