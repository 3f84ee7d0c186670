"""A refit decided before any row is read: every question, its noise and its cost, from public facts. Imports iteration and below."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from nightfit import __version__
from nightfit.methods.auto.constants.budget import MOST_COLUMNS
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.screening import ScreenedAutoFit, automatic
from nightfit.methods.local.fit import reporting
from nightfit.methods.loop.theory import Schedule
from nightfit.methods.procedure import Procedure
from nightfit.planning.defaults import MOST_ROWS, iteration_of
from nightfit.planning.specification import AUTO, Specification
from nightfit.planning.theorems import scheduled, theorem_for
from nightfit.plugins import described, named
from nightfit.privacy.accounting import (
    Cost,
    CurrencyError,
    cost,
    tight_epsilon,
)
from nightfit.privacy.events import Event
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import LABEL, NightfitError, Sample, person_of


class PlanError(NightfitError):
    """The configuration asks for something that cannot be planned; nothing was read."""


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
        if not isinstance(self.procedure, AutoFit | ScreenedAutoFit):
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
            *_engine(said),
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
    if said.loss.target is not said.preprocessing.target_domain:
        raise PlanError(
            f"the loss {said.loss.name} is for {said.loss.target}, and the target is read as {said.preprocessing.target_domain}"
        )
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
        theorem = theorem_for(said, units) if said.method.schedule == "theory" else None
        plan = Plan(specification=said, units=units, procedure=_procedure(scheduled(said, theorem), units, largest), theorem=theorem)
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
    obstacle = _obstacle(said)
    if said.method.solver == AUTO and obstacle is None:
        fit = AutoFit(
            loss=said.loss,
            penalty=said.penalty,
            preprocessing=said.preprocessing,
            units=units,
            adjacency=said.budget.adjacency,
            mu_squared=said.budget.mu_squared(),
            largest_units=largest,
            start=said.start,
        )
        return automatic(fit)
    if not said.preprocessing.bounded:
        why = f", and {obstacle}" if said.method.solver == AUTO else ""
        raise ValueError(
            f"only `auto` fits columns without public bounds{why}: name every column in data.bounds, or set data.default_bounds"
        )
    return iteration_of(replace(said, method=replace(said.method, solver=None)) if said.method.solver == AUTO else said, units, largest)


def _obstacle(said: Specification) -> str | None:
    """Why `auto` cannot fit this, from the facts that loss and penalty declare; None where it can."""
    if said.of_columns:
        return "it does not estimate means of columns"
    if said.loss.estimand is None:
        return f"it has no fit of the {named(said.loss)} loss, which declares no estimand"
    if not said.penalty.convex:
        return f"it needs a convex penalty, and {named(said.penalty)} is not convex"
    if said.preprocessing.columns > MOST_COLUMNS:
        return f"it takes at most {MOST_COLUMNS} columns, and there are {said.preprocessing.columns}"
    return None


def _engine(said: Specification) -> list[str]:
    """Which engine runs, where it is not the one that was asked for."""
    obstacle = _obstacle(said)
    if said.local is not None or said.method.solver != AUTO or obstacle is None:
        return []
    return [f"Engine: loop, because `auto` cannot be used here: {obstacle}."]
