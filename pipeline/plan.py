"""A refit decided before any row is read: every question, its noise and its cost, from public facts. Imports solvers and below."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from pipeline import __version__, means, penalties, solvers
from pipeline.discovery import member
from pipeline.losses import Loss
from pipeline.means import Mean
from pipeline.penalties import Penalty
from pipeline.preprocessing import Preprocessing
from pipeline.privacy.accounting import UNIT, Cost, Currency, check_budget, cost, epsilon_of, limit
from pipeline.privacy.events import GaussianEvent
from pipeline.query import bits_for
from pipeline.solvers import Solver, noise_gain
from pipeline.types import Adjacency, NightfitError

ROUND_UP = 1 + 1e-12
NOISE_BITS = 57  # sums below 2^61 and noise of 30 deviations stay inside int64
FEWEST_STEPS, MOST_STEPS = 5, 100
TOLERATED = 0.1
MOST_ROWS = 2**31


class PlanError(NightfitError):
    """The configuration asks for something that cannot be planned; nothing was read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What one refit may cost, and in which currency its data set's ledger refuses."""

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    unit: str = "record"
    currency: Currency = Currency.GAUSSIAN

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """How to fit; what is None is chosen from public facts."""

    solver: str | None = None
    mean: str = "clipped"
    bound: float | None = None
    steps: int | None = None
    step_size: float | None = None
    averaged: int | None = None
    groups: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Specification:
    """Everything a user says about a refit. `residual` is the public size of a residual, in units of the (scaled) target."""

    name: str
    data_set: str
    preprocessing: Preprocessing
    budget: Budget
    loss: Loss
    penalty: Penalty
    method: Method = field(default_factory=Method)
    residual: float = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Frozen: what will be asked, with what noise, at what cost. `units` is the public divisor of every mean."""

    specification: Specification
    units: int
    bits: int
    mean: Mean
    solver: Solver
    events: tuple[GaussianEvent, ...]

    @property
    def cost(self) -> Cost:
        return cost(self.events, self.specification.budget.currency)

    @property
    def epsilon(self) -> float:
        """The epsilon that the events cost at the budget's delta; at most the budget's."""
        return epsilon_of(self.cost, self.specification.budget.delta, self.specification.budget.currency)

    def gradient_noise(self) -> float:
        """Standard deviation of the noise in each coordinate of a mean gradient (scaled features)."""
        query = self.mean.query(self.specification.loss, np.zeros(self.events[0].coordinates), self.bits, bytes(16))
        return self.events[0].sigma * query.grid / query.divisor(self.units)

    def coefficient_noise(self) -> float:
        """Largest standard deviation that the noise gives a scaled coefficient: that of a direction in which the loss is flat."""
        return self.gradient_noise() * noise_gain(self.solver)

    def as_dict(self) -> dict[str, Any]:
        said, budget = self.specification, self.specification.budget
        return {
            "version": __version__,
            "model": said.name,
            "data_set": said.data_set,
            "units": self.units,
            "bits": self.bits,
            "preprocessing": said.preprocessing.as_dict(),
            "budget": {**asdict(budget), "adjacency": str(budget.adjacency), "currency": str(budget.currency)},
            "loss": _described(said.loss),
            "penalty": _described(said.penalty),
            "mean": _described(self.mean),
            "solver": _described(self.solver),
            "events": [event.as_dict() for event in self.events],
        }

    def digest(self) -> str:
        """Identifies the plan: the same plan asks the same questions with the same noise."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def explain(self) -> str:
        """In words: what will be asked, with what noise, and what it costs."""
        said, budget, event = self.specification, self.specification.budget, self.events[0]
        shape = said.preprocessing
        mu = math.sqrt(float(event.mu_squared))
        lines = [
            f"Model {said.name}: {_named(said.loss)} loss, {len(shape.features)} features"
            f"{' and an intercept' if shape.intercept else ''}, {_named(said.penalty)} penalty, on the data set {said.data_set}.",
            f"Each of {self.solver.steps} questions asks for the mean of {self.units:,} gradients, each bounded by {self.mean.bound:.4g} "
            f"({_named(self.mean)}); one {budget.unit} moves it by at most mu = {mu:.4g} noise standard deviations.",
            f"Noise: {self.gradient_noise():.3g} per coordinate of a mean gradient, "
            f"{self.coefficient_noise():.3g} at most per scaled coefficient.",
            f"Cost: epsilon {self.epsilon:.4g} at delta {budget.delta:g} "
            f"under {budget.adjacency} of one {budget.unit}, in the currency {budget.currency}.",
            "Released: the coefficients, this plan and the noisy gradients' path. Nothing else that depends on the data.",
        ]
        return "\n".join([*lines, *self.warnings()])

    def warnings(self) -> list[str]:
        """What public facts already tell about the fit's usefulness."""
        ratio = self.coefficient_noise() / max(self.specification.residual, 1e-300)
        if ratio > 0.3:
            return [
                f"Warning: the noise per coefficient is {ratio:.0%} of the size of a residual: expect little use; "
                "more rows, fewer columns, a larger epsilon or tighter public bounds would help."
            ]
        return []


