"""Estimators with scikit-learn's interface: `fit(X, y)` spends a budget and keeps a release.

- `linear`: `PrivateLinearRegression`, `PrivateRidge`, `PrivateLasso`
- `logistic`: `PrivateLogisticRegression`, of two labels or of several
- `outcomes`: `PrivatePoissonRegression`, `PrivateGammaRegression`, `PrivateQuantileRegression`
- `base`: the parameters and the fit that all of them share
- `inputs`: X and y as arrays of numbers, refused by shape and type alone
- `labels`: the declared labels of a classification
- `specifications`: from an estimator's parameters to a plan's specification and a ledger

Imports scikit-learn and every package below.

>>> import numpy as np
>>> from nightfit.estimators import PrivateLinearRegression
>>> rng = np.random.default_rng(7)
>>> X = rng.uniform(-1, 1, (20_000, 3))
>>> y = X @ [2.0, -1.0, 0.5] + 1.0 + rng.normal(0, 0.5, 20_000)
>>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6).fit(X, y)
>>> bool(np.abs(model.coef_ - [2.0, -1.0, 0.5]).max() < 0.2)
True
>>> model.coef_interval(0.95).shape
(3, 2)
>>> model.guarantee_["epsilon"] <= 1.0
True

Nothing is read from the data except the answers that the plan pays for: no range, no mean, no label, no check of a value. Every `fit`
spends again. Without a ledger nobody adds costs up: two fits of the same records cost the sum of their budgets, and a cross-validation
costs the budgets of all its fits. With a ledger (`ledger`, `data_set`, `window`) the data set's lifetime budget is enforced, a repeated
fit of the same window returns the stored answers without reading or paying, and a changed plan of that window is refused.
"""

from nightfit.estimators.linear import PrivateLasso, PrivateLinearRegression, PrivateRidge
from nightfit.estimators.logistic import PrivateLogisticRegression
from nightfit.estimators.outcomes import PrivateGammaRegression, PrivatePoissonRegression, PrivateQuantileRegression

__all__ = [
    "PrivateGammaRegression",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
    "PrivateQuantileRegression",
    "PrivateRidge",
]
