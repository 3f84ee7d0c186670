"""The one loop: an estimate at the weights, a step of the solver, as often as was planned. Imports solvers and rooms below."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from nightfit.methods.loop.gradient_estimators import Allowance, GradientEstimator, Point
from nightfit.methods.loop.solvers import Solver, noise_gain
from nightfit.methods.procedure import Outcome, Progress
from nightfit.plugins import described, named
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.types import WHOLE, Adjacency, Answer, Array, Draw

ASKED = {Answer.GRADIENT: "a private gradient", Answer.VERTEX: "a private vertex", Answer.WEIGHTS: "private weights"}


@dataclass(frozen=True, kw_only=True)
class GradientLoop:
    """A robust mean and a solver, one step for each draw; `start` are the weights that the first gradient is asked at, or zero."""

    loss: Loss
    penalty: Penalty
    mean: GradientEstimator
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
        if self.start and not self.mean.answer is self.solver.takes is Answer.GRADIENT:
            raise ValueError("model.start previous is for methods that follow gradients: this one does not start anywhere; remove it")
        if not len(self.draws) == len(self.allowances) == self.solver.steps:
            raise ValueError("every step needs a draw and an allowance")

    @property
    def passes(self) -> int:
        return len(self.events)

    @property
    def private(self) -> bool:
        return getattr(self.mean, "private", True)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The questions do not depend on weights, key or earlier answers."""
        zeros = np.zeros(self.columns)
        return tuple(
            event
            for step, allowed in enumerate(self.allowances)
            for event in self.estimator(step).events(self.point(step, zeros, zeros, bytes(16)), label(step), allowed)
        )

    def estimator(self, step: int) -> GradientEstimator:
        """The mean as a step uses it: with a bound of its own where the solver narrows it from phase to phase."""
        narrowed: Callable[[int], float] = getattr(self.solver, "narrowed", lambda step: 1.0)
        factor = narrowed(step)
        return self.mean if factor == 1.0 else replace(self.mean, bound=factor * self.mean.bound)  # type: ignore[type-var]

    def point(self, step: int, weights: Array, previous: Array, key: bytes) -> Point:
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

    def gradient_noise(self, step: int = 0) -> float:
        """Standard deviation of the noise in each coordinate of a step's estimate (scaled features); NaN if the data decide it."""
        zeros = np.zeros(self.columns)
        return self.estimator(step).deviation(self.point(step, zeros, zeros, bytes(16)), self.allowances[step])

    def coefficient_noise(self) -> float | None:
        """In a direction in which the loss is flat: steps only add up their noises there, and independent ones add in squares."""
        noise = max(self.gradient_noise(step) for step in (0, self.solver.steps - 1))
        noise *= noise_gain(self.solver) if self.mean.answer is Answer.GRADIENT else math.sqrt(self.solver.steps)
        return noise if np.isfinite(noise) else None

    def describe(self) -> dict[str, Any]:
        return {"mean": described(self.mean), "solver": described(self.solver), "batch": batch_of(self.draws), "bits": self.bits}

    def explain(self) -> list[str]:
        first = self.gradient_noise()
        whom = f"{self.units:,} {self.noun}s" if self.draws[0] == WHOLE else f"{batch_of(self.draws)} of {self.units:,} {self.noun}s"
        steps = "One step" if self.solver.steps == 1 else f"Each of {self.solver.steps} steps"
        asked = f"{steps} asks for {ASKED[self.mean.answer] if self.private else f'a {self.mean.answer}'} from {whom}"
        if self.mean.answer is Answer.VERTEX:
            noise = "Gumbel noise on every score"
        else:
            noise = "noise that follows the data within a smooth bound" if np.isnan(first) else f"noise of {first:.3g} per coordinate"
        bounded, final = getattr(self.mean, "bounded", "part"), self.coefficient_noise()
        bounds = list(dict.fromkeys(f"{self.estimator(step).bound:.4g}" for step in range(self.solver.steps)))
        by = f"{bounds[0]} and in later phases {', '.join(bounds[1:])}" if len(bounds) > 1 else bounds[0]
        zeros = np.zeros(self.columns)
        more: Callable[[Point, Allowance], list[str]] = getattr(self.mean, "explain", lambda point, allowed: [])
        return [
            f"{asked}, each {self.noun}'s {bounded} bounded by {by} ({named(self.mean)}, {named(self.solver)}), with {noise}.",
            *more(self.point(0, zeros, zeros, bytes(16)), self.allowances[0]),
            *([] if final is None else [f"Noise of at most {final:.3g} per scaled coefficient in the end."]),
        ]

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        state = self.solver.start(self.columns)
        if self.start:
            state = replace(state, weights=np.array(self.start), iterate=np.array(self.start))
        previous = np.zeros(self.columns)
        path = [state.iterate]
        for step in range(self.solver.steps):
            answer = self.estimator(step).estimate(gate, self.point(step, state.weights, previous, gate.account.key), label(step))
            previous = answer if self.mean.answer is Answer.GRADIENT else previous
            state = self.solver.update(state, answer, self.penalty, self.features)
            moved = float(np.linalg.norm(state.iterate - path[-1]))
            path.append(state.iterate)
            show(Progress(step=state.step, steps=self.solver.steps, moved=moved, noise=self.gradient_noise(step)))
        return Outcome(weights=self.solver.result(state), path=path)


def label(step: int) -> str:
    return f"gradient {step + 1}"


def batch_of(draws: tuple[Draw, ...]) -> str:
    """How the steps share the records, in words."""
    if all(draw == WHOLE for draw in draws):
        return "full"
    sizes = sorted({round(draw.fraction, 9) for draw in draws})
    kind = "disjoint parts" if all(hasattr(draw, "low") for draw in draws) else "Poisson samples"
    return f"{kind} of {sizes[0]:.4g}" + (f" to {sizes[-1]:.4g}" if len(sizes) > 1 else "")
