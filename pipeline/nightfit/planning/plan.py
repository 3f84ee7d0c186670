"""A refit decided before any row is read: every query, its noise and its cost, from public facts. Imports engines and packages below."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np

from nightfit._version import __version__
from nightfit.evaluation import HeldOut
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.shared_rows import RowQueries
from nightfit.methods.loop.loop import GradientLoop
from nightfit.methods.loop.theory import TheorySchedule
from nightfit.methods.procedure import Procedure
from nightfit.planning.defaults import MOST_ROWS
from nightfit.planning.engines import procedure_for, why_not_auto
from nightfit.planning.evaluated import held_out
from nightfit.planning.outcome_words import outcome_in_words
from nightfit.planning.specification import Budget, Specification
from nightfit.planning.theorems import theorem_for, usefulness, with_theorem
from nightfit.plugins import described, named
from nightfit.privacy.accounting import UNIT, Cost, CurrencyError, cost, short_of, tight_epsilon
from nightfit.privacy.events import Event
from nightfit.queries.parts import draw_within
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import NightfitError, person_of

ROUND_DOWN = 1 - 1e-9  # more than the roundings between a share of the budget and the events that it pays for
SHARE_STEPS = 2**12  # of a budget that models share queries in: roundings of one model's events must not make its budget another's
USELESS_NOISE = 0.3  # noise of a coefficient, in residuals, above which a plan warns


class PlanError(NightfitError):
    """The configuration cannot be planned; nothing was read."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Plan:
    """Every query of a refit, with its noise and its cost.

    Parameters
    ----------
    specification : Specification
        What the user decided.
    units : int
        Public number of units, the divisor of every mean.
    procedure : Procedure
        The engine that asks the queries.
    theorem : TheorySchedule, optional
        What a theorem chose, with `schedule: theory`.
    evaluation : HeldOut, optional
        The units that are never fitted on, and what they are asked.
    unevaluated : str
        Why there is no evaluation, although it is the default; for people only.
    """

    specification: Specification
    units: int
    procedure: Procedure
    theorem: TheorySchedule | None = None
    evaluation: HeldOut | None = None
    unevaluated: str = ""

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """Of the fit, which reads its part of the units, and of the evaluation, which reads the others."""
        if self.evaluation is None:
            return self.procedure.events
        part = self.evaluation.fit_part
        fitted: list[Any] = [replace(event, draw=draw_within(part, event.draw)) for event in self.procedure.events]  # type: ignore[type-var]
        return (*fitted, *self.evaluation.events)

    @cached_property
    def shared_rows(self) -> RowQueries | None:
        """The queries about rows that another run pays for, once for all models of these columns."""
        if not isinstance(self.procedure, AutoFit) or not self.procedure.shares_rows:
            return None
        return RowQueries.of(self.procedure, None if self.evaluation is None else self.evaluation.fit_part)

    @cached_property
    def shared_events(self) -> tuple[Event, ...]:
        """The events that another run pays for; they count in the plan's epsilon."""
        return () if self.shared_rows is None else self.shared_rows.events

    @cached_property
    def own_events(self) -> tuple[Event, ...]:
        """The events that the plan's own run pays for."""
        shared = self.shared_events
        return tuple(event for event in self.events if event not in shared)

    @property
    def passes(self) -> int:
        """The number of times that the records are read."""
        return self.procedure.passes + (0 if self.evaluation is None else len(self.evaluation.events))

    @cached_property
    def cost(self) -> Cost:
        """The cost in the currency of the data set's policy; Poisson samples at the Renyi order of this refit's budget."""
        return cost(self.events, self.specification.budget.currency, self.specification.budget.renyi_order)

    @cached_property
    def own_cost(self) -> Cost:
        """The cost of what the plan's own run pays for."""
        return cost(self.own_events, self.specification.budget.currency, self.specification.budget.renyi_order)

    @cached_property
    def epsilon(self) -> float:
        """The epsilon that the events cost at the budget's delta, as tightly as we can prove; at most the budget's."""
        return tight_epsilon(self.events, self.specification.budget.delta)

    @property
    def expected_noise(self) -> dict[str, Any] | None:
        """The expected noise of predictions, without the bias of clips, clamps and shrinkage; None if the method cannot tell it."""
        predicted = self.procedure.prediction
        if predicted is None:
            return None
        return {"noise": predicted.error, "unit": predicted.unit, "large": predicted.large}

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain data, as releases store it."""
        spec, budget = self.specification, self.specification.budget
        return {
            "version": __version__,
            "model": spec.name,
            "data_set": spec.data_set,
            "units": self.units,
            "preprocessing": spec.preprocessing.as_dict(),
            "budget": _budget(budget),
            "loss": described(spec.loss),
            "penalty": described(spec.penalty),
            **({} if spec.start is None else {"start": spec.start.as_dict()}),
            **self.procedure.describe(),
            **({} if self.theorem is None else {"theorem": asdict(self.theorem)}),
            **({} if self.evaluation is None else {"evaluation": self.evaluation.describe()}),
            "events": [event.as_dict() for event in self.events],
        }

    def digest(self) -> str:
        """SHA-256 of the plan: plans with the same digest ask the same queries with the same noise."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()

    def __repr__(self) -> str:
        spec = self.specification
        return f"Plan(model={spec.name!r}, units={self.units}, epsilon={spec.budget.epsilon!r}, queries={len(self.events)})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{escape(self.explain())}</pre>"

    def explain(self) -> str:
        """The plan in sentences: which queries are asked, with what noise, and what they cost."""
        spec = self.specification
        shape, theorem = spec.preprocessing, self.theorem
        lines = [
            f"Model {spec.name}: {self._model()}, on the data set {spec.data_set}.",
            *([] if spec.of_columns else [f"Predicted: {outcome_in_words(shape, described(spec.loss))}."]),
            *([] if spec.start is None else [spec.start.explain()]),
            *([] if shape.unit is None else [_persons(shape, self.units)]),
            f"Engine: {self.procedure.engine}{why_not_auto(spec) if self.procedure.engine == GradientLoop.engine else ''}.",
            *self.procedure.explain(),
            *([] if theorem is None else [f"Schedule: {theorem.theorem}.", *(f"- {note}." for note in theorem.notes), *self._usefulness()]),
            *([] if self.evaluation is None else self.evaluation.explain(spec.budget.unit)),
            *([f"Evaluation: none, because {self.unevaluated}."] if self.unevaluated else []),
            self._guarantee(),
            "Released: the coefficients, this plan and the path of the noisy answers. Nothing else that depends on the data.",
        ]
        return "\n".join([*lines, *self.warnings()])

    def _model(self) -> str:
        spec, shape = self.specification, self.specification.preprocessing
        if spec.of_columns:
            return f"the means of {len(shape.features)} columns"
        intercept = " and an intercept" if shape.intercept else ""
        return f"{named(spec.loss)} loss, {len(shape.features)} features{intercept}, {named(spec.penalty)} penalty"

    def _usefulness(self) -> list[str]:
        loop = self.procedure
        return usefulness(loop, self.specification.residual) if isinstance(loop, GradientLoop) else []

    def _guarantee(self) -> str:
        budget = self.specification.budget
        if not self.procedure.private:
            return (
                "NOT PRIVATE: this method is a baseline to compare with. It runs only with `unsafe: {noise: none}` and --unsafe, adds no "
                "noise, claims no epsilon, and its release is stamped private: false."
            )
        return (
            f"Cost: epsilon {self.epsilon:.4g} at delta {budget.delta:g} under {budget.adjacency} of one {budget.unit}, "
            f"in the currency {budget.currency}."
        )

    def warnings(self) -> list[str]:
        """Sentences about what public facts already tell against the fit's usefulness."""
        noise = self.procedure.coefficient_noise()
        ratio = (noise or 0.0) / max(self.specification.residual, 1e-300)
        warnings = []
        if not (self.specification.loss.convex and self.specification.penalty.convex):
            warnings.append("The problem is not convex: the privacy guarantee holds, but the fit may end in a local optimum.")
        if ratio > USELESS_NOISE:
            warnings.append(
                f"Warning: the noise per coefficient is {ratio:.0%} of the size of a residual: expect little use; "
                "more rows, fewer columns, a larger epsilon or tighter public bounds would help."
            )
        return warnings


