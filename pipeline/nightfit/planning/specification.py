"""The specification of a refit: budget, method, model and data, as public facts. Imports methods, privacy, problem and records."""

from dataclasses import dataclass, field, fields
from typing import Any, cast

from nightfit.evaluation import Earlier
from nightfit.methods.local.fit import LocalMethod
from nightfit.methods.loop import gradient_estimators, solvers
from nightfit.methods.loop.theory import Moment
from nightfit.methods.warm_start import Previous
from nightfit.plugins import member, members
from nightfit.privacy.accounting import UNIT, Cost, Currency, RenyiOrder, check_budget, lattice_share_for, limit, renyi_order_for
from nightfit.problem import penalties
from nightfit.problem.losses import Estimand, Loss
from nightfit.problem.losses.softmax import Softmax
from nightfit.problem.penalties import Penalty
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency

AUTO = "auto"
PAID, PUBLIC = "paid", "public"


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What one refit may cost, and the currency in which its data set's ledger adds costs.

    `share` is the part of it that the queries about one unit may cost where a unit that changes from one part of the data to another
    pays for leaving one and joining the other. `earlier_rows` is how many rows of one person the runs read at most that were made while the
    data set protected records; None if there are none.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    unit: str = "record"
    currency: Currency = Currency.GAUSSIAN
    share: float = 1.0
    earlier_rows: int | None = None

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)

    def ceiling(self) -> Cost:
        """The largest cost in the currency that is (epsilon, delta) private."""
        return limit(self.epsilon, self.delta, self.currency, lattice_share_for(self.epsilon))

    def mu_squared(self) -> float:
        """The largest sum of mu^2 of Gaussian queries about one unit."""
        if self.currency is Currency.APPROXIMATE:  # as many Gaussian queries as are (epsilon, delta) private
            return self.share * float(limit(self.epsilon, self.delta, Currency.GAUSSIAN, lattice_share_for(self.epsilon)).amount * UNIT)
        return self.share * float(self.ceiling().amount * UNIT) * (1 if self.currency is Currency.GAUSSIAN else 2)

    @property
    def renyi_order(self) -> RenyiOrder:
        """The Renyi order at which Poisson samples and repeated attempts are priced."""
        return renyi_order_for(self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True, slots=True)
class Method:
    """How to fit. What is None is chosen from public facts.

    Parameters
    ----------
    solver : str, optional
        `auto` for the engine `auto`, or the name of a solver of the engine `loop`.
    mean : str, optional
        Name of the gradient estimator.
    batch : str or int, optional
        The records that a step reads: "full", "splits" (one disjoint part per step) or the expected size of a Poisson sample.
    schedule : str
        "theory" lets a theorem choose what is None, for the assumed `moment` of a gradient, the `diameter` of the set of weights and
        a probability of `failure`.
    bound, steps, step_size, averaged, groups, smoothing, noise, blocks
        Settings of the estimator and the solver.
    step_factor : float
        The step size in 1 / curvature, where the curvature is paid for.
    scales : str
        "paid": the scale of each column, the size of residuals and the curvature are asked for, and paid. "public": public bounds are
        scales, and nothing is asked for.
    """

    solver: str | None = None
    mean: str | None = None
    batch: str | int | None = None
    bound: float | None = None
    steps: int | None = None
    step_size: float | None = None
    step_factor: float = 1.0
    averaged: int | None = None
    groups: int | None = None
    smoothing: float | None = None
    schedule: str = "auto"
    moment: Moment | None = None
    diameter: float | None = None
    failure: float = 0.05
    noise: str | None = None
    blocks: int | None = None
    scales: str = PAID


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluate:
    """That a share of the units is set aside and asked how good the fit is, also against an earlier release, for each level of the
    category `by`, and what is missing or extreme.
    """

    share: float = 0.2
    earlier: Earlier | None = None
    by: str | None = None
    checks: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Specification:
    """What the user decided about a refit.

    Parameters
    ----------
    residual : float
        Public size of a residual, in units of the (scaled) target.
    start : Previous, optional
        The release to start at; None starts at zero whatever was released before.
    curvature : float, optional
        Stated largest eigenvalue of the second moment of scaled columns, the intercept's included; times the loss's smoothness it is the
        smoothness of the mean loss. Without it, it is asked for, or the number of columns bounds it.
    strong_convexity : float, optional
        Stated strong convexity of the mean loss without its penalty, for theorems.
    evaluate : Evaluate, optional
        How the fit is evaluated; None fits on all units and asks nothing more.
    shares_rows : bool
        Whether `auto` takes what it asks about rows from a run that pays for it once, for all models of the same columns.
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
    curvature: float | None = None
    strong_convexity: float | None = None
    evaluate: Evaluate | None = None
    shares_rows: bool = False

    @property
    def of_columns(self) -> bool:
        """Whether the means of columns are estimated instead of a model."""
        return self.loss.estimand is Estimand.COLUMN_MEANS

    @property
    def class_names(self) -> tuple[str, ...]:
        """The labels of several classes: those declared, or their numbers; empty for every other model."""
        if self.loss.estimand is not Estimand.CLASS_LOG_ODDS:
            return ()
        return self.preprocessing.outcome.classes or tuple(map(str, range(cast(Softmax, self.loss).classes)))

    @property
    def counted(self) -> bool:
        """Whether the stated number of units is the true one, counted in the files' footers; persons are not counted there."""
        return self.budget.adjacency is not Adjacency.ADD_REMOVE and self.preprocessing.unit is None


def method_named(name: str) -> Method:
    """The method that one name stands for: `auto`, a solver or a gradient estimator."""
    if name == AUTO:
        return Method(solver=AUTO)
    if name in members(solvers):
        return Method(solver=name)
    member(gradient_estimators, name)
    return Method(mean=name)


def penalty_of(section: dict[str, Any]) -> Penalty:
    """The penalty of a configuration such as {l1: 0.01}, {elastic_net: {l1: 0.1, l2: 0.1}} or {box: [-1, 1]}."""
    if not section:
        none: Penalty = member(penalties, "none")()
        return none
    if len(section) != 1:
        raise ValueError(f"a model has one penalty, got {', '.join(section)}; use elastic_net for l1 and l2 together")
    ((name, value),) = section.items()
    kind: Any = member(penalties, name)
    if isinstance(value, dict):
        penalty: Penalty = kind(**value)
    elif isinstance(value, (list, tuple)):
        names = [entry.name for entry in fields(kind)]
        if len(names) != len(value):
            raise ValueError(f"the penalty {name} is made of {', '.join(names) or 'nothing'}, got {len(value)} numbers")
        penalty = kind(**dict(zip(names, value, strict=True)))
    else:
        penalty = kind(**{kind.scalar_field: value}) if kind.scalar_field else kind()
    return penalty
