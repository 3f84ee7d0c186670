"""Each query's share of the budget, and the number of steps, from public facts. Imports public_facts and below."""

import math
from functools import cached_property
from itertools import islice

import numpy as np

from nightfit.methods.auto.constants.budget import (
    CLAMPS,
    COARSE_RESIDUAL_SHARE,
    EXPECTED_CLIP,
    FINE_RESIDUAL_SHARE,
    FIRST_TARGET_SHARE,
    HOPELESS_NOISE,
    LAST_HISTOGRAM_WEIGHT,
    LEAST_PRECISION,
    LEAST_RESIDUAL_QUERIES,
    LITTLE_MOMENT_NOISE,
    MOST_RESIDUAL_QUERIES,
    RESIDUAL_QUERIES_OF_LABELS,
    RESIDUAL_VISIBILITY,
    SCALE_VISIBILITY,
    SHOWN_AT_ONCE,
    SLOPE_NOISE_CLIP,
    STEPS_OF_NUMBERS,
    TAIL_COST,
    TARGET_CLIP,
    VISIBLE_SHARE,
    WEIGHT_OF_HIDDEN_SCALE,
)
from nightfit.methods.auto.constants.labels import (
    HINGE_CURVATURE,
    LABEL_CLIP_EXPONENT,
    LABEL_CLIP_NOISE,
    LABEL_STEPS_NOISE,
    LEAST_LABEL_CLIP,
    LEAST_LABEL_STEPS,
    LOGISTIC_CURVATURE,
    MOST_BURNED,
    MOST_LABEL_STEPS,
)
from nightfit.methods.auto.constants.outcomes import BURNED_OF_LOG_MEANS, STEPS_OF_LOG_MEANS, STEPS_OF_QUANTILES
from nightfit.methods.auto.public_facts import PublicFacts
from nightfit.problem.losses import Estimand
from nightfit.types import Array


