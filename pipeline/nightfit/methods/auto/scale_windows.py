"""Scales of many columns with few numbers: where each column lies, then its bins there. Imports column_scales, query_plan and below.

A histogram of half octaves over all units of measurement has 145 bins a column, and noise is drawn for each: of 500 columns that was most
of a fit's time. Bins of eight octaves, then half octaves of one of them, are 27.
"""

import math

import numpy as np

from nightfit.methods.auto.column_scales import fullest_bin, nineties
from nightfit.methods.auto.constants.coordinates import SCALE_QUANTILE
from nightfit.methods.auto.noisy_histograms import significant
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.privacy.gate import Gate
from nightfit.queries.magnitudes import COARSE_COLUMN_GRID, COLUMN_GRID, WINDOW_GRID, ColumnMagnitudes, ColumnWindows
from nightfit.types import Array, Integers


def windowed_scales(plan: QueryPlan, gate: Gate) -> Array:
    """The scale of each unbounded column: the 0.9 quantile of its magnitudes; where noise hides it, the fullest bin of all columns."""
    columns, width = plan.unbounded, len(plan.unbounded)
    measure = ColumnMagnitudes(columns=columns, known=np.zeros(width, dtype=bool))
    coarse = plan.ask(gate, "coarse scales", measure=measure).reshape(width, -1)
    exponents = windows(coarse, plan.deviation("coarse scales"), plan.units)
    answer = plan.ask(gate, "windowed scales", measure=ColumnWindows(columns=columns, exponents=exponents))
    counts, deviation, every = answer.reshape(width, -1), plan.deviation("windowed scales"), math.sqrt(width)
    found = nineties([significant(row, deviation, plan.units, among=width) for row in counts], WINDOW_GRID) * np.exp2(exponents)
    pooled = significant(together(counts, exponents), deviation * every, plan.units * every)
    return np.where(np.isnan(found), fullest_bin(pooled), found)


def windows(coarse: Array, deviation: float, units: int) -> Integers:
    """log2 of the lower edge of the coarse bin where each column's 0.9 quantile lies; that of the fullest one where noise hides it."""
    below = np.cumsum([significant(row, deviation, units, among=len(coarse)) for row in coarse], axis=1)
    found = (below < SCALE_QUANTILE * below[:, -1:]).sum(axis=1)
    places = np.where(below[:, -1] > 0.0, found, coarse.sum(axis=0).argmax())
    return np.log2(COARSE_COLUMN_GRID.edges).astype(np.int64)[places]


def together(counts: Array, exponents: Integers) -> Array:
    """Counts of all columns in the bins of COLUMN_GRID, without what lies outside of a column's window."""
    first = ((exponents - COLUMN_GRID.low) / COLUMN_GRID.step).astype(np.int64)
    inside, every = counts[:, 1:-1], np.zeros(COLUMN_GRID.bins)
    np.add.at(every, first[:, None] + np.arange(inside.shape[1]), inside)
    return every
