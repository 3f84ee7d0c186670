"""scikit-learn's own checks of every estimator: all that privacy does not forbid, and a reason for each that it does."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from nightfit.estimators import PrivateLasso, PrivateLinearRegression, PrivateLogisticRegression, PrivateRidge

BUDGET = {"epsilon": 20.0, "delta": 1e-6}
TYPES = "whether a fit starts follows from declared types alone: what an object is, is a fact about the record"
VALUES = "a record with a NaN or Inf counts as zeros: an error would tell that there is one"
NOISE = "noise makes every fit another one"
REFUSED = {
    "check_dtype_object": TYPES,
    "check_estimators_nan_inf": VALUES,
    "check_supervised_y_no_nan": VALUES,
    "check_supervised_y_2d": NOISE,
    "check_fit_idempotent": NOISE,
}
OF_REGRESSORS = {"check_regressor_data_not_an_array": NOISE, "check_regressors_int": NOISE}
OF_CLASSIFIERS = {
    "check_classifiers_classes": "labels are declared: those that occur are a fact about the records",
    "check_classifiers_train": "labels are declared: those that occur are a fact about the records",
    "check_classifiers_regression_target": "whether floats are labels is a fact about the records; others than the declared ones are zeros",
}


def forbidden(estimator):
    """The checks that privacy forbids, each with the reason."""
    return REFUSED | (OF_CLASSIFIERS if isinstance(estimator, PrivateLogisticRegression) else OF_REGRESSORS)


@parametrize_with_checks(
    [PrivateLinearRegression(**BUDGET), PrivateLogisticRegression(**BUDGET)], expected_failed_checks=forbidden, xfail_strict=True
)
def test_scikit_learn_finds_nothing_else(estimator, check):
    check(estimator)


@pytest.mark.sweep
@parametrize_with_checks([PrivateRidge(**BUDGET), PrivateLasso(**BUDGET)], expected_failed_checks=forbidden, xfail_strict=True)
def test_scikit_learn_finds_nothing_else_in_penalised_ones(estimator, check):
    check(estimator)
