"""Newton-like steps on a clipped loss in paid coordinates. Imports frame, questions and the mathematics between them."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from nightfit.methods.auto import tails, thresholds
from nightfit.methods.auto.calibration import WIDE, change, growth_of_level, width_of
from nightfit.methods.auto.margins import at_share, normal_share
from nightfit.methods.auto.quadratic_prox import proximal
from nightfit.methods.auto.quantiles import Sides, Sizes, level_of
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.shrinkage import shrunk
from nightfit.methods.auto.uncertainty import Asked, Calibrated, Known, intervals
from nightfit.methods.auto.warm import nearer
from nightfit.methods.auto.whitened_coordinates import WhitenedCoordinates
from nightfit.methods.procedure import Outcome, Progress
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Estimand
from nightfit.queries.histograms import RESIDUAL_GRID, Residual, SignedResidual
from nightfit.queries.second_moments import DIAGONAL, OTHERS
from nightfit.queries.tail_gains import clamped
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array

ROUNDING = 1e-12
GROWN, SLOWER = 2.0, 4.0
CURVATURE_ERROR = 0.1
FEW, TWICE, LEAST_REACH = 0.001, 2.0, 2.0
NEARLY_ALL, FAR_OUT, HARDLY_NOISE = 0.98, 4.0, 3.0
HALF = 0.5
HIDDEN = float(RESIDUAL_GRID.edges[0])
UNKNOWN_SIGNAL, LEAST_SIGNAL, MOST_OF_SIGNAL = 0.1, 0.05, 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetMean:
    """A paid mean of residuals at the start, the intercept that it makes, and the deviation of its noise."""

    residual: float
    intercept: float
    deviation: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Walked:
    """What the steps leave: the averaged weights and the loss's slope there, where they came by, the averaged gradients, what is known of
    residuals, the targets before any step, and their mean.
    """

    v: Array
    slope: float
    path: list[Array]
    paid: list[Asked]
    known: Known | None
    targets: Sides | None
    mean: TargetMean | None


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The target's mean, then steps: residuals' distribution, threshold, clipped gradient, Newton-like move. `start` is where they begin
    and what slopes are shrunk towards.
    """

    asked: QueryPlan
    gate: Gate
    frame: WhitenedCoordinates
    start: Array

    def run(self, show: Callable[[Progress], None]) -> Outcome:
        asked = self.asked
        v, most = self.start, math.inf
        first = not asked.labels and "target" in asked.shares
        sides = self.sides(1, v) if first else None
        known = self.seen(sides.together, "signed residuals 1", v) if sides else None
        v, mean = self.target(v, sides)
        path, paid, counted = [v], list[Asked](), asked.burned
        clip = flat = slow = 1.0
        before, here = v, self
        for step in range(asked.steps):
            place = step + 1 + first
            fresh = self.known(place, v) if place <= asked.residual_questions - asked.calibrates else None
            if step and fresh and known and self.grown(known.residuals, fresh.residuals, clip):
                v, slow, counted = before, SLOWER * slow, max(counted, step)
            else:
                known = fresh or known
            before, residuals = v, known.residuals if known else None
            clip, flat = here.clip(step, residuals, v, most)
            most = min(most, 2 * clip)
            here, answer = here.asking(f"gradient {step + 1}", v, clip, flat * slow)
            paid.append(answer)
            averaged, noise = here.together(paid[counted:]) if paid[counted:] else here.alone(paid[-1])
            shrinks = asked.tuning.shrinks and (step >= asked.shrunk_from or self.start.any())
            v = here.shrunk(averaged, noise, self.sampled(residuals, clip, flat)) if shrinks else averaged
            path.append(v)
            moved = float(np.linalg.norm(self.released(v) - self.released(path[-2])))
            show(Progress(step=step + 1, steps=asked.steps, moved=moved, noise=noise))
        v = here.levelled(v, mean.residual) if mean and asked.loss.estimand is Estimand.LOG_ODDS else v
        flat = 1.0 if asked.loss.estimand is Estimand.MEAN else flat
        targets = None if self.start.any() else sides
        return here.finished(Walked(v=v, slope=flat, path=path, paid=paid[counted:], known=known, targets=targets, mean=mean))

    def asking(self, label: str, v: Array, clip: float, slope: float) -> tuple["Descent", Asked]:
        """The gradient at these weights, and the same descent with what came with it: the curvature is known better."""
        frame = self.frame
        told = self.asked.gradient(
            self.gate, label, rows=frame.rows, rotation=frame.rotation, weights=self.whole(v), clip=clip, cap=frame.cap
        )
        answer = Asked(at=v, gradient=told.mean[frame.used], deviation=told.deviation, clip=clip, slope=slope)
        return (self if told.moment is None else replace(self, frame=frame.told(told.moment, told.moment_noise))), answer

    def alone(self, step: Asked) -> tuple[Array, float]:
        """The Newton step from where a gradient was asked, and the deviation of its noise for a curvature of one."""
        return step.at + self.frame.curvature.inverse @ step.gradient / step.slope, step.deviation / step.slope

    def together(self, steps: Sequence[Asked]) -> tuple[Array, float]:
        """The average of Newton steps by their precision: of their noise, and of a tenth of their way for the error of the curvature."""
        found = [self.alone(step) for step in steps]
        ways = [CURVATURE_ERROR * float(np.linalg.norm(to - step.at)) for step, (to, _) in zip(steps, found, strict=True)]
        precisions = [1 / (noise**2 + far**2 / len(to)) for far, (to, noise) in zip(ways, found, strict=True)]
        return np.average([to for to, _ in found], axis=0, weights=precisions), sum(precisions) ** -0.5

    def finished(self, walked: Walked) -> Outcome:
        """Level and scale and how far columns reach, if they are asked for; the penalty; the release's coordinates."""
        asked, v, known, calibrated = self.asked, walked.v, walked.known, None
        if asked.calibrates:
            last = asked.residual_questions
            sides = self.sides(last, v)
            most = FAR_OUT * known.residuals.quantile(NEARLY_ALL) if known else 0.0
            known = self.seen(sides.together, f"signed residuals {last}", v) if sides else known
            calibrated = self.calibrated(v, sides or (Sides.alike(known.residuals) if known else None), most, walked.mean)
            v = calibrated.at
        weights = self.penalised(v, walked.slope)
        ended = self.reaching(weights, calibrated) if calibrated and "tails" in asked.shares else self
        ended = ended.limited(weights, walked.targets) if walked.targets else ended
        shape, map_of = ended.clamped(), ended.mapped(self.frame.rotation.A.T[:, self.frame.used])
        return Outcome(
            weights=ended.in_columns(weights),
            path=[ended.released(at) for at in walked.path],
            preprocessing=shape,
            intervals=intervals(asked, self.frame, walked.paid, known, calibrated, map_of, shape),
        )

    def reaching(self, weights: Array, calibrated: Calibrated) -> "Descent":
        """The same with columns without public bounds, whose scale is known, clamped where predictions end to go on in proportion. What
        the farther clamp adds to a prediction is clipped at one deviation of predictions from half the reach to all of it, at two beyond.
        """
        asked, rows, free = self.asked, self.frame.rows, np.zeros(self.asked.columns, dtype=bool)
        free[list(asked.unbounded)] = rows.reach[list(asked.unbounded)] == asked.tuning.reach
        bounds = {"clip": calibrated.clip, "bound": max(math.sqrt(self.signal(calibrated.at)), HIDDEN)}
        answer = asked.ask(self.gate, "tails", rows=rows, weights=weights, free=free, **bounds)
        times = tails.farthest(answer, asked.deviation("tails", **bounds))
        return replace(self, frame=replace(self.frame, rows=clamped(rows, free, times)))

    def limited(self, weights: Array, targets: Sides) -> "Descent":
        """The same with less reach for columns that alone would move a prediction by more than twice the distance between its level and
        nearly all targets, but two scales at least. Slopes are those of most rows, and a truth that levels off does so beyond them.
        """
        rows, free = self.frame.rows, list(self.asked.unbounded)
        low, high = targets.between(FEW)
        far = TWICE * max(high - float(weights[-1]), float(weights[-1]) - low)
        reach = rows.reach.copy()
        with np.errstate(divide="ignore"):
            reach[free] = np.minimum(reach[free], np.maximum(far / np.abs(weights[free]), LEAST_REACH))
        return replace(self, frame=replace(self.frame, rows=replace(rows, reach=reach)))

    def grown(self, before: Sizes, after: Sizes, clip: float) -> bool:
        """Whether the last step made residuals larger, E min(r, 2 clip)^2 to more than twice: it went too far."""
        bound = np.array([2 * clip])
        return bool(after.squares(bound)[0] > GROWN * before.squares(bound)[0])

    @property
    def free(self) -> tuple[int, ...]:
        return self.frame.free

    @property
    def unknown(self) -> float:
        """The clip of residuals whose size noise hides: that of labels is at most one, and others are hardly looked at, because what is
        told about them would be noise of any size."""
        return 1.0 if self.asked.labels else HIDDEN

    def whole(self, v: Array) -> Array:
        """v with zeros in the directions that are left out."""
        filled = np.zeros(self.asked.columns)
        filled[self.frame.used] = v
        return filled

    def weights(self, v: Array) -> Array:
        """Of the scaled row."""
        return self.frame.rotation.A.T @ self.whole(v)

    def known(self, place: int, v: Array) -> Known | None:
        """The residuals' distribution at these weights, while questions last."""
        asked, label = self.asked, f"residuals {place}"
        if label not in asked.shares:
            return None
        seen = asked.sizes(self.gate, label, Residual(rows=self.frame.rows, loss=asked.asked_loss, weights=self.weights(v)))
        return self.seen(seen, label, v) if seen else None

    def sides(self, place: int, v: Array) -> Sides | None:
        """The same with their sign."""
        signed = SignedResidual(rows=self.frame.rows, loss=self.asked.asked_loss, weights=self.weights(v))
        return self.asked.sides(self.gate, f"signed residuals {place}", signed)

    def seen(self, residuals: Sizes, label: str, v: Array) -> Known:
        counted = self.asked.residual_grid(label)
        hidden = level_of(counted.bins, self.asked.deviation(label)) / self.asked.units
        return Known(residuals=residuals, at=v, hidden=hidden * residuals.grid.step / counted.step)

    def target(self, v: Array, residuals: Sides | None) -> tuple[Array, TargetMean | None]:
        """v with the intercept moved by the mean residual, and that: a question of its own, whose noise no column adds to. Without any
        weights the residual of a label is a half.
        """
        if "target" not in self.asked.shares:
            return v, None
        asked, moved = self.asked, v.copy()
        high = HALF if asked.loss.estimand is Estimand.LOG_ODDS and not v.any() else self.unknown
        low = -high
        if residuals:
            low, high = thresholds.for_intercepts(residuals, asked.deviation("target", clip=1.0))
        clip, middle = (high - low) / 2, (high + low) / 2
        answer = asked.ask(self.gate, "target", rows=self.frame.rows, weights=self.weights(v), clip=clip, middle=middle)
        mean = float(answer[0]) + middle
        moved[-1] += mean / asked.usual_slope
        return moved, TargetMean(residual=mean, intercept=float(moved[-1]), deviation=asked.deviation("target", clip=clip))

    def levelled(self, v: Array, mean_residual: float) -> Array:
        """v with the intercept at which the mean of predictions is the share of labels 1, known from the mean residual at the start:
        clips of residuals move it, most where one label is rare.
        """
        share = normal_share(self.frame.moment, self.start, self.free) + mean_residual
        least = 1 / self.asked.units
        return at_share(self.frame.moment, v, self.free, float(np.clip(share, least, 1 - least)))

    def calibrated(self, v: Array, residuals: Sides | None, most: float, before: TargetMean | None) -> Calibrated:
        """v with the level and scale of its predictions as a wide clip finds them. What earlier questions about residuals say is far out is
        `most`: if the clip is beyond that, which noise that looks like a tail may have done, a level is believed that noise hardly makes or
        that has less of it than the mean of `before`, and else that mean, which is one of level and slopes together.
        """
        asked, slopes, size = self.asked, v.copy(), math.sqrt(self.signal(v))
        slopes[list(self.free)] = 0.0
        noise = asked.deviation("calibration") / DIAGONAL
        level, weight = asked.level, asked.scale_weight
        unit = noise * DIAGONAL / OTHERS / math.hypot(level, weight)
        low, high = -self.unknown, self.unknown
        if residuals:
            low, high = thresholds.for_scales(residuals, unit, WIDE / weight, size)
        low, high = (low, high) if level else (-max(-low, high), max(-low, high))
        clip, middle = (high - low) / 2, (high + low) / 2
        usual, intercept = residuals.together.mean if residuals else 0.0, level * float(v[-1])
        grown = growth_of_level(residuals.mean, 0.0, intercept, usual) if residuals else 1.0
        wide = width_of(unit / weight * clip / size, grown) if size > 0.0 else WIDE
        direction = self.weights(slopes) / (wide * size) if size > 0.0 else np.zeros(asked.columns)
        bounds = {"direction": direction, "clip": clip, "middle": middle}
        answer = asked.ask(self.gate, "calibration", rows=self.frame.rows, weights=self.weights(v), **bounds)
        found = change(answer, noise, clip, middle, level, weight, size, wide)
        doubtful = max(-low, high) > most and abs(found.level) < HARDLY_NOISE * found.level_deviation
        if before and doubtful and found.level_deviation > before.deviation:
            found = replace(found, level=before.intercept - float(v[-1]) - found.mean * wide * size)
        found = replace(found, growth=growth_of_level(found.level, found.level_deviation, intercept, usual))
        moved = v + found.likely * slopes
        if self.free:
            moved[-1] += found.level - found.likely * found.mean * wide * size
        return Calibrated(at=moved, clip=max(high - found.level, found.level - low), change=found)

    def clip(self, step: int, residuals: Sizes | None, v: Array, most: float) -> tuple[float, float]:
        """The threshold of residuals and the mean slope of the clipped loss in the margin (curvature is that of a slope of one)."""
        asked = self.asked
        if asked.labels:
            return asked.clip_of_labels, self.slope_of_labels(residuals)
        if residuals is None:
            return self.unknown, asked.usual_slope
        unit = asked.adjacency.contributions_changed * self.frame.cap / (asked.units * asked.gradient_mu)
        if asked.loss.estimand is Estimand.MEDIAN:
            clip = thresholds.for_medians(residuals, asked.units, unit, most)
            return clip, float(thresholds.inside(residuals, np.array([clip]))[0])
        size = float(residuals.squares(residuals.quantile(MOST_OF_SIGNAL) * np.ones(1))[0])
        signal = max(self.signal(v - self.start), LEAST_SIGNAL * size) if step else UNKNOWN_SIGNAL * size
        counts = thresholds.DIRECTION if asked.calibrates else 1.0
        clip = thresholds.for_means(residuals, asked.units, len(v), unit, signal, counts, most)
        return clip, float(thresholds.inside(residuals, np.array([clip]))[0])

    def slope_of_labels(self, residuals: Sizes | None) -> float:
        """1.5 E p (1 - p) + 0.02, a little more than its own so that steps do not go too far, and a quarter at most; the usual one of a
        hinge, whose residuals do not tell how many margins are near its bend."""
        if residuals is None or self.asked.loss.estimand is not Estimand.LOG_ODDS:
            return self.asked.usual_slope
        return min(0.25, 1.5 * residuals.spread_of_labels() + 0.02)

    def sampled(self, residuals: Sizes | None, clip: float, flat: float) -> float:
        """E min(r^2, clip^2) / (n slope^2): the variance that drawing other records would give an estimate, for a curvature of one."""
        squares = clip**2 if residuals is None else float(residuals.squares(np.array([clip]))[0])
        return squares / (self.asked.units * flat**2)

    def shrunk(self, v: Array, deviation: float, sampled: float) -> Array:
        """The slopes shrunk by what they look like noise: H^-1 (deviation^2 I + sampled H) H^-1 is that of an estimate. The intercept
        is neither shrunk nor evidence of signal, and takes up the mean of what slopes lose.
        """
        inverse, kept, slopes = self.frame.curvature.inverse, v.copy(), len(self.frame.variances)
        noise = (deviation**2 * inverse @ inverse + sampled * inverse)[:slopes, :slopes]
        relative = self.frame.variances / self.frame.variances.max()
        centre = nearer(v, self.start, self.frame.curvature.matrix, self.free)[:slopes]
        shapes = (np.ones(slopes), relative) if self.asked.tuning.ridge else (np.ones(slopes),)
        kept[:slopes] = centre + shrunk(v[:slopes] - centre, noise, shapes, self.columns if self.asked.tuning.mixture else None)
        for j in self.free:
            kept[j] += self.frame.means(j) @ (v - kept)[:slopes]
        return kept

    @cached_property
    def columns(self) -> Array:
        """B with v = B w: slopes in the frame's directions from the weights of scaled columns."""
        features = slice(self.asked.features)
        inverse: Array = np.asarray(np.linalg.inv(self.frame.whole.T), dtype=np.float64)
        return inverse[features, features][self.frame.used[features]]

    def signal(self, v: Array) -> float:
        """The variance of predictions by slopes v: v' H v without the intercept, less the square of their mean."""
        slopes, H = v.copy(), self.frame.curvature.matrix
        slopes[list(self.free)] = 0.0
        return max(0.0, float(slopes @ H @ slopes) - sum(float(H[j] @ slopes) ** 2 / H[j, j] for j in self.free))

    def penalised(self, v: Array, flat: float) -> Array:
        """The scaled row's weights with the penalty, which speaks of them; in directions that are left out the curvature is one."""
        curvature = np.eye(self.asked.columns)
        curvature[np.ix_(self.frame.used, self.frame.used)] = self.frame.curvature.matrix
        back = np.linalg.inv(self.frame.whole)
        return proximal(self.weights(v), flat * back @ curvature @ back.T, self.asked.penalty, self.asked.features)

    def released(self, v: Array) -> Array:
        return self.in_columns(self.weights(v))

    def in_columns(self, weights: Array) -> Array:
        """Weights of the release's columns: one without public bounds is clamped at reach scales about its centre, one with them as
        they say, and its centre goes into the intercept. What rotating there and back leaves of a zero is zero.
        """
        return self.mapped(np.where(np.abs(weights) <= ROUNDING * np.abs(weights).max(), 0.0, weights))

    def mapped(self, weights: Array) -> Array:
        """The same without rounding: of a vector, or of each column of a matrix."""
        rows, free, made = self.frame.rows, list(self.asked.unbounded), weights.copy()
        if self.asked.preprocessing.intercept:
            made[-1] -= np.delete(rows.centre, free) @ np.delete(weights, free, axis=0)
        made[free] = (made[free].T * rows.reach[free]).T
        return made

    def clamped(self) -> Preprocessing:
        """The public preprocessing with the paid clamp of every column that had none."""
        rows, said = self.frame.rows, self.asked.preprocessing
        centre, scale = np.array(said.centre), np.array(said.scale)
        free = list(self.asked.unbounded)
        centre[free] += scale[free] * rows.centre[free]
        scale[free] *= rows.scale[free] * rows.reach[free]
        return replace(said, centre=tuple(centre.tolist()), scale=tuple(scale.tolist()), reach=())
