"""Centre, scale and clamp of every column, from paid histograms and means. Imports query_plan and below."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightfit.methods.auto.constants.coordinates import (
    LARGEST_MEAN,
    LEAST_MEAN_WEIGHT,
    LEAST_PRESENT_WEIGHT,
    LEAST_RELATIVE_SPREAD,
    MEAN_SIGNIFICANCE,
    MEANS_CAP,
    NARROW_SPREAD,
    PUBLIC_REACH,
    SCALE_QUANTILE,
    SPREAD_BINS,
    SPREAD_COVERAGE,
    SUSPICION_MARGIN,
)
from nightfit.methods.auto.distributions import quantile
from nightfit.methods.auto.noisy_histograms import noise_level, significant
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.privacy.gate import Gate
from nightfit.queries.magnitudes import COLUMN_GRID, ColumnMagnitudes, ColumnSpreads, LogGrid
from nightfit.queries.rows import Rows
from nightfit.types import Array


def find_rows(plan: QueryPlan, gate: Gate) -> Rows:
    """Centre, scale and clamp of each column.

    A column with public bounds has the scale 1; any other the 0.9 quantile of its non-zero magnitudes, or its spread about the mean where
    that is below half of the mean. A column whose scale noise hides is clamped at two of the scale it is given: if it is in truth a
    thousand times larger it cannot fill the rows' norms, and if it is not, little is lost.
    """
    d, reach = plan.columns, plan.reach
    centre, scale, reaches = np.zeros(d), np.ones(d), np.full(d, PUBLIC_REACH)
    free = np.array(plan.unbounded, dtype=int)
    free_reaches = np.full(len(free), reach)
    if len(free):
        scale[free], hidden = find_scales(plan, gate)
        free_reaches[hidden] = plan.tuning.reach_if_hidden
    if "means" in plan.shares:
        centre = find_means(plan, gate, Rows(centre=centre, scale=scale, reach=reaches))
        if len(free):
            spread = find_spreads(plan, gate, centre[free])
            spread = np.where(np.isnan(spread), scale[free], spread)
            narrow = spread < NARROW_SPREAD * np.abs(centre[free])
            scale[free] = np.where(narrow, np.maximum(spread, scale[free] * LEAST_RELATIVE_SPREAD), scale[free])
    reaches[free] = free_reaches
    return Rows(centre=centre, scale=scale, reach=reaches)


def find_means(plan: QueryPlan, gate: Gate, rows: Rows) -> Array:
    """The mean of each column's present values, zero where it may be noise and for the intercept."""
    d, free, gaps = plan.columns, list(plan.unbounded), list(plan.preprocessing.may_be_missing)
    cap, limits = MEANS_CAP * math.sqrt(d + len(gaps)), np.ones(d)
    limits[free] = LARGEST_MEAN
    answer = plan.ask(gate, "means", rows=rows, cap=cap)
    weighted, divisors = answer[:d], np.full(d, max(float(answer[d - 1]), LEAST_MEAN_WEIGHT))  # the last column is one: the rows' weights
    divisors[gaps] = np.maximum(answer[d:], LEAST_PRESENT_WEIGHT)
    means = weighted / divisors
    real = np.abs(weighted) > MEAN_SIGNIFICANCE * plan.deviation("means", cap=cap)
    centre: Array = np.where(real, np.clip(means, -limits, limits), 0.0) * rows.scale
    centre[-1] = 0.0
    return centre


