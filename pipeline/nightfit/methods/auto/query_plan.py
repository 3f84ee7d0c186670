"""What the automatic method asks, fixed in advance by public facts. Imports gate, the questions and rooms below."""

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from nightfit.methods.auto.calibration import cap_of
from nightfit.methods.auto.quantiles import SURELY, Sides, Sizes
from nightfit.methods.auto.tuning import Tuning
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Estimand, Loss
from nightfit.problem.losses.columns import Columns
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties import Penalty
from nightfit.queries.base import SumQuery, bits_for
from nightfit.queries.calibration import Calibration
from nightfit.queries.histograms import (
    COLUMN_GRID,
    DOUBLE_OCTAVES,
    NORM_GRID,
    OCTAVES,
    RESIDUAL_GRID,
    ColumnSizes,
    ColumnSpreads,
    Grid,
    Histogram,
    Norm,
    Residual,
    SignedResidual,
)
from nightfit.queries.rows import Rotation, Rows
from nightfit.queries.second_moments import DIAGONAL, OTHERS, SecondMoment, matrix_of, moment_bits
from nightfit.queries.tail_gains import TailGains
from nightfit.queries.whitened_gradients import GradientAndMoment, MeanResidual, WhitenedGradient
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.types import Adjacency, Array

MOST_COLUMNS = 4_000
NOISE_BITS = 57
VISIBLE = 0.03
SEEN_AT_ONCE = 0.05
FINE = 0.01
LESS_SURELY = 0.5
HOPELESS, SPARED = 0.25, 0.05
NOISE_OF_HALF, LEVELLING = 0.13, 1 / 7
FIRST_TARGET = 0.1
USUAL_CLIP = 1.5
STEPS_OF_NUMBERS = 5
LAST_HISTOGRAM = 4.0
TAIL_COST, TAIL_GAIN = 2e-4, 0.03


@dataclass(frozen=True, kw_only=True, slots=True)
class Gradient:
    """A paid mean gradient and the deviation of its noise; and the second moment of the rows it was asked of, if that came with it, and
    the deviation of the noise on its diagonal.
    """

    mean: Array
    deviation: float
    moment: Array | None = None
    moment_noise: float = math.inf


