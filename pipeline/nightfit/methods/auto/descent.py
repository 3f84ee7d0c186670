"""Newton steps on a clipped loss in whitened coordinates. Imports residuals, shrinkage and below."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.constants.labels import (
    LABEL_CURVATURE_FACTOR,
    LABEL_CURVATURE_OFFSET,
    LOGISTIC_CURVATURE,
    MOST_OF_LABEL_SPREAD,
    SPREAD_OF_RARE_LABELS,
)
from nightfit.methods.auto.constants.steps import (
    CURVATURE_ERROR,
    DIRECTION_LOSS,
    GROWTH_OF_RESIDUALS,
    LEAST_SIGNAL,
    MOST_CLIP_GROWTH,
    SIGNAL_QUANTILE,
    SLOWDOWN,
    UNKNOWN_SIGNAL,
)
from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution
from nightfit.methods.auto.level_and_scale import Calibrated, calibrate
from nightfit.methods.auto.logistic_margins import label_share, with_share
from nightfit.methods.auto.previous_weights import shrinkage_centre
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.residuals import KnownResiduals, ResidualQueries, TargetMean
from nightfit.methods.auto.shrinkage import shrunk
from nightfit.methods.auto.weight_maps import WeightMaps
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.procedure import Progress
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Estimand, Loss
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class AskedGradient:
    """A paid gradient: at which weights, its value, the standard deviation of its noise, the clip of its residuals, and the mean slope of
    the clipped loss that the step divides by.
    """

    at: Array
    gradient: Array
    deviation: float
    clip: float
    slope: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Beginning:
    """Where steps begin: the weights, and what was asked before them."""

    v: Array
    known: KnownResiduals | None
    mean: TargetMean | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsTaken:
    """The result of a descent.

    Parameters
    ----------
    v, slope : Array, float
        The averaged weights, and the mean slope of the loss there.
    path : list of Array
        The weights after each step.
    averaged : list of AskedGradient
        The gradients that were averaged.
    known : KnownResiduals or None
        The last paid residuals.
    mean : TargetMean or None
        The target's mean.
    descent : Descent
        With the second moment that gradients brought along.
    """

    v: Array
    slope: float
    path: list[Array]
    averaged: list[AskedGradient]
    known: KnownResiduals | None
    mean: TargetMean | None
    descent: "Descent"


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The target's mean, then steps: distribution of residuals, clip, clipped gradient, Newton step, shrinkage.

    `start` is where steps begin and what slopes are shrunk towards. `label_spread` is the paid p (1 - p) of the share p of labels 1, 1/4
    where it is not known.
    """

    plan: QueryPlan
    gate: Gate
    coordinates: WhitenedCoordinates
    start: Array
    label_spread: float = LOGISTIC_CURVATURE

    @property
    def loss(self) -> Loss:
        """The loss whose slope is the residual."""
        return self.plan.residual_loss

    def gradient_loss(self, clip: float) -> Loss:
        """The loss whose clipped slope is the gradient's."""
        return self.loss

    @property
    def maps(self) -> WeightMaps:
        return WeightMaps(plan=self.plan, coordinates=self.coordinates)

    @property
    def queries(self) -> ResidualQueries:
        return ResidualQueries(plan=self.plan, gate=self.gate, maps=self.maps, loss=self.loss)

    def run(self, show: Callable[[Progress], None]) -> StepsTaken:
        """Take all steps."""
        plan, maps, most = self.plan, self.maps, math.inf
        here, begun = self.begin()
        v, known = begun.v, begun.known
        path, paid, burned = [v], list[AskedGradient](), plan.burn_in
        clip = slope = slowdown = 1.0
        before = v
        for step in range(plan.steps):
            place = step + 1 + plan.asks_targets
            fresh = here.queries.magnitudes(place, v) if place <= plan.residual_queries - plan.calibrates else None
            if step and fresh and known and diverged(known.residuals, fresh.residuals, clip):
                v, slowdown, burned = before, SLOWDOWN * slowdown, max(burned, step)
            else:
                known = fresh or known
            before, residuals = v, known.residuals if known else None
            clip, slope = here.clip(step, residuals, v, most)
            most = min(most, MOST_CLIP_GROWTH * clip)
            here, answer = here.ask_gradient(f"gradient {step + 1}", v, clip, slope * slowdown)
            paid.append(answer)
            averaged, noise = here.averaged(paid[burned:]) if paid[burned:] else here.newton_step(paid[-1])
            shrinks = plan.tuning.shrinks and (step >= plan.first_shrunk_step or self.start.any())
            v = here.shrunk(averaged, noise, here.sampling_variance(residuals, clip, slope)) if shrinks else averaged
            path.append(v)
            moved = float(np.linalg.norm(maps.released(v) - maps.released(path[-2])))
            show(Progress(step=step + 1, steps=plan.steps, moved=moved, noise=noise))
        return StepsTaken(
            v=here.with_label_share(v, begun.mean.residual) if begun.mean and plan.loss.estimand is Estimand.LOG_ODDS else v,
            slope=1.0 if plan.loss.estimand is Estimand.MEAN else slope,
            path=path,
            averaged=paid[burned:],
            known=known,
            mean=begun.mean,
            descent=here,
        )

    def begin(self) -> tuple["Descent", Beginning]:
        """The distribution of targets and their mean, and the weights with that level."""
        queries, v = self.queries, self.start
        targets = queries.signed(1, v) if self.plan.asks_targets else None
        known = queries.known(targets.magnitudes, "signed residuals 1", v) if targets else None
        v, mean = queries.target_mean(v, targets)
        if mean is None or self.plan.loss.estimand is not Estimand.LOG_ODDS or self.start.any():
            return self, Beginning(v=v, known=known, mean=mean)
        share = float(np.clip(1 / 2 + mean.residual, 0.0, 1.0))  # without weights every prediction is a half
        spread = max(share * (1 - share), 1 / self.plan.units)
        return replace(self, label_spread=spread), Beginning(v=v, known=known, mean=mean)

    def ask_gradient(self, label: str, v: Array, clip: float, slope: float) -> tuple["Descent", AskedGradient]:
        """The gradient at these weights, and the descent with the curvature that came with it."""
        at, loss = self.coordinates, self.gradient_loss(clip)
        paid = self.plan.gradient(self.gate, label, rows=at.rows, rotation=at.rotation, loss=loss, weights=v, clip=clip, cap=at.cap)
        answer = AskedGradient(at=v, gradient=paid.mean, deviation=paid.deviation, clip=clip, slope=slope)
        if paid.moment is None:
            return self, answer
        return replace(self, coordinates=at.with_moment(paid.moment, paid.moment_noise)), answer

    def newton_step(self, step: AskedGradient) -> tuple[Array, float]:
        """Where the Newton step from a gradient leads, and the standard deviation of its noise for a curvature of one."""
        return step.at + self.coordinates.curvature.inverse @ step.gradient / step.slope, step.deviation / step.slope

    def averaged(self, steps: Sequence[AskedGradient]) -> tuple[Array, float]:
        """The average of Newton steps by their precision, and its standard deviation: that of noise, and a tenth of a step's length for the
        error of its curvature.
        """
        found = [self.newton_step(step) for step in steps]
        lengths = [CURVATURE_ERROR * float(np.linalg.norm(to - step.at)) for step, (to, _) in zip(steps, found, strict=True)]
        precisions = [1 / (noise**2 + length**2 / len(to)) for length, (to, noise) in zip(lengths, found, strict=True)]
        return np.average([to for to, _ in found], axis=0, weights=precisions), sum(precisions) ** -0.5

    def clip(self, step: int, residuals: MagnitudeDistribution | None, v: Array, most: float) -> tuple[float, float]:
        """The clip of residuals, and the mean slope of the clipped loss in the margin (that of the squared loss is one)."""
        plan = self.plan
        if plan.labels:
            return self.label_clip, self.label_curvature(residuals)
        if residuals is None:
            return self.queries.hidden_clip, plan.default_curvature
        noise = plan.adjacency.contributions_changed * self.coordinates.cap / (plan.units * plan.gradient_mu)
        if plan.loss.estimand is Estimand.MEDIAN:
            clip = thresholds.for_medians(residuals, plan.units, noise, most)
            return clip, float(thresholds.inside(residuals, np.array([clip]))[0])
        variance = float(residuals.squares(residuals.quantile(SIGNAL_QUANTILE) * np.ones(1))[0])
        signal = max(self.maps.signal(v - self.start), LEAST_SIGNAL * variance) if step else UNKNOWN_SIGNAL * variance
        direction_loss = DIRECTION_LOSS if plan.calibrates else 1.0
        clip = thresholds.for_means(residuals, plan.units, len(v), noise, signal, direction_loss, most)
        return clip, float(thresholds.inside(residuals, np.array([clip]))[0])

    def label_curvature(self, residuals: MagnitudeDistribution | None) -> float:
        """1.5 E p (1 - p) + 0.02, at most a quarter and at most 1.1 times that of the paid share: a little more than the true one, so that
        steps do not go too far. A hinge has its default: its residuals do not show how many margins are near the bend.
        """
        if residuals is None or self.plan.loss.estimand is not Estimand.LOG_ODDS:
            return self.plan.default_curvature
        within = LABEL_CURVATURE_FACTOR * residuals.label_variance() + LABEL_CURVATURE_OFFSET
        return min(LOGISTIC_CURVATURE, within, MOST_OF_LABEL_SPREAD * self.label_spread)

    @property
    def label_clip(self) -> float:
        """The clip of labels' residuals, opened towards one where one label is rare: there it would fall on that label's records."""
        clip, rare = self.plan.clip_of_labels, max(0.0, 1 - self.label_spread / SPREAD_OF_RARE_LABELS)
        return clip + rare * max(0.0, 1.0 - clip)

    def sampling_variance(self, residuals: MagnitudeDistribution | None, clip: float, slope: float) -> float:
        """E min(r^2, clip^2) / (n slope^2): the variance that drawing other records gives an estimate, for a curvature of one."""
        squares = clip**2 if residuals is None else float(residuals.squares(np.array([clip]))[0])
        return squares / (self.plan.units * slope**2)

    def shrunk(self, v: Array, deviation: float, sampling: float) -> Array:
        """v with its slopes shrunk by as much as they look like noise, whose covariance is H^-1 (deviation^2 I + sampling H) H^-1.

        The intercept is neither shrunk nor evidence of signal; it takes up the mean of what slopes lose.
        """
        inverse = self.coordinates.curvature.inverse
        return self.shrunk_by(v, deviation**2 * inverse @ inverse + sampling * inverse)

    def shrunk_by(self, v: Array, covariance: Array) -> Array:
        """The same for an estimate with this covariance."""
        at, kept, slopes = self.coordinates, v.copy(), len(self.coordinates.variances)
        noise = covariance[:slopes, :slopes]
        relative = at.variances / at.variances.max()
        centre = shrinkage_centre(v, self.start, at.curvature.matrix, at.free)[:slopes]
        shapes = (np.ones(slopes), relative) if self.plan.tuning.ridge else (np.ones(slopes),)
        kept[:slopes] = centre + shrunk(v[:slopes] - centre, noise, shapes, self.maps.from_columns if self.plan.tuning.mixture else None)
        for j in at.free:
            kept[j] += at.means(j) @ (v - kept)[:slopes]
        return kept

    def calibrate(self, v: Array, residuals: SignedDistribution | None, far_out: float, before: TargetMean | None) -> Calibrated:
        """v with the level and scale of its predictions as a wide clip finds them."""
        return calibrate(self.queries, v, residuals, far_out, before)

    def with_label_share(self, v: Array, mean_residual: float) -> Array:
        """v with the intercept at which the mean prediction is the share of labels 1, known from the mean residual of complete rows at the
        start: clips of residuals move the intercept, most where one label is rare.
        """
        moment, free = self.coordinates.complete_moment, self.coordinates.free
        share = label_share(moment, self.start, free) + mean_residual
        least = 1 / self.plan.units
        return with_share(moment, v, free, float(np.clip(share, least, 1 - least)))


def diverged(before: MagnitudeDistribution, after: MagnitudeDistribution, clip: float) -> bool:
    """Whether a step went too far: E min(|r|, 2 clip)^2 more than doubled."""
    bound = np.array([2 * clip])
    return bool(after.squares(bound)[0] > GROWTH_OF_RESIDUALS * before.squares(bound)[0])
