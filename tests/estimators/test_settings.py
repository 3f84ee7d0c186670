"""What a configuration can say of method, penalty and unit, an estimator can say too."""

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import clone

from nightfit.config.sections import MethodSection, Model
from nightfit.estimators import (
    PrivateLasso,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
    PrivateQuantileRegression,
)
from nightfit.estimators.inputs import InputError
from nightfit.estimators.specifications import plan_of, preprocessing_of
from nightfit.ledger import Ledger, Policy
from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.planning.plan import PlanError
from nightfit.plugins import members
from nightfit.problem import penalties
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.arrays import ArrayRecords, hash_values
from nightfit.shards.read import hash_ids
from nightfit.types import Adjacency

ROWS, PERSONS = 3000, 1000
FEW = 600
RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (ROWS, 2))
Y = X @ [1.0, -0.5] + RNG.normal(0, 0.1, ROWS)
IDS = np.arange(ROWS) % PERSONS
BUDGET: dict[str, Any] = {"epsilon": 8.0, "delta": 1e-6, "bounds": (-1, 1), "target_bounds": (-2, 2)}


def test_every_setting_of_a_method_reaches_the_plan() -> None:
    settings = {"mean": "median_of_means", "groups": 8, "steps": 7, "averaged": 3, "bound": 0.5}
    plan = PrivateLinearRegression(**BUDGET, method=settings).fit(X, Y).release_.content["plan"]
    assert plan["mean"] == {"kind": "median_of_means", "bound": 0.5, "groups": 8}
    assert (plan["solver"]["steps"], plan["solver"]["averaged"]) == (7, 3)


BALL = {"l1_ball": 2.0}
NEEDS: dict[str, dict[str, Any]] = {
    "hard_thresholding": {"sparsity": 1},
    "assignment": {"sparsity": 1},
    "private_lasso": BALL,
    "vertex": BALL,
    "frank_wolfe": BALL,
    "sample_aggregate": {"l2_ball": 4.0},
}
REFUSED = {
    "range": "for model.kind mean",
    "robust_gradient": "is not private",
    "djw": "use `privacy: {trust: local}` in refit.yaml",
    "prestige": "use `privacy: {trust: local}` in refit.yaml",
}
EVERY = sorted({*members(gradient_estimators), *members(solvers)})


TAKEN = sorted(set(EVERY) - REFUSED.keys())
FITTED = ("clipped", "median_of_means", "sample_aggregate", "trimmed", "vertex", "accelerated_gradient")  # one of each kind
BY_THEORY = ("phased", "proximal_sgd", "soft")  # the others by theory are in the sweep: tests/methods/test_theory.py plans them all


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        *(pytest.param(name, "auto", marks=() if name in FITTED else pytest.mark.sweep) for name in TAKEN),
        *(pytest.param(name, "theory", marks=() if name in BY_THEORY else pytest.mark.sweep) for name in TAKEN),
    ],
)
def test_every_method_of_a_configuration_is_one_of_an_estimator(name: str, schedule: str) -> None:
    """Without bounds, by either schedule, in the accounting that it needs, without a ledger."""
    settings = {"solver" if name in members(solvers) else "mean": name, "schedule": schedule}
    adjacency = "zero_out" if name == "proximal_sgd" else "replace_one"
    model = PrivateLinearRegression(epsilon=2.0, delta=1e-6, adjacency=adjacency, method=settings, penalty=NEEDS.get(name)).fit(
        X[:FEW], Y[:FEW]
    )
    assert np.isfinite(model.coef_).all()
    assert model.guarantee_["epsilon"] <= 2.0
    assert model.guarantee_["delta"] <= 1e-6


@pytest.mark.parametrize(("name", "said"), REFUSED.items())
def test_a_method_that_is_none_for_arrays_is_refused_with_the_cure(name: str, said: str) -> None:
    for method in (name, {"solver" if name in ("djw", "prestige") else "mean": name}):
        with pytest.raises(PlanError, match=said):
            PrivateLinearRegression(epsilon=2.0, delta=1e-6, method=method).fit(X, Y)


PENALTIES = {
    "none": {},
    "l1": 0.01,
    "l2": 0.01,
    "elastic_net": {"l1": 0.01, "l2": 0.01},
    "l1_ball": 2.0,
    "l2_ball": 2.0,
    "box": [-1, 1],
    "group_lasso": {"weight": 0.01, "groups": [0, 1]},
    "sparsity": 1,
}


