"""Each query with bounds of one: its sensitivity and length, whatever its bounds will be. Imports public_facts and queries.

A template is made complete by `dataclasses.replace` once paid answers have set its bounds. Bounds scale the grid of a query, never its
sensitivity in steps, so the template alone decides what the query costs.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from nightfit.methods.auto.calibration import calibration_cap
from nightfit.methods.auto.shares import BudgetShares
from nightfit.problem.losses import Loss
from nightfit.problem.losses.columns import Columns
from nightfit.problem.losses.softmax import Softmax
from nightfit.queries.base import SumQuery, bits_for
from nightfit.queries.calibration import Calibration
from nightfit.queries.class_residuals import MeanClassResidual
from nightfit.queries.histograms import Histogram
from nightfit.queries.magnitudes import (
    COARSE_COLUMN_GRID,
    COLUMN_GRID,
    NORM_GRID,
    WINDOW_GRID,
    ColumnMagnitudes,
    ColumnSpreads,
    ColumnWindows,
    LogGrid,
    Norm,
    Residual,
    SignedResidual,
)
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import SecondMoment, moment_bits
from nightfit.queries.whitened_gradients import GradientAndMoment, MeanResidual, WhitenedGradient
from nightfit.types import Array


def kind_of(label: str) -> str:
    """The label without its number: the kind of query."""
    return label.rstrip("0123456789").strip()


def template(facts: BudgetShares, label: str, residual_grid: LogGrid) -> SumQuery:
    """The query of this label with bounds of one.

    Parameters
    ----------
    facts : BudgetShares
        Public facts.
    label : str
        One of `facts.shares`.
    residual_grid : LogGrid
        The bins of this label, if it is a histogram of residuals.
    """
    if facts.brings_moment(label):
        return _gradient_and_moment(facts)
    return TEMPLATES[kind_of(label)](facts, residual_grid)


def unit_rows(facts: BudgetShares) -> Rows:
    """Rows that are neither centred nor scaled, with a reach of one."""
    return Rows(centre=np.zeros(facts.columns), scale=np.ones(facts.columns), reach=np.ones(facts.columns))


def no_weights(facts: BudgetShares) -> Array:
    """Zeros: the weights of one margin, or a column for each margin of several classes."""
    return np.zeros((facts.columns, cast(Softmax, facts.loss).outputs)) if facts.several_classes else np.zeros(facts.columns)


def _scales(facts: BudgetShares, _: LogGrid) -> SumQuery:
    none = np.zeros(len(facts.unbounded), dtype=bool)
    measure = ColumnMagnitudes(columns=facts.unbounded, known=none)
    return Histogram(measure=measure, log_grid=COLUMN_GRID, bits=bits_for(facts.largest_units))


def _coarse_scales(facts: BudgetShares, _: LogGrid) -> SumQuery:
    none = np.zeros(len(facts.unbounded), dtype=bool)
    measure = ColumnMagnitudes(columns=facts.unbounded, known=none)
    return Histogram(measure=measure, log_grid=COARSE_COLUMN_GRID, bits=bits_for(facts.largest_units))


def _windowed_scales(facts: BudgetShares, _: LogGrid) -> SumQuery:
    measure = ColumnWindows(columns=facts.unbounded, exponents=np.zeros(len(facts.unbounded), dtype=np.int64))
    return Histogram(measure=measure, log_grid=WINDOW_GRID, bits=bits_for(facts.largest_units))


def _spreads(facts: BudgetShares, _: LogGrid) -> SumQuery:
    measure = ColumnSpreads(columns=facts.unbounded, centre=np.zeros(len(facts.unbounded)))
    return Histogram(measure=measure, log_grid=COLUMN_GRID, bits=bits_for(facts.largest_units))


def _norms(facts: BudgetShares, _: LogGrid) -> SumQuery:
    return Histogram(measure=Norm(rows=unit_rows(facts)), log_grid=NORM_GRID, bits=bits_for(facts.largest_units))


def _residuals(facts: BudgetShares, grid: LogGrid) -> SumQuery:
    measure = Residual(rows=unit_rows(facts), loss=facts.residual_loss, weights=np.zeros(facts.columns))
    return Histogram(measure=measure, log_grid=grid, bits=bits_for(facts.largest_units))


def _signed_residuals(facts: BudgetShares, grid: LogGrid) -> SumQuery:
    measure = SignedResidual(rows=unit_rows(facts), loss=facts.residual_loss, weights=np.zeros(facts.columns))
    return Histogram(measure=measure, log_grid=grid, bits=bits_for(facts.largest_units))


def _second_moment(facts: BudgetShares, _: LogGrid) -> SumQuery:
    return SecondMoment(rows=unit_rows(facts), cap=1.0, bits=moment_bits(facts.largest_units))


def _means(facts: BudgetShares, _: LogGrid) -> SumQuery:
    return replace(_gradient_of(facts, Columns()), rotation=None, present=facts.preprocessing.may_be_missing)


def _gradient(facts: BudgetShares, _: LogGrid) -> SumQuery:
    return _gradient_of(facts, facts.residual_loss)


def _gradient_and_moment(facts: BudgetShares) -> SumQuery:
    return GradientAndMoment(
        rows=unit_rows(facts),
        rotation=Rotation.of(np.eye(facts.columns)),
        loss=facts.residual_loss,
        weights=no_weights(facts),
        clip=1.0,
        cap=1.0,
        bits=moment_bits(facts.largest_units),
    )


def _gradient_of(facts: BudgetShares, loss: Loss) -> WhitenedGradient:
    return WhitenedGradient(
        rows=unit_rows(facts),
        rotation=Rotation.of(np.eye(facts.columns)),
        loss=loss,
        weights=np.zeros(facts.columns),
        clip=1.0,
        cap=1.0,
        bits=bits_for(facts.largest_units),
    )


def _target(facts: BudgetShares, _: LogGrid) -> SumQuery:
    weights, bits = no_weights(facts), bits_for(facts.largest_units)
    if facts.several_classes:
        return MeanClassResidual(rows=unit_rows(facts), loss=cast(Softmax, facts.loss), weights=weights, clip=1.0, bits=bits)
    return MeanResidual(rows=unit_rows(facts), loss=facts.residual_loss, weights=weights, clip=1.0, bits=bits)


def _calibration(facts: BudgetShares, _: LogGrid) -> SumQuery:
    return Calibration(
        rows=unit_rows(facts),
        loss=facts.residual_loss,
        weights=np.zeros(facts.columns),
        direction=np.zeros(facts.columns),
        clip=1.0,
        level=facts.level,
        weight=facts.scale_weight,
        cap=calibration_cap(facts.level, facts.scale_weight),
        free=np.zeros(facts.columns, dtype=bool),
        clamps=facts.clamps,
        bits=moment_bits(facts.largest_units),
    )


TEMPLATES: dict[str, Callable[[BudgetShares, LogGrid], SumQuery]] = {
    "scales": _scales,
    "hidden scales": _scales,
    "coarse scales": _coarse_scales,
    "windowed scales": _windowed_scales,
    "means": _means,
    "spreads": _spreads,
    "norms": _norms,
    "present": _norms,
    "moment": _second_moment,
    "whitened norms": _norms,
    "whitened moment": _second_moment,
    "signed residuals": _signed_residuals,
    "target": _target,
    "residuals": _residuals,
    "gradient": _gradient,
    "calibration": _calibration,
}
