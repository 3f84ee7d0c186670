"""A refit decided before any row is read: every question, its noise and its cost, from public facts. Imports iteration and below."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np

from pipeline import __version__, means, penalties, solvers
from pipeline.discovery import member, members
from pipeline.iteration import Iteration, Procedure, described, name_of, named
from pipeline.losses import Loss
from pipeline.losses.columns import Columns
from pipeline.losses.hinge import Hinge
from pipeline.losses.huber import Huber
from pipeline.losses.logistic import Logistic
from pipeline.losses.squared import Squared
from pipeline.means import Allowance, Mean, Point
from pipeline.penalties import Penalty
from pipeline.penalties.sparsity import Sparsity
from pipeline.preprocessing import Preprocessing
from pipeline.privacy.accounting import (
    UNIT,
    Cost,
    Currency,
    CurrencyError,
    Tariff,
    check_budget,
    cost,
    limit,
    sampled_multiplier,
    tariff_of,
    tight_epsilon,
)
from pipeline.privacy.events import Event, GaussianEvent, SelectionEvent
from pipeline.query import bits_for
from pipeline.recipe.procedure import Recipe
from pipeline.recipe.questions import MOST_COLUMNS
from pipeline.recipe.screening import Screened, automatic
from pipeline.reporting import LocalMethod, reporting
from pipeline.solvers import Solver, noise_gain
from pipeline.solvers.proximal_gradient import ProximalGradient
from pipeline.start import Previous
from pipeline.theory import Moment, Problem, Schedule
from pipeline.theory.choice import theorem_of
from pipeline.types import LABEL, WHOLE, Adjacency, Answer, Draw, NightfitError, Part, Sample, parts_of, person_of

NOISE_BITS = 57  # sums below 2^61 and noise of 30 deviations stay inside int64
FEWEST_STEPS, USUAL_STEPS, MOST_STEPS = 5, 20, 100
TOLERATED = 0.1
MOST_ROWS = 2**31
LONGEST = 100_000
CHOSEN = ("bound", "steps", "step_size", "averaged", "groups", "batch", "smoothing", "blocks")  # what a theorem may choose
AUTO = "auto"


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

    def ceiling(self) -> Cost:
        return limit(self.epsilon, self.delta, self.currency)

    def mu_squared(self) -> float:
        """What a refit of Gaussian questions may add up to."""
        return float(self.ceiling().amount * UNIT) * (1 if self.currency is Currency.GAUSSIAN else 2)

    @property
    def tariff(self) -> Tariff:
        return tariff_of(self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """How to fit; what is None is chosen from public facts.

    The solver `auto` is the recipe.
    `batch` is what a step reads: "full", "splits" (one disjoint part per step) or the expected size of a Poisson sample. With the
    schedule "theory", a theorem chooses what is None, for the assumed `moment` of a gradient, the `diameter` of the set of weights
    and a probability of `failure`.
    """

    solver: str | None = None
    mean: str | None = None
    batch: str | int | None = None
    bound: float | None = None
    steps: int | None = None
    step_size: float | None = None
    averaged: int | None = None
    groups: int | None = None
    smoothing: float | None = None
    schedule: str = "auto"
    moment: Moment | None = None
    diameter: float | None = None
    failure: float = 0.05
    noise: str | None = None
    blocks: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Specification:
    """Everything a user says about a refit. `residual` is the public size of a residual, in units of the (scaled) target; `start` is
    None where it starts at zero whatever was released before.
    """

    name: str
    data_set: str
    preprocessing: Preprocessing
    budget: Budget
    loss: Loss
    penalty: Penalty
    method: Method = field(default_factory=Method)
    local: LocalMethod | None = None
    residual: float = 1.0
    start: Previous | None = None

    @property
    def of_columns(self) -> bool:
        """Whether means of columns are wanted, not a fit."""
        return isinstance(self.loss, Columns)

    @property
    def counted(self) -> bool:
        """Whether the stated number of units is also how many there are: counted in footers, which persons are not."""
        return self.budget.adjacency is not Adjacency.ADD_REMOVE and self.preprocessing.unit is None


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Frozen: what will be asked, with what noise, at what cost. `units` is the public divisor of every mean."""

    specification: Specification
    units: int
    procedure: Procedure
    theorem: Schedule | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        return self.procedure.events

    @property
    def cost(self) -> Cost:
        """In the currency of the data set's policy; Poisson samples at the tariff of this refit's budget alone."""
        return cost(self.events, self.specification.budget.currency, self.specification.budget.tariff)

    @property
    def epsilon(self) -> float:
        """The epsilon that the events cost at the budget's delta, as tightly as we can prove; at most the budget's."""
        return tight_epsilon(self.events, self.specification.budget.delta)

    @property
    def predicted_error(self) -> dict[str, Any] | None:
        """The range that 8 of 10 errors fall in, where the method can tell."""
        if not isinstance(self.procedure, Recipe | Screened):
            return None
        found = self.procedure.prediction
        return {"low": found.low, "high": found.high, "unit": found.unit, "useful": found.useful}

    def as_dict(self) -> dict[str, Any]:
        said, budget = self.specification, self.specification.budget
        return {
            "version": __version__,
            "model": said.name,
            "data_set": said.data_set,
            "units": self.units,
            "preprocessing": said.preprocessing.as_dict(),
            "budget": {**asdict(budget), "adjacency": str(budget.adjacency), "currency": str(budget.currency)},
            "loss": described(said.loss),
            "penalty": described(said.penalty),
            **({} if said.start is None else {"start": said.start.as_dict()}),
            **self.procedure.describe(),
            **({} if self.theorem is None else {"theorem": asdict(self.theorem)}),
            "events": [event.as_dict() for event in self.events],
        }

    def digest(self) -> str:
        """Identifies the plan: the same plan asks the same questions with the same noise."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def explain(self) -> str:
        """In words: what will be asked, with what noise, and what it costs."""
        said, budget = self.specification, self.specification.budget
        shape = said.preprocessing
        fitted = (
            f"the means of {len(shape.features)} columns"
            if said.of_columns
            else f"{named(said.loss)} loss, {len(shape.features)} features{' and an intercept' if shape.intercept else ''}, "
            f"{named(said.penalty)} penalty"
        )
        lines = [
            f"Model {said.name}: {fitted}, on the data set {said.data_set}.",
            *([] if said.start is None else [said.start.said()]),
            *([] if shape.unit is None else [_persons(shape, self.units)]),
            *self.procedure.explain(),
            *([] if self.theorem is None else [f"Schedule: {self.theorem.theorem}.", *(f"- {note}." for note in self.theorem.notes)]),
            f"Cost: epsilon {self.epsilon:.4g} at delta {budget.delta:g} "
            f"under {budget.adjacency} of one {budget.unit}, in the currency {budget.currency}."
            if self.procedure.private
            else "NOT PRIVATE: this method is a baseline to compare with. It runs only with `unsafe: {noise: none}` and --unsafe, adds no "
            "noise, claims no epsilon, and its release is stamped private: false.",
            "Released: the coefficients, this plan and the path of the noisy answers. Nothing else that depends on the data.",
        ]
        return "\n".join([*lines, *self.warnings()])

    def warnings(self) -> list[str]:
        """What public facts already tell about the fit's usefulness."""
        noise = self.procedure.coefficient_noise()
        ratio = (noise or 0.0) / max(self.specification.residual, 1e-300)
        said = []
        if not (self.specification.loss.convex and self.specification.penalty.convex):
            said.append("The problem is not convex: the guarantee holds all the same, but the fit may end in a local optimum.")
        if ratio > 0.3:
            said.append(
                f"Warning: the noise per coefficient is {ratio:.0%} of the size of a residual: expect little use; "
                "more rows, fewer columns, a larger epsilon or tighter public bounds would help."
            )
        return said


