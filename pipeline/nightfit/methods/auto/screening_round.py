"""One round of a screening: which columns move with the target. Imports query_plan, scale_windows and below."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.constants.coordinates import PUBLIC_REACH
from nightfit.methods.auto.constants.screening import COARSE_SCALE_SHARE, LOGIT_PER_SHARE, SCREENING_CAP_QUANTILE
from nightfit.methods.auto.distributions import MagnitudeDistribution
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.scale_windows import windowed_scales
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.problem.losses.squared import Squared
from nightfit.queries.magnitudes import Residual, SignedResidual
from nightfit.queries.rows import Rows
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the rounds so far say.

    Parameters
    ----------
    moment, precision : Array
        Of every column that is left: E r x_j, averaged over rounds by precision, and that precision.
    scale : Array
        Of every column that is left.
    level : float
        The level of predictions.
    residuals : MagnitudeDistribution or None
        The residuals r about it.
    """

    moment: Array
    precision: Array
    scale: Array
    level: float
    residuals: MagnitudeDistribution | None

    @classmethod
    def none(cls, features: int) -> "Evidence":
        return cls(moment=np.zeros(features), precision=np.zeros(features), scale=np.ones(features), level=0.0, residuals=None)

    @property
    def relevance(self) -> Array:
        """|E r x_j| in scales: how much each column moves with the target."""
        relevance: Array = np.abs(self.moment) / self.scale
        return relevance

    def with_round(self, gradient: Array, deviation: float, scale: Array) -> "Evidence":
        """With a gradient E r x_j / scale_j whose noise has this standard deviation."""
        precision = 1 / (deviation * scale) ** 2
        together = self.precision + precision
        moment = (self.precision * self.moment + precision * gradient * scale) / together
        return replace(self, moment=moment, precision=together, scale=scale)

    def only(self, chosen: tuple[int, ...]) -> "Evidence":
        """Of these columns."""
        kept = list(chosen)
        return replace(self, moment=self.moment[kept], precision=self.precision[kept], scale=self.scale[kept])


@dataclass(frozen=True, kw_only=True)
class ScreeningRound(QueryPlan):
    """One gradient of all columns, scaled but not whitened, about the target's mean. The first round asks for the columns' scales, for that
    mean and for the residuals about it; later rounds use the same.
    """

    round: int

    @property
    def residual_loss(self) -> Loss:
        """That of a fit; y - z where the logarithm of a mean is fitted: a column that moves with the target moves with its logarithm."""
        return Squared() if self.log_mean else super().residual_loss

    @property
    def gradients_carry_moment(self) -> bool:
        return False

    @cached_property
    def shares(self) -> dict[str, float]:
        first = self.scale_share if self.round == 1 else 0.0
        shares = {"coarse scales": COARSE_SCALE_SHARE * first, "windowed scales": (1 - COARSE_SCALE_SHARE) * first}
        shares |= {"norms": self.tuning.norms / 2}
        if self.round == 1:
            shares |= {"signed residuals 1": self.residual_share / 2, "target": self.target_share} if self.target_share else {}
            shares |= {"residuals 2": self.residual_share / 2}
        return {label: share for label, share in shares.items() if share > 0} | {"gradient 1": 1 - sum(shares.values())}

    def run(self, gate: Gate, before: Evidence) -> Evidence:
        """The evidence with that of this round."""
        scale = np.r_[before.scale, np.ones(self.columns - self.features)]
        if self.round == 1 and self.unbounded:
            scale[list(self.unbounded)] = windowed_scales(self, gate)
        reach = np.full(self.columns, PUBLIC_REACH)
        reach[list(self.unbounded)] = self.tuning.least_reach
        rows = Rows(centre=np.zeros(self.columns), scale=scale, reach=reach)
        norms, complete, _ = self.norms(gate, rows)
        cap = norms.quantile(SCREENING_CAP_QUANTILE) if norms else math.sqrt(self.columns)
        known = self.with_level(gate, before, rows, complete) if self.round == 1 else before
        unit = self.deviation("gradient 1", clip=1.0, cap=cap)
        clip = 1.0 if self.labels or not known.residuals else thresholds.for_medians(known.residuals, self.units, unit, math.inf)
        gradient = self.ask(gate, "gradient 1", rows=rows, rotation=None, weights=self.level_weights(known.level), clip=clip, cap=cap)
        return known.with_round(gradient[: self.features], unit * clip, scale[: self.features])

    def with_level(self, gate: Gate, before: Evidence, rows: Rows, complete: float) -> Evidence:
        """The evidence with the level of complete rows' predictions, and residuals about it."""
        weights, level, signed = self.level_weights(0.0), 0.0, None
        if "target" in self.shares:
            measure = SignedResidual(rows=rows, loss=self.residual_loss, weights=weights)
            signed = self.signed_distribution(gate, "signed residuals 1", measure, complete)
            noise = self.deviation("target", clip=1.0)
            low, high = (-1.0, 1.0) if self.labels or not signed else thresholds.for_intercepts(signed, noise)
            bounds = {"clip": (high - low) / 2, "middle": (high + low) / 2}
            mean = float(self.ask(gate, "target", rows=rows, weights=weights, **bounds)[0]) / complete + bounds["middle"]
            level = mean * (LOGIT_PER_SHARE if self.labels else 1.0)
        about = Residual(rows=rows, loss=self.residual_loss, weights=self.level_weights(level))
        residuals = self.distribution(gate, "residuals 2", about, complete) or (signed.magnitudes if signed else None)
        return replace(before, level=level, residuals=residuals)

    def level_weights(self, level: float) -> Array:
        """Weights of zero, and the level for the intercept if there is one."""
        weights = np.zeros(self.columns)
        weights[self.features :] = level
        return weights