class BudgetShares(PublicFacts):
    """Shares of mu^2 by the label of a query, and the schedule of steps.

    With d columns, n units, m = 2 under replace_one and else 1, and mu_g what gradients may spend, k = m d / (n mu_g) is the noise of all
    slopes together for a clip of one: rows have norms near sqrt(d).
    """

    @cached_property
    def shares(self) -> dict[str, float]:
        """Each query's share of mu^2, in the order in which they are asked; they add to one."""
        shares, rest = dict(self.row_shares), self.gradient_share
        last = self.residual_queries
        weights = np.r_[np.ones(max(0, last - 1)), LAST_HISTOGRAM_WEIGHT if self.calibrates else 1.0]
        each = self.residual_share * weights / weights.sum()
        histograms = iter(range(1, last + 1 - self.calibrates))

        def histogram(kind: str = "residuals") -> dict[str, float]:
            return {f"{kind} {place}": float(each[place - 1]) for place in islice(histograms, 1)}

        if self.target_share:
            shares |= ({} if self.labels else histogram("signed residuals")) | {"target": self.target_share}
        for step, weight in enumerate(self.step_weights):
            shares |= histogram() | {f"gradient {step + 1}": rest * weight}
        if self.calibrates:
            shares |= {f"signed residuals {last}": float(each[-1]), "calibration": self.calibration_share}
        return {label: share for label, share in shares.items() if share > 0}

    @property
    def row_shares(self) -> dict[str, float]:
        """Shares of the queries about rows, which are asked before the first step."""
        tuning, centred = self.tuning, self.preprocessing.intercept
        return {
            "scales": self.scale_share,
            "hidden scales": self.hidden_scale_share,
            "means": tuning.means if centred else 0.0,
            "spreads": tuning.spreads if centred and self.unbounded else 0.0,
            "norms": tuning.norms / 2,
            "moment": tuning.moment,
            "whitened norms": tuning.norms / 2,
            "whitened moment": 0.0 if self.gradients_carry_moment else tuning.whitened_moment,
        }

    @cached_property
    def gradient_share(self) -> float:
        """What the other queries leave."""
        return 1 - sum(self.row_shares.values()) - self.residual_share - self.target_share - self.calibration_share

    @property
    def scale_share(self) -> float:
        """What `scales` costs, if a column has no public bounds."""
        return self.tuning.scales if self.unbounded else 0.0

    @property
    def hidden_scale_share(self) -> float:
        """The share of a second query for the columns that the first does not show. In these most records are zero, so without the other
        columns a record has few non-zero ones left, and each counts more. A public fact decides whether it is asked.
        """
        return self.tuning.hidden_scales if self._share_of_a_visible_column / SHOWN_AT_ONCE**2 > self.scale_share else 0.0

    @property
    def _share_of_a_visible_column(self) -> float:
        """The share that makes a bin with all records visible in every unbounded column."""
        return self.adjacency.contributions_changed * len(self.unbounded) * (SCALE_VISIBILITY / self.units) ** 2 / self.mu_squared

    @property
    def residual_share(self) -> float:
        """2 m (3.6 / (n p))^2 / mu^2, which makes a bin of the share p visible in two histograms: p = 1% up to `Tuning.residuals`, else
        p = 5%. The least for labels, whose residuals are known to lie between 0 and 1; none for several classes, whose gradients bring the
        second moment of residuals along.
        """
        if self.several_classes:
            return 0.0
        if self.labels:
            return self.tuning.least_residuals
        tuning, one = self.tuning, 2 * (RESIDUAL_VISIBILITY / self.units) ** 2 * self.adjacency.contributions_changed / self.mu_squared
        wanted = max(min(one / FINE_RESIDUAL_SHARE**2, tuning.residuals), one / COARSE_RESIDUAL_SHARE**2)
        return float(np.clip(wanted, tuning.least_residuals, tuning.most_residuals))

    @cached_property
    def residual_queries(self) -> int:
        """The number of histograms of residuals: as many as keep a bin of 3% of the records visible."""
        if self.several_classes:
            return 0
        if self.labels:
            return min(self.steps, RESIDUAL_QUERIES_OF_LABELS)
        moved = math.sqrt(self.adjacency.contributions_changed)
        visible = VISIBLE_SHARE * self.units * math.sqrt(self.mu_squared) / (RESIDUAL_VISIBILITY * moved)
        most = min(self.steps + (self.target_share > 0) + self.calibrates, MOST_RESIDUAL_QUERIES)
        return int(np.clip(self.residual_share * visible**2, LEAST_RESIDUAL_QUERIES + self.calibrates, most))

    @property
    def target_share(self) -> float:
        """What makes the target's mean known within `Tuning.mean_within`; a tenth of it where the calibration asks for the level again."""
        if not (self.preprocessing.intercept and self.tuning.most_target):
            return 0.0
        most = self.tuning.most_target * (FIRST_TARGET_SHARE if self.calibrates else 1.0)
        wanted = self._share_of_a_mean(self.tuning.mean_within) * (FIRST_TARGET_SHARE if self.calibrates else 1.0)
        return float(np.clip(wanted, self.tuning.least_target, most))

    @property
    def asks_targets(self) -> bool:
        """Whether the distribution of targets is asked before the first step: where their mean is asked, and they are no labels."""
        return not self.labels and self.target_share > 0

    @property
    def calibration_share(self) -> float:
        """What makes the level of predictions known within `Tuning.calibrated_within`. Where clamps are compared, more is asked if that
        raises the variance of the slopes' noise by at most TAIL_COST: by (2 k)^2 s for a share s.
        """
        wanted = self._share_of_a_mean(self.tuning.calibrated_within)
        if len(self.clamps) > 1:
            wanted = max(wanted, TAIL_COST * (self.precision / self.columns / EXPECTED_CLIP) ** 2)
        return float(np.clip(wanted, self.tuning.least_calibration, self.tuning.most_calibration)) if self.calibrates else 0.0

    def _share_of_a_mean(self, within: float) -> float:
        """(c m / (within n))^2 / mu^2 for targets clipped at c = 3 standard deviations; c = 1 for labels."""
        deviations = 1.0 if self.labels else TARGET_CLIP
        return (deviations * self.adjacency.contributions_changed / (within * self.units)) ** 2 / self.mu_squared

    @property
    def clamps(self) -> tuple[float, ...]:
        """The clamps that a calibration of means compares, as multiples of the reach, where a column has no public bounds and enough would
        be told.
        """
        possible = self.calibrates and self.loss.estimand is Estimand.MEAN and self.unbounded
        return CLAMPS if possible and self.precision > LEAST_PRECISION and self.tuning.compares else (1.0,)

    @property
    def reach(self) -> float:
        """The clamp of columns without public bounds while slopes are fitted, in scales. Slopes hardly depend on it, predictions do."""
        if self.loss.estimand is Estimand.MEAN and self.calibrates:
            return self.tuning.least_reach if len(self.clamps) > 1 else self.tuning.reach_if_hidden
        return self.tuning.least_reach if self.labels or self.hopeless else self.tuning.reach

    @property
    def precision(self) -> float:
        """n mu / m: one over the noise of a mean of numbers between -1 and 1 that the whole budget is spent on."""
        return self.units * math.sqrt(self.mu_squared) / self.adjacency.contributions_changed

    @cached_property
    def gradients_with_moment(self) -> int:
        """How many of the first gradients bring the second moment of whitened rows along, if any do: as many as make its noise little, by
        `moment_noise`. Each of the others needs d numbers, and not (d + 1) (d + 2) / 2, and no product of rows with themselves.
        """
        if not self.gradients_carry_moment:
            return 0
        enough = np.flatnonzero(self.moment_noise <= LITTLE_MOMENT_NOISE)
        return int(enough[0]) + 1 if len(enough) and not self.several_classes else self.steps

    @cached_property
    def moment_noise(self) -> Array:
        """2 k sqrt(d / w): the largest eigenvalue 2 s sqrt(d) of the noise on the second moment that the first 1, 2, ... gradients bring
        along, w being their part of what gradients get. Rows have norms near sqrt(d) and m = 2, so s = (5/7) sqrt(2) k / sqrt(w), and
        (10/7) sqrt(2) is 2.02.
        """
        return 2 * self.relative_noise * np.sqrt(self.columns / np.cumsum(self.step_weights))

    def brings_moment(self, label: str) -> bool:
        """Whether the gradient of this label brings the second moment along."""
        return label in {f"gradient {step + 1}" for step in range(self.gradients_with_moment)}

    @property
    def gradient_mu(self) -> float:
        """mu_g, what all gradients may spend together."""
        return math.sqrt(self.mu_squared * self.gradient_share)

    @property
    def relative_noise(self) -> float:
        """k."""
        return self.adjacency.contributions_changed * self.columns / (self.units * self.gradient_mu)

    @property
    def slope_noise(self) -> float:
        """The noise of one slope for rows of norm one, in standard deviations of the target."""
        return SLOPE_NOISE_CLIP * self.adjacency.contributions_changed / (self.units * self.gradient_mu)

    @property
    def hopeless(self) -> bool:
        """Whether noise hides most slopes: k > 1/4."""
        return self.relative_noise > HOPELESS_NOISE

    @property
    def scale_weight(self) -> float:
        """The weight of predictions in the calibration, over that of the level."""
        return WEIGHT_OF_HIDDEN_SCALE if self.hopeless else 1.0

    @property
    def clip_of_labels(self) -> float:
        """(0.13 / k)^(1/7) / 2, at least a half and at most one. A hinge's residuals are 0 or 1: a smaller clip would only rescale them.
        Those of several classes are not clipped, because a clip would hide the rare ones.
        """
        if self.loss.estimand is not Estimand.LOG_ODDS:
            return self.loss.lipschitz if self.several_classes else 1.0
        return float(np.clip((LABEL_CLIP_NOISE / self.relative_noise) ** LABEL_CLIP_EXPONENT / 2, LEAST_LABEL_CLIP, 1.0))

    @property
    def default_curvature(self) -> float:
        """The mean curvature of the loss in the margin where nothing is known of residuals."""
        if not self.labels:
            return 1.0
        return LOGISTIC_CURVATURE if self.loss.estimand is Estimand.LOG_ODDS else HINGE_CURVATURE

    @property
    def steps(self) -> int:
        """Five for numbers, whose curvature is known, one more for log means and quantiles; 0.8 / k for labels, between 3 and 10."""
        if self.log_mean or self.loss.estimand is Estimand.QUANTILE:
            return STEPS_OF_LOG_MEANS if self.log_mean else STEPS_OF_QUANTILES
        if not self.labels:
            return STEPS_OF_NUMBERS
        return int(np.clip(LABEL_STEPS_NOISE / self.relative_noise, LEAST_LABEL_STEPS, MOST_LABEL_STEPS))

    @property
    def burn_in(self) -> int:
        """The number of first steps that are not averaged: half of those of labels, up to three, because their curvature changes."""
        if self.labels:
            return min(MOST_BURNED, max(1, self.steps // 2))
        return BURNED_OF_LOG_MEANS if self.log_mean else 0

    @property
    def first_shrunk_step(self) -> int:
        """The step from which on slopes are shrunk. Those of labels are not during burn-in: residuals are bounded, so noise cannot lead far
        away, and what was shrunk would be missing at the end.
        """
        return self.burn_in if self.labels and not self.hopeless else 0

    @property
    def step_weights(self) -> Array:
        """Each gradient's share of what gradients get."""
        weights = (1.0 if self.labels else self.tuning.growth) ** np.arange(self.steps)
        return weights / weights.sum()
