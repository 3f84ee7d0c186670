"""Newton-like steps on a clipped loss in paid coordinates. Imports frame, questions and the mathematics between them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pipeline.gate import Gate
from pipeline.iteration import Outcome, Progress
from pipeline.losses.huber import Huber
from pipeline.preprocessing import Preprocessing
from pipeline.recipe import thresholds
from pipeline.recipe.frame import Frame
from pipeline.recipe.histogram import RESIDUAL_GRID, Residual
from pipeline.recipe.metric import proximal
from pipeline.recipe.quantiles import Sizes, lost
from pipeline.recipe.questions import Questions
from pipeline.recipe.shrinkage import shrunk
from pipeline.recipe.uncertainty import Asked, Known, intervals
from pipeline.recipe.warm import nearer
from pipeline.types import Array

ROUNDING = 1e-12
UNKNOWN_SIGNAL, LEAST_SIGNAL = 0.1, 0.05


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The steps: residuals' distribution, threshold, clipped gradient, Newton-like move. `start` is where they begin."""

    asked: Questions
    gate: Gate
    frame: Frame
    start: Array

    def run(self, show: Callable[[Progress], None]) -> Outcome:
        asked, curvature = self.asked, self.frame.curvature
        v = self.start
        residuals: Sizes | None = None
        known: Known | None = None
        path, estimates, deviations, paid = [self.released(v)], [], [], []
        clip = most = math.inf
        for step in range(asked.steps):
            if step < asked.residual_questions:
                measure = Residual(rows=self.frame.rows, loss=asked.asked_loss, weights=self.weights(v))
                label = f"residuals {step + 1}"
                seen = asked.sizes(self.gate, label, measure)
                known = (
                    Known(residuals=seen, at=v, hidden=lost(asked.deviation(label), RESIDUAL_GRID.bins) / asked.units) if seen else known
                )
                residuals = seen or residuals
            clip, flat = self.clip(step, residuals, v, most)
            most = clip if asked.labels else min(most, 2 * clip)
            bounds = {"clip": clip, "cap": self.frame.cap}
            label = f"gradient {step + 1}"
            gradient = asked.ask(self.gate, label, rows=self.frame.rows, rotation=self.frame.rotation, weights=v, **bounds)
            paid.append(Asked(at=v, gradient=gradient, deviation=asked.deviation(label, **bounds), clip=clip))
            noise = paid[-1].deviation / flat
            move = self.newton(gradient) / flat
            estimates.append(v + move)
            deviations.append(noise)
            if step < asked.burned:
                v = v + self.approach(step, move, noise, self.sampled(residuals, clip, flat))
            else:
                v = np.average(estimates[asked.burned :], axis=0, weights=1 / np.array(deviations[asked.burned :]) ** 2)
            path.append(self.released(v))
            show(Progress(step=step + 1, steps=asked.steps, moved=float(np.linalg.norm(path[-1] - path[-2])), noise=noise))
        noise = 1 / math.sqrt(float((1 / np.array(deviations[asked.burned :]) ** 2).sum()))
        centre = nearer(v, self.start, curvature.matrix, asked.free)
        sampled = self.sampled(residuals, clip, flat)
        final = centre + shrunk(v - centre, noise, sampled, curvature.matrix, asked.free) if asked.tuning.shrinks else v
        shape, map_of = self.clamped(), self.mapped(self.frame.rotation.A.T)
        return Outcome(
            weights=self.released(self.penalised(final, flat)),
            path=path,
            preprocessing=shape,
            intervals=intervals(asked, self.frame, paid[asked.burned :], known, map_of, shape),
        )

    def weights(self, v: Array) -> Array:
        """Of the scaled row."""
        return self.frame.rotation.A.T @ v

    def clip(self, step: int, residuals: Sizes | None, v: Array, most: float) -> tuple[float, float]:
        """The threshold of residuals and the mean slope of the clipped loss in the margin (curvature is that of a slope of one)."""
        asked = self.asked
        if residuals is None:
            return 1.0, 0.25 if asked.labels else 1.0
        unit = asked.adjacency.moved * self.frame.cap / (asked.units * asked.gradient_mu)
        if isinstance(asked.loss, Huber) and step >= 2:
            clip = thresholds.for_medians(residuals, asked.units, unit, most)
            return clip, max(float(residuals.below(np.array([clip]))[0]), 0.3)
        size = float(residuals.squares(np.array([np.inf]))[0])
        signal = max(self.signal(v - self.start), LEAST_SIGNAL * size) if step else UNKNOWN_SIGNAL * size
        signal = 0.0 if asked.hopeless else signal
        clip = thresholds.for_means(residuals, asked.units, asked.columns, unit, unit / asked.intercept_weight, signal, most)
        if not asked.labels:
            return clip, 1.0
        return min(clip, 1.0), min(0.25, 1.5 * residuals.spread_of_labels() + 0.02)

    def newton(self, gradient: Array) -> Array:
        """H^-1 gradient; of the intercept alone where slopes are hopeless."""
        H = self.frame.curvature
        return self.intercept_of(gradient / H.matrix.diagonal()) if self.asked.hopeless else H.inverse @ gradient

    def intercept_of(self, v: Array) -> Array:
        """v without its slopes."""
        alone = np.zeros(len(v))
        alone[list(self.asked.free)] = v[list(self.asked.free)]
        return alone

    def approach(self, step: int, move: Array, noise: float, sampled: float) -> Array:
        """A move before the averaged ones, shrunk; the first one only of the intercept where the target's mean is most of its size
        (more than half of E r^2): slopes would follow errors of the rows' centre, at a threshold as large as the mean.
        """
        alone = self.intercept_of(move)
        size = sampled * self.asked.units
        if step == 0 and not self.asked.labels and float(alone @ alone) * self.asked.intercept_weight**2 > size / 2:
            return alone
        return shrunk(move, noise, sampled, self.frame.curvature.matrix, self.asked.free) if self.asked.tuning.shrinks else move

    def sampled(self, residuals: Sizes | None, clip: float, flat: float) -> float:
        """E min(r^2, clip^2) / (n slope^2): the variance that drawing other records would give an estimate, for a curvature of one."""
        squares = clip**2 if residuals is None else float(residuals.squares(np.array([clip]))[0])
        return squares / (self.asked.units * flat**2)

    def signal(self, v: Array) -> float:
        """The variance of predictions by slopes v, v' H v without the intercept."""
        slopes = v.copy()
        slopes[list(self.asked.free)] = 0.0
        return float(slopes @ self.frame.curvature.matrix @ slopes)

    def penalised(self, v: Array, flat: float) -> Array:
        """The fit with the penalty, which speaks of the scaled row's weights."""
        if not np.isfinite(v).all():
            return v
        A = self.frame.rotation.A
        back = np.linalg.inv(A)
        curvature = flat * back @ self.frame.curvature.matrix @ back.T
        weights = proximal(A.T @ v, curvature, self.asked.penalty, self.asked.features)
        return back.T @ weights

    def released(self, v: Array) -> Array:
        """Weights of the release's columns: one without public bounds is clamped at reach scales about its centre, one with them as
        they say, and its centre goes into the intercept. What rotating there and back leaves of a zero is zero.
        """
        weights = self.mapped(self.weights(v))
        weights[np.abs(weights) <= ROUNDING * np.abs(weights).max()] = 0.0
        return weights

    def mapped(self, weights: Array) -> Array:
        """Weights of the release's columns, from those of the scaled row (a vector, or one in each column)."""
        rows, free = self.frame.rows, list(self.asked.unbounded)
        moved = np.delete(rows.centre, free) @ np.delete(weights, free, axis=0)
        made = weights.copy()
        made[free] = (made[free].T * rows.reach[free]).T
        if self.asked.preprocessing.intercept:
            made[-1] -= moved
        return made

    def clamped(self) -> Preprocessing:
        """The public preprocessing with the paid clamp of every column that had none."""
        rows, said = self.frame.rows, self.asked.preprocessing
        centre, scale = np.array(said.centre), np.array(said.scale)
        free = list(self.asked.unbounded)
        centre[free], scale[free] = rows.centre[free], rows.scale[free] * rows.reach[free]
        return replace(said, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()), reach=())