@dataclass(frozen=True, kw_only=True)
class QueryPlan:
    """What the recipe asks: which questions, their shares of the budget, their noise.

    Guarantee: `events` is a function of the fields alone. A question's sensitivity in steps does not depend on the bounds that earlier
    answers set (they scale its grid), so a run asks exactly what was reserved, whatever comes out, and the gate refuses anything else.
    Broken by test_the_recipe_asks_exactly_its_events_whatever_the_data_are.
    """

    loss: Loss
    penalty: Penalty
    preprocessing: Preprocessing
    units: int
    adjacency: Adjacency
    mu_squared: float
    largest_units: int
    tuning: Tuning = field(default_factory=Tuning)
    prefix: str = ""

    def __post_init__(self) -> None:
        if self.columns > MOST_COLUMNS + 1:
            raise ValueError(f"the automatic method takes at most {MOST_COLUMNS} columns, got {self.columns}: name a solver")
        if not self.penalty.convex:
            raise ValueError("the automatic method needs a convex penalty")

    @property
    def columns(self) -> int:
        return self.preprocessing.columns

    @property
    def features(self) -> int:
        return len(self.preprocessing.features)

    @property
    def labels(self) -> bool:
        return self.loss.target is Target.LABELS

    @property
    def asked_loss(self) -> Loss:
        """The loss whose residual is clipped: Huber's own bound is replaced by the paid one."""
        return Squared() if self.loss.estimand is Estimand.MEDIAN else self.loss

    @property
    def unbounded(self) -> tuple[int, ...]:
        """The features without public bounds."""
        return tuple(j for j, reach in enumerate(self.preprocessing.reach) if not math.isfinite(reach))

    @property
    def frame_shares(self) -> dict[str, float]:
        """Of the questions about rows."""
        said, centred = self.tuning, self.preprocessing.intercept
        return {
            "scales": self.scale_share,
            "hidden scales": self.hidden_scale_share,
            "means": said.means if centred else 0.0,
            "spreads": said.spreads if centred and self.unbounded else 0.0,
            "norms": said.norms / 2,
            "moment": said.moment,
            "whitened norms": said.norms / 2,
            "whitened moment": 0.0 if self.moment_comes_along else said.whitened_moment,
        }

    @property
    def moment_comes_along(self) -> bool:
        """Whether gradients are asked for together with the second moment of whitened rows, which costs nothing where a gradient may
        turn round, and as much as the gradient where it may only vanish.
        """
        return self.adjacency.contributions_changed == 2

    @property
    def gradient_share(self) -> float:
        """What the others leave."""
        return 1 - sum(self.frame_shares.values()) - self.residual_share - self.target_share - self.calibration_share - self.tail_share

    @cached_property
    def shares(self) -> dict[str, float]:
        """Each question's share of mu^2; they add to one."""
        shares, rest = dict(self.frame_shares), self.gradient_share
        last = self.residual_questions
        weights = np.r_[np.ones(last - 1), LAST_HISTOGRAM if self.calibrates else 1.0]
        each = self.residual_share * weights / weights.sum()
        histograms = iter(range(1, last + 1 - self.calibrates))

        def histogram(kind: str = "residuals") -> dict[str, float]:
            return {f"{kind} {place}": float(each[place - 1]) for place in islice(histograms, 1)}

        if self.target_share:
            shares |= ({} if self.labels else histogram("signed residuals")) | {"target": self.target_share}
        for step, weight in enumerate(self.step_weights):
            shares |= histogram() | {f"gradient {step + 1}": rest * weight}
        if self.calibrates:
            shares |= {f"signed residuals {last}": float(each[-1]), "calibration": self.calibration_share, "tails": self.tail_share}
        return {label: share for label, share in shares.items() if share > 0}

    @property
    def scale_share(self) -> float:
        """What makes a bin of 3% of the records visible in the histogram of every column (4.6 deviations of its noise) if none is ever
        zero, if `scales` does that; else what makes one of a tenth visible, and the least where the whole budget would not.
        """
        said, one = self.tuning, self.adjacency.contributions_changed * len(self.unbounded) * (4.6 / self.units) ** 2 / self.mu_squared
        if not 0.0 < one / 0.1**2 < 1.0:
            return said.least_scales if self.unbounded else 0.0
        return float(np.clip(max(min(one / VISIBLE**2, said.scales), one / 0.1**2), said.least_scales, said.most_scales))

    @property
    def hidden_scale_share(self) -> float:
        """A second question about the columns that the first does not show: most are zero for most records, so without the others few
        sizes of a record are left, and each counts more. It is left out where the first shows 5% of the records in columns that are
        never zero: a public fact, so it is asked whatever the first shows.
        """
        one = self.adjacency.contributions_changed * len(self.unbounded) * (4.6 / self.units) ** 2 / self.mu_squared
        return self.tuning.hidden_scales if one / SEEN_AT_ONCE**2 > self.scale_share else 0.0

    @property
    def calibrates(self) -> bool:
        """Whether the scale of slopes is asked for at the end: a fit of means only, because other losses mean what clips make of them."""
        return self.loss.estimand is Estimand.MEAN and self.tuning.calibrates

    @property
    def target_share(self) -> float:
        """What makes the target's mean known within 3% of its deviation, if clipped at three of them; that of labels, which is at most a
        half, if clipped there; a tenth of it where the level is asked for again at the end.
        """
        if not (self.preprocessing.intercept and self.tuning.most_target):
            return 0.0
        most = self.tuning.most_target * (FIRST_TARGET if self.calibrates else 1.0)
        wanted = self._for_mean(self.tuning.mean_within) * (FIRST_TARGET if self.calibrates else 1.0)
        return float(np.clip(wanted, self.tuning.least_target, most))

    @property
    def calibration_share(self) -> float:
        """What makes the level of predictions known within 3% of the target's deviation, if clipped at three of them."""
        wanted = self._for_mean(self.tuning.calibrated_within)
        return float(np.clip(wanted, self.tuning.least_calibration, self.tuning.most_calibration)) if self.calibrates else 0.0

    @property
    def tail_share(self) -> float:
        """What is asked at the end about columns far out, if a gain of 3% of the target's variance would be told (clips of four deviations
        of it and of one). It is taken from gradients, whose noise it makes larger by 4 k^2 share of that variance (at a clip of two): no
        more than TAIL_COST.
        """
        if not (self.calibrates and self.unbounded and self.tuning.tails):
            return 0.0
        told = self.units * math.sqrt(self.mu_squared) / self.adjacency.contributions_changed
        share = min(self.tuning.tails, TAIL_COST * (told / self.columns) ** 2 / 4)
        return share if 2 * 4 * math.sqrt(2 / share) / told < TAIL_GAIN else 0.0

    @property
    def level(self) -> float:
        """One if predictions have a level of their own, an intercept."""
        return float(self.preprocessing.intercept)

    @property
    def scale_weight(self) -> float:
        """How much of a calibration is the scale's: as much as the level's, or less where noise will hide it."""
        return 0.25 if self.hopeless else 1.0

    def _for_mean(self, within: float) -> float:
        deviations = 1.0 if self.labels else 3.0
        return (deviations * self.adjacency.contributions_changed / (within * self.units)) ** 2 / self.mu_squared

    @property
    def residual_share(self) -> float:
        """What makes a bin of a hundredth of the records visible in two questions (3.6 deviations of its noise), if a tenth of the budget
        does that; else what makes one of a twentieth visible. The least for labels, whose residuals are known to lie between 0 and 1.
        """
        if self.labels:
            return self.tuning.least_residuals
        said, one = self.tuning, 2 * (3.6 / self.units) ** 2 * self.adjacency.contributions_changed / self.mu_squared
        return float(np.clip(max(min(one / 0.01**2, said.residuals), one / 0.05**2), said.least_residuals, said.most_residuals))

    @property
    def gradient_mu(self) -> float:
        """What the gradients may add up to."""
        return math.sqrt(self.mu_squared * self.gradient_share)

    @property
    def relative_noise(self) -> float:
        """The noise of all slopes together for a clip of one, k = moved columns / (n mu): rows have norms near sqrt(columns)."""
        return self.adjacency.contributions_changed * self.columns / (self.units * self.gradient_mu)

    @property
    def slope_noise(self) -> float:
        """The noise of a slope for rows of norm one, in deviations of the target."""
        return USUAL_CLIP * self.adjacency.contributions_changed / (self.units * self.gradient_mu)

    @property
    def hopeless(self) -> bool:
        """Whether noise hides most slopes: at a clip of two deviations the variance of their noise is (2 k)^2 of the target's, and few
        targets have more than a quarter of theirs explained.
        """
        return self.relative_noise > HOPELESS

    @property
    def clip_of_labels(self) -> float:
        """Where residuals of labels, whose sizes are known to lie between 0 and 1, are clipped: (0.13 / k)^(1/7) / 2, a half at least and
        one at most. A half cuts only what the model held to be the less likely label. A hinge's are 0 or 1, and a smaller clip would make
        them smaller and nothing else.
        """
        if self.loss.estimand is not Estimand.LOG_ODDS:
            return 1.0
        return float(np.clip((NOISE_OF_HALF / self.relative_noise) ** LEVELLING / 2, 0.5, 1.0))

    @property
    def usual_slope(self) -> float:
        """The mean slope of the loss's derivative in the margin where nothing is known of residuals. That of a hinge is the density of
        margins where it bends, a half if they spread over two.
        """
        if not self.labels:
            return 1.0
        return 0.25 if self.loss.estimand is Estimand.LOG_ODDS else 0.5

    @property
    def steps(self) -> int:
        """Five for a fit of numbers, whose curvature is known; for labels more where noise is small, 0.8 / k between 3 and 10."""
        return int(np.clip(0.8 / self.relative_noise, 3, 10)) if self.labels else STEPS_OF_NUMBERS

    @property
    def burned(self) -> int:
        """The first steps, which approach and are not averaged: of labels, whose curvature changes on the way, and of means where noise is
        so small that the budget of one can be spared, because its residuals are as skewed as the target. A Newton step of medians is an
        estimate by itself.
        """
        if self.labels:
            return min(3, max(1, self.steps // 2))
        return int(self.loss.estimand is Estimand.MEAN and self.relative_noise < SPARED)

    @property
    def shrunk_from(self) -> int:
        """The step from which on slopes are shrunk. Those of labels approach without it: their residuals are bounded, so noise cannot lead
        far away, and what was shrunk on the way is missing at the end. Where noise hides most slopes all steps are shrunk, and so are
        those that start at an earlier model, which is no worse a place than they would come to.
        """
        return self.burned if self.labels and not self.hopeless else 0

    @property
    def step_weights(self) -> Array:
        weights = (1.0 if self.labels else self.tuning.growth) ** np.arange(self.steps)
        return weights / weights.sum()

    @property
    def residual_questions(self) -> int:
        """As many as keep a bin of 3% of the records visible (3.6 deviations of its noise); two at least, because the first step
        takes the target's mean out of the residuals, and one more where the scale is asked for at the end. Three for labels: intervals are
        made from the last one, which should be near the end.
        """
        if self.labels:
            return min(self.steps, 3)
        visible = VISIBLE * self.units * math.sqrt(self.mu_squared) / (3.6 * math.sqrt(self.adjacency.contributions_changed))
        most = min(self.steps + (self.target_share > 0) + self.calibrates, 5)
        return int(np.clip(self.residual_share * visible**2, 2 + self.calibrates, most))

    def residual_grid(self, label: str) -> Grid:
        """Half octaves, if they show a hundredth of the records in a bin (five deviations of its noise); before a calibration else
        one octave, and two where noise hides most slopes. A group that spreads over many sizes, as the amounts of the few who have any, is
        seen more clearly in wide bins, and a clip need not be exact.
        """
        shown = 5 * math.sqrt(self.adjacency.contributions_changed) * self.multiplier(label) / self.units
        if label != f"signed residuals {self.residual_questions}" or shown <= FINE:
            return RESIDUAL_GRID
        return DOUBLE_OCTAVES if self.hopeless else OCTAVES

    def multiplier(self, label: str) -> float:
        """sigma in sensitivities: 1 / mu_i with mu_i^2 = share mu^2."""
        return 1 / math.sqrt(self.mu_squared * self.shares[label])

    @cached_property
    def templates(self) -> dict[str, SumQuery]:
        """Every question with bounds of one: what its sensitivity and length are, whatever its bounds will be."""
        d = self.columns
        rows = Rows(centre=np.zeros(d), scale=np.ones(d), reach=np.ones(d))
        rotation, zeros = Rotation.of(np.eye(d)), np.zeros(d)
        most = bits_for(self.largest_units)
        made: dict[str, SumQuery] = {}
        for label in self.shares:
            kind = label.rstrip("0123456789").strip()
            if kind in ("scales", "hidden scales"):
                sizes = ColumnSizes(columns=self.unbounded, known=np.zeros(len(self.unbounded), dtype=bool))
                made[label] = Histogram(measure=sizes, grid_of_sizes=COLUMN_GRID, bits=most)
            elif kind == "spreads":
                spreads = ColumnSpreads(columns=self.unbounded, centre=np.zeros(len(self.unbounded)))
                made[label] = Histogram(measure=spreads, grid_of_sizes=COLUMN_GRID, bits=most)
            elif kind in ("norms", "whitened norms"):
                made[label] = Histogram(measure=Norm(rows=rows), grid_of_sizes=NORM_GRID, bits=most)
            elif kind == "residuals":
                residual = Residual(rows=rows, loss=self.asked_loss, weights=zeros)
                made[label] = Histogram(measure=residual, grid_of_sizes=self.residual_grid(label), bits=most)
            elif kind == "signed residuals":
                signed = SignedResidual(rows=rows, loss=self.asked_loss, weights=zeros)
                made[label] = Histogram(measure=signed, grid_of_sizes=self.residual_grid(label), bits=most)
            elif kind == "calibration":
                made[label] = Calibration(
                    rows=rows,
                    loss=self.asked_loss,
                    weights=zeros,
                    direction=zeros,
                    clip=1.0,
                    level=self.level,
                    weight=self.scale_weight,
                    cap=cap_of(self.level, self.scale_weight),
                    bits=moment_bits(self.largest_units),
                )
            elif kind == "tails":
                none = np.zeros(d, dtype=bool)
                made[label] = TailGains(rows=rows, loss=self.asked_loss, weights=zeros, free=none, clip=1.0, bound=1.0, bits=most)
            elif kind == "target":
                made[label] = MeanResidual(rows=rows, loss=self.asked_loss, weights=zeros, clip=1.0, bits=most)
            elif kind in ("moment", "whitened moment"):
                made[label] = SecondMoment(rows=rows, cap=1.0, bits=moment_bits(self.largest_units))
            elif kind == "gradient" and self.moment_comes_along:
                bits = moment_bits(self.largest_units)
                made[label] = GradientAndMoment(
                    rows=rows, rotation=rotation, loss=self.asked_loss, weights=zeros, clip=1.0, cap=1.0, bits=bits
                )
            else:
                loss = Columns() if kind == "means" else self.asked_loss
                made[label] = WhitenedGradient(rows=rows, rotation=rotation, loss=loss, weights=zeros, clip=1.0, cap=1.0, bits=most)
        return {label: self._fitting(label, query) for label, query in made.items()}

    def _fitting(self, label: str, query: Any) -> SumQuery:
        """The question on a grid coarse enough for its noise to stay inside 64 bits."""
        bits = query.bits
        while query.sensitivity(self.adjacency) * self.multiplier(label) > 2.0**NOISE_BITS:
            bits -= 1
            if bits < 8:
                raise ValueError("so much noise does not fit in 64 bits; choose fewer columns or a larger epsilon")
            query = replace(query, bits=bits)
        made: SumQuery = query
        return made

    @cached_property
    def events(self) -> tuple[GaussianEvent, ...]:
        return tuple(
            gaussian_event(query, self.prefix + label, self.adjacency, self.multiplier(label)) for label, query in self.templates.items()
        )

    def ask(self, gate: Gate, label: str, **bounds: Any) -> Array:
        """The answer to a question whose bounds are now known, as a mean where it has a divisor."""
        query: Any = replace(self.templates[label], **bounds)  # type: ignore[type-var]
        return gate.ask(self.prefix + label, query) / query.divisor(self.units)

    def deviation(self, label: str, **bounds: Any) -> float:
        """The standard deviation of an answer's noise: public, given the bounds."""
        query: Any = replace(self.templates[label], **bounds)  # type: ignore[type-var]
        sigma = next(event.sigma for event in self.events if event.label == self.prefix + label)
        return float(sigma * query.grid / query.divisor(self.units))

    def gradient(self, gate: Gate, label: str, *, rows: Rows, rotation: Rotation, weights: Array, clip: float, cap: float) -> Gradient:
        """The mean gradient of whitened rows of norm `cap` at most, with all that comes with it."""
        bounds = {"clip": clip, "cap": math.sqrt(2) * cap if self.moment_comes_along else cap}
        answer, noise = self.ask(gate, label, rows=rows, rotation=rotation, weights=weights, **bounds), self.deviation(label, **bounds)
        if not self.moment_comes_along:
            return Gradient(mean=answer, deviation=noise)
        M, unit = matrix_of(answer, self.columns + 1), clip / cap
        return Gradient(mean=M[:-1, -1] * unit, deviation=noise / OTHERS * unit, moment=M[:-1, :-1], moment_noise=noise / DIAGONAL)

    def sizes(self, gate: Gate, label: str, measure: Norm | Residual) -> Sizes | None:
        """The paid distribution of a record's size; None if noise hides it."""
        grid = self.residual_grid(label) if isinstance(measure, Residual) else NORM_GRID
        return Sizes.of(self.ask(gate, label, measure=measure), grid, self.deviation(label), self.units)

    def sides(self, gate: Gate, label: str, measure: SignedResidual) -> Sides | None:
        """The paid distribution of a residual, with its sign; None if noise hides it. Where noise hides most slopes, so that the level is
        all there is, bins before a calibration are read with less caution: its level must stand out if the clip is far out.
        """
        grid, answer = self.residual_grid(label), self.ask(gate, label, measure=measure)
        seen = Sides.of(answer, grid, self.deviation(label), self.units, LESS_SURELY if grid == DOUBLE_OCTAVES else SURELY)
        return seen.smoothed(round(grid.step / RESIDUAL_GRID.step)) if seen else None