def _persons(shape: Preprocessing, units: int) -> str:
    return (
        f"Persons: all rows of one {shape.unit} are one unit, of {units:,} as stated; at most {shape.rows_per_unit:,} rows of each are "
        "used, and their mean counts."
    )


def make(spec: Specification, units: int, rows: int | None = None) -> Plan:
    """The plan of a specification. It reads no data.

    Parameters
    ----------
    spec : Specification
        What the user decided.
    units : int
        Public number of units.
    rows : int, optional
        Number of rows that may be read, if it is larger than `units`: sums must hold them without overflow.

    Raises
    ------
    PlanError
        If the specification cannot be planned, with the cure.
    """
    budget = spec.budget
    _check(spec, units)
    try:
        spec.penalty.value(np.zeros(len(spec.preprocessing.features)))
        theorem = theorem_for(spec, units) if spec.method.schedule == "theory" else None
        plan = _planned(spec, units, rows, theorem)
        if plan.cost.amount > budget.ceiling().amount and _additive(plan.events):
            share = float(budget.ceiling().amount * UNIT) / float(plan.cost.amount * UNIT) * ROUND_DOWN
            share = share**2 if budget.currency.adds_epsilons else share  # an epsilon grows like the root of rho
            share = math.floor(share * SHARE_STEPS) / SHARE_STEPS if spec.shares_rows else share
            plan = _planned(replace(spec, budget=replace(budget, share=share)), units, rows, theorem)
        affordable = plan.cost.fits(budget.ceiling()) or not _additive(plan.events)
    except CurrencyError as error:
        raise PlanError(f"{spec.name}: {error}") from None
    except ValueError as error:
        raise PlanError(f"method: {error}") from None
    _check_cost(plan, affordable)
    return plan