def find_scales(plan: QueryPlan, gate: Gate) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The scale of each unbounded column, and where noise hides it.

    The second query leaves out the columns that the first has shown. What both say of the others is averaged by its precision; in the first
    a record counted in all columns, so it counted less in these, by the root of their share.
    """
    none = np.zeros(len(plan.unbounded), dtype=bool)
    first = ColumnScales.ask(plan, gate, "scales", none)
    scale, hidden = first.likely(first.usual), np.isnan(first.found)
    if "hidden scales" in plan.shares:
        second = ColumnScales.ask(plan, gate, "hidden scales", ~hidden, first)
        scale, hidden = np.where(hidden, second.likely(scale), scale), hidden & np.isnan(second.found)
    return scale, hidden


def find_spreads(plan: QueryPlan, gate: Gate, centre: Array) -> Array:
    """The spread of each unbounded column about its centre: the upper edge of the last real bin, if it and the twelve below hold four
    fifths of the records, else NaN. Most of a discrete column may lie at its mean, where noise hides the others, which are its spread.

    A record counts 1 / sqrt(columns) in each column. The first bin, of records at the centre, does not count.
    """
    measure = ColumnSpreads(columns=plan.unbounded, centre=centre)
    counts, deviation = _counts(plan, gate, "spreads", measure)
    counts[:, 0] = 0.0
    found = np.full(len(counts), math.nan)
    for column, row in enumerate(counts):
        real = np.flatnonzero(significant(row, deviation, plan.units, among=len(counts)))
        covered = SPREAD_COVERAGE * plan.units / math.sqrt(len(counts))
        if len(real) and row[max(0, real[-1] - SPREAD_BINS) : real[-1] + 1].sum() >= covered:
            found[column] = COLUMN_GRID.upper[real[-1]]
    return found


def _counts(plan: QueryPlan, gate: Gate, label: str, measure: ColumnMagnitudes | ColumnSpreads) -> tuple[Array, float]:
    """Columns x bins, and the standard deviation of a bin's noise."""
    return plan.ask(gate, label, measure=measure).reshape(measure.width, -1), plan.deviation(label)


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnScales:
    """What a histogram of every unbounded column says.

    Parameters
    ----------
    found : Array
        The 0.9 quantile of each column's magnitudes; NaN where noise hides it.
    counts : Array
        Columns x bins; zero for columns that were known before.
    pooled : Array
        The significant counts of all columns together.
    deviation : float
        The standard deviation of a bin's noise.
    units : int
        The number of records.
    """

    found: Array
    counts: Array
    pooled: Array
    deviation: float
    units: int

    @classmethod
    def ask(
        cls, plan: QueryPlan, gate: Gate, label: str, known: npt.NDArray[np.bool_], before: "ColumnScales | None" = None
    ) -> "ColumnScales":
        """Ask for the columns that are not known, and average the answer with that of `before`."""
        counts, deviation = _counts(plan, gate, label, ColumnMagnitudes(columns=plan.unbounded, known=known))
        asking = max(1, int((~known).sum()))
        if before is not None:
            weight = math.sqrt(asking / len(known))
            precision = deviation**-2, (weight / before.deviation) ** 2
            counts = np.average([counts, before.counts / weight], axis=0, weights=precision)
            deviation = sum(precision) ** -0.5
        counts[known] = 0.0
        return cls.of(counts, deviation, plan.units, asking)

    @classmethod
    def of(cls, counts: Array, deviation: float, units: int, asking: int) -> "ColumnScales":
        """From noisy counts of `units` records, of which `asking` columns are not known."""
        found = nineties([significant(row, deviation, units, among=asking) for row in counts])
        pooled = significant(counts.sum(axis=0), deviation * math.sqrt(asking), units * math.sqrt(asking))
        return cls(found=found, counts=counts, pooled=pooled, deviation=deviation, units=units)

    @property
    def suspected(self) -> Array:
        """As `found`, read with less caution."""
        return nineties([significant(row, self.deviation, self.units, margin=SUSPICION_MARGIN) for row in self.counts])

    @property
    def usual(self) -> Array:
        """What was found, else the fullest bin of all columns together (one, if there is none)."""
        return np.where(np.isnan(self.found), fullest_bin(self.pooled), self.found)

    @property
    def smallest(self) -> float:
        """The lower edge of the lowest bin that all columns together show; one, if there is none."""
        return float(COLUMN_GRID.edges[self.pooled > 0][0]) if self.pooled.any() else 1.0

    def likely(self, otherwise: Array) -> Array:
        """What was found, else what is suspected, else the bin where the column stands out among those of all columns together.

        A suspected scale that is smaller than those of all columns together must be one of them: noise is suspected anywhere on the grid,
        and a slope is divided by the scale, so that a scale of 2^-26 made a coefficient of 10^7. One that is too large makes a small one.
        """
        shown = np.where(self.pooled > 0, self.counts, -np.inf)
        stands_out = shown.max(axis=1) > noise_level(int((self.pooled > 0).sum()), self.deviation)
        guessed = np.where(stands_out, COLUMN_GRID.upper[shown.argmax(axis=1)], otherwise)
        suspected = self.suspected
        guessed = np.where(suspected >= self.smallest, suspected, guessed)
        return np.where(np.isnan(self.found), guessed, self.found)


def nineties(counts: Sequence[Array], grid: LogGrid = COLUMN_GRID) -> Array:
    """The 0.9 quantile of each column's counts; NaN where there are none."""
    quantiles = (quantile(row, grid, SCALE_QUANTILE) for row in counts)
    return np.array([math.nan if value is None else value for value in quantiles])


def fullest_bin(pooled: Array) -> float:
    """The upper edge of the bin of COLUMN_GRID with the largest count; one, if there are no counts."""
    return float(COLUMN_GRID.upper[pooled.argmax()]) if pooled.any() else 1.0