def method_named(name: str) -> Method:
    """A method by one name: `auto`, or that of a solver or of a mean."""
    if name == AUTO:
        return Method(solver=AUTO)
    if name in members(solvers):
        return Method(solver=name)
    member(means, name)
    return Method(mean=name)


def _persons(shape: Preprocessing, units: int) -> str:
    return (
        f"Persons: all rows of one {shape.unit} are one unit, of {units:,} as stated; at most {shape.rows_per_unit:,} rows of each are "
        "used, and their mean counts."
    )


def make(said: Specification, units: int, rows: int | None = None) -> Plan:
    """The plan of a specification for a public number of units; data are not looked at. `rows` are those that may be read, if they
    are more than the units: sums have room for them.
    """
    budget = said.budget
    if person_of(budget.unit) != said.preprocessing.unit:
        raise PlanError(f"the budget protects one {budget.unit}, and rows are brought together by {said.preprocessing.unit}: name the same")
    if units < 1:
        raise PlanError(f"{said.data_set} has no rows: there is nothing to fit")
    if budget.delta >= 1 / units:
        raise PlanError(
            f"delta {budget.delta:g} is not below 1 / {units} units: it would allow revealing somebody's record outright; "
            f"choose at most {1 / (10 * units):.1g}"
        )
    largest = most_rows(said, max(units, rows or 0))
    try:
        said.penalty.value(np.zeros(len(said.preprocessing.features)))
        theorem = _theorem(said, units) if said.method.schedule == "theory" else None
        plan = Plan(specification=said, units=units, procedure=_procedure(_scheduled(said, theorem), units, largest), theorem=theorem)
        affordable = plan.cost.fits(budget.ceiling()) or not _additive(plan.events)
    except CurrencyError as error:
        raise PlanError(f"{said.name}: {error}") from None
    except ValueError as error:
        raise PlanError(f"method: {error}") from None
    if not affordable:
        raise PlanError(
            f"{said.name}: no noise on the grid meets delta {budget.delta:g} in this currency; choose a larger delta, or the currency zcdp"
        )
    return plan


