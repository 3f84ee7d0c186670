"""What a user says about a refit: budget, method, model and data, as public facts. Imports losses, penalties, accounting, theory."""

from dataclasses import dataclass, field, fields
from typing import Any

from nightfit.methods.local.fit import LocalMethod
from nightfit.methods.loop import gradient_estimators as means
from nightfit.methods.loop import solvers
from nightfit.methods.loop.theory import Moment
from nightfit.methods.warm_start import Previous
from nightfit.plugins import member, members
from nightfit.privacy.accounting import (
    UNIT,
    Cost,
    Currency,
    Tariff,
    check_budget,
    limit,
    tariff_of,
)
from nightfit.problem import penalties
from nightfit.problem.losses import Estimand, Loss
from nightfit.problem.penalties import Penalty
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency

AUTO = "auto"


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

    The solver `auto` is the engine `auto`.
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
        return self.loss.estimand is Estimand.COLUMN_MEANS

    @property
    def counted(self) -> bool:
        """Whether the stated number of units is also how many there are: counted in footers, which persons are not."""
        return self.budget.adjacency is not Adjacency.ADD_REMOVE and self.preprocessing.unit is None


def method_named(name: str) -> Method:
    """A method by one name: `auto`, or that of a solver or of a mean."""
    if name == AUTO:
        return Method(solver=AUTO)
    if name in members(solvers):
        return Method(solver=name)
    member(means, name)
    return Method(mean=name)


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