def _named(thing: Any) -> str:
    """The name of the file that defines it, in words."""
    name: str = type(thing).__module__.rpartition(".")[2]
    return "no" if name == "none" else name.replace("_", " ")


def _described(thing: Any) -> dict[str, Any]:
    return {"kind": type(thing).__module__.rpartition(".")[2], **asdict(thing)}


def make(said: Specification, units: int) -> Plan:
    """The plan of a specification for a public number of units; data are not looked at."""
    budget = said.budget
    if units < 1:
        raise PlanError(f"{said.data_set} has no rows: there is nothing to fit")
    if budget.delta >= 1 / units:
        raise PlanError(
            f"delta {budget.delta:g} is not below 1 / {units} units: it would allow revealing somebody's record outright; "
            f"choose at most {1 / (10 * units):.1g}"
        )
    columns = said.preprocessing.columns
    ceiling = limit(budget.epsilon, budget.delta, budget.currency)
    bits = bits_for(units) if budget.adjacency is not Adjacency.ADD_REMOVE else bits_for(MOST_ROWS)
    mu_squared = ceiling.amount * UNIT * (1 if budget.currency is Currency.GAUSSIAN else 2)
    try:
        said.penalty.value(np.zeros(len(said.preprocessing.features)))
        mean = _mean(said)
        query = mean.query(said.loss, np.zeros(columns), bits, bytes(16))
        solver = _solver(said, query.sensitivity(budget.adjacency) * query.grid / query.divisor(units) / math.sqrt(mu_squared))
    except ValueError as error:
        raise PlanError(f"method: {error}") from None
    noisier = math.sqrt(solver.steps / mu_squared) * ROUND_UP  # equal shares mu^2 / steps of the budget
    finest = NOISE_BITS - math.ceil(math.log2(query.sensitivity(budget.adjacency) * noisier)) + bits
    if finest < 8:
        raise PlanError(f"{said.name}: so much noise does not fit in 64 bits; choose fewer steps or columns, or a larger epsilon")
    bits = min(bits, finest)
    sensitivity = mean.query(said.loss, np.zeros(columns), bits, bytes(16)).sensitivity(budget.adjacency)
    sigma = sensitivity * noisier
    events = tuple(
        GaussianEvent(label=f"gradient {step}", sensitivity=sensitivity, sigma=sigma, coordinates=columns, adjacency=budget.adjacency)
        for step in range(solver.steps)
    )
    plan = Plan(specification=said, units=units, bits=bits, mean=mean, solver=solver, events=events)
    if not plan.cost.fits(ceiling):
        raise PlanError(
            f"{said.name}: no noise on the grid of {bits} bits meets delta {budget.delta:g} in this currency; "
            f"choose a larger delta, or the currency zcdp"
        )
    return plan


