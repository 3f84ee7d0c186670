"""One point of a curve: generated rows, a configuration that a user can write, the plan, the gate. Imports packages below."""

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nightfit.config import parse
from nightfit.ledger import Ledger, Policy
from nightfit.methods.loop.loop import GradientLoop
from nightfit.methods.procedure import Outcome
from nightfit.nightly.fit import reservation_of
from nightfit.planning.plan import Plan, make
from nightfit.privacy.accounting import Currency, epsilon_of, tight_epsilon
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise, SeededNoise
from nightfit.shards.arrays import ArrayRecords
from nightfit.shards.manifest import Manifest, scan
from nightfit.shards.synthetic import Synthetic
from nightfit.types import Adjacency, Array, Integers
from nightfit_flows.reproduce.experiment import Curve, Kind, Point, Show

MOST_SHOWN = 20  # points of a path, of which there may be hundreds
LIFETIME = {"epsilon": 30.0, "delta": 1e-2}  # of the ledger in memory of one fit: it holds whatever one refit may cost


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Generated rows and what is fitted to them.

    Parameters
    ----------
    rows : Synthetic
        The generator; its seed is replaced in each repetition.
    epsilon : float
        The budget of one fit; delta is 1 / (10 rows), because the papers' 1 / rows would allow revealing somebody's record.
    model : dict
        The section `model`.
    """

    rows: Synthetic
    epsilon: float = 1.0
    model: dict[str, Any] = field(default_factory=dict)

    @property
    def delta(self) -> float:
        return 0.1 / self.rows.rows


@dataclass(frozen=True, kw_only=True)
class Named:
    """A method by its section of a configuration. With `adjust`, the planned loop is changed, as the printed constants want it: what is
    run then has the true epsilon of its own noise, and no budget.
    """

    name: str
    method: str | dict[str, Any]
    kind: Kind = "method"
    adjacency: str = "replace_one"
    model: dict[str, Any] = field(default_factory=dict)
    adjust: Callable[[Setting, GradientLoop], GradientLoop] | None = None


def with_epsilon(named: Named, epsilon: float) -> Named:
    """The method under a name that says its epsilon."""
    return replace(named, name=f"{named.name}, epsilon {epsilon:g}")


AUTO = Named(name="auto", method="auto", kind="auto")
Error = Callable[[Array, Array], float]


def relative(weights: Array, truth: Array) -> float:
    """||w - w*|| / ||w*||: predicting zero has one."""
    return float(np.linalg.norm(weights - truth) / np.linalg.norm(truth))


def of_direction(weights: Array, truth: Array) -> float:
    """The distance of unit vectors, for labels whose noise has no scale; zero weights have one."""
    size = float(np.linalg.norm(weights))
    return 1.0 if size == 0 else float(np.linalg.norm(weights / size - truth / np.linalg.norm(truth)))


def configuration(setting: Setting, named: Named) -> dict[str, Any]:
    """The content of refit.yaml."""
    return {
        "name": "paper",
        "data": {"name": "rows", "path": "shards", "target": "y", "default": {"kind": "number"}},
        "privacy": {
            "epsilon": setting.epsilon,
            "delta": setting.delta,
            "adjacency": named.adjacency,
            "lifetime": {**LIFETIME, "currency": str(_currency(named))},
        },
        "model": {**setting.model, **named.model},
        "method": named.method,
    }


def _currency(named: Named) -> Currency:
    return Currency.GAUSSIAN if named.kind == "auto" else Currency.ZCDP


@cache
def _manifest(rows: Synthetic) -> Manifest:
    """The footers of a shard of these columns; the number of rows is stated apart."""
    with tempfile.TemporaryDirectory() as folder:
        replace(rows, rows=rows.shards).write(Path(folder))
        return scan(folder)


def planned(setting: Setting, named: Named) -> Plan:
    """The plan of a configuration, as `nightfit plan` makes it."""
    config = parse(configuration(setting, named), Path("/"))
    spec = config.specification(_manifest(replace(setting.rows, seed=0)), _currency(named))
    plan = make(spec, setting.rows.rows)
    if named.adjust is None or not isinstance(plan.procedure, GradientLoop):
        return plan
    return replace(plan, procedure=named.adjust(setting, plan.procedure))


def true_epsilon(plan: Plan) -> float | None:
    """What the plan's noise is at its delta; None if it has none."""
    return tight_epsilon(plan.events, plan.specification.budget.delta) if plan.procedure.private else None


@dataclass
class Unpaid:
    """An account of noise that no budget of ours pays for: that of printed constants."""

    events: dict[str, Event]
    key: bytes = bytes(16)

    def asked(self, event: Event) -> Integers | None:
        return None

    def answered(self, event: Event, answer: Integers) -> None:
        return None


def fitted(plan: Plan, named: Named, X: Array, y: Array, seed: int) -> Outcome:
    """One fit: charged to a ledger in memory, unless it is a baseline without noise or has printed constants."""
    records = ArrayRecords(X, y, plan.specification.preprocessing)
    noise = SeededNoise(np.random.default_rng(seed)) if plan.procedure.private else NoNoise()
    if named.adjust is not None or not plan.procedure.private:
        account: Any = Unpaid({event.label: event for event in plan.events})
        return plan.procedure.run(Gate(account=account, records=records, noise=noise), lambda _: None)
    ledger = Ledger.create("sqlite://")
    try:
        policy = Policy(data_set="rows", adjacency=Adjacency(named.adjacency), currency=_currency(named), **LIFETIME)  # type: ignore[arg-type]
        ledger.set_policy(policy)
        run = ledger.reserve(reservation_of(plan, window="w", manifest="m", files=()))
        return plan.procedure.run(Gate(account=run, records=records, noise=noise), lambda _: None)
    finally:
        ledger.engine.dispose()


