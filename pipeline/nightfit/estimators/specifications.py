"""From an estimator's parameters to a plan's specification and a ledger. Imports packages below; reads no value of the data."""

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from nightfit.config.faults import describe
from nightfit.config.sections import LOCAL_SOLVERS, MethodSection, Model
from nightfit.estimators.columns import public_scales
from nightfit.ledger import Ledger, Policy
from nightfit.nightly.witness import check_not_older
from nightfit.planning.plan import Plan, PlanError, make
from nightfit.planning.specification import AUTO, Budget, Method, Specification, method_named, penalty_of
from nightfit.privacy.accounting import LARGEST_EPSILON, Currency
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.records.encoding import Encoding
from nightfit.records.outcomes import AS_IT_IS, Outcome
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target, treatment
from nightfit.types import Adjacency, person_of

if TYPE_CHECKING:
    from nightfit.estimators.base import PrivateEstimator

Pair = tuple[float, float]
DEFAULT_DATA_SET = "arrays"  # in the ledger in memory of a fit that names no data set


def specification_of(
    given: "PrivateEstimator", preprocessing: Preprocessing, loss: Loss, penalty: dict[str, Any], currency: Currency, policy: Policy | None
) -> Specification:
    """The specification of one fit."""
    stated = _stated_facts(given)
    budget = Budget(
        epsilon=given.epsilon,
        delta=given.delta,
        adjacency=Adjacency(given.adjacency),
        unit=given.unit,
        currency=currency,
        earlier_rows=policy.earlier_rows if policy else None,
    )
    return Specification(
        name=given.name or type(given).__name__,
        data_set=given.data_set or DEFAULT_DATA_SET,
        preprocessing=preprocessing,
        budget=budget,
        loss=loss,
        penalty=_penalty_of(penalty),
        method=method_of(given),
        curvature=stated.curvature,
        strong_convexity=stated.strong_convexity,
    )


def preprocessing_of(
    given: "PrivateEstimator", names: tuple[str, ...], columns: int, target: Pair | None, loss: Loss, outcome: Outcome = AS_IT_IS
) -> Preprocessing:
    """Centre and half-width of public bounds; without bounds, columns as they are."""
    pairs = np.asarray((-1.0, 1.0) if given.bounds is None else given.bounds, dtype=np.float64)
    if pairs.shape not in ((2,), (columns, 2)):
        raise PlanError(f"bounds must be one pair (low, high), or one for each of {columns} columns; got the shape {pairs.shape}")
    low, high = np.broadcast_to(pairs, (columns, 2)).T
    return Preprocessing(
        features=names or tuple(f"x{j}" for j in range(columns)),
        target="y",
        centre=tuple(((low + high) / 2).tolist()),
        scale=tuple(((high - low) / 2).tolist()),
        target_domain=loss.target,
        outcome=outcome,
        intercept=given.fit_intercept,
        reach=(math.inf,) * columns if given.bounds is None else (),
        unit=person_of(given.unit),
        rows_per_unit=given.rows_per_unit if person_of(given.unit) else 1,
        **treatment(loss.target, loss.scalable, target),
    )


def described_preprocessing(
    given: "PrivateEstimator", encoding: Encoding, target: Pair | None, loss: Loss, outcome: Outcome
) -> Preprocessing:
    """The features of described columns: their bounds are clamps; with `scales: public` they set scales, too."""
    if given.bounds is not None:
        raise PlanError("state bounds in columns, as in {'age': {'kind': 'number', 'bounds': [0, 110]}}: bounds are for columns of numbers")
    pairs, reach, imputes = public_scales(method_of(given), encoding, fit_intercept=given.fit_intercept)
    return Preprocessing(
        features=encoding.names,
        encoding=encoding,
        imputes=imputes,
        target="y",
        centre=tuple((low + high) / 2 for low, high in pairs),
        scale=tuple((high - low) / 2 for low, high in pairs),
        target_domain=loss.target,
        outcome=outcome,
        intercept=given.fit_intercept,
        reach=reach,
        unit=person_of(given.unit),
        rows_per_unit=given.rows_per_unit if person_of(given.unit) else 1,
        **treatment(loss.target, loss.scalable, target),
    )


def method_of(given: "PrivateEstimator") -> Method:
    """The named method with the parameters that were given for it, or that of a section as in refit.yaml."""
    named = given.method.get("solver") if isinstance(given.method, Mapping) else given.method
    if named in LOCAL_SOLVERS:
        raise PlanError(
            f"{named} learns from reports that records randomise themselves, and arrays are held centrally: write Parquet shards and use "
            "`privacy: {trust: local}` in refit.yaml, or name a central method"
        )
    own = {"bound": given.bound, "steps": given.steps, "step_size": given.step_size}
    stated = [name for name, value in own.items() if value is not None]
    if isinstance(given.method, Mapping):
        if stated:
            raise PlanError(f"{stated[0]} is given beside a method of several settings: write it among them, as in method={{'steps': 20}}")
        return _section_of(dict(given.method))
    if given.method == AUTO and stated:
        raise PlanError(f"{stated[0]} is not for the method auto, which chooses for itself: leave it out, or name a method")
    try:
        return replace(method_named(given.method), **own)  # type: ignore[arg-type]
    except ValueError as error:
        raise PlanError(str(error)) from None


