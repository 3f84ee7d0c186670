"""The parameters, the fit and the intervals that every private estimator shares. Imports scikit-learn and packages below."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from nightfit.estimators import inputs, specifications
from nightfit.estimators.columns import encoding_of
from nightfit.methods.intervals import Intervals
from nightfit.nightly.fit import fit, reservation_of
from nightfit.nightly.witness import remember
from nightfit.planning.plan import PlanError
from nightfit.planning.specification import AUTO
from nightfit.privacy.noise import OperatingSystemNoise
from nightfit.problem.losses import Loss
from nightfit.records.outcomes import AS_IT_IS, Outcome
from nightfit.release import Release
from nightfit.release.used import WARNING, warnings_of
from nightfit.shards.arrays import ArrayRecords, row_count
from nightfit.shards.frames import encoded_frame
from nightfit.shards.scorer import Scorer, parallel
from nightfit.types import RECORD, Adjacency, Array, person_of


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """What every private estimator has. All parameters are public facts.

    Parameters
    ----------
    epsilon, delta : float
        Budget of one fit.
    bounds : (low, high) or one pair per column, optional
        Public bounds of the features, which are clamped to them. Their scales are paid for, with bounds and without.
    columns : dict, optional
        What is publicly known of the columns of a pandas data frame, by their names, as in `data.columns` of a configuration:
        `{"sex": {"kind": "category", "levels": ["F", "M"]}}`. Columns that it does not name are described by their declared types. Missing
        values then count as the column's mean. Without it columns are numbers, and a record with a missing one adds nothing.
    method : str or dict
        `auto`, the name of a solver or of a gradient estimator, or several settings as in the section `method` of refit.yaml, such as
        `{"mean": "median_of_means", "groups": 8, "schedule": "theory", "moment": {"order": 2, "bound": 1}}`.
    adjacency : {"replace_one", "zero_out", "add_remove"}
        Which data sets are neighbours.
    fit_intercept : bool
        Whether the model has an intercept.
    bound : float, optional
        The l2 bound of one record's gradient in scaled units; not for `auto`.
    steps : int, optional
        Steps of the solver, chosen from public facts by default; not for `auto`.
    step_size : float, optional
        Step size of the solver, chosen from public facts by default; not for `auto`.
    curvature, strong_convexity : float, optional
        Public facts about the mean loss in scaled columns, as `model.curvature` and `model.strong_convexity` of refit.yaml: a named method
        pays for the curvature where it is not stated, and some theorems need a strong convexity.
    units : int, optional
        Under add_remove: a public number of records to divide by, because the true one is private. Of persons: their public number.
    unit : str
        The privacy unit: `record`, or a name for persons such as `patient_id`, whose ids `fit` takes as `persons`.
    rows_per_unit : int
        How many rows of a person are used at most.
    name : str, optional
        The model's name in the ledger; the class's name by default.
    ledger : str, optional
        SQLAlchemy URL of a ledger; it needs `data_set` and `window`.
    data_set, window : str, optional
        Which records a ledger charges: arrays have no files that could say so.

    Attributes
    ----------
    release_ : Release
        The released model.
    guarantee_ : dict
        The privacy guarantee of this fit.
    n_features_in_ : int
        Number of columns of X.
    clamps_ : ndarray of shape (n_features, 2)
        Where each feature is clamped; a coefficient holds inside.
    feature_names_in_ : ndarray of str
        Names of the columns, where X is a data frame whose columns are named by strings. A prediction wants the same names in the same
        order.
    """

    epsilon: float
    delta: float
    bounds: Any = None
    columns: Any = None
    method: Any = AUTO
    adjacency: str = "replace_one"
    fit_intercept: bool = True
    bound: float | None = None
    steps: int | None = None
    step_size: float | None = None
    curvature: float | None = None
    strong_convexity: float | None = None
    units: int | None = None
    unit: str = RECORD
    rows_per_unit: int = 100
    name: str | None = None
    ledger: str | None = None
    data_set: str | None = None
    window: str | None = None

    def _html_repr(self) -> str:
        """What a notebook shows, which scikit-learn asks for by this name: after a fit the release too."""
        fitted: Release | None = vars(self).get("release_")
        return str(super()._html_repr()) + ("" if fitted is None else fitted._repr_html_())

    def __sklearn_tags__(self) -> Any:
        """Noise makes every fit another one, and fits of a few hundred rows poor."""
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        for tagged in (tags.regressor_tags, tags.classifier_tags):
            if tagged is not None:
                tagged.poor_score = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.multi_class = False
        return tags

    @property
    def clamps_(self) -> Array:
        """Low and high of each feature (n_features x 2), by public bounds or paid answers: a value beyond counts as the end."""
        check_is_fitted(self)
        shape = self.release_.preprocessing
        return np.add.outer(np.array(shape.centre), [0.0, 0.0]) + np.outer(shape.scale, [-1.0, 1.0])

    def coef_interval(self, level: float = 0.95) -> Array:
        """Confidence interval of each coefficient, with the privacy noise counted in.

        Parameters
        ----------
        level : float
            Probability of each interval.

        Returns
        -------
        ndarray of shape (n_features, 2)
            Low and high of each coefficient; `Intervals` says what they assume. NaN where only differences to other coefficients can
            be known: columns that follow from each other, as all levels of a category do.
        """
        return self._intervals().at(level)[: len(self.release_.preprocessing.features)]

    def intercept_interval(self, level: float = 0.95) -> Array:
        """Confidence interval of the intercept, widened by what clipping skewed residuals may move it.

        Parameters
        ----------
        level : float
            Probability of the interval.

        Returns
        -------
        ndarray of shape (2,)
            Low and high; NaN beside columns that follow from each other, as all levels of a category do.
        """
        if not self.fit_intercept:
            raise ValueError("there is no interval of the intercept: fit_intercept is False")
        return self._intervals().at(level)[-1]

    def _fit(
        self,
        X: Any,
        y: Any,
        loss: Loss,
        penalty: dict[str, Any],
        target_bounds: specifications.Pair | None = None,
        outcome: Outcome = AS_IT_IS,
        *,
        persons: Any = None,
    ) -> Release:
        names, schema = column_names(X), schema_of(X)
        encoding, unit = None if self.columns is None else encoding_of(self.columns, X), person_of(self.unit)
        X = inputs.features(X) if encoding is None else encoded_frame(X, encoding)
        ids = inputs.persons(unit, persons, names, X)
        inputs.check_rows(X, y, public=self.adjacency != Adjacency.ADD_REMOVE and unit is None)
        if encoding is None:
            preprocessing = specifications.preprocessing_of(self, names, X.shape[1], target_bounds, loss, outcome)
        else:
            preprocessing = specifications.described_preprocessing(self, encoding, target_bounds, loss, outcome)
        records = ArrayRecords(X, y, preprocessing, ids)
        with specifications.opened_ledger(self) as (ledger, policy):
            plan = specifications.plan_of(self, preprocessing, loss, penalty, policy, row_count(X))
            if self.ledger is None:
                ledger.set_policy(specifications.own_policy(plan))
            window = self.window or "this fit"
            run = ledger.reserve(reservation_of(plan, window=window, manifest=window, files=()))
            if self.ledger is not None:
                remember(ledger)
            with ledger.hold(run.run_id):
                release = fit(plan, records, run, OperatingSystemNoise())
        self.release_, self.guarantee_ = release, dict(release.content["guarantee"])
        for sentence in warnings_of(release, self._label_names):
            warnings.warn(f"of this fit:{sentence.removeprefix(WARNING)}", stacklevel=3)
        validate_data(self, schema if names else X, skip_check_array=True)
        return release

    @property
    def _label_names(self) -> tuple[str, ...]:
        """The declared labels, by number; none where labels are numbers or the target is no label."""
        return ()

    def _intervals(self) -> Intervals:
        check_is_fitted(self)
        found: Intervals | None = self.release_.intervals
        if found is None:
            raise ValueError(
                "this fit has no intervals: method='auto' gives them, unless noise hides most slopes, the second moment or all residuals"
            )
        return found

    def _scores(self, X: Any, method: str) -> Any:
        """Predictions of the released model for X; lazy if X is a Dask array."""
        check_is_fitted(self)
        if self.release_.preprocessing.encoding is not None:
            return self._scores_of_frame(X, method)
        schema, X = schema_of(X), inputs.features(X, counted=False)
        validate_data(self, schema if hasattr(schema, "columns") else X, reset=False, skip_check_array=True)
        scorer = Scorer(self.release_.preprocessing, self.release_.weights, self.release_.link)
        if not hasattr(X, "__dask_graph__"):
            return getattr(scorer, method)(checked_finite(X))
        X = X.rechunk({1: -1}).map_blocks(checked_finite, dtype=X.dtype)
        if method == "decision_function":
            shape = {"drop_axis": 1} if scorer.scores == 1 else {"chunks": (X.chunks[0], (scorer.scores,))}
            return blockwise(X, scorer.decision_function, dtype=np.float64, **shape)
        return getattr(parallel(scorer), method)(X)

    def _scores_of_frame(self, X: Any, method: str) -> Any:
        """Predictions for a data frame whose columns were described by kind."""
        shape = self.release_.preprocessing
        if not hasattr(X, "iloc"):
            raise ValueError("this model was fitted on described columns: predict from a pandas data frame with the same names")
        validate_data(self, X, reset=False, skip_check_array=True)
        scorer = Scorer(shape, self.release_.weights, self.release_.link)
        return getattr(scorer, method)(encoded_frame(X, shape.encoded))


def blockwise(values: Any, function: Any, **lazily: Any) -> Any:
    """A function of an array, or of each chunk of a Dask array."""
    return values.map_blocks(function, **lazily) if hasattr(values, "__dask_graph__") else function(values)


def column_names(X: Any) -> tuple[str, ...]:
    """Column names of a data frame; empty for an array."""
    given = tuple(getattr(X, "columns", ()))
    names = tuple(str(name) for name in given)
    if len(set(names)) != len(names):
        raise PlanError("two columns of X have the same name: rename one")
    if len({isinstance(name, str) for name in given}) > 1:
        raise PlanError("some names of columns of X are strings and some are not: rename them, by X.columns = X.columns.astype(str)")
    return names


def schema_of(X: Any) -> Any:
    """What scikit-learn reads names and number of columns from: X, or the empty frame that a Dask frame declares."""
    return X._meta if hasattr(X, "to_dask_array") else X


def checked_finite(X: Any) -> Any:
    """X, or a ValueError if it has a NaN or Inf."""
    if not np.isfinite(X).all():
        raise ValueError("X has a NaN or Inf: predictions need finite features")
    return X
