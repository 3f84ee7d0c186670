"""The engine `loop`: a gradient estimator and a solver, for a planned number of steps. Imports estimators, solvers and packages below."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import EXPECTED_SQUARE, Allowance, BoundedQuantity, GradientEstimator, Point
from nightfit.methods.loop.solvers import Solver, SolverState, noise_gain
from nightfit.methods.procedure import Outcome, Progress
from nightfit.methods.scales import FoundScales, ScaleQueries
from nightfit.plugins import described, named
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.types import WHOLE, Adjacency, Answer, Array, Draw, Part

LEAST_CURVATURE = 1e-3  # of scaled rows, a column of which has a second moment near 0.4: less is noise


@dataclass(frozen=True, kw_only=True)
class GradientLoop:
    """Each step asks the estimator for an answer at the current weights and lets the solver update them.

    Step t reads the records `draws[t]` and may cost `allowances[t]`. The first answer is computed at `start`, or at zero if it is
    empty. `noun` names the privacy unit in sentences.

    With `scales`, columns are scaled, the estimator's bound is multiplied by the clip of residuals (and by the usual norm of a row, if
    the bound is one of norms) unless it was `stated`, and the solver's step size is divided by the curvature unless it was stated. All
    three come from paid answers. Bounds and step sizes change the grid of a query and nothing that its price depends on.
    """

    engine: ClassVar[str] = "loop"
    prediction: ClassVar[None] = None
    loss: Loss
    penalty: Penalty
    estimator: GradientEstimator
    solver: Solver
    features: int
    columns: int
    units: int
    noun: str = "record"
    bits: int
    adjacency: Adjacency
    draws: tuple[Draw, ...]
    allowances: tuple[Allowance, ...]
    start: tuple[float, ...] = ()
    scales: ScaleQueries | None = None
    stated: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.start and not self.estimator.answer is self.solver.takes is Answer.GRADIENT:
            raise ValueError("model.start previous is for methods that follow gradients, and this one does not: remove it")
        if not len(self.draws) == len(self.allowances) == self.solver.steps:
            raise ValueError("every step needs a draw and an allowance")

    @property
    def passes(self) -> int:
        return len(self.events)

    @property
    def private(self) -> bool:
        return self.estimator.private is True

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The queries of all steps, after those about scales; they depend on neither weights, key nor earlier answers."""
        steps = (
            event
            for step, allowance in enumerate(self.allowances)
            for event in self.estimator_at(step).events(self.public_point(step), label(step), allowance)
        )
        return (*(self.scales.events if self.scales else ()), *steps)

    def estimator_at(self, step: int) -> GradientEstimator:
        """The estimator with the bound that the solver wants in this step."""
        factor = self.solver.bound_factor(step)
        return self.estimator if factor == 1.0 else self.estimator.with_bound(factor * self.estimator.bound)

    def point(self, step: int, weights: Array, previous: Array, key: bytes) -> Point:
        """The point of a step's queries, at these weights and after this released gradient."""
        return Point(
            loss=self.loss,
            weights=weights,
            previous=previous,
            units=self.units,
            bits=self.bits,
            adjacency=self.adjacency,
            draw=self.draws[step],
            key=key,
        )

    def public_point(self, step: int) -> Point:
        """A point at weights of zero with an empty key, for what depends on neither."""
        zeros = np.zeros(self.columns)
        return self.point(step, zeros, zeros, bytes(16))

    def gradient_noise(self, step: int = 0) -> float:
        """Standard deviation of the noise in each coordinate of a step's answer (scaled features); NaN if it depends on the data.

        With paid scales, for residuals of one and rows of the expected norm.
        """
        relative = self.scales and self.estimator.bounded is BoundedQuantity.NORM and "bound" not in self.stated
        expected = math.sqrt(EXPECTED_SQUARE * self.columns) if relative else 1.0
        return expected * self.estimator_at(step).deviation(self.public_point(step), self.allowances[step])

    def coefficient_noise(self) -> float | None:
        """The noise in a direction in which the loss is flat: there the steps' noises only add up."""
        noise = max(self.gradient_noise(step) for step in (0, self.solver.steps - 1))
        noise *= noise_gain(self.solver) if self.estimator.answer is Answer.GRADIENT else math.sqrt(self.solver.steps)
        return noise if np.isfinite(noise) else None

    def describe(self) -> dict[str, Any]:
        return {
            "mean": described(self.estimator),
            "solver": described(self.solver),
            "batch": batch_in_words(self.draws),
            "bits": self.bits,
            **(self.scales.describe() if self.scales else {}),
        }

    def explain(self) -> list[str]:
        final = self.coefficient_noise()
        return [
            *(self.scales.explain() if self.scales else []),
            f"{self._request()}, {self._bounds()} ({named(self.estimator)}, {named(self.solver)}), with {self._noise()}.",
            *self.estimator.explain(self.public_point(0), self.allowances[0]),
            *([] if final is None else [f"Noise of at most {final:.3g} per scaled coefficient in the end."]),
        ]

    def _request(self) -> str:
        steps = "One step asks" if self.solver.steps == 1 else f"Each of {self.solver.steps} steps asks"
        private = "private " if self.private else ""
        answer = f"{private}weights" if self.estimator.answer is Answer.WEIGHTS else f"a {private}{self.estimator.answer}"
        every = f"{self.units:,} {self.noun}s"
        return f"{steps} for {answer} from {every if self.draws[0] == WHOLE else f'{batch_in_words(self.draws)} of {every}'}"

    def _bounds(self) -> str:
        quantity = {
            BoundedQuantity.COORDINATE: f"each coordinate of a {self.noun}'s gradient",
            BoundedQuantity.NORM: f"the norm of each {self.noun}'s gradient",
            BoundedQuantity.TARGET: f"each {self.noun}'s target",
            BoundedQuantity.WEIGHTS: "the norm of the weights",
        }[self.estimator.bounded]
        first, *later = dict.fromkeys(f"{self.estimator_at(step).bound:.4g}" for step in range(self.solver.steps))
        return f"{quantity} bounded by {first}" + (f" and in later phases {', '.join(later)}" if later else "")

    def _noise(self) -> str:
        if self.estimator.answer is Answer.VERTEX:
            return "Gumbel noise on every score"
        noise = self.gradient_noise()
        return "noise that depends on the data within a smooth bound" if np.isnan(noise) else f"noise of {noise:.3g} per coordinate"

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        return Descent(loop=self, gate=gate, found=self.scales.find(gate) if self.scales else None).run(show)


