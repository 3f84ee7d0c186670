"""Private least squares, ridge regression and lasso. Imports scikit-learn and packages below."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from nightfit.estimators import inputs
from nightfit.estimators.base import PrivateEstimator
from nightfit.estimators.specifications import Pair, loss_of_numbers
from nightfit.planning.plan import PlanError


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Private least squares, or with `loss="huber"` a fit that outliers move less.

    Parameters
    ----------
    target_bounds : (low, high), optional
        Public bounds of the target, which is clamped to them. Without bounds the target is not clamped.
    loss : str or dict
        As `model.loss` of refit.yaml: "squared", "huber", or with its own number, as in `{"huber": {"delta": 2.0}}`.
    penalty : dict, optional
        As `model.penalty` of refit.yaml, such as `{"elastic_net": {"l1": 0.1, "l2": 0.1}}`.
    **parameters
        See `nightfit.estimators.base.PrivateEstimator`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients in the user's units.
    intercept_ : float
        Intercept in the user's units.

    Examples
    --------
    >>> import numpy as np
    >>> from nightfit import PrivateLinearRegression
    >>> rng = np.random.default_rng(7)
    >>> X = rng.uniform(-1, 1, (20_000, 1))
    >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6).fit(X, 2 * X[:, 0] + rng.normal(0, 0.5, 20_000))
    >>> model.predict(X).shape
    (20000,)
    """

    target_bounds: Pair | None = None
    loss: str | dict[str, dict[str, float]] = "squared"
    penalty: dict[str, Any] | None = None

    def fit(self, X: Any, y: Any, persons: Any = None) -> Self:
        """Fit privately. Records with a NaN or Inf count as zeros.

        Parameters
        ----------
        X : numpy or Dask array, or data frame of pandas or Dask, of shape (rows, columns)
            Features: numbers or booleans. A missing value counts as NaN. The rows of a Dask frame are counted first.
        y : numpy or Dask array, or series, of shape (rows,)
            Target: numbers or booleans.
        persons : numpy array or pandas series of shape (rows,), optional
            The id of each row's person: whole numbers, text or bytes. A row without an id belongs to nobody and counts as zeros.

        Returns
        -------
        Self
            The fitted estimator.
        """
        release = self._fit(X, inputs.target(self, y), loss_of_numbers(self.loss), self._penalty(), self.target_bounds, persons=persons)
        self.coef_, self.intercept_ = release.preprocessing.in_original_units(release.weights)
        return self

    def predict(self, X: Any) -> Any:
        """Predictions `coef_ . x + intercept_`, with x clamped to its bounds; lazy for a Dask array."""
        return self._scores(X, "predict")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 on the given data. It is an exact function of them: NOT private to publish."""
        return float(r2_score(np.asarray(inputs.target(self, y)), np.asarray(self.predict(X)), sample_weight=sample_weight))

    def _penalty(self) -> dict[str, Any]:
        return self.penalty or {}

    def _own_penalty(self, name: str, alpha: float) -> dict[str, Any]:
        if self.penalty is not None:
            raise PlanError(f"{type(self).__name__} has a penalty of its own: leave `penalty` out, or use PrivateLinearRegression")
        return {name: alpha}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(PrivateLinearRegression):
    """Private ridge regression: mean squared loss / 2 + alpha / 2 ||w||^2 in scaled coefficients; the intercept is not penalised.

    Parameters
    ----------
    alpha : float
        Weight of the penalty.
    **parameters
        See `PrivateLinearRegression`.

    Examples
    --------
    >>> from nightfit import PrivateRidge
    >>> PrivateRidge(epsilon=1.0, delta=1e-6, alpha=0.1).alpha
    0.1
    """

    alpha: float = 1.0

    def _penalty(self) -> dict[str, Any]:
        return self._own_penalty("l2", self.alpha)


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLasso(PrivateLinearRegression):
    """Private lasso: mean squared loss / 2 + alpha ||w||_1 in scaled coefficients; the intercept is not penalised.

    Parameters
    ----------
    alpha : float
        Weight of the penalty.
    **parameters
        See `PrivateLinearRegression`.

    Examples
    --------
    >>> from nightfit import PrivateLasso
    >>> PrivateLasso(epsilon=1.0, delta=1e-6, alpha=0.1).alpha
    0.1
    """

    alpha: float = 1.0

    def _penalty(self) -> dict[str, Any]:
        return self._own_penalty("l1", self.alpha)
