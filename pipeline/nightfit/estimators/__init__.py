"""The scikit-learn face: estimators that store parameters and build a plan. Imports scikit-learn and every room below.

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

Nothing is read from the data but the answers that the plan pays for: no range, no mean, no label, no check of a value. Every `fit`
spends anew. Without a ledger nobody adds up: two fits of the same records cost both their budgets, and a cross-validation costs
that of all its fits. With a ledger (`ledger`, `data_set`, `window`) the data set's lifetime budget is kept, a repeated fit of the
same window returns the first one's answers without reading or paying, and a changed plan of that window is refused.
"""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from nightfit.ledger import Ledger, Policy
from nightfit.methods.intervals import Intervals
from nightfit.nightly.fit import fit, order_of
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import AUTO, Budget, Method, Specification, method_named, penalty_of
from nightfit.privacy.accounting import Currency
from nightfit.privacy.noise import OperatingSystemNoise
from nightfit.problem.losses import Loss
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import treatment
from nightfit.release import Release
from nightfit.shards.arrays import ArrayRecords, rows_of
from nightfit.shards.predict import Scorer, parallel
from nightfit.types import Adjacency, Array

Pair = tuple[float, float]
NAMELESS = "arrays"


@dataclass(kw_only=True, eq=False, repr=False)
class _Private(BaseEstimator):  # type: ignore[misc]
    """The parameters of every private estimator, all public facts.

    epsilon, delta: the budget of one fit. method: `auto`, or the name of a solver or a mean. bounds: a public (low, high) of all
    columns, or one pair per column; features are clamped to them; without it `auto` pays for their scales. bound, steps and step_size
    are for the other methods: the l2 bound of a record's gradient in scaled units, and the solver's; None is chosen from public
    facts. units: under add_remove the public number of records to divide by, as theirs is not public. name: of the model in
    the ledger (default: the class's name).
    """

    epsilon: float
    delta: float
    bounds: Any = None
    method: str = AUTO
    adjacency: str = "replace_one"
    fit_intercept: bool = True
    bound: float | None = None
    steps: int | None = None
    step_size: float | None = None
    units: int | None = None
    name: str | None = None
    ledger: str | None = None
    data_set: str | None = None
    window: str | None = None

    def _fit(self, X: Any, y: Any, loss: Loss, penalty: dict[str, float], target_bounds: Pair | None = None) -> Release:
        names = _names(X)
        X, y = _array(X), _array(y)
        rows = rows_of(X)
        preprocessing = _preprocessing(self, names, X.shape[1], target_bounds, loss)
        records = ArrayRecords(X, y, preprocessing)
        with _ledger(self) as (ledger, currency):
            said = Specification(
                name=self.name or type(self).__name__,
                data_set=self.data_set or NAMELESS,
                preprocessing=preprocessing,
                budget=Budget(epsilon=self.epsilon, delta=self.delta, adjacency=Adjacency(self.adjacency), currency=currency),
                loss=loss,
                penalty=penalty_of(penalty),
                method=_method(self),
            )
            plan = make(said, _units(self, rows))
            window = self.window or "this fit"
            run = ledger.reserve(order_of(plan, window=window, manifest=window, files=()))
            with ledger.hold(run.run_id):
                release = fit(plan, records, run, OperatingSystemNoise())
        self.release_, self.guarantee_ = release, dict(release.content["guarantee"])
        self.n_features_in_ = X.shape[1]
        if names:
            self.feature_names_in_ = np.array(names, dtype=object)
        return release

    def coef_interval(self, level: float = 0.95) -> Array:
        """(low, high) of each coefficient in the end; the privacy noise is counted in. See Intervals for what they assume."""
        return self._intervals().at(level)[: self.n_features_in_]

    def intercept_interval(self, level: float = 0.95) -> Array:
        """(low, high) of the intercept; widened by what clipping skewed residuals may move it."""
        if not self.fit_intercept:
            raise ValueError("there is no interval of the intercept: fit_intercept is False")
        return self._intervals().at(level)[-1]

    def _intervals(self) -> Intervals:
        check_is_fitted(self)
        found: Intervals | None = self.release_.intervals
        if found is None:
            raise ValueError(
                "this fit has no intervals: method='auto' gives them, unless the plan says that no useful fit is possible, or no record's "
                "residual could be told from noise"
            )
        return found

    def _scores(self, X: Any, method: str) -> Any:
        """The released model's predictions of X; lazy if X is a Dask array."""
        check_is_fitted(self)
        X = _array(X)
        if len(X.shape) != 2 or X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has the shape {X.shape}, this model was fitted on {self.n_features_in_} columns")
        scorer = Scorer(self.release_.preprocessing, self.release_.weights, self.release_.link)
        if hasattr(X, "__dask_graph__"):
            return getattr(parallel(scorer), method)(X.map_blocks(_finite, dtype=X.dtype))
        return getattr(scorer, method)(_finite(X))


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(RegressorMixin, _Private):  # type: ignore[misc]
    """Private least squares. target_bounds: a public (low, high) of the target, which is clamped to it; without it the target is not
    clamped, and a method other than `auto` needs `bound`: how large a gradient may be.
    """

    target_bounds: Pair | None = None

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on numpy or Dask arrays (rows x columns) and a target; records with a NaN or Inf count as zeros."""
        if self.method != AUTO and self.target_bounds is None and self.bound is None:
            raise PlanError("give target_bounds, or the bound of a record's gradient: nothing else says how large a residual may be")
        release = self._fit(X, y, Squared(), self._penalty(), self.target_bounds)
        self.coef_, self.intercept_ = release.preprocessing.in_original_units(release.weights)
        return self

    def predict(self, X: Any) -> Any:
        """coef_ . x + intercept_ with x clamped to its bounds."""
        return self._scores(X, "predict")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 on the data given. It is an exact function of them: NOT private to publish."""
        return float(super().score(np.asarray(X), np.asarray(y), sample_weight))

    def _penalty(self) -> dict[str, float]:
        return {}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateRidge(PrivateLinearRegression):
    """Private ridge regression: mean squared loss / 2 + alpha / 2 ||w||^2 in scaled coefficients, the intercept free."""

    alpha: float = 1.0

    def _penalty(self) -> dict[str, float]:
        return {"l2": self.alpha}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLasso(PrivateLinearRegression):
    """Private lasso: mean squared loss / 2 + alpha ||w||_1 in scaled coefficients, the intercept free."""

    alpha: float = 1.0

    def _penalty(self) -> dict[str, float]:
        return {"l1": self.alpha}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(ClassifierMixin, _Private):  # type: ignore[misc]
    """Private logistic regression: mean logistic loss + alpha / 2 ||w||^2 in scaled coefficients, the intercept free.

    classes: the two public labels, negative first; a record with another label counts as zeros.
    """

    alpha: float = 0.0
    classes: tuple[Any, Any] = (0, 1)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on numpy or Dask arrays (rows x columns) and labels; records with a NaN or Inf count as zeros."""
        negative, positive = self.classes
        y = _array(y)
        labels = np.where(y == positive, 1.0, np.where(y == negative, 0.0, np.nan))
        release = self._fit(X, labels, Logistic(), {"l2": self.alpha} if self.alpha else {})
        coef, intercept = release.preprocessing.in_original_units(release.weights)
        self.coef_, self.intercept_ = coef[np.newaxis], np.array([intercept])
        self.classes_ = np.array(self.classes)
        return self

    def predict(self, X: Any) -> Any:
        """The more probable label of each row."""
        labels = self._scores(X, "predict")
        return np.where(labels > 0, self.classes_[1], self.classes_[0])

    def predict_proba(self, X: Any) -> Any:
        """The probability of each label, in the order of classes_."""
        return self._scores(X, "predict_proba")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the data given. It is an exact function of them: NOT private to publish."""
        return float(super().score(np.asarray(X), np.asarray(y), sample_weight))