def most_rows(said: Specification, rows: int) -> int:
    """How many units sums must have room for: the records that are there, or any number where that is private, as it is of persons."""
    return rows if said.counted else MOST_ROWS


def _additive(events: tuple[Event, ...]) -> bool:
    """Whether the budget was shared out by adding rho; samples and smooth blocks are calibrated by accountants of their own."""
    return not any(isinstance(event.draw, Sample) or event.mechanism == "smooth_gaussian" for event in events)


def _procedure(said: Specification, units: int, largest: int) -> Procedure:
    budget, shape, method = said.budget, said.preprocessing, said.local
    if method is None:
        if budget.unit == LABEL:
            raise ValueError("the unit label is for local reports with the curriculum label_only")
        return _central(said, units, largest)
    if said.start is not None:
        raise ValueError("model.start previous is for trusted refits: local reports start at zero; remove it")
    if shape.unit is not None:
        raise ValueError(
            f"local reports are made where one record is, of that record alone, and {shape.unit} has many: there is no report of a "
            "person's mean gradient; write one row per person and use `data: {unit: record}`, or use privacy.trust central"
        )
    if shape.row_id is not None:
        raise ValueError("local reports are drawn by file and row: an id that came twice would repeat its noise; remove data.row_id")
    if method.label_only != (budget.unit == LABEL):
        raise ValueError(
            "the curriculum label_only protects the label of a record and nothing else of it, so its budget is a label's: "
            f"use `data: {{unit: label}}` with it and only with it, got the unit {budget.unit}"
        )
    return reporting(
        method,
        loss=said.loss,
        penalty=said.penalty,
        features=len(shape.features),
        columns=shape.columns,
        units=units,
        ceiling=budget.ceiling(),
        currency=budget.currency,
        adjacency=budget.adjacency,
    )


