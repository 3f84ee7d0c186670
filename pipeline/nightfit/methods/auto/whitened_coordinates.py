"""Coordinates in which rows are centred, scaled and nearly isotropic, from paid answers. Imports questions and what they import."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.quantiles import Sizes, level_of, quantile, significant
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.whitening import Spectrum, centring, levelled, repaired, worthwhile
from nightfit.privacy.gate import Gate
from nightfit.queries.histograms import COLUMN_GRID, ColumnSizes, ColumnSpreads, Norm
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import DIAGONAL, matrix_of
from nightfit.types import Array

BELOW, COVERED, SUSPECTED = 12, 0.8, 0.5
INTERCEPTS = 0.35, 1.0


@dataclass(frozen=True, kw_only=True)
class WhitenedCoordinates:
    """Paid coordinates: how a row is scaled and rotated, which directions are used, how far a row's norm reaches in them.

    `variances` are those of the scaled row in the directions used, `whole` all directions, used or not, and `free` those of the used ones
    that are the intercept. `moment` is the whitened second moment in the directions used as it was answered so far, `moment_noise` the
    deviation of its diagonal's noise.
    """

    rows: Rows
    rotation: Rotation
    whole: Array
    used: npt.NDArray[np.bool_]
    cap: float
    variances: Array
    free: tuple[int, ...]
    moment: Array
    moment_noise: float = math.inf

    def told(self, moment: Array, noise: float) -> "WhitenedCoordinates":
        """With one more answer about the second moment, of all directions; answers are averaged by their precision."""
        before, now = self.moment_noise**-2, noise**-2
        average = (before * self.moment + now * moment[np.ix_(self.used, self.used)]) / (before + now)
        return replace(self, moment=average, moment_noise=(before + now) ** -0.5)

    @cached_property
    def curvature(self) -> Spectrum:
        """That of a fit of means in the directions used."""
        return levelled(self.moment, self.moment_noise, self.free, INTERCEPTS)

    def means(self, intercept: int) -> Array:
        """Those of the other directions, as far as they are surely not zero: H_1j / H_11."""
        H = self.curvature.matrix
        return H[intercept, : len(self.variances)] / H[intercept, intercept]


def framed(asked: QueryPlan, gate: Gate) -> WhitenedCoordinates:
    """Ask for everything that a fit needs to know about rows."""
    rows = _rows(asked, gate)
    norms = asked.sizes(gate, "norms", Norm(rows=rows))
    cap = norms.quantile(asked.tuning.moment_quantile) if norms else math.sqrt(asked.columns)
    rough = matrix_of(asked.ask(gate, "moment", rows=rows, cap=cap), asked.columns)
    noise, intercept = asked.deviation("moment", cap=cap) / DIAGONAL, asked.preprocessing.intercept
    if not asked.tuning.whitens:
        inner = rough[: asked.features, : asked.features]
        inner[~np.eye(asked.features, dtype=bool)] = 0.0
    if intercept:
        A, variances = centring(rough, noise, asked.tuning.moment_quantile)
    else:
        spectrum = repaired(rough, noise)
        A, variances = spectrum.inverse_root, spectrum.values
    kept = worthwhile(variances, asked.tuning.signal, asked.slope_noise**2) if asked.tuning.signal else np.ones(len(variances), dtype=bool)
    used = np.r_[kept, np.ones(int(intercept), dtype=bool)]
    rotation = Rotation.of(A * used[:, None])
    cap = _cap(asked, asked.sizes(gate, "whitened norms", Norm(rows=rows, rotation=rotation)), int(used.sum()))
    A[used] = rotation.A[used]
    free = (int(used.sum()) - 1,) if intercept else ()
    nothing = np.zeros((int(used.sum()), int(used.sum())))
    frame = WhitenedCoordinates(
        rows=rows, rotation=rotation, whole=A, used=used, cap=cap, variances=variances[kept], free=free, moment=nothing
    )
    if asked.moment_comes_along:
        return frame
    moment = matrix_of(asked.ask(gate, "whitened moment", rows=rows, rotation=rotation, cap=cap), asked.columns)
    return frame.told(moment, asked.deviation("whitened moment", cap=cap) / DIAGONAL)


def _cap(asked: QueryPlan, norms: Sizes | None, used: int) -> float:
    if norms is None:
        return math.sqrt(used)
    if asked.tuning.cap_quantile:
        return norms.quantile(asked.tuning.cap_quantile)
    return thresholds.for_norms(norms, asked.slope_noise, 1 / asked.units)


def _rows(asked: QueryPlan, gate: Gate) -> Rows:
    """Centre and scale of each column. One with public bounds has the scale 1; any other the 0.9 quantile of its non-zero sizes,
    or what four fifths of its sizes about the mean lie below where that is below half of the mean (a small variance about a large
    mean). A column whose scale noise hides is clamped at two of the scale it is given: if it is a thousand times larger it cannot
    fill the rows' norms, and if it is not, little is lost.
    """
    d, reach = asked.columns, asked.tuning.least_reach if asked.labels or asked.hopeless else asked.tuning.reach
    centre, scale, reaches = np.zeros(d), np.ones(d), np.full(d, 2.0)
    free = np.array(asked.unbounded, dtype=int)
    reaches_seen = np.full(len(free), reach)
    if len(free):
        scale[free], hidden = scales(asked, gate)
        reaches_seen[hidden] = asked.tuning.reach_if_hidden
    if "means" in asked.shares:
        bounded = Rows(centre=centre, scale=scale, reach=reaches)
        cap, limits = 0.7 * math.sqrt(d), np.ones(d)
        limits[free] = 2.0
        weighted = asked.ask(gate, "means", rows=bounded, cap=cap)
        means = weighted / max(float(weighted[-1]), 0.5)  # the last column is one, so its mean is that of the rows' weights
        real = np.abs(weighted) > 3 * asked.deviation("means", cap=cap)
        centre = np.where(real, np.clip(means, -limits, limits), 0.0) * scale
        centre[-1] = 0.0
        if len(free):
            spread = spreads(asked, gate, centre[free])
            spread = np.where(np.isnan(spread), scale[free], spread)
            narrow = spread < 0.5 * np.abs(centre[free])
            scale[free] = np.where(narrow, np.maximum(spread, scale[free] * 2.0**-30), scale[free])
    reaches[free] = reaches_seen
    return Rows(centre=centre, scale=scale, reach=reaches)


def scales(asked: QueryPlan, gate: Gate) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The 0.9 quantile of each unbounded column's non-zero sizes, or the likeliest, and where noise hides it.

    The second question leaves out the columns that the first has shown, so a record counts more in those that are left. What both say of
    these is averaged by its precision; in the first a record counted in all columns, so less in these, by the root of their share.
    """
    none = np.zeros(len(asked.unbounded), dtype=bool)
    seen = ColumnScales.of(asked, gate, "scales", none)
    scale, hidden = seen.likely(seen.usual), np.isnan(seen.found)
    if "hidden scales" in asked.shares:
        again = ColumnScales.of(asked, gate, "hidden scales", ~hidden, seen)
        scale, hidden = np.where(hidden, again.likely(scale), scale), hidden & np.isnan(again.found)
    return scale, hidden


