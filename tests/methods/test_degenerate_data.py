"""No data stop a fit by `auto`: labels and targets that never vary, one that alone does, values that are none. Warnings are errors here."""

import numpy as np
import pytest
from benchmarks._fits import fitted

from nightfit.problem.losses import Loss
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.losses.squared import Squared

ROWS = 2_000
X = np.random.default_rng(5).uniform(-1, 1, (ROWS, 3))
TARGETS = {
    "zeros": np.zeros(ROWS),
    "ones": np.ones(ROWS),
    "one alone": (np.arange(ROWS) == 0).astype(float),
    "separated": (X[:, 0] > 0).astype(float),
    "no numbers": np.full(ROWS, np.nan),
    "huge": np.full(ROWS, 1e300),
}
LOSSES = [Squared(), Huber(), Hinge(), Quantile(quantile=0.9), Poisson(), Gamma()]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_targets_that_never_vary_or_are_none_make_a_fit(loss: Loss, target: str) -> None:
    assert np.isfinite(fitted(X, TARGETS[target], loss, 20.0, 0).outcome.weights).all()


@pytest.mark.parametrize("target", ["zeros", "ones", "one alone"])
@pytest.mark.parametrize("loss", [Logistic(), Softmax(classes=3)], ids=lambda loss: type(loss).__name__)
def test_labels_of_one_kind_make_a_fit_whatever_the_noise_is(loss: Loss, target: str) -> None:
    """Newton's last step left the model in about a third of such fits of two labels, which then ended in an error."""
    for seed in range(8):
        assert np.isfinite(fitted(X, TARGETS[target], loss, 20.0, seed).outcome.weights).all()