def _stated_facts(given: "PrivateEstimator") -> Model:
    """The section `model` of refit.yaml with the curvatures that the user states, which checks them."""
    try:
        return Model.model_validate({"curvature": given.curvature, "strong_convexity": given.strong_convexity})
    except ValidationError as error:
        raise PlanError("; ".join(describe(fault, Model).replace("model.", "") for fault in error.errors())) from None


def loss_of_numbers(stated: str | dict[str, dict[str, float]]) -> Loss:
    """The loss of a section `model.loss` of refit.yaml, for a target of numbers."""
    try:
        loss = Model.model_validate({"loss": stated}).loss_of()
    except ValidationError as error:
        raise PlanError("; ".join(describe(fault, Model).replace("model.", "") for fault in error.errors())) from None
    if loss.target is not Target.REAL:
        raise PlanError(f"the loss {loss.name} is of {loss.target}: state squared or huber, or use the estimator of such targets")
    return loss


def l2_unless_given(alpha: float, penalty: dict[str, Any] | None) -> dict[str, Any]:
    """The penalty alpha / 2 ||w||^2, or another one that was given in its place."""
    if alpha and penalty is not None:
        raise PlanError("alpha is the weight of an l2 penalty, and `penalty` names another: leave one of them out")
    return penalty or ({"l2": alpha} if alpha else {})


def _section_of(settings: dict[str, Any]) -> Method:
    """The method of a section `method` of refit.yaml."""
    try:
        return MethodSection.model_validate(settings).made()
    except ValidationError as error:
        raise PlanError("; ".join(f"method: {describe(fault, MethodSection)}" for fault in error.errors())) from None


def _penalty_of(section: dict[str, Any]) -> Penalty:
    """The penalty of a section `model.penalty` of refit.yaml."""
    try:
        return penalty_of(section)
    except (TypeError, ValueError) as error:
        raise PlanError(f"penalty: {error}") from None


def units_of(given: "PrivateEstimator", rows: int) -> int:
    """The public number of units: the rows of X, or `units` under add_remove and of persons."""
    if person_of(given.unit) is not None:
        if given.units is None:
            raise PlanError("persons are never counted: give the public number of them in `units`, by which means are divided")
        return given.units
    if Adjacency(given.adjacency) is Adjacency.ADD_REMOVE:
        if given.units is None:
            raise PlanError("under add_remove the number of records is not public: give a public `units` to divide by")
        return given.units
    if given.units not in (None, rows):
        raise PlanError(f"X has {rows} rows, and under {given.adjacency} that number is public: leave `units` out")
    return rows


def plan_of(
    given: "PrivateEstimator", preprocessing: Preprocessing, loss: Loss, penalty: dict[str, Any], policy: Policy | None, rows: int
) -> Plan:
    """The plan of one fit, in the accounting of the policy; without one in the first accounting that has a price for its queries."""
    units, most = units_of(given, rows), rows if person_of(given.unit) else None
    own = (Currency.GAUSSIAN, Currency.ZCDP, *((Currency.APPROXIMATE,) if given.bounds is not None else ()))  # which pays for no scales
    currencies = (policy.currency,) if policy else own
    refused: list[PlanError] = []
    for currency in currencies:
        try:
            plan = make(specification_of(given, preprocessing, loss, penalty, currency, policy), units, most)
            if policy is None:
                own_policy(plan)
        except PlanError as error:
            refused.append(error)
            continue
        if not plan.procedure.private:
            raise PlanError(f"the method {given.method} is a baseline that is not private: compare with it by `unsafe` in refit.yaml")
        return plan
    raise refused[0]


@contextlib.contextmanager
def opened_ledger(given: "PrivateEstimator") -> Iterator[tuple[Ledger, Policy | None]]:
    """The named ledger and its policy; or a ledger in memory, which has none yet."""
    if given.ledger is None:
        ledger = Ledger.create("sqlite://")
    elif given.data_set is None or given.window is None:
        raise PlanError("a ledger needs data_set and window: arrays have no files, so their names say which records are charged")
    else:
        ledger = Ledger.open(given.ledger)
    try:
        if given.ledger is not None:
            check_not_older(ledger)
        yield ledger, ledger.policies().get(given.data_set or DEFAULT_DATA_SET)
    finally:
        ledger.engine.dispose()


def own_policy(plan: Plan) -> Policy:
    """A lifetime budget that holds one fit: the fit's own, its epsilon or delta doubled as often as the ledger's price asks for.

    Samples are calibrated by their loss distributions, and a ledger prices them at one Renyi order; a mass of delta counts several times
    beside an epsilon. The fit's guarantee is its plan's, not this budget, which is gone when the fit ends.

    Raises
    ------
    PlanError
        If no budget does in this currency.
    """
    budget = plan.specification.budget
    policy = Policy(
        data_set=plan.specification.data_set,
        unit=budget.unit,
        adjacency=budget.adjacency,
        epsilon=budget.epsilon,
        delta=budget.delta,
        currency=budget.currency,
    )
    while not (cost := policy.cost(plan.events)).fits(policy.limit()):
        if cost.mass > policy.limit().mass:
            policy = replace(policy, delta=2 * policy.delta)
            continue
        if 2 * policy.epsilon > LARGEST_EPSILON:
            raise PlanError(
                f"no lifetime budget up to epsilon {LARGEST_EPSILON:g} holds this fit in the currency {budget.currency}: lower epsilon"
            )
        policy = replace(policy, epsilon=2 * policy.epsilon)
    return policy