def spreads(asked: QueryPlan, gate: Gate, centre: Array) -> Array:
    """The upper edge of the last bin of sizes about the centre that is visible, if it and the twelve below count four fifths of the
    records; else not a number: most of a discrete column may lie at its mean, and noise may hide the rest, which is its spread.

    A record counts 1 / sqrt(columns) in each column. The first bin holds what lies at the centre.
    """
    measure = ColumnSpreads(columns=asked.unbounded, centre=centre)
    counts, deviation = _counts(asked, gate, "spreads", measure)
    counts[:, 0] = 0.0
    found = np.full(len(counts), math.nan)
    for column, row in enumerate(counts):
        real = np.flatnonzero(significant(row, deviation, asked.units, among=len(counts)))
        if len(real) and row[max(0, real[-1] - BELOW) : real[-1] + 1].sum() >= COVERED * asked.units / math.sqrt(len(counts)):
            found[column] = COLUMN_GRID.upper[real[-1]]
    return found


def _counts(asked: QueryPlan, gate: Gate, label: str, measure: ColumnSizes | ColumnSpreads) -> tuple[Array, float]:
    """A row for each column, and the deviation of its noise."""
    return asked.ask(gate, label, measure=measure).reshape(measure.sizes, -1), asked.deviation(label)


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnScales:
    """Each unbounded column's 0.9 quantile of sizes, not a number where noise hides it; all columns' counts (none of a column that was
    known before), and those of them together that noise does not hide."""

    found: Array
    suspected: Array
    counts: Array
    together: Array
    deviation: float

    @classmethod
    def of(
        cls, asked: QueryPlan, gate: Gate, label: str, known: npt.NDArray[np.bool_], before: "ColumnScales | None" = None
    ) -> "ColumnScales":
        counts, deviation = _counts(asked, gate, label, ColumnSizes(columns=asked.unbounded, known=known))
        asking = max(1, int((~known).sum()))
        if before is not None:
            earlier = math.sqrt(asking / len(known))
            precise = deviation**-2, (earlier / before.deviation) ** 2
            counts = np.average([counts, before.counts / earlier], axis=0, weights=precise)
            deviation = sum(precise) ** -0.5
        counts[known] = 0.0
        found, suspected = (
            np.array([math.nan if (value := quantile(row, COLUMN_GRID, 0.9)) is None else value for row in rows])
            for rows in (
                [significant(row, deviation, asked.units, among=asking) for row in counts],
                [significant(row, deviation, asked.units, surely=SUSPECTED) for row in counts],
            )
        )
        together = significant(counts.sum(axis=0), deviation * math.sqrt(asking), asked.units * math.sqrt(asking))
        return cls(found=found, suspected=suspected, counts=counts, together=together, deviation=deviation)

    @property
    def usual(self) -> Array:
        """What was found, else the fullest bin of all columns together (one, if there is none)."""
        fullest = COLUMN_GRID.upper[self.together.argmax()] if self.together.any() else 1.0
        return np.where(np.isnan(self.found), fullest, self.found)

    def likely(self, otherwise: Array) -> Array:
        """What was found, or is suspected; else the bin where this column stands out among those that all columns together show."""
        shown = np.where(self.together > 0, self.counts, -np.inf)
        stands_out = shown.max(axis=1) > level_of(int((self.together > 0).sum()), self.deviation)
        guessed = np.where(stands_out, COLUMN_GRID.upper[shown.argmax(axis=1)], otherwise)
        guessed = np.where(np.isnan(self.suspected), guessed, self.suspected)
        return np.where(np.isnan(self.found), guessed, self.found)
