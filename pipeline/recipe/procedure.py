"""The automatic method: its questions are fixed in advance, their bounds come from paid answers. Imports iteration and below."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pipeline.gate import Gate
from pipeline.iteration import Outcome, Progress
from pipeline.losses import Loss
from pipeline.losses.columns import Columns
from pipeline.losses.huber import Huber
from pipeline.losses.squared import Squared
from pipeline.penalties import Penalty
from pipeline.preprocessing import Preprocessing
from pipeline.privacy.events import GaussianEvent
from pipeline.query import Query, bits_for
from pipeline.recipe import thresholds
from pipeline.recipe.gradient import WhitenedGradient
from pipeline.recipe.histogram import COLUMN_GRID, NORM_GRID, RESIDUAL_GRID, ColumnSizes, Histogram, Norm, Residual
from pipeline.recipe.metric import proximal
from pipeline.recipe.quantiles import Sizes, quantile, significant
from pipeline.recipe.rows import Rotation, Rows
from pipeline.recipe.second_moment import SecondMoment, matrix_of, moment_bits
from pipeline.recipe.shrinkage import shrunk
from pipeline.recipe.whitening import Spectrum, centring, levelled, repaired
from pipeline.types import Adjacency, Array

MOST_COLUMNS = 2_000
ROUND_UP = 1 + 1e-12
NOISE_BITS = 57
VISIBLE = 0.03
ROUNDING = 1e-12
GAP = 4
HOPELESS = 0.25
UNKNOWN_SIGNAL, LEAST_SIGNAL = 0.1, 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """The constants of the recipe, each a public number; docs/recipe.md tells what each is for.

    Shares are of mu^2; gradients get what the others leave. A share of zero leaves a question out.
    """

    scales: float = 0.03
    means: float = 0.01
    spreads: float = 0.01
    norms: float = 0.02
    moment: float = 0.03
    whitened_moment: float = 0.05
    residuals: float = 0.06
    reach: float = 8.0
    reach_of_labels: float = 4.0
    moment_quantile: float = 0.75
    cap_quantile: float = 0.5
    growth: float = 1.25
    shrinks: bool = True
    intercept_power: float = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class Frame:
    """Paid coordinates: how a row is scaled and rotated, how far its norm reaches, and the curvature of the fit there."""

    rows: Rows
    rotation: Rotation
    cap: float
    curvature: Spectrum


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Scales, means, second moments, then Newton-like steps on a clipped loss; every bound is read from an answer paid before.

    Guarantee: `events` is a function of the fields alone. A question's sensitivity in steps does not depend on the bounds that earlier
    answers set (they scale its grid), so run asks exactly what was reserved, whatever comes out, and the gate refuses anything else.
    Broken by test_the_recipe_asks_exactly_its_events_whatever_the_data_are.
    """

    loss: Loss
    penalty: Penalty
    preprocessing: Preprocessing
    units: int
    adjacency: Adjacency
    mu_squared: float
    largest_units: int
    tuning: Tuning = Tuning()

    def __post_init__(self) -> None:
        if self.columns > MOST_COLUMNS + 1:
            raise ValueError(f"the automatic method takes at most {MOST_COLUMNS} columns, got {self.columns}: name a solver")
        if not self.penalty.convex:
            raise ValueError("the automatic method needs a convex penalty")

    @property
    def passes(self) -> int:
        return len(self.events)

    @property
    def private(self) -> bool:
        return True

    @property
    def columns(self) -> int:
        return self.preprocessing.columns

    @property
    def features(self) -> int:
        return len(self.preprocessing.features)

    @property
    def labels(self) -> bool:
        return self.loss.classification

    @property
    def asked_loss(self) -> Loss:
        """The loss whose residual is clipped: Huber's own bound is replaced by the paid one."""
        return Squared() if isinstance(self.loss, Huber) else self.loss

    @property
    def unbounded(self) -> tuple[int, ...]:
        """The features without public bounds."""
        return tuple(j for j, reach in enumerate(self.preprocessing.reach) if not math.isfinite(reach))

    @property
    def intercept_weight(self) -> float:
        """The intercept's coordinate is columns^(1/4) instead of 1: its noise falls by that factor where the rows' norm grows by
        1 + columns^(-1/2) / 2, and the intercept, unlike slopes, is never shrunk.
        """
        return float(self.columns**self.tuning.intercept_power)

    @cached_property
    def shares(self) -> dict[str, float]:
        """Each question's share of mu^2; they add to one."""
        said = self.tuning
        centred = self.preprocessing.intercept
        shares = {
            "scales": said.scales if self.unbounded else 0.0,
            "means": said.means if centred else 0.0,
            "spreads": said.spreads if centred and self.unbounded else 0.0,
            "norms": said.norms / 2,
            "moment": said.moment,
            "whitened norms": said.norms / 2,
            "whitened moment": said.whitened_moment,
        }
        rest = 1 - sum(shares.values()) - said.residuals
        weights = self.step_weights
        for step, weight in enumerate(weights):
            if step < self.residual_questions:
                shares[f"residuals {step + 1}"] = said.residuals / self.residual_questions
            shares[f"gradient {step + 1}"] = rest * weight
        return {label: share for label, share in shares.items() if share > 0}

    @property
    def gradient_mu(self) -> float:
        """What the gradients may add up to."""
        said = self.tuning
        return math.sqrt(self.mu_squared * (1 - said.residuals - said.norms - said.moment - said.whitened_moment - said.means))

    @property
    def relative_noise(self) -> float:
        """The noise of all slopes together for a clip of one, k = moved columns / (n mu): rows have norms near sqrt(columns)."""
        return self.adjacency.moved * self.columns / (self.units * self.gradient_mu)

    @property
    def hopeless(self) -> bool:
        """Whether noise would hide any slope: second moments and gradients of k above a quarter are mostly noise."""
        return self.relative_noise > HOPELESS

    @property
    def steps(self) -> int:
        """More steps where noise is small: linear (0.5 / k)^2 between 3 and 8, labels 0.8 / k between 3 and 10."""
        k = self.relative_noise
        return int(np.clip(0.8 / k, 3, 10)) if self.labels else int(np.clip((0.5 / k) ** 2, 3, 8))

    @property
    def burned(self) -> int:
        """The first steps, which approach and are not averaged."""
        return min(3, max(1, self.steps // 2))

    @property
    def step_weights(self) -> Array:
        weights = (1.0 if self.labels else self.tuning.growth) ** np.arange(self.steps)
        return weights / weights.sum()

    @property
    def residual_questions(self) -> int:
        """As many as keep a bin of 3% of the records visible (3.6 deviations of its noise); two at least, because the first step
        takes the target's mean out of the residuals.
        """
        visible = VISIBLE * self.units * math.sqrt(self.mu_squared) / (3.6 * math.sqrt(self.adjacency.moved))
        return int(np.clip(self.tuning.residuals * visible**2, 2, min(self.steps, 3 if self.labels else 5)))

    def multiplier(self, label: str) -> float:
        """sigma in sensitivities: 1 / mu_i with mu_i^2 = share mu^2."""
        return ROUND_UP / math.sqrt(self.mu_squared * self.shares[label])

    @cached_property
    def templates(self) -> dict[str, Query]:
        """Every question with bounds of one: what its sensitivity and length are, whatever its bounds will be."""
        d = self.columns
        rows = Rows(centre=np.zeros(d), scale=np.ones(d), reach=np.ones(d))
        rotation, zeros = Rotation.of(np.eye(d)), np.zeros(d)
        most = bits_for(self.largest_units)
        made: dict[str, Query] = {}
        for label in self.shares:
            kind = label.rstrip("0123456789").strip()
            if kind in ("scales", "spreads"):
                sizes = ColumnSizes(columns=self.unbounded, centre=np.zeros(len(self.unbounded)))
                made[label] = Histogram(measure=sizes, grid_of_sizes=COLUMN_GRID, bits=most)
            elif kind in ("norms", "whitened norms"):
                made[label] = Histogram(measure=Norm(rows=rows), grid_of_sizes=NORM_GRID, bits=most)
            elif kind == "residuals":
                residual = Residual(rows=rows, loss=self.asked_loss, weights=zeros)
                made[label] = Histogram(measure=residual, grid_of_sizes=RESIDUAL_GRID, bits=most)
            elif kind in ("moment", "whitened moment"):
                made[label] = SecondMoment(rows=rows, cap=1.0, bits=moment_bits(self.largest_units))
            else:
                loss = Columns() if kind == "means" else self.asked_loss
                made[label] = WhitenedGradient(rows=rows, rotation=rotation, loss=loss, weights=zeros, clip=1.0, cap=1.0, bits=most)
        return {label: self._fitting(label, query) for label, query in made.items()}

    def _fitting(self, label: str, query: Any) -> Query:
        """The question on a grid coarse enough for its noise to stay inside 64 bits."""
        bits = query.bits
        while query.sensitivity(self.adjacency) * self.multiplier(label) > 2.0**NOISE_BITS:
            bits -= 1
            if bits < 8:
                raise ValueError("so much noise does not fit in 64 bits; choose fewer columns or a larger epsilon")
            query = replace(query, bits=bits)
        made: Query = query
        return made

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        return tuple(
            GaussianEvent(
                label=label,
                sensitivity=query.sensitivity(self.adjacency),
                sigma=query.sensitivity(self.adjacency) * self.multiplier(label),
                coordinates=query.coordinates,
                adjacency=self.adjacency,
            )
            for label, query in self.templates.items()
        )

    def coefficient_noise(self) -> float | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"method": "auto", "tuning": asdict(self.tuning), "steps": self.steps}

    def explain(self) -> list[str]:
        said = {
            "scales": "the size of each column",
            "means": "the mean of each column",
            "spreads": "the size of each column about its mean",
        }
        said |= {"norms": "the size of a row", "moment": "the second moment of rows", "whitened norms": "the size of a whitened row"}
        said |= {"whitened moment": "the second moment of whitened rows"}
        lines = [f"Automatic: {len(self.events)} questions; each one's bound is read from answers paid before it."]
        lines += [
            f"  {label}: {self.shares[label]:.1%} of the budget, {said.get(label, 'the size of residuals')}"
            for label in self.shares
            if not label.startswith("gradient")
        ]
        gradients = sum(share for label, share in self.shares.items() if label.startswith("gradient"))
        return [*lines, f"  {self.steps} gradients: {gradients:.1%} of the budget.", *self.usefulness()]

    def usefulness(self) -> list[str]:
        """What public facts tell about the chance of a useful fit."""
        if not self.hopeless:
            return []
        rows = math.ceil(self.units * self.relative_noise / HOPELESS)
        columns = math.floor(self.columns * HOPELESS / self.relative_noise)
        return [
            "Warning: no useful fit is possible, and the slopes will be zero: only the intercept is fitted. "
            f"More than {rows:,} rows, or fewer than {max(1, columns)} columns, or an epsilon "
            f"{self.relative_noise / HOPELESS:.2g} times as large would do"
            f"{'; public bounds help a little' if self.unbounded else ''}."
        ]

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        frame = self.frame(gate)
        return Descent(recipe=self, gate=gate, frame=frame).run(show)

    def ask(self, gate: Gate, label: str, **bounds: Any) -> Array:
        """The answer to a question whose bounds are now known, as a mean where it has a divisor."""
        query: Any = replace(self.templates[label], **bounds)  # type: ignore[type-var]
        return gate.ask(label, query) / query.divisor(self.units)

    def deviation(self, label: str, **bounds: Any) -> float:
        """The standard deviation of an answer's noise: public, given the bounds."""
        query: Any = replace(self.templates[label], **bounds)  # type: ignore[type-var]
        sigma = next(event.sigma for event in self.events if event.label == label)
        return float(sigma * query.grid / query.divisor(self.units))

    def frame(self, gate: Gate) -> Frame:
        """Ask for everything that a fit needs to know about rows."""
        rows = self._rows(gate)
        norms = self._sizes(gate, "norms", Norm(rows=rows))
        cap = norms.quantile(self.tuning.moment_quantile) if norms else math.sqrt(self.columns)
        rough = matrix_of(self.ask(gate, "moment", rows=rows, cap=cap), self.columns)
        noise = self.deviation("moment", cap=cap) / 5
        A = (
            centring(rough, noise, self.tuning.moment_quantile, self.intercept_weight)
            if self.preprocessing.intercept
            else repaired(rough, noise).inverse_root
        )
        rotation = Rotation.of(A)
        whitened = self._sizes(gate, "whitened norms", Norm(rows=rows, rotation=rotation))
        cap = whitened.quantile(self.tuning.cap_quantile) if whitened else math.sqrt(self.columns)
        fine = matrix_of(self.ask(gate, "whitened moment", rows=rows, rotation=rotation, cap=cap), self.columns)
        noise = self.deviation("whitened moment", cap=cap) / 5
        most = self.intercept_weight**2
        free = (self.columns - 1,) if self.preprocessing.intercept else ()
        curvature = levelled(fine, noise, free, (self.tuning.cap_quantile * most, most))
        return Frame(rows=rows, rotation=rotation, cap=cap, curvature=curvature)

    def _sizes(self, gate: Gate, label: str, measure: Norm | Residual) -> Sizes | None:
        grid = RESIDUAL_GRID if isinstance(measure, Residual) else NORM_GRID
        return Sizes.of(self.ask(gate, label, measure=measure), grid, self.deviation(label), self.units)

    def _rows(self, gate: Gate) -> Rows:
        """Centre and scale of each column. One with public bounds has the scale 1; any other the 0.9 quantile of its non-zero sizes,
        or of its sizes about the mean where those are below half of the mean (a small variance about a large mean).
        """
        d, reach = self.columns, self.tuning.reach_of_labels if self.labels else self.tuning.reach
        centre, scale, reaches = np.zeros(d), np.ones(d), np.full(d, 2.0)
        free = np.array(self.unbounded, dtype=int)
        if len(free):
            scale[free] = self._quantiles(gate, "scales", np.zeros(len(free)), np.full(len(free), np.nan))
        if "means" in self.shares:
            bounded = Rows(centre=centre, scale=scale, reach=reaches)
            cap, limits = 0.7 * math.sqrt(d), np.ones(d)
            limits[free] = 2.0
            weighted = self.ask(gate, "means", rows=bounded, cap=cap)
            means = weighted / max(float(weighted[-1]), 0.5)  # the last column is one, so its mean is that of the rows' weights
            real = np.abs(weighted) > 3 * self.deviation("means", cap=cap)
            centre = np.where(real, np.clip(means, -limits, limits), 0.0) * scale
            centre[-1] = 0.0
            if len(free):
                spread = self._quantiles(gate, "spreads", centre[free], scale[free])
                narrow = spread < 0.5 * np.abs(centre[free])
                scale[free] = np.where(narrow, np.maximum(spread, scale[free] * 2.0**-30), scale[free])
        reaches[free] = reach
        return Rows(centre=centre, scale=scale, reach=reaches)

    def _quantiles(self, gate: Gate, label: str, centre: Array, otherwise: Array) -> Array:
        """The 0.9 quantile of each unbounded column's sizes; where nothing is significant `otherwise`, or that of all columns pooled."""
        measure = ColumnSizes(columns=self.unbounded, centre=centre)
        counts = self.ask(gate, label, measure=measure).reshape(len(centre), -1)
        real = np.array([significant(row, self.deviation(label), GAP) for row in counts])
        pooled = quantile(real.sum(axis=0), COLUMN_GRID, 0.9) or 1.0
        found = (quantile(row, COLUMN_GRID, 0.9) for row in real)
        return np.array([value or (pooled if math.isnan(other) else other) for value, other in zip(found, otherwise, strict=True)])


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The steps: residuals' distribution, threshold, clipped gradient, Newton-like move."""

    recipe: Recipe
    gate: Gate
    frame: Frame

    def run(self, show: Callable[[Progress], None]) -> Outcome:
        recipe, curvature = self.recipe, self.frame.curvature
        v = np.zeros(recipe.columns)
        residuals: Sizes | None = None
        path, estimates, deviations = [self.released(v)], [], []
        clip = most = math.inf
        for step in range(recipe.steps):
            if step < recipe.residual_questions:
                measure = Residual(rows=self.frame.rows, loss=recipe.asked_loss, weights=self.weights(v))
                residuals = recipe._sizes(self.gate, f"residuals {step + 1}", measure) or residuals
            clip, flat = self.clip(step, residuals, v, most)
            most = clip if recipe.labels else min(most, 2 * clip)
            bounds = {"clip": clip, "cap": self.frame.cap}
            label = f"gradient {step + 1}"
            gradient = recipe.ask(self.gate, label, rows=self.frame.rows, rotation=self.frame.rotation, weights=v, **bounds)
            noise = recipe.deviation(label, **bounds) / flat
            move = self.newton(gradient) / flat
            estimates.append(v + move)
            deviations.append(noise)
            if step < recipe.burned:
                v = v + self.approach(step, move, noise, self.sampled(residuals, clip, flat))
            else:
                v = np.average(estimates[recipe.burned :], axis=0, weights=1 / np.array(deviations[recipe.burned :]) ** 2)
            path.append(self.released(v))
            show(Progress(step=step + 1, steps=recipe.steps, moved=float(np.linalg.norm(path[-1] - path[-2])), noise=noise))
        noise = 1 / math.sqrt(float((1 / np.array(deviations[recipe.burned :]) ** 2).sum()))
        final = shrunk(v, noise, self.sampled(residuals, clip, flat), curvature.matrix, self.free) if recipe.tuning.shrinks else v
        return Outcome(weights=self.released(self.penalised(final, flat)), path=path, preprocessing=self.clamped())

    @property
    def free(self) -> tuple[int, ...]:
        return (self.recipe.columns - 1,) if self.recipe.preprocessing.intercept else ()

    def weights(self, v: Array) -> Array:
        """Of the scaled row."""
        return self.frame.rotation.A.T @ v

    def clip(self, step: int, residuals: Sizes | None, v: Array, most: float) -> tuple[float, float]:
        """The threshold of residuals and the mean slope of the clipped loss in the margin (curvature is that of a slope of one)."""
        recipe = self.recipe
        if residuals is None:
            return 1.0, 0.25 if recipe.labels else 1.0
        unit = recipe.adjacency.moved * self.frame.cap / (recipe.units * recipe.gradient_mu)
        if isinstance(recipe.loss, Huber) and step >= 2:
            clip = thresholds.for_medians(residuals, recipe.units, unit, most)
            return clip, max(float(residuals.below(np.array([clip]))[0]), 0.3)
        size = float(residuals.squares(np.array([np.inf]))[0])
        signal = max(self.signal(v), LEAST_SIGNAL * size) if step else UNKNOWN_SIGNAL * size
        signal = 0.0 if recipe.hopeless else signal
        clip = thresholds.for_means(residuals, recipe.units, recipe.columns, unit, unit / recipe.intercept_weight, signal, most)
        if not recipe.labels:
            return clip, 1.0
        return min(clip, 1.0), min(0.25, 1.5 * residuals.spread_of_labels() + 0.02)

    def newton(self, gradient: Array) -> Array:
        """H^-1 gradient; of the intercept alone where slopes are hopeless."""
        H = self.frame.curvature
        return self.intercept_of(gradient / H.matrix.diagonal()) if self.recipe.hopeless else H.inverse @ gradient

    def intercept_of(self, v: Array) -> Array:
        """v without its slopes."""
        alone = np.zeros(len(v))
        alone[list(self.free)] = v[list(self.free)]
        return alone

    def approach(self, step: int, move: Array, noise: float, sampled: float) -> Array:
        """A move before the averaged ones, shrunk; the first one only of the intercept where the target's mean is most of its size
        (more than half of E r^2): slopes would follow errors of the rows' centre, at a threshold as large as the mean.
        """
        alone = self.intercept_of(move)
        size = sampled * self.recipe.units
        if step == 0 and not self.recipe.labels and float(alone @ alone) * self.recipe.intercept_weight**2 > size / 2:
            return alone
        return shrunk(move, noise, sampled, self.frame.curvature.matrix, self.free) if self.recipe.tuning.shrinks else move

    def sampled(self, residuals: Sizes | None, clip: float, flat: float) -> float:
        """E min(r^2, clip^2) / (n slope^2): the variance that drawing other records would give an estimate, for a curvature of one."""
        squares = clip**2 if residuals is None else float(residuals.squares(np.array([clip]))[0])
        return squares / (self.recipe.units * flat**2)

    def signal(self, v: Array) -> float:
        """The variance of predictions by the slopes so far, v' H v without the intercept."""
        slopes = v.copy()
        slopes[list(self.free)] = 0.0
        return float(slopes @ self.frame.curvature.matrix @ slopes)

    def penalised(self, v: Array, flat: float) -> Array:
        """The fit with the penalty, which speaks of the scaled row's weights."""
        if not np.isfinite(v).all():
            return v
        A = self.frame.rotation.A
        back = np.linalg.inv(A)
        curvature = flat * back @ self.frame.curvature.matrix @ back.T
        weights = proximal(A.T @ v, curvature, self.recipe.penalty, self.recipe.features)
        return back.T @ weights

    def released(self, v: Array) -> Array:
        """Weights of the release's columns: one without public bounds is clamped at reach scales about its centre, one with them as
        they say, and its centre goes into the intercept. What rotating there and back leaves of a zero is zero.
        """
        rows, free, weights = self.frame.rows, list(self.recipe.unbounded), self.weights(v)
        moved = weights * rows.centre
        moved[free] = 0.0
        weights[free] *= rows.reach[free]
        weights[np.abs(weights) <= ROUNDING * np.abs(weights).max()] = 0.0
        if self.recipe.preprocessing.intercept:
            weights[-1] -= moved.sum()
        return weights

    def clamped(self) -> Preprocessing:
        """The public preprocessing with the paid clamp of every column that had none."""
        rows, said = self.frame.rows, self.recipe.preprocessing
        centre, scale = np.array(said.centre), np.array(said.scale)
        free = list(self.recipe.unbounded)
        centre[free], scale[free] = rows.centre[free], rows.scale[free] * rows.reach[free]
        return replace(said, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()), reach=())
