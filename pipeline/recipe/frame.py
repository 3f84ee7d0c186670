"""Coordinates in which rows are centred, scaled and nearly isotropic, from paid answers. Imports questions and what they import."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pipeline.gate import Gate
from pipeline.recipe import thresholds
from pipeline.recipe.histogram import COLUMN_GRID, ColumnSizes, Norm
from pipeline.recipe.quantiles import Sizes, level_of, quantile, significant
from pipeline.recipe.questions import Questions
from pipeline.recipe.rows import Rotation, Rows
from pipeline.recipe.second_moment import matrix_of
from pipeline.recipe.whitening import Spectrum, centring, levelled, repaired, worthwhile
from pipeline.types import Array

GAP = 4
BELOW, COVERED = 12, 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """Paid coordinates: how a row is scaled and rotated, which directions are used, how far a row's norm reaches in them.

    `variances` are those of the scaled row in the directions used, `curvature` is that of a fit of means there, and `whole` all
    directions, used or not. `moment` is the whitened second moment in the directions used as it was answered, `moment_noise` the
    deviation of its diagonal's noise.
    """

    rows: Rows
    rotation: Rotation
    whole: Array
    used: npt.NDArray[np.bool_]
    cap: float
    variances: Array
    curvature: Spectrum
    moment: Array
    moment_noise: float


def framed(asked: Questions, gate: Gate) -> Frame:
    """Ask for everything that a fit needs to know about rows."""
    rows = _rows(asked, gate)
    norms = asked.sizes(gate, "norms", Norm(rows=rows))
    cap = norms.quantile(asked.tuning.moment_quantile) if norms else math.sqrt(asked.columns)
    rough = matrix_of(asked.ask(gate, "moment", rows=rows, cap=cap), asked.columns)
    noise, intercept = asked.deviation("moment", cap=cap) / 5, asked.preprocessing.intercept
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
    fine = matrix_of(asked.ask(gate, "whitened moment", rows=rows, rotation=rotation, cap=cap), asked.columns)
    noise = asked.deviation("whitened moment", cap=cap) / 5
    free = (int(used.sum()) - 1,) if intercept else ()
    moment = fine[np.ix_(used, used)]
    curvature = levelled(moment, noise, free, (0.35, 1.0))
    A[used] = rotation.A[used]
    return Frame(
        rows=rows,
        rotation=rotation,
        whole=A,
        used=used,
        cap=cap,
        variances=variances[kept],
        curvature=curvature,
        moment=moment,
        moment_noise=noise,
    )


def _cap(asked: Questions, norms: Sizes | None, used: int) -> float:
    if norms is None:
        return math.sqrt(used)
    if asked.tuning.cap_quantile:
        return norms.quantile(asked.tuning.cap_quantile)
    return thresholds.for_norms(norms, asked.slope_noise, 1 / asked.units)


def _rows(asked: Questions, gate: Gate) -> Rows:
    """Centre and scale of each column. One with public bounds has the scale 1; any other the 0.9 quantile of its non-zero sizes,
    or what four fifths of its sizes about the mean lie below where that is below half of the mean (a small variance about a large
    mean). A column whose scale noise hides is clamped at two of the scale it is given: if it is a thousand times larger it cannot
    fill the rows' norms, and if it is not, little is lost.
    """
    d, reach = asked.columns, asked.tuning.reach_of_labels if asked.labels else asked.tuning.reach
    centre, scale, reaches = np.zeros(d), np.ones(d), np.full(d, 2.0)
    free = np.array(asked.unbounded, dtype=int)
    reaches_seen = np.full(len(free), reach)
    if len(free):
        seen = ColumnScales.of(asked, gate, "scales", np.zeros(len(free)))
        scale[free] = seen.likely
        reaches_seen[np.isnan(seen.found)] = asked.tuning.reach_if_hidden
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
            spread = ColumnScales.of(asked, gate, "spreads", centre[free]).covering(asked.units)
            spread = np.where(np.isnan(spread), scale[free], spread)
            narrow = spread < 0.5 * np.abs(centre[free])
            scale[free] = np.where(narrow, np.maximum(spread, scale[free] * 2.0**-30), scale[free])
    reaches[free] = reaches_seen
    return Rows(centre=centre, scale=scale, reach=reaches)


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnScales:
    """Each unbounded column's 0.9 quantile of sizes, not a number where noise hides it, and the last bin that noise does not hide; all
    columns' counts, and those of them together that noise does not hide."""

    found: Array
    suspected: Array
    last: npt.NDArray[np.intp]
    counts: Array
    together: Array
    deviation: float

    @classmethod
    def of(cls, asked: Questions, gate: Gate, label: str, centre: Array) -> "ColumnScales":
        measure = ColumnSizes(columns=asked.unbounded, centre=centre)
        counts, deviation = asked.ask(gate, label, measure=measure).reshape(len(centre), -1), asked.deviation(label)
        real = [significant(row, deviation, GAP, len(counts)) for row in counts]
        found, suspected = (
            np.array([math.nan if (value := quantile(row, COLUMN_GRID, 0.9)) is None else value for row in rows])
            for rows in (real, [significant(row, deviation, GAP, surely=0.0) for row in counts])
        )
        last = np.array([int(np.flatnonzero(row)[-1]) if row.any() else 0 for row in real])
        together = significant(counts.sum(axis=0), deviation * math.sqrt(len(counts)), GAP)
        return cls(found=found, suspected=suspected, last=last, counts=counts, together=together, deviation=deviation)

    def covering(self, units: int) -> Array:
        """The upper edge of the last bin that is visible, if it and the twelve below count four fifths of the records; else not a number:
        most of a discrete column may lie at its mean, and noise may hide the rest, which is its spread."""
        held = np.array([row[max(0, last - BELOW) : last + 1].sum() for row, last in zip(self.counts, self.last, strict=True)])
        return np.where(~np.isnan(self.found) & (held >= COVERED * units), COLUMN_GRID.upper[self.last], math.nan)

    @property
    def usual(self) -> Array:
        """What was found, else the fullest bin of all columns together (one, if there is none)."""
        return self._or(np.full(len(self.counts), int(self.together.argmax())))

    @property
    def likely(self) -> Array:
        """What was found, or is suspected; else a bin that all columns together show: the one where this column stands out among them, or
        the fullest."""
        shown = np.where(self.together > 0, self.counts, -np.inf)
        stands_out = shown.max(axis=1) > level_of(int((self.together > 0).sum()), self.deviation)
        guessed = self._or(np.where(stands_out, shown.argmax(axis=1), self.together.argmax()))
        return np.where(np.isnan(self.found) & ~np.isnan(self.suspected), self.suspected, guessed)

    def _or(self, bins: npt.NDArray[np.intp]) -> Array:
        return np.where(np.isnan(self.found), COLUMN_GRID.upper[bins] if self.together.any() else 1.0, self.found)