def _central(said: Specification, units: int, largest: int) -> Procedure:
    """The automatic method where it applies, else the loop; columns without public bounds are for the automatic method alone."""
    suited = isinstance(said.loss, Squared | Huber | Logistic | Hinge) and said.penalty.convex
    if said.method.solver == AUTO and suited and said.preprocessing.columns <= MOST_COLUMNS:
        recipe = Recipe(
            loss=said.loss,
            penalty=said.penalty,
            preprocessing=said.preprocessing,
            units=units,
            adjacency=said.budget.adjacency,
            mu_squared=said.budget.mu_squared(),
            largest_units=largest,
            start=said.start,
        )
        return automatic(recipe)
    if not said.preprocessing.bounded:
        raise ValueError(
            f"only `auto` fits columns without public bounds, with a convex penalty, one of the losses squared, huber, logistic and hinge, "
            f"and at most {MOST_COLUMNS} columns: name every column in data.bounds, or set data.default_bounds"
        )
    return _iteration(replace(said, method=replace(said.method, solver=None)) if said.method.solver == AUTO else said, units, largest)


def _iteration(said: Specification, units: int, largest: int) -> Iteration:
    """Mean, solver, draws and noise of the loop, each as the method names it or from public facts."""
    budget, shape = said.budget, said.preprocessing
    bits = bits_for(largest)
    mean_kind, solver_kind = _kinds(said)
    step_size = said.method.step_size or _step_size(said)
    mean = _mean(said, mean_kind, step_size)
    zeros = np.zeros(shape.columns)
    whole = Allowance(multiplier=1 / math.sqrt(budget.mu_squared()), epsilon=budget.epsilon, delta=budget.delta)

    def loop(solver: Solver, bits: int) -> Iteration:
        draws = _draws(said, mean, solver, units)
        return Iteration(
            loss=said.loss,
            penalty=said.penalty,
            mean=mean,
            solver=solver,
            features=len(shape.features),
            columns=shape.columns,
            units=units,
            noun="record" if shape.unit is None else "person",
            bits=bits,
            adjacency=budget.adjacency,
            draws=draws,
            allowances=tuple(replace(whole, multiplier=multiplier) for multiplier in _multipliers(said, draws)),
            start=() if said.start is None else tuple(said.start.scaled(shape).tolist()),
        )

    point = Point(
        loss=said.loss,
        weights=zeros,
        previous=zeros,
        units=units,
        bits=bits,
        adjacency=budget.adjacency,
        draw=WHOLE,
        key=bytes(16),
    )
    single = getattr(mean, "single", False)
    if single and said.method.steps not in (None, 1):
        raise ValueError(f"an estimate by {named(mean)} is a fit by itself and costs the whole budget: it has one step, remove steps")
    usual = 1 if single else getattr(solver_kind, "usual_steps", None)
    made = loop(_solver(said, solver_kind, step_size, usual, mean.deviation(point, whole)), bits)
    spread = max((_spread(event) for event in made.events), default=1.0)
    finest = bits - max(0, math.ceil(math.log2(spread)) - NOISE_BITS)
    if finest < 8:
        raise ValueError("so much noise does not fit in 64 bits; choose fewer steps or columns, or a larger epsilon")
    return made if finest == bits else loop(made.solver, finest)


def _spread(event: Event) -> float:
    """The scale of its noise in steps; noise that is not on a grid of steps counts as 1."""
    if isinstance(event, GaussianEvent):
        return event.sigma
    return event.scale if isinstance(event, SelectionEvent) else 1.0


