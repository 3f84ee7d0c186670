"""Private regression of counts, of amounts and of quantiles. Imports scikit-learn and packages below."""

import functools
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_pinball_score, d2_tweedie_score

from nightfit.estimators import inputs
from nightfit.estimators.base import PrivateEstimator
from nightfit.estimators.specifications import Pair, l2_unless_given
from nightfit.problem.losses import Loss
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.log_ranges import LEAST, MOST
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.records.outcomes import ANY_EXPOSURE, AS_IT_IS, Outcome
from nightfit.records.targets import Target
from nightfit.shards.arrays import together
from nightfit.types import Array


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogMeanRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """What counts and amounts share: the logarithm of their mean is linear in the features.

    Parameters
    ----------
    alpha : float
        Weight of the penalty alpha / 2 ||w||^2 of scaled coefficients; the intercept is not penalised.
    penalty : dict, optional
        Another penalty, as `model.penalty` of refit.yaml, such as `{"elastic_net": {"l1": 0.1, "l2": 0.1}}`.
    target_bounds : (low, high), optional
        Public bounds of the target (with exposures: of the target for one unit of exposure), which is clamped to them.
    exposure_bounds : (low, high), optional
        Public bounds of exposures, low > 0, which are clamped to them.
    **parameters
        See `nightfit.estimators.base.PrivateEstimator`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients of the logarithm of the mean.
    intercept_ : float
        Its intercept.
    """

    alpha: float = 0.0
    penalty: dict[str, Any] | None = None
    target_bounds: Pair | None = None
    exposure_bounds: Pair | None = None
    domain: ClassVar[Target]
    power: ClassVar[int]

    def fit(self, X: Any, y: Any, exposure: Any = None, persons: Any = None) -> Self:
        """Fit privately. Records with a NaN or Inf, and targets outside of their domain, count as zeros.

        Parameters
        ----------
        X : numpy or Dask array, or data frame of pandas or Dask, of shape (rows, columns)
            Features: numbers or booleans. A missing value counts as NaN. The rows of a Dask frame are counted first.
        y : numpy or Dask array, or series, of shape (rows,)
            Target: counts, or amounts above zero.
        exposure : array of shape (rows,), optional
            What each target is measured over, above zero: fitted is the target for one unit of exposure.
        persons : numpy array or pandas series of shape (rows,), optional
            The id of each row's person: whole numbers, text or bytes. A row without an id belongs to nobody and counts as zeros.

        Returns
        -------
        Self
            The fitted estimator.
        """
        y, outcome = inputs.target(self, y), AS_IT_IS
        if exposure is not None:
            outcome = Outcome(exposure="exposure", exposures=self.exposure_bounds or ANY_EXPOSURE)
            y = _per_exposure(y, inputs.target(self, exposure), outcome, self.domain)
        penalty = l2_unless_given(self.alpha, self.penalty)
        release = self._fit(X, y, self._loss(), penalty, self.target_bounds, outcome, persons=persons)
        self.coef_, self.intercept_ = release.preprocessing.in_original_units(release.weights)
        return self

    def predict(self, X: Any) -> Any:
        """The mean of the target, for one unit of exposure if there were exposures; lazy for a Dask array."""
        return self._scores(X, "predict")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of deviance explained, on the given data. It is an exact function of them: NOT private to publish."""
        truth, predicted = np.asarray(inputs.target(self, y)), np.asarray(self.predict(X))
        return float(d2_tweedie_score(truth, predicted, power=self.power, sample_weight=sample_weight))

    @abstractmethod
    def _loss(self) -> Loss:
        """The loss, whose means lie inside of the target's bounds."""


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePoissonRegression(PrivateLogMeanRegression):
    """Private regression of counts: the mean Poisson loss.

    Parameters
    ----------
    **parameters
        See `PrivateLogMeanRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from nightfit import PrivatePoissonRegression
    >>> rng = np.random.default_rng(7)
    >>> X = rng.uniform(-1, 1, (20_000, 1))
    >>> model = PrivatePoissonRegression(epsilon=1.0, delta=1e-6).fit(X, rng.poisson(np.exp(1 + X[:, 0])))
    >>> bool(abs(model.coef_[0] - 1) < 0.1)
    True
    """

    domain: ClassVar[Target] = Target.COUNTS
    power: ClassVar[int] = 1

    def _loss(self) -> Loss:
        return Poisson(high=MOST if self.target_bounds is None else self.target_bounds[1])


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGammaRegression(PrivateLogMeanRegression):
    """Private regression of amounts above zero, such as costs: the mean gamma loss, whose residuals are relative.

    Parameters
    ----------
    **parameters
        See `PrivateLogMeanRegression`.

    Examples
    --------
    >>> import numpy as np
    >>> from nightfit import PrivateGammaRegression
    >>> rng = np.random.default_rng(7)
    >>> X = rng.uniform(-1, 1, (20_000, 1))
    >>> model = PrivateGammaRegression(epsilon=1.0, delta=1e-6).fit(X, np.exp(5 + X[:, 0]) * rng.gamma(2.0, 0.5, 20_000))
    >>> bool(abs(model.coef_[0] - 1) < 0.1)
    True
    """

    domain: ClassVar[Target] = Target.POSITIVE
    power: ClassVar[int] = 2

    def _loss(self) -> Loss:
        return Gamma() if self.target_bounds is None else Gamma(low=max(self.target_bounds[0], LEAST), high=self.target_bounds[1])


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateQuantileRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Private regression of a quantile: the value below which a stated share of targets lies.

    Parameters
    ----------
    quantile : float
        The share of targets below the prediction, from 0.01 to 0.99.
    alpha : float
        Weight of the penalty alpha / 2 ||w||^2 of scaled coefficients; the intercept is not penalised.
    penalty : dict, optional
        Another penalty, as `model.penalty` of refit.yaml, such as `{"elastic_net": {"l1": 0.1, "l2": 0.1}}`.
    target_bounds : (low, high), optional
        Public bounds of the target, which is clamped to them.
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
    >>> from nightfit import PrivateQuantileRegression
    >>> rng = np.random.default_rng(7)
    >>> X = rng.uniform(-1, 1, (20_000, 1))
    >>> y = 2 * X[:, 0] + rng.exponential(1.0, 20_000)
    >>> model = PrivateQuantileRegression(epsilon=1.0, delta=1e-6, quantile=0.9).fit(X, y)
    >>> bool(abs((y < model.predict(X)).mean() - 0.9) < 0.02)
    True
    """

    quantile: float = 0.5
    alpha: float = 0.0
    penalty: dict[str, Any] | None = None
    target_bounds: Pair | None = None

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
        penalty = l2_unless_given(self.alpha, self.penalty)
        release = self._fit(X, inputs.target(self, y), Quantile(quantile=self.quantile), penalty, self.target_bounds, persons=persons)
        self.coef_, self.intercept_ = release.preprocessing.in_original_units(release.weights)
        return self

    def predict(self, X: Any) -> Any:
        """The quantile, `coef_ . x + intercept_` with x clamped to its bounds; lazy for a Dask array."""
        return self._scores(X, "predict")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of pinball loss explained, on the given data. It is an exact function of them: NOT private to publish."""
        truth, predicted = np.asarray(inputs.target(self, y)), np.asarray(self.predict(X))
        return float(d2_pinball_score(truth, predicted, alpha=self.quantile, sample_weight=sample_weight))


def _per_exposure(y: Any, exposure: Any, outcome: Outcome, domain: Target) -> Any:
    """The target for one unit of exposure, by array or lazy array."""
    if exposure.shape != y.shape:
        raise inputs.InputError("exposure must have one value for each value of y")
    return together(functools.partial(_divided, outcome=outcome, domain=domain), y, exposure)


def _divided(y: Array, exposure: Array, outcome: Outcome, domain: Target) -> Array:
    return outcome.per_exposure(domain, np.asarray(y, dtype=np.float64), np.asarray(exposure, dtype=np.float64))
