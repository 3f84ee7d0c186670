"""Residuals at given weights: their distribution and their mean, as paid answers. Imports weight_maps and below."""

from dataclasses import dataclass

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.complete_rows import label_share
from nightfit.methods.auto.constants.intervals import HIDDEN_TAIL_INDEX
from nightfit.methods.auto.constants.labels import FIRST_LABEL_RESIDUAL
from nightfit.methods.auto.constants.steps import HIDDEN_CLIP
from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution
from nightfit.methods.auto.noisy_histograms import noise_level
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.weight_maps import WeightMaps
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.procedure import PaidShare
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Estimand, Loss
from nightfit.queries.magnitudes import Residual, SignedResidual
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class KnownResiduals:
    """Paid magnitudes of residuals, the weights at which they were asked, and the share of records that noise may hide in a bin."""

    residuals: MagnitudeDistribution
    at: Array
    hidden: float

    def beyond(self, clip: float) -> float:
        """E (|r| - clip)_+ with the tail that noise may hide: beyond the last visible bin, bins hold `hidden` and then fall as those of
        t(2) do, by 2^-2 per octave.
        """
        grid, shares = self.residuals.grid, self.residuals.shares
        last = int(np.flatnonzero(shares >= min(self.hidden, shares.max()))[-1])
        k = np.arange(grid.bins - 1 - last)
        tail = np.r_[shares[: last + 1], self.hidden * 2.0 ** (-HIDDEN_TAIL_INDEX * grid.step * k)]
        return float(tail @ np.maximum(grid.middles - clip, 0.0))


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetMean:
    """The paid mean residual at the start, the intercept that follows from it, and the standard deviation of its noise."""

    residual: float
    intercept: float
    deviation: float

    def label_share(self, loss: Loss, start: Array, coordinates: WhitenedCoordinates) -> tuple[PaidShare, ...]:
        """The share of label 1, where residuals were asked without weights and every prediction was a half; nothing for other targets."""
        if loss.estimand is not Estimand.LOG_ODDS or start.any():
            return ()
        return (label_share(1 / 2, self.residual, self.deviation, coordinates.complete, coordinates.used_share),)


@dataclass(frozen=True, kw_only=True)
class ResidualQueries:
    """Asks for residuals at weights v, by the slope of `loss`."""

    plan: QueryPlan
    gate: Gate
    maps: WeightMaps
    loss: Loss

    @property
    def complete(self) -> float:
        """The share of records that are not null."""
        return self.maps.coordinates.complete

    @property
    def hidden_clip(self) -> float:
        """The clip of residuals whose magnitude noise hides: one for labels, where that is the most; next to nothing for others, because
        any clip would be noise of its size.
        """
        return 1.0 if self.plan.labels else HIDDEN_CLIP

    def magnitudes(self, place: int, v: Array) -> KnownResiduals | None:
        """The distribution of residual magnitudes by the histogram of this number; None if it is not asked or noise hides it."""
        plan, label = self.plan, f"residuals {place}"
        if label not in plan.shares:
            return None
        rows = self.maps.coordinates.rows
        found = plan.distribution(self.gate, label, Residual(rows=rows, loss=self.loss, weights=self.maps.scaled(v)), self.complete)
        return self.known(found, label, v) if found else None

    def signed(self, place: int, v: Array) -> SignedDistribution | None:
        """The same with signs."""
        rows = self.maps.coordinates.rows
        measure = SignedResidual(rows=rows, loss=self.loss, weights=self.maps.scaled(v))
        return self.plan.signed_distribution(self.gate, f"signed residuals {place}", measure, self.complete)

    def known(self, residuals: MagnitudeDistribution, label: str, v: Array) -> KnownResiduals:
        """A distribution with what noise may hide in a bin, by the histogram of this label."""
        grid = self.plan.residual_grid(label)
        hidden = noise_level(grid.bins, self.plan.deviation(label)) / (self.plan.units * self.complete)
        return KnownResiduals(residuals=residuals, at=v, hidden=hidden * residuals.grid.step / grid.step)

    def target_mean(self, v: Array, residuals: SignedDistribution | None) -> tuple[Array, TargetMean | None]:
        """v with the intercept moved by the mean residual of complete rows, and that mean; None if it is not asked.

        Residuals are clipped to the interval where their distribution puts them. Without any weights that of a label is a half.
        """
        if "target" not in self.plan.shares:
            return v, None
        plan, moved = self.plan, v.copy()
        high = FIRST_LABEL_RESIDUAL if plan.loss.estimand is Estimand.LOG_ODDS and not v.any() else self.hidden_clip
        low = -high
        if residuals:
            low, high = thresholds.for_intercepts(residuals, plan.deviation("target", clip=1.0) / self.complete)
        clip, middle = (high - low) / 2, (high + low) / 2
        answer = plan.ask(self.gate, "target", rows=self.maps.coordinates.rows, weights=self.maps.scaled(v), clip=clip, middle=middle)
        mean = float(answer[0]) / self.complete + middle
        moved[-1] += mean / plan.default_curvature
        deviation = plan.deviation("target", clip=clip) / self.complete
        return moved, TargetMean(residual=mean, intercept=float(moved[-1]), deviation=deviation)