def _theorem(said: Specification, units: int) -> Schedule:
    """What the method's theorem chooses, with what was assumed where the user said nothing."""
    method, budget, notes = said.method, said.budget, []
    mean, solver = _kinds(said)
    sampled = isinstance(method.batch, int) or (method.batch is None and getattr(solver, "usual_rate", 1.0) < 1)
    theorem = theorem_of(name_of(mean), name_of(solver), sampled)
    if theorem is None:
        return Schedule(theorem=f"none speaks of the mean {name_of(mean)!r}; all is chosen as by auto")
    if sampled and theorem is theorem_of(name_of(mean), name_of(solver), False):
        notes.append("the theorem speaks of steps that read all records or disjoint parts, not of Poisson samples")
    if name_of(solver) == "accelerated_gradient":
        notes.append("the theorem speaks of plain descent: proximal_gradient")
    largest = min(said.loss.lipschitz, said.residual)
    if method.moment is None:
        notes.append(f"no moment is assumed: E g_j^2 <= {largest**2:.3g} follows from the size of a residual (method.moment says another)")
    known = method.diameter or _diameter(said)
    diameter = known or 2 * said.residual
    if known is None and not said.of_columns:
        notes.append(f"nothing bounds the weights: a diameter of {diameter:.3g} is assumed (method.diameter says another)")
    found = theorem(
        Problem(
            units=units,
            columns=said.preprocessing.columns,
            epsilon=budget.epsilon,
            delta=budget.delta,
            mu=math.sqrt(budget.mu_squared()),
            moment=method.moment or Moment(order=2.0, bound=largest**2),
            diameter=diameter,
            smoothness=(said.loss.smoothness or 1.0) * said.preprocessing.columns,
            strong_convexity=said.penalty.strong_convexity,
            failure=method.failure,
            adjacency=budget.adjacency,
            steps=1 if said.of_columns else method.steps,
            batch=method.batch,
            groups=method.groups,
            sparsity=getattr(said.penalty, "nonzeros", None),
        )
    )
    return replace(found, notes=(*found.notes, *notes))


def _diameter(said: Specification) -> float | None:
    """Of the set that a constraint leaves to the weights."""
    radius, low, high = (getattr(said.penalty, name, None) for name in ("radius", "low", "high"))
    if radius is not None:
        return float(2 * radius)
    return None if low is None or high is None else float((high - low) * math.sqrt(len(said.preprocessing.features)))


def _scheduled(said: Specification, theorem: Schedule | None) -> Specification:
    """The specification with a theorem's choices where the user made none."""
    if theorem is None:
        return said
    used = {"steps", "batch", *(entry.name for kind in _kinds(said) for entry in fields(kind))}
    chosen = {name: getattr(theorem, name) for name in CHOSEN}
    if not said.penalty.convex:
        chosen["averaged"] = 1
    missing = {name: value for name, value in chosen.items() if name in used and value is not None and getattr(said.method, name) is None}
    return replace(said, method=replace(said.method, **missing))


def _kinds(said: Specification) -> tuple[Any, Any]:
    """The classes of mean and solver that fit together. Acceleration needs a smooth convex loss, a convex penalty and every record
    in every step; theorems speak of plain descent.
    """
    method = said.method
    solver: Any = member(solvers, method.solver) if method.solver is not None else None
    mean: Any = member(means, method.mean or str(getattr(solver, "usual_mean", "clipped")))
    if said.of_columns:
        if solver is not None or mean.answer is not Answer.GRADIENT:
            raise ValueError("means of columns take one question and no solver: name a mean such as clipped, threshold, trimmed or range")
        return mean, member(solvers, "proximal_gradient")
    if getattr(mean, "coarse", False):
        raise ValueError("range tells where values lie, too coarsely to descend by: it is for model.kind mean")
    if solver is None:
        smooth = math.isfinite(said.loss.smoothness) and said.loss.convex and said.penalty.convex
        plain = method.schedule == "theory" or method.batch not in (None, "full")
        gradient = "accelerated_gradient" if smooth and not plain else "proximal_gradient"
        solver = member(solvers, {Answer.GRADIENT: gradient, Answer.WEIGHTS: "assignment", Answer.VERTEX: "frank_wolfe"}[mean.answer])
    if solver.takes is not mean.answer:
        raise ValueError(
            f"the solver {solver.__module__.rpartition('.')[2]!r} steps by a {solver.takes}, and the mean "
            f"{mean.__module__.rpartition('.')[2]!r} gives a {mean.answer}: name only one of them"
        )
    used = {entry.name for entry in (*fields(mean), *fields(solver))}
    for name in ("step_size", "averaged"):
        if getattr(method, name) is not None and name not in used:
            raise ValueError(f"{name} means nothing to {solver.__module__.rpartition('.')[2]!r}: remove it")
    return mean, solver