def test_every_penalty_of_a_configuration_is_one_of_every_estimator() -> None:
    """Of a plan, which names it; each takes either its own weight or any other penalty."""
    kinds = members(penalties)
    estimators: dict[Any, Loss] = {
        PrivateLinearRegression: Squared(),
        PrivateLogisticRegression: Logistic(),
        PrivatePoissonRegression: Poisson(),
        PrivateQuantileRegression: Quantile(quantile=0.5),
    }
    assert PENALTIES.keys() == kinds.keys()
    for name, value in PENALTIES.items():
        method = "clipped" if name == "sparsity" else "auto"
        for estimator, loss in estimators.items():
            asked = estimator(epsilon=2.0, delta=1e-6, method=method, penalty={name: value})
            shape = preprocessing_of(asked, (), 2, None, loss)
            plan = plan_of(asked, shape, loss, {name: value}, None, ROWS)
            assert type(plan.specification.penalty) is type(kinds[name][0])


OF_AN_ESTIMATOR = {  # what says it there
    "kind": "the class",
    "loss": "loss",
    "quantile": "quantile",
    "penalty": "penalty",
    "intercept": "fit_intercept",
    "curvature": "curvature",
    "strong_convexity": "strong_convexity",
    "columns": "none: means of columns are for shards",
    "start": "none: arrays have no earlier night",
}


def test_the_loss_of_a_configuration_is_one_of_the_estimator() -> None:
    """One record in ten lies far out: least squares of clipped residuals follow them more than Huber's."""
    y = Y + np.where(np.arange(ROWS) % 10 == 0, 300.0 * X[:, 1], 0.0)
    made = PrivateLinearRegression(epsilon=8.0, delta=1e-6, loss={"huber": {"delta": 2.0}}).fit(X, y)
    assert made.release_.content["plan"]["loss"] == {"kind": "huber", "delta": 2.0}
    assert made.coef_ == pytest.approx([1.0, -0.5], abs=0.3)
    for wrong, said in (
        ("hubber", "hubber"),
        ("hinge", "squared or huber"),
        ({"huber": {"width": 1.0}}, "parameters that it does not know"),
    ):
        with pytest.raises(PlanError, match=said):
            PrivateLinearRegression(epsilon=8.0, delta=1e-6, loss=wrong).fit(X, Y)


def test_what_a_configuration_says_of_the_model_an_estimator_says_too() -> None:
    assert OF_AN_ESTIMATOR.keys() == Model.model_fields.keys()
    parameters = {
        *PrivateQuantileRegression(epsilon=1.0, delta=1e-6).get_params(),
        *PrivateLinearRegression(epsilon=1.0, delta=1e-6).get_params(),
    }
    assert {said for said in OF_AN_ESTIMATOR.values() if said != "the class" and not said.startswith("none: ")} <= parameters


def test_stated_curvatures_reach_the_plan_and_are_checked() -> None:
    stated: dict[str, Any] = {"curvature": 1.6, "strong_convexity": 0.3}
    settings = {"mean": "ball", "schedule": "theory"}
    plan = PrivateLinearRegression(epsilon=2.0, delta=1e-6, method=settings, **stated).fit(X, Y).release_.content["plan"]
    assert plan["theorem"]["theorem"].endswith("thm 4.8")
    assert "moment" not in plan["scales"]["shares"]
    with pytest.raises(PlanError, match="is above"):
        PrivateLinearRegression(epsilon=2.0, delta=1e-6, curvature=1.0, strong_convexity=2.0).fit(X, Y)


def test_poisson_samples_are_paid_in_the_accounting_that_has_a_price_for_them() -> None:
    settings = {"mean": "clipped", "solver": "proximal_sgd", "batch": 300, "steps": 5}
    model = PrivateLinearRegression(**BUDGET, adjacency="zero_out", method=settings).fit(X, Y)
    assert model.guarantee_["currency"] == "zcdp"


