"""Private logistic regression. Imports scikit-learn and packages below."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from nightfit.estimators.base import PrivateEstimator, as_array
from nightfit.problem.losses.logistic import Logistic


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Private logistic regression: mean logistic loss + alpha / 2 ||w||^2 in scaled coefficients; the intercept is not penalised.

    Parameters
    ----------
    alpha : float
        Weight of the penalty.
    classes : (negative, positive)
        The two public labels. A record with another label counts as zeros.
    **parameters
        See `nightfit.estimators.base.PrivateEstimator`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        Coefficients in the user's units.
    intercept_ : ndarray of shape (1,)
        Intercept in the user's units.
    classes_ : ndarray of shape (2,)
        The labels, negative first.

    Examples
    --------
    >>> import numpy as np
    >>> from nightfit import PrivateLogisticRegression
    >>> rng = np.random.default_rng(7)
    >>> X = rng.uniform(-1, 1, (20_000, 2))
    >>> y = np.where(rng.logistic(size=20_000) < 4 * X[:, 0], "ill", "well")
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, classes=("well", "ill")).fit(X, y)
    >>> model.predict(np.array([[0.9, 0.0]])).tolist()
    ['ill']
    """

    alpha: float = 0.0
    classes: tuple[Any, Any] = (0, 1)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit privately. Records with a NaN or Inf count as zeros.

        Parameters
        ----------
        X : numpy or Dask array, or data frame, of shape (rows, columns)
            Features.
        y : numpy or Dask array of shape (rows,)
            Labels.

        Returns
        -------
        Self
            The fitted estimator.
        """
        negative, positive = self.classes
        y = as_array(y)
        labels = np.where(y == positive, 1.0, np.where(y == negative, 0.0, np.nan))
        release = self._fit(X, labels, Logistic(), {"l2": self.alpha} if self.alpha else {})
        coef, intercept = release.preprocessing.in_original_units(release.weights)
        self.coef_, self.intercept_ = coef[np.newaxis], np.array([intercept])
        self.classes_ = np.array(self.classes)
        return self

    def predict(self, X: Any) -> Any:
        """The more probable label of each row; lazy for a Dask array."""
        labels = self._scores(X, "predict")
        return np.where(labels > 0, self.classes_[1], self.classes_[0])

    def predict_proba(self, X: Any) -> Any:
        """The probability of each label, in the order of `classes_`; lazy for a Dask array."""
        return self._scores(X, "predict_proba")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the given data. It is an exact function of them: NOT private to publish."""
        return float(super().score(np.asarray(X), np.asarray(y), sample_weight))
