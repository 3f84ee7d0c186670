"""Private logistic regression. Imports scikit-learn and packages below."""

import functools
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from nightfit.estimators import labels
from nightfit.estimators.base import PrivateEstimator, blockwise
from nightfit.estimators.specifications import l2_unless_given
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.softmax import Softmax
from nightfit.types import Array


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Private logistic regression: mean logistic loss + alpha / 2 ||w||^2 in scaled coefficients; the intercept is not penalised.

    Parameters
    ----------
    alpha : float
        Weight of the penalty.
    penalty : dict, optional
        Another penalty, as `model.penalty` of refit.yaml, such as `{"elastic_net": {"l1": 0.1, "l2": 0.1}}`.
    classes : (negative, positive), optional
        The two public labels, of any type; of booleans they need not be said. Three or more make it multinomial. A record with another
        label counts as zeros: which labels occur is not looked at.
    **parameters
        See `nightfit.estimators.base.PrivateEstimator`.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients in the user's units.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercept in the user's units.
    classes_ : ndarray of shape (n_classes,)
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
    penalty: dict[str, Any] | None = None
    classes: tuple[Any, ...] | None = None

    def fit(self, X: Any, y: Any, persons: Any = None) -> Self:
        """Fit privately. Records with a NaN or Inf count as zeros.

        Parameters
        ----------
        X : numpy or Dask array, or data frame of pandas or Dask, of shape (rows, columns)
            Features: numbers or booleans. A missing value counts as NaN. The rows of a Dask frame are counted first.
        y : numpy or Dask array, or series, of shape (rows,)
            Labels, of a type that can hold `classes`.
        persons : numpy array or pandas series of shape (rows,), optional
            The id of each row's person: whole numbers, text or bytes. A row without an id belongs to nobody and counts as zeros.

        Returns
        -------
        Self
            The fitted estimator.
        """
        encoded, named = labels.target(self, y), labels.declared(self.classes)
        loss: Loss = Logistic() if len(named) == 2 else Softmax(classes=len(named))
        release = self._fit(X, encoded, loss, l2_unless_given(self.alpha, self.penalty), persons=persons)
        found = [release.preprocessing.in_original_units(column) for column in np.atleast_2d(release.weights.T)]
        self.coef_, self.intercept_ = np.array([coef for coef, _ in found]), np.array([intercept for _, intercept in found])
        self.classes_ = labels.as_classes(named)
        return self

    def coef_interval(self, level: float = 0.95) -> Array:
        """Confidence interval of each coefficient, with the privacy noise counted in.

        Parameters
        ----------
        level : float
            Probability of each interval.

        Returns
        -------
        ndarray of shape (n_features, 2), or (n_classes, n_features, 2) for several labels
            Low and high of each coefficient.
        """
        found = self._class_intervals(level)
        return super().coef_interval(level) if found is None else found[:, : len(self.release_.preprocessing.features)]

    def intercept_interval(self, level: float = 0.95) -> Array:
        """Confidence interval of the intercept, or of that of each of several labels.

        Parameters
        ----------
        level : float
            Probability of the interval.

        Returns
        -------
        ndarray of shape (2,), or (n_classes, 2) for several labels
            Low and high.
        """
        found = self._class_intervals(level) if self.fit_intercept else None
        return super().intercept_interval(level) if found is None else found[:, -1]

    def _class_intervals(self, level: float) -> Array | None:
        """The intervals of several labels (labels x terms x 2); None where there are two labels, or no intervals."""
        check_is_fitted(self)
        found = self.release_.class_intervals.values()
        return np.array([one.at(level) for one in found]) if found else None

    def predict(self, X: Any) -> Any:
        """The more probable label of each row; lazy for a Dask array."""
        return blockwise(self._scores(X, "predict"), functools.partial(_chosen, self.classes_), dtype=self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """The log-odds of the positive label, `coef_ . x + intercept_` with x clamped to its bounds, or a score for each of several labels;
        lazy for a Dask array.
        """
        return self._scores(X, "decision_function")

    @property
    def _label_names(self) -> tuple[str, ...]:
        return tuple(map(str, labels.declared(self.classes)))

    def predict_proba(self, X: Any) -> Any:
        """The probability of each label, in the order of `classes_`; lazy for a Dask array."""
        return self._scores(X, "predict_proba")

    def predict_log_proba(self, X: Any) -> Any:
        """The logarithm of each label's probability, in the order of `classes_`; lazy for a Dask array."""
        odds = self.decision_function(X)
        if len(self.classes_) > 2:
            return blockwise(odds, _log_softmax, dtype=np.float64)
        wider = {"new_axis": 1, "chunks": (odds.chunks[0], (2,))} if hasattr(odds, "chunks") else {}
        return blockwise(odds, _log_probabilities, dtype=np.float64, **wider)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the given data. It is an exact function of them: NOT private to publish."""
        right = np.asarray(self._scores(X, "predict")) == np.asarray(labels.target(self, y))
        return float(np.average(right, weights=sample_weight))


def _chosen(classes: Array, predicted: Array) -> Array:
    """The labels at predicted places."""
    return classes[predicted.astype(np.intp)]


def _log_softmax(scores: Array) -> Array:
    """The logarithm of each label's probability, without a 0 inside a logarithm."""
    return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)


def _log_probabilities(odds: Array) -> Array:
    """log(1 - p) and log p of log-odds, without a 0 inside a logarithm."""
    return np.column_stack([-np.logaddexp(0.0, odds), -np.logaddexp(0.0, -odds)])