def test_a_theorem_chooses_the_schedule() -> None:
    settings = {"mean": "soft", "schedule": "theory", "moment": {"order": 2, "bound": 1.0}}
    assert "theorem" in PrivateLinearRegression(**BUDGET, method=settings).fit(X, Y).release_.content["plan"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": {"mean": "clippd"}}, "did you mean 'clipped'"),
        ({"method": {"stepz": 3}}, "unknown key 'stepz'; did you mean 'steps'"),
        ({"method": {"steps": 0}}, "method: steps"),
        ({"method": {"mean": "clipped"}, "steps": 3}, "write it among them"),
        ({"penalty": {"l3": 1.0}}, "penalty: 'l3' is not one of"),
        ({"penalty": {"l1": 0.1, "l2": 0.1}}, "use elastic_net"),
        ({"penalty": {"box": [1]}}, "penalty: "),
    ],
)
def test_a_wrong_setting_is_refused_in_words(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        PrivateLinearRegression(**BUDGET, **changes).fit(X, Y)


def test_any_penalty_and_one_only() -> None:
    given = {"elastic_net": {"l1": 0.01, "l2": 0.01}}
    assert PrivateLinearRegression(**BUDGET, penalty=given).fit(X, Y).release_.content["plan"]["penalty"]["kind"] == "elastic_net"
    with pytest.raises(PlanError, match="penalty of its own"):
        PrivateLasso(**BUDGET, penalty=given).fit(X, Y)
    with pytest.raises(PlanError, match="leave one of them out"):
        PrivateLogisticRegression(epsilon=1, delta=1e-6, alpha=0.1, penalty=given).fit(X, Y > 0)
    assert clone(PrivateLinearRegression(**BUDGET, penalty=given, method={"mean": "clipped"})).method == {"mean": "clipped"}


# persons


def of_persons(**changes: Any) -> PrivateLinearRegression:
    return PrivateLinearRegression(**(BUDGET | {"unit": "patient_id", "units": PERSONS} | changes))


@pytest.mark.parametrize("ids", [IDS, IDS.astype(str), pd.Series(IDS).astype("Int64"), IDS.astype(object), IDS.astype("S4")])
def test_persons_are_fitted_by_ids_of_any_type(ids: Any) -> None:
    model = of_persons().fit(X, Y, persons=ids)
    assert model.guarantee_["unit"] == "patient_id"
    assert model.release_.content["plan"]["units"] == PERSONS
    np.testing.assert_allclose(model.coef_, [1.0, -0.5], atol=0.2)
    assert model.predict(X).shape == (ROWS,)


def test_an_id_of_an_array_has_the_hash_that_it_has_in_a_shard() -> None:
    for array, shard in (
        (np.array([7, -1]), pa.array([7, -1])),
        (np.array(["ä", ""]), pa.array(["ä", ""])),
        (np.array([b"\xff", b"a"], dtype=object), pa.array([b"\xff", b"a"])),
    ):
        np.testing.assert_array_equal(hash_values(array).slots, hash_ids(shard))


def test_a_row_whose_id_is_none_belongs_to_nobody_and_no_id_is_an_error() -> None:
    odd = np.array([None, np.nan, 1.5, pd.NA, True, (1, 2), "a", "a", b"b", 3], dtype=object)
    assert hash_values(odd).known.tolist() == [False] * 6 + [True] * 4
    shape = Preprocessing(features=("x",), target="y", centre=(0.0,), scale=(1.0,), intercept=True, unit="id", rows_per_unit=5)
    (block,) = ArrayRecords(np.ones((10, 1)), np.ones(10), shape, hash_values(odd))._bounded()
    assert block.units == 3
    lost = np.full(ROWS, None, dtype=object)
    assert np.isfinite(of_persons().fit(X, Y, persons=lost).coef_).all()
    assert "1" not in repr(hash_values(odd))


def test_any_order_and_slicing_of_rows_gives_the_same_persons() -> None:
    shape = Preprocessing(features=("a", "b"), target="y", centre=(0.0, 0.0), scale=(1.0, 1.0), intercept=True, unit="id", rows_per_unit=2)
    mixed = RNG.permutation(ROWS)
    (one,), (other,) = (ArrayRecords(X[order], Y[order], shape, hash_values(IDS[order]))._bounded() for order in (np.arange(ROWS), mixed))
    np.testing.assert_array_equal(one.X, other.X)
    np.testing.assert_array_equal(one.slots, other.slots)
    assert one.units == PERSONS


@pytest.mark.parametrize(
    ("changes", "ids", "said"),
    [
        ({}, None, r"fit\(X, y, persons=ids\)"),
        ({"unit": "record", "units": None}, IDS, "unit='patient_id'"),
        ({"units": None}, IDS, "persons are never counted"),
        ({}, IDS[1:], "one id for each row"),
        ({}, IDS.astype(float), "whole numbers, text or bytes"),
        ({}, np.column_stack([IDS, IDS]), "whole numbers, text or bytes"),
        ({}, da.from_array(IDS), "write Parquet shards"),
        ({"unit": "label"}, IDS, "unit='patient_id'"),
    ],
)
def test_persons_that_cannot_be_told_are_refused_before_it_is_paid(changes: dict[str, Any], ids: Any, said: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    Ledger.create(url).set_policy(Policy(data_set="cohort", unit="patient_id", adjacency=Adjacency.REPLACE_ONE, epsilon=30.0, delta=1e-5))
    model = of_persons(**changes, ledger=url, data_set="cohort", window="tonight")
    with pytest.raises((InputError, PlanError, ValueError), match=said):
        model.fit(X, Y, persons=ids)
    assert Ledger.open(url).runs() == []


def test_a_frame_that_holds_the_ids_among_its_columns_is_refused() -> None:
    frame = pd.DataFrame(X, columns=["age", "dose"]).assign(patient_id=IDS)
    with pytest.raises(InputError, match="drop it from X"):
        of_persons().fit(frame, Y, persons=frame["patient_id"])


def test_dask_rows_of_persons_are_refused_with_the_cure() -> None:
    with pytest.raises(ValueError, match="write Parquet shards"):
        of_persons().fit(da.from_array(X), Y, persons=IDS)


def test_a_section_has_a_setting_for_each_of_a_method() -> None:
    assert {"solver", "mean", "schedule", "moment", "batch"} <= set(MethodSection.model_fields)