def _array(values: Any) -> Any:
    """A Dask array as it is, anything else as numpy."""
    return values if hasattr(values, "__dask_graph__") else np.asarray(values)


def _names(X: Any) -> tuple[str, ...]:
    """A frame's column names."""
    names = tuple(str(name) for name in getattr(X, "columns", ()))
    if len(set(names)) != len(names):
        raise PlanError("two columns of X have the same name: rename one")
    return names


def _preprocessing(said: _Private, names: tuple[str, ...], columns: int, target: Pair | None, loss: Loss) -> Preprocessing:
    """Centre and half-width of public bounds; without any, columns as they are, for `auto` alone."""
    if said.bounds is None and said.method != AUTO:
        raise PlanError(f"the method {said.method} needs bounds: a public (low, high) of all columns, or a pair for each")
    pairs = np.asarray((-1.0, 1.0) if said.bounds is None else said.bounds, dtype=np.float64)
    if pairs.shape not in ((2,), (columns, 2)):
        raise PlanError(f"bounds must be one pair (low, high), or one for each of {columns} columns; got the shape {pairs.shape}")
    low, high = np.broadcast_to(pairs, (columns, 2)).T
    return Preprocessing(
        features=names or tuple(f"x{j}" for j in range(columns)),
        target="y",
        centre=tuple(((low + high) / 2).tolist()),
        scale=tuple(((high - low) / 2).tolist()),
        target_domain=loss.target,
        intercept=said.fit_intercept,
        reach=(math.inf,) * columns if said.bounds is None else (),
        **treatment(loss.target, loss.scalable, target),
    )


def _method(said: _Private) -> Method:
    own = {"bound": said.bound, "steps": said.steps, "step_size": said.step_size}
    given = [name for name, value in own.items() if value is not None]
    if said.method == AUTO and given:
        raise PlanError(f"{given[0]} is not for the method auto, which chooses for itself: leave it out, or name a method")
    try:
        return replace(method_named(said.method), **own)  # type: ignore[arg-type]
    except ValueError as error:
        raise PlanError(str(error)) from None


def _units(said: _Private, rows: int) -> int:
    if Adjacency(said.adjacency) is Adjacency.ADD_REMOVE:
        if said.units is None:
            raise PlanError("under add_remove the number of records is not public: give a public `units` to divide by")
        return said.units
    if said.units not in (None, rows):
        raise PlanError(f"X has {rows} rows, and under {said.adjacency} that number is public: leave `units` out")
    return rows


@contextlib.contextmanager
def _ledger(said: _Private) -> Iterator[tuple[Ledger, Currency]]:
    """The ledger named, or one in memory whose lifetime budget is that of this fit; and the currency in which it refuses."""
    data_set = said.data_set or NAMELESS
    if said.ledger is None:
        ledger = Ledger.create("sqlite://")
        ledger.set_policy(Policy(data_set=data_set, adjacency=Adjacency(said.adjacency), epsilon=said.epsilon, delta=said.delta))
    elif said.data_set is None or said.window is None:
        raise PlanError("a ledger needs data_set and window: arrays have no files, so their names say which records are charged")
    else:
        ledger = Ledger.open(said.ledger)
    try:
        policy = ledger.policies().get(data_set)
        yield ledger, policy.currency if policy else Currency.GAUSSIAN
    finally:
        ledger.engine.dispose()


def _finite(X: Any) -> Any:
    if not np.isfinite(X).all():
        raise ValueError("X has a NaN or Inf: predictions need finite features")
    return X