def _mean(said: Specification, kind: Any, step_size: float) -> Mean:
    """The robust mean; for a median of means, 2 ceil(2 ln(2 columns / 0.05)) groups (Tao et al. 2022, alg. 3, at failure 0.05)."""
    wanted = {entry.name for entry in fields(kind)}
    if said.method.groups is not None and "groups" not in wanted:
        raise ValueError(f"the mean {said.method.mean!r} has no groups: remove them, or use median_of_means")
    for name, only in (("smoothing", "smoothed"), ("noise", "trimmed"), ("blocks", "sample_aggregate")):
        if getattr(said.method, name) is not None and name not in wanted:
            raise ValueError(f"the mean {said.method.mean!r} has no {name}: remove it, or use {only}")
    for name in ("groups", "blocks"):
        if name in wanted:
            _check_identified(said, name)
    known: dict[str, Callable[[], Any]] = {
        "bound": lambda: _bound(said, kind),
        "groups": lambda: said.method.groups or 2 * math.ceil(2 * math.log(2 * said.preprocessing.columns / 0.05)),
        "step_size": lambda: step_size,
        "features": lambda: len(said.preprocessing.features),
        "penalty": lambda: said.penalty,
        **({} if said.method.smoothing is None else {"smoothing": lambda: said.method.smoothing}),
        "noise": lambda: said.method.noise or "laplace_log_normal",
        "blocks": lambda: said.method.blocks,
        "touched": lambda: 2 if said.budget.adjacency is Adjacency.REPLACE_ONE and _identified(said) else 1,
    }
    made: Mean = kind(**{name: value() for name, value in known.items() if name in wanted})
    return made


def _identified(said: Specification) -> bool:
    """Whether slots are hashes of ids, which another unit in the same place would not share."""
    return said.preprocessing.row_id is not None or said.preprocessing.unit is not None


def _check_identified(said: Specification, what: str) -> None:
    if said.budget.adjacency is Adjacency.ADD_REMOVE and not _identified(said):
        raise ValueError(f"{what} under add_remove need data.row_id: without it a removed record would move others to other {what}")


def _bound(said: Specification, kind: Any) -> float:
    """The gradient of a record is slope * x with |x_j| <= 1: its norm is at most slope sqrt(columns), which is the bound of a mean
    that bounds norms; one that bounds coordinates has the slope's, and one that bounds weights the radius of the penalty's ball.
    """
    if said.method.bound is not None:
        return said.method.bound
    if getattr(kind, "bounds_weights", False):
        radius: float | None = getattr(said.penalty, "radius", None)
        if radius is None:
            raise ValueError("this mean needs a public radius of the ball of (scaled) weights: set method.bound, or the penalty l2_ball")
        return radius
    largest = min(said.loss.lipschitz, said.residual)
    return largest * math.sqrt(said.preprocessing.columns) if getattr(kind, "bounds_norm", False) else largest


def _step_size(said: Specification) -> float:
    """The mean loss is smoothness * width smooth along `width` coordinates, because |x_j| <= 1, so 1 / (smoothness width) converges:
    a step moves all columns, or between two sparse vectors those of either and the intercept.
    """
    smooth = 0 < said.loss.smoothness < math.inf
    shape, width = said.preprocessing, said.preprocessing.columns
    if isinstance(said.penalty, Sparsity):
        width = min(width, 2 * said.penalty.nonzeros + shape.intercept)
    return 1 / ((said.loss.smoothness if smooth else 1.0) * width)