def _mean(said: Specification) -> Mean:
    """The robust mean; for a median of means, 2 ceil(2 ln(2 columns / 0.05)) groups (Tao et al. 2022, alg. 3, at failure 0.05)."""
    kind, groups = member(means, said.method.mean), said.method.groups
    grouped = "groups" in {entry.name for entry in fields(kind)}
    if groups is not None and not grouped:
        raise ValueError(f"the mean {said.method.mean!r} has no groups: remove them, or use median_of_means")
    if grouped and said.budget.adjacency is Adjacency.ADD_REMOVE and said.preprocessing.row_id is None:
        raise ValueError("groups under add_remove need data.row_id: without it a removed record would move others to other groups")
    if not grouped:
        made: Mean = kind(bound=_bound(said, kind))
        return made
    made = kind(bound=_bound(said, kind), groups=groups or 2 * math.ceil(2 * math.log(2 * said.preprocessing.columns / 0.05)))
    return made


def _bound(said: Specification, kind: Any) -> float:
    """The gradient of a record is slope * x with |x_j| <= 1: its norm is at most slope sqrt(columns), which is the bound of a mean
    that bounds norms; one that bounds coordinates has norms up to sqrt(columns) times its bound.
    """
    if said.method.bound is not None:
        return said.method.bound
    columns, bits = said.preprocessing.columns, 20
    norm = kind(bound=1.0).query(said.loss, np.zeros(columns), bits, bytes(16)).sensitivity(Adjacency.ZERO_OUT) / 2**bits
    return min(said.loss.lipschitz, said.residual) * math.sqrt(columns) / norm


def _solver(said: Specification, one: float) -> Solver:
    """Solver, steps and step size from public facts; `one` is the noise of a mean gradient that gets the whole budget.

    The mean loss is smoothness * columns smooth, because |x_j| <= 1, so step_size = 1 / (smoothness columns) converges. Acceleration
    needs a smooth convex loss and a convex penalty. More steps come closer to the optimum and add noise: steps is the largest number
    up to MOST_STEPS at which the noise of a coefficient in a flat direction is at most TOLERATED of a residual, and FEWEST_STEPS at
    least. The last quarter of the iterates is averaged.
    """
    method, convex = said.method, said.loss.convex and said.penalty.convex
    smooth = math.isfinite(said.loss.smoothness)
    kind = member(solvers, method.solver or ("accelerated_gradient" if smooth and convex else "proximal_gradient"))
    step_size = method.step_size or 1 / ((said.loss.smoothness if smooth else 1.0) * said.preprocessing.columns)

    def made(steps: int) -> Solver:
        most = steps // 4 if said.penalty.convex else 1  # a mean of sparse vectors is not sparse
        solver: Solver = kind(steps=steps, step_size=step_size, averaged=method.averaged or max(1, most))
        return solver

    if method.steps is not None:
        return made(method.steps)
    fewest = max(FEWEST_STEPS, method.averaged or 1)
    for steps in range(MOST_STEPS, fewest, -5):
        if one * math.sqrt(steps) * noise_gain(made(steps)) <= TOLERATED * said.residual:
            return made(steps)
    return made(fewest)


def penalty_of(said: dict[str, Any]) -> Penalty:
    """The penalty that a configuration such as {l1: 0.01}, {elastic_net: {l1: 0.1, l2: 0.1}} or {box: [-1, 1]} names."""
    if not said:
        made: Penalty = member(penalties, "none")()
        return made
    if len(said) != 1:
        raise ValueError(f"a model has one penalty, got {', '.join(said)}; use elastic_net for l1 and l2 together")
    ((name, value),) = said.items()
    kind: Any = member(penalties, name)
    if isinstance(value, dict):
        made = kind(**value)
    elif isinstance(value, (list, tuple)):
        made = kind(**dict(zip((entry.name for entry in fields(kind)), value, strict=True)))
    else:
        made = kind(**{kind.scalar_field: value}) if kind.scalar_field else kind()
    return made
