"""How good a model is on trusted data: the usual metrics over every record, exact and private to nobody. Imports dask and dask_ml."""

import math
from dataclasses import replace
from typing import Any

import dask
import dask.array as da
import numpy as np

from nightfit.problem.links import Link
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards.failures import failing_by_name, translated
from nightfit.shards.manifest import Manifest
from nightfit.shards.placement import CHUNK_BYTES
from nightfit.shards.read import Chunk, chunks_of, raw_rows
from nightfit.shards.scorer import Scorer, parallel
from nightfit.types import Array

Lazy = dict[str, Any]  # Dask arrays of one number each, by name


def exact_metrics(manifest: Manifest, preprocessing: Preprocessing, weights: Array, link: Link) -> dict[str, float]:
    """Metrics of a model over the records that it can be judged on, by the names that an evaluation has for them.

    A record counts once, whoever it is of, and nothing is clipped or binned. Of numbers, counts and amounts: R2, RMSE and MAE, in the
    units of the target (with exposures, for one unit of exposure). Of labels: accuracy and, where the model gives the probability of one
    of two, the Brier score. A record whose prediction or target is missing is left out; of no records there are no metrics.

    One chunk of rows is in memory at a time, beside a prediction and a target of every record.

    Not private: these numbers are for the data's owner alone.
    """
    preprocessing = replace(preprocessing, unit=None, rows_per_unit=1)
    scorer = Scorer(preprocessing, np.ascontiguousarray(weights, dtype=np.float64), link)
    X, y = _raw(manifest, preprocessing)
    model = parallel(scorer)
    predicted = model.predict(X)
    judged = da.isfinite(y) & da.isfinite(predicted)
    y, predicted = y[judged], predicted[judged]
    if preprocessing.target_domain is Target.LABELS:
        chances = model.predict_proba(X)[:, 1][judged] if link.probability else None
        lazy = _of_labels((y > 0).astype(np.float64), predicted, chances)
    elif preprocessing.target_domain is Target.CLASSES:
        lazy = _of_labels(y, predicted, None)
    else:
        lazy = _of_numbers(y, predicted)
    with translated("then evaluate again"), np.errstate(invalid="ignore", divide="ignore"):
        records, found = dask.compute(judged.sum(), lazy, scheduler="synchronous")
    return {name: float(value) for name, value in _finished(found).items()} if records else {}


def _of_numbers(y: Any, predicted: Any) -> Lazy:
    from dask_ml.metrics import mean_absolute_error, mean_squared_error

    return {
        "squares": mean_squared_error(y, predicted, compute=False),
        "spread": y.var(),
        "mae": mean_absolute_error(y, predicted, compute=False),
    }


def _of_labels(y: Any, predicted: Any, chances: Any) -> Lazy:
    from dask_ml.metrics import accuracy_score, mean_squared_error

    found = {"accuracy": accuracy_score(y, predicted, compute=False)}
    return found if chances is None else {**found, "brier": mean_squared_error(y, chances, compute=False)}


def _finished(found: dict[str, float]) -> dict[str, float]:
    """Root and share of the squares: dask_ml's own r2_score does not take lazy arrays of dask 2026."""
    if "squares" not in found:
        return found
    shares = {"r2": 1 - found["squares"] / found["spread"]} if found["spread"] else {}
    return {**shares, "rmse": math.sqrt(found["squares"]), "mae": found["mae"]}


def _raw(manifest: Manifest, preprocessing: Preprocessing) -> tuple[Any, Any]:
    """Raw features and targets of all records, as lazy Dask arrays with known chunks."""
    features = len(preprocessing.features)
    chunks = chunks_of(manifest, features, CHUNK_BYTES)
    if not chunks:
        return da.empty((0, features)), da.empty(0)
    parts = [dask.delayed(read_raw, pure=True, nout=2)(chunk, preprocessing) for chunk in chunks]
    X = [da.from_delayed(part[0], (chunk.rows, features), np.float64) for part, chunk in zip(parts, chunks, strict=True)]
    y = [da.from_delayed(part[1], (chunk.rows,), np.float64) for part, chunk in zip(parts, chunks, strict=True)]
    return da.concatenate(X), da.concatenate(y)


def read_raw(chunk: Chunk, preprocessing: Preprocessing) -> tuple[Array, Array]:
    """The task that reads a chunk; it raises the name of a failure and nothing else."""
    rows: tuple[Array, Array] = failing_by_name(lambda: raw_rows(chunk, preprocessing))
    return rows