def _solver(said: Specification, kind: Any, step_size: float, usual: int | None, one: float) -> Solver:
    """Solver and steps from public facts; `one` is the noise of an estimate that gets the whole budget.

    More steps come closer to the optimum and add noise: steps is the largest number up to MOST_STEPS at which the noise of a
    coefficient in a flat direction is at most TOLERATED of a residual, and FEWEST_STEPS at least; where the data decide the noise,
    or steps do not share the budget, it is the solver's usual number. The last quarter of the iterates is averaged.
    """
    method = said.method

    def made(steps: int) -> Solver:
        most = steps // 4 if said.penalty.convex else 1  # a mean of sparse vectors is not sparse
        order = method.moment.order if method.moment else 2.0 if method.schedule == "theory" else None
        known = {
            "steps": steps,
            "step_size": step_size,
            "averaged": method.averaged or max(1, most),
            "penalty": said.penalty,
            "order": order,
        }
        solver: Solver = kind(**{entry.name: known[entry.name] for entry in fields(kind) if entry.name in known})
        return solver

    if said.of_columns:
        return ProximalGradient(steps=1, step_size=1.0)
    if method.steps is not None:
        return made(method.steps)
    if usual is not None or not math.isfinite(one) or method.batch not in (None, "full"):
        return made(max(usual or USUAL_STEPS, method.averaged or 1))
    fewest = max(FEWEST_STEPS, method.averaged or 1)
    for steps in range(MOST_STEPS, fewest, -5):
        if one * math.sqrt(steps) * noise_gain(made(steps)) <= TOLERATED * said.residual:
            return made(steps)
    return made(fewest)


def _draws(said: Specification, mean: Mean, solver: Solver, units: int) -> tuple[Draw, ...]:
    """Which records each step reads: as the method says, or as is usual for the mean or the solver."""
    if solver.steps > LONGEST:
        raise ValueError(f"a fit has at most {LONGEST:,} steps, got {solver.steps}")
    rate = getattr(solver, "usual_rate", 1.0)
    usual = getattr(mean, "usual_batch", "full" if rate * units < 1 or rate == 1.0 else int(rate * units))
    batch = said.method.batch or usual
    own = getattr(solver, "draws", None)
    draws: tuple[Draw, ...]
    if own is not None:
        draws = own()
    elif batch == "full":
        draws = (WHOLE,) * solver.steps
    elif batch == "splits":
        draws = parts_of(solver.steps)
    elif isinstance(batch, int) and 1 <= batch < units:
        draws = tuple(Sample(batch / units, step) for step in range(solver.steps))
    else:
        raise ValueError(f"batch must be full, splits or a number of records below {units}, got {batch!r}")
    if any(draw != WHOLE for draw in draws):
        _check_identified(said, "parts and samples")
    return draws


def _multipliers(said: Specification, draws: tuple[Draw, ...]) -> list[float]:
    """The noise of each step, in sensitivities, such that all together cost the budget.

    Steps on parts: one that shares some record with at most k steps (itself included) gets 1 / k of the budget, so what concerns
    one record adds to at most all of it. Poisson samples: by the privacy loss distribution of all of them.
    """
    budget = said.budget
    if any(isinstance(draw, Sample) for draw in draws):
        if budget.adjacency is Adjacency.REPLACE_ONE:
            raise ValueError("Poisson samples are accounted for under zero_out or add_remove: set privacy.adjacency to one of them")
        return [sampled_multiplier(draws[0].fraction, len(draws), budget.epsilon, budget.delta, budget.adjacency)] * len(draws)
    parts = [draw for draw in draws if isinstance(draw, Part)]
    edges = sorted({part.low for part in parts})
    counts = {edge: sum(part.low <= edge < part.high for part in parts) for edge in edges}
    most = {part: max(count for edge, count in counts.items() if part.low <= edge < part.high) for part in set(parts)}
    return [math.sqrt(most[part] / budget.mu_squared()) for part in parts]


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