def _check_cost(plan: Plan, affordable: bool) -> None:
    """Refuse a plan whose queries together may be less private than its budget says."""
    spec, budget = plan.specification, plan.specification.budget
    if not affordable:
        raise PlanError(
            f"{spec.name}: no noise on the grid meets delta {budget.delta:g} in the currency {budget.currency}; what binds is the "
            f"{short_of(plan.cost, budget.ceiling(), budget.currency)}: choose a larger delta, or the currency zcdp"
        )
    if plan.procedure.private and plan.epsilon > budget.epsilon:
        raise PlanError(
            f"{spec.name}: all queries together are (epsilon {plan.epsilon:.4g}, delta {budget.delta:g}) private, more than the "
            f"epsilon {budget.epsilon:g} that they may cost: choose another method, or a larger delta"
            + (", or `evaluate: none`" if plan.evaluation is not None else "")
        )


def _planned(spec: Specification, units: int, rows: int | None, theorem: TheorySchedule | None) -> Plan:
    """The plan whose queries about one unit cost the budget's share."""
    largest, evaluation = max_units(spec, max(units, rows or 0)), None
    if spec.evaluate is not None:
        evaluation = held_out(spec, units, largest)
        units_of_fit = int(units * evaluation.fit_part.fraction)
        if units_of_fit < 1 or units_of_fit == units:
            raise ValueError("too few units to set some aside: use `evaluate: none`")
    procedure = procedure_for(with_theorem(spec, theorem), units if evaluation is None else units_of_fit, largest)
    if evaluation is not None and isinstance(procedure, AutoFit) and procedure.shared_rows is not None:  # what is shared is no part of it
        evaluation = replace(evaluation, mu_squared=evaluation.mu_squared * (1 - procedure.shared_rows.spent))
    return Plan(specification=spec, units=units, procedure=procedure, theorem=theorem, evaluation=evaluation)


def _budget(budget: Budget) -> dict[str, Any]:
    """As plain data; a share of one goes without saying."""
    stored = {**asdict(budget), "adjacency": str(budget.adjacency), "currency": str(budget.currency)}
    return {name: value for name, value in stored.items() if (name, value) not in (("share", 1), ("earlier_rows", None))}


def _check(spec: Specification, units: int) -> None:
    budget = spec.budget
    if person_of(budget.unit) != spec.preprocessing.unit:
        raise PlanError(
            f"the budget protects one {budget.unit}, and rows are grouped by {spec.preprocessing.unit}: both must name the same unit"
        )
    if spec.loss.target is not spec.preprocessing.target_domain:
        raise PlanError(
            f"the loss {spec.loss.name} is for {spec.loss.target}, and the target is read as {spec.preprocessing.target_domain}"
        )
    if spec.curvature is not None and spec.curvature < spec.preprocessing.intercept:
        raise PlanError(f"the curvature is at least that of the intercept, 1, and {spec.curvature:g} is stated: leave it out or state more")
    if units < 1:
        raise PlanError(f"{spec.data_set} has no rows: there is nothing to fit")
    if budget.delta >= 1 / units:
        raise PlanError(
            f"delta {budget.delta:g} is not below 1 / {units} units: it would allow revealing somebody's record outright; "
            f"choose at most {1 / (10 * units):.1g}"
        )


def max_units(spec: Specification, rows: int) -> int:
    """The number of units that sums must hold without overflow: the rows that are there, or MOST_ROWS if their number is private."""
    return rows if spec.counted else MOST_ROWS


def _additive(events: tuple[Event, ...]) -> bool:
    """Whether the events' shares of the budget add up; Poisson samples and approximate events are calibrated as a whole."""
    return not any(event.calibrated_alone for event in events)