@dataclass(frozen=True, kw_only=True)
class Descent:
    """A run of the loop, in the units of the scales that were found, if any were asked for."""

    loop: GradientLoop
    gate: Gate
    found: FoundScales | None

    def run(self, show: Callable[[Progress], None]) -> Outcome:
        """Take every step."""
        loop, found, solver = self.loop, self.found, self.solver
        state, clip = self.start(solver), 1.0
        previous, path = np.zeros(loop.columns), [state.iterate]
        for step in range(solver.steps):
            if found and (place := self.histogram_at(step)) is not None:
                clip = found.clip(place, state.iterate, self.prediction_noise)
            point = replace(loop.point(step, state.weights, previous, self.gate.account.key), rows=found.rows if found else None)
            answer = self.estimator(step, clip).estimate(self.gate, point, label(step))
            previous = answer if loop.estimator.answer is Answer.GRADIENT else previous
            state = solver.update(state, answer, loop.penalty, loop.features)
            path.append(state.iterate)
            moved = float(np.linalg.norm(path[-1] - path[-2]))
            show(Progress(step=state.step, steps=solver.steps, moved=moved, noise=loop.gradient_noise(step) * clip))
        if found is None:
            return Outcome(weights=solver.result(state), path=path)
        released = [found.released(weights) for weights in (*path, solver.result(state))]
        shape = found.preprocessing()
        return Outcome(weights=released[-1], path=released[:-1], preprocessing=shape, used=found.used, labels=found.labels)

    @property
    def prediction_noise(self) -> float:
        """The noise of a prediction in a usual direction at the end, for residuals clipped at one; NaN if it depends on the data."""
        loop = self.loop
        gain = noise_gain(loop.solver, EXPECTED_SQUARE) if loop.solver.takes is Answer.GRADIENT else 1.0
        return loop.gradient_noise() * gain * math.sqrt(EXPECTED_SQUARE)

    def start(self, solver: Any) -> SolverState:
        """The solver's first state: at the previous release, at the paid level of the target, or at zero."""
        state: SolverState = solver.start(self.loop.columns)
        if self.loop.start:
            begin = np.array(self.loop.start)
            begin = self.found.scaled(begin) if self.found else begin
        elif self.found and solver.takes is Answer.GRADIENT:
            begin = self.found.start
        else:
            return state
        return replace(state, weights=begin, iterate=begin)

    def histogram_at(self, step: int) -> int | None:
        """The number of the histogram of residuals before this step, if there is one: they are spread evenly over the steps."""
        asked = self.loop.scales.histograms if self.loop.scales else 0
        first = [place * self.loop.solver.steps // max(1, asked) for place in range(asked)]
        return first.index(step) if step in first else 0 if step == 0 else None

    def estimator(self, step: int, clip: float) -> GradientEstimator:
        """The estimator in the units of what was found."""
        loop, found, estimator = self.loop, self.found, self.loop.estimator_at(step)
        if found is None:
            return estimator
        if "step_size" not in loop.stated:
            estimator = _with_step_size(estimator, self.step_length)
        if "bound" in loop.stated or estimator.bounded is BoundedQuantity.WEIGHTS:
            return estimator
        return estimator.with_bound(estimator.bound * clip * (found.norm if estimator.bounded is BoundedQuantity.NORM else 1.0))

    @property
    def solver(self) -> Any:
        """The solver in the units of what was found."""
        stated = self.found is None or "step_size" in self.loop.stated
        return self.loop.solver if stated else _with_step_size(self.loop.solver, self.step_length)

    @property
    def step_length(self) -> float:
        """1 / (smoothness curvature)."""
        smoothness, curvature = self.loop.loss.smoothness, self.found.curvature if self.found else 1.0
        return 1 / (max(curvature, LEAST_CURVATURE) * (smoothness if 0 < smoothness < math.inf else 1.0))


def _with_step_size(part: Any, times: float) -> Any:
    """The solver or estimator with its step size multiplied, if it has one."""
    return replace(part, step_size=part.step_size * times) if "step_size" in {entry.name for entry in fields(part)} else part


def label(step: int) -> str:
    """The label of a step's queries."""
    return f"gradient {step + 1}"


def batch_in_words(draws: tuple[Draw, ...]) -> str:
    """Which records the steps read, such as "full" or "disjoint parts of 0.25"."""
    if all(draw == WHOLE for draw in draws):
        return "full"
    sizes = sorted({round(draw.fraction, 9) for draw in draws})
    kind = "disjoint parts" if all(isinstance(draw, Part) for draw in draws) else "Poisson samples"
    return f"{kind} of {sizes[0]:.4g}" + (f" to {sizes[-1]:.4g}" if len(sizes) > 1 else "")
