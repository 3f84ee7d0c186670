"""A released model as a fitted scikit-learn estimator of encoded features. Imports dask_ml, pyarrow and scikit-learn."""

from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator

from nightfit.numerics.exact import margins
from nightfit.problem.links import Link
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.listing import DataError
from nightfit.shards.read import BATCH_BYTES
from nightfit.types import Array

PREDICTION, PROBABILITY = "prediction", "probability"


class Scorer(BaseEstimator):  # type: ignore[misc]
    """A released model as a fitted scikit-learn estimator of encoded features; a row that the fit would drop gets NaN.

    `weights` have a column for each class where there are several.
    """

    def __init__(self, preprocessing: Preprocessing, weights: Array, link: Link) -> None:
        self.preprocessing, self.weights, self.link = preprocessing, weights, link

    @property
    def classes_(self) -> Any:
        """The places of the labels."""
        return np.arange(self.scores if self.scores > 1 else 2)

    @property
    def scores(self) -> int:
        """The number of classes that have a score of their own; 1 for a single margin."""
        return 1 if self.weights.ndim == 1 else int(self.weights.shape[1])

    @property
    def labels(self) -> tuple[str, ...]:
        """The declared label of each class, or its place; empty where predictions are numbers."""
        places = tuple(map(str, range(self.scores))) if self.scores > 1 else ()
        return self.preprocessing.outcome.classes or places

    @property
    def written(self) -> dict[str, pa.DataType]:
        """The columns that a prediction adds: probabilities where there are any, and the prediction in the outcome's units."""
        if self.scores > 1:
            return {**{f"{PROBABILITY}_{label}": pa.float64() for label in self.labels}, PREDICTION: pa.string()}
        chances = {PROBABILITY: pa.float64()} if self.link.probability else {}
        kind = pa.string() if self.labels else pa.int64() if self.preprocessing.classification else pa.float64()
        return {**chances, PREDICTION: kind}

    def columns(self, scores: Array, exposures: Array | None) -> list[Any]:
        """The written columns of scores, null where a row has none; `exposures` multiply what is for one unit of exposure."""
        missing = np.isnan(scores if scores.ndim == 1 else scores[:, 0])
        if exposures is not None:
            missing |= ~(np.isfinite(exposures) & (exposures > 0))
            scores = scores * np.clip(exposures, *self.preprocessing.outcome.exposures)
        values = [*scores.T, self._chosen(scores)] if scores.ndim > 1 else [scores, self._chosen(scores)][-len(self.written) :]
        return [pa.array(one, type=kind, mask=missing) for one, kind in zip(values, self.written.values(), strict=True)]

    def _chosen(self, scores: Array) -> Any:
        """The prediction itself: the label of the largest score, 1 or 0, or the number."""
        if scores.ndim > 1:
            return np.array(self.labels, dtype=object)[np.where(np.isnan(scores), 0.0, scores).argmax(axis=1)]
        if not self.preprocessing.classification:
            return scores
        above = (scores > 0.5).astype(np.int64)
        return np.array(self.labels, dtype=object)[above] if self.labels else above

    def predict(self, X: Any) -> Array:
        """In the outcome's units: the inverse transform of target_centre + target_scale inverse(z); for labels 1.0 or 0.0, the likelier
        one or that of the margin's sign; for several classes the place of the likeliest.
        """
        predicted = self.link.inverse(self._margins(X))
        if predicted.ndim > 1:
            return np.where(np.isnan(predicted[:, 0]), np.nan, np.where(np.isnan(predicted), 0.0, predicted).argmax(axis=1))
        if self.preprocessing.classification:
            return _above(predicted, 0.5 if self.link.probability else 0.0)
        return self.preprocessing.outcome.restored(self.preprocessing.target_centre + self.preprocessing.target_scale * predicted)

    def predict_proba(self, X: Any) -> Array:
        """(1 - p, p) with p = inverse(z), the probability of label 1; or the probability of each of several classes."""
        probability = self.link.inverse(self._margins(X))
        return probability if probability.ndim > 1 else np.column_stack([1.0 - probability, probability])

    def decision_function(self, X: Any) -> Array:
        """The margin z of each row, before the link; of several classes the score of each."""
        return self._margins(X)

    def _margins(self, X: Any) -> Array:
        """z = x' . w of each row, from slices of a few megabytes, in an order of summation that does not depend on the slices."""
        if self.weights.shape[:1] != (self.preprocessing.columns,) or not np.isfinite(self.weights).all():
            raise DataError(f"the model has {self.preprocessing.columns} terms: it needs as many finite weights; restore its release")
        table = self.weights.reshape(len(self.weights), -1)
        z = np.empty((table.shape[1], len(X)))
        rows = max(1, BATCH_BYTES // (8 * self.preprocessing.columns))
        for start in range(0, len(X), rows):
            bounded, finite = self.preprocessing.features_of(np.asarray(X[start : start + rows], dtype=np.float64))
            for out, weights in zip(z[:, start : start + rows], table.T, strict=True):
                margins(bounded, np.ascontiguousarray(weights), out, np.empty(len(out)))
                out[~finite] = np.nan
        return z[0] if self.weights.ndim == 1 else np.ascontiguousarray(z.T)


def _above(values: Array, threshold: float) -> Array:
    """1.0 above the threshold, else 0.0; NaN stays."""
    return np.where(np.isnan(values), np.nan, (values > threshold).astype(np.float64))


def parallel(scorer: Scorer) -> Any:
    """The scorer for Dask arrays and frames: lazy, chunk by chunk."""
    from dask_ml.wrappers import ParallelPostFit

    return ParallelPostFit(scorer, predict_meta=np.empty(0), predict_proba_meta=np.empty((0, len(scorer.classes_))))
