"""The engine `loop`: a gradient estimator and a solver, for a planned number of steps. Imports estimators, solvers and packages below."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, BoundedQuantity, GradientEstimator, Point
from nightfit.methods.loop.solvers import Solver, noise_gain
from nightfit.methods.procedure import Outcome, Progress
from nightfit.plugins import described, named
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.types import WHOLE, Adjacency, Answer, Array, Draw, Part


@dataclass(frozen=True, kw_only=True)
class GradientLoop:
    """Each step asks the estimator for an answer at the current weights and lets the solver update them.

    Step t reads the records `draws[t]` and may cost `allowances[t]`. The first answer is computed at `start`, or at zero if it is
    empty. `noun` names the privacy unit in sentences.
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
        """The queries of all steps; they depend on neither weights, key nor earlier answers."""
        return tuple(
            event
            for step, allowance in enumerate(self.allowances)
            for event in self.estimator_at(step).events(self.public_point(step), label(step), allowance)
        )

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
        """Standard deviation of the noise in each coordinate of a step's answer (scaled features); NaN if it depends on the data."""
        return self.estimator_at(step).deviation(self.public_point(step), self.allowances[step])

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
        }

    def explain(self) -> list[str]:
        final = self.coefficient_noise()
        return [
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
        state = self.solver.start(self.columns)
        if self.start:
            state = replace(state, weights=np.array(self.start), iterate=np.array(self.start))
        previous = np.zeros(self.columns)
        path = [state.iterate]
        for step in range(self.solver.steps):
            point = self.point(step, state.weights, previous, gate.account.key)
            answer = self.estimator_at(step).estimate(gate, point, label(step))
            previous = answer if self.estimator.answer is Answer.GRADIENT else previous
            state = self.solver.update(state, answer, self.penalty, self.features)
            moved = float(np.linalg.norm(state.iterate - path[-1]))
            path.append(state.iterate)
            show(Progress(step=state.step, steps=self.solver.steps, moved=moved, noise=self.gradient_noise(step)))
        return Outcome(weights=self.solver.result(state), path=path)


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