def drawn(rows: Synthetic, seed: int) -> tuple[Array, Array, Array]:
    """Features, target and true slopes of one repetition."""
    made = replace(rows, seed=seed)
    table = np.column_stack([column.to_numpy() for column in made.table(0).columns])
    return np.ascontiguousarray(table[:, :-1]), table[:, -1], made.truth()


def in_units(plan: Plan, outcome: Outcome, weights: Array) -> tuple[Array, float]:
    """Slopes and intercept in the units of the rows."""
    shape = outcome.preprocessing or plan.specification.preprocessing
    slopes, intercept = shape.in_original_units(weights)
    return slopes, float(intercept)


def slopes_of(plan: Plan, outcome: Outcome) -> Array:
    """The released slopes in the units of the rows."""
    return in_units(plan, outcome, outcome.weights)[0]


def curve(
    named: Named,
    settings: Sequence[tuple[float, Setting]],
    repeats: int,
    error: Error,
    show: Show,
) -> Curve:
    """The errors of a method over settings."""
    points = []
    for x, setting in settings:
        show(f"{named.name}, {setting.rows.rows:,} rows of {setting.rows.columns} columns, epsilon {setting.epsilon:g}")
        plan, errors = planned(setting, named), []
        for seed in range(repeats):
            X, y, truth = drawn(setting.rows, seed)
            errors.append(error(slopes_of(plan, fitted(plan, named, X, y, seed)), truth))
        points.append(Point.of(x, errors, true_epsilon(plan) if named.kind == "printed" else None))
    return Curve(name=named.name, kind=named.kind, points=tuple(points))


def descent(
    named: Named, setting: Setting, repeats: int, rows: Callable[[int], tuple[Array, Array]], error: Callable[[Array, float, int], float]
) -> Curve:
    """The errors of a method over its own iterations; the last point is what it releases, which may be a mean of iterates.

    `rows` draws the features and the target of a repetition; `error` takes slopes, intercept and the number of the repetition.
    """
    plan, found = planned(setting, named), []
    for seed in range(repeats):
        X, y = rows(seed)
        outcome = fitted(plan, named, X, y, seed)
        found.append([error(*in_units(plan, outcome, weights), seed) for weights in (*outcome.path[:-1], outcome.weights)])
    epsilon = true_epsilon(plan) if named.kind == "printed" else None
    length = len(found[0])
    shown = sorted({round(place * (length - 1) / min(MOST_SHOWN, length - 1)) for place in range(min(MOST_SHOWN, length - 1) + 1)})
    points = tuple(Point.of(float(step), [errors[step] for errors in found], epsilon) for step in shown)
    return Curve(name=named.name, kind=named.kind, points=points)


def descents(
    methods: Sequence[tuple[Named, float]],
    setting: Setting,
    repeats: int,
    rows: Callable[[int], tuple[Array, Array]],
    error: Callable[[Array, float, int], float],
    show: Show,
) -> list[Curve]:
    """The descents of methods, each at an epsilon, which its name says where it is not that of the setting."""
    found = []
    for named, epsilon in methods:
        told = named if epsilon == setting.epsilon else with_epsilon(named, epsilon)
        show(f"{told.name}, iterations on {setting.rows.columns} columns")
        found.append(descent(told, replace(setting, epsilon=epsilon), repeats, rows, error))
    return found


def level(name: str, kind: Kind, xs: Sequence[float], errors: Sequence[float]) -> Curve:
    """A line for what does not depend on what varies."""
    return Curve(name=name, kind=kind, points=tuple(Point.of(x, errors) for x in xs))


def not_private(fit: Callable[[Array, Array], Array], settings: Sequence[tuple[float, Setting]], repeats: int, error: Error) -> Curve:
    """The errors of a fit without privacy on the same rows."""
    points = []
    for x, setting in settings:
        made = [drawn(setting.rows, seed) for seed in range(repeats)]
        points.append(Point.of(x, [error(fit(X, y), truth) for X, y, truth in made]))
    return Curve(name="not private", kind="not private", points=tuple(points))


def zero(settings: Sequence[tuple[float, Setting]]) -> Curve:
    """Zero weights."""
    return Curve(name="zero", kind="zero", points=tuple(Point(x=x, mean=1.0, deviation=0.0) for x, _ in settings))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The exact epsilon of Gaussian queries whose rho is this together."""
    from nightfit.privacy.accounting import UNIT, Cost

    return epsilon_of(Cost(math.ceil(2 * rho / UNIT)), delta, Currency.GAUSSIAN)


def with_noise(loop: GradientLoop, multipliers: Sequence[float], **changed: Any) -> GradientLoop:
    """The loop with the noise of each step, in sensitivities, and other settings of its estimator or solver."""
    solver = {name: value for name, value in changed.items() if name in ("step_size", "averaged")}
    bound = {name: value for name, value in changed.items() if name not in solver}
    allowances = tuple(replace(allowance, multiplier=z) for allowance, z in zip(loop.allowances, multipliers, strict=True))
    made: Any = loop
    return replace(made, allowances=allowances, solver=replace(made.solver, **solver), estimator=replace(made.estimator, **bound))
