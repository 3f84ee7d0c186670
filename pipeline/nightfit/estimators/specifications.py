"""From an estimator's parameters to a plan's specification and a ledger. Imports packages below; reads no value of the data."""

import contextlib
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from nightfit.estimators.columns import public_scales
from nightfit.ledger import Ledger, Policy
from nightfit.planning.plan import PlanError
from nightfit.planning.specification import AUTO, Budget, Method, Specification, method_named, penalty_of
from nightfit.privacy.accounting import Currency
from nightfit.problem.losses import Loss
from nightfit.records.encoding import Encoding
from nightfit.records.outcomes import AS_IT_IS, Outcome
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import treatment
from nightfit.types import Adjacency

if TYPE_CHECKING:
    from nightfit.estimators.base import PrivateEstimator

Pair = tuple[float, float]
DEFAULT_DATA_SET = "arrays"  # in the ledger in memory of a fit that names no data set


def specification_of(
    given: "PrivateEstimator", preprocessing: Preprocessing, loss: Loss, penalty: dict[str, float], currency: Currency
) -> Specification:
    """The specification of one fit."""
    return Specification(
        name=given.name or type(given).__name__,
        data_set=given.data_set or DEFAULT_DATA_SET,
        preprocessing=preprocessing,
        budget=Budget(epsilon=given.epsilon, delta=given.delta, adjacency=Adjacency(given.adjacency), currency=currency),
        loss=loss,
        penalty=penalty_of(penalty),
        method=method_of(given),
    )


def preprocessing_of(
    given: "PrivateEstimator", names: tuple[str, ...], columns: int, target: Pair | None, loss: Loss, outcome: Outcome = AS_IT_IS
) -> Preprocessing:
    """Centre and half-width of public bounds; without bounds, columns as they are, for `auto` alone."""
    if given.bounds is None and given.method != AUTO:
        raise PlanError(f"the method {given.method} needs bounds: a public (low, high) of all columns, or a pair for each")
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
        **treatment(loss.target, loss.scalable, target),
    )


def described_preprocessing(
    given: "PrivateEstimator", encoding: Encoding, penalty: dict[str, float], target: Pair | None, loss: Loss, outcome: Outcome
) -> Preprocessing:
    """The features of described columns: their bounds are clamps, from which methods other than `auto` take scales, too."""
    if given.bounds is not None:
        raise PlanError("state bounds in columns, as in {'age': {'kind': 'number', 'bounds': [0, 110]}}: bounds are for columns of numbers")
    pairs, reach, imputes = public_scales(given, encoding, loss, penalty)
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
        **treatment(loss.target, loss.scalable, target),
    )


def method_of(given: "PrivateEstimator") -> Method:
    """The named method with the parameters that were given for it."""
    own = {"bound": given.bound, "steps": given.steps, "step_size": given.step_size}
    stated = [name for name, value in own.items() if value is not None]
    if given.method == AUTO and stated:
        raise PlanError(f"{stated[0]} is not for the method auto, which chooses for itself: leave it out, or name a method")
    try:
        return replace(method_named(given.method), **own)  # type: ignore[arg-type]
    except ValueError as error:
        raise PlanError(str(error)) from None


def units_of(given: "PrivateEstimator", rows: int) -> int:
    """The public number of records: the rows of X, or `units` under add_remove."""
    if Adjacency(given.adjacency) is Adjacency.ADD_REMOVE:
        if given.units is None:
            raise PlanError("under add_remove the number of records is not public: give a public `units` to divide by")
        return given.units
    if given.units not in (None, rows):
        raise PlanError(f"X has {rows} rows, and under {given.adjacency} that number is public: leave `units` out")
    return rows


@contextlib.contextmanager
def opened_ledger(given: "PrivateEstimator") -> Iterator[tuple[Ledger, Currency]]:
    """The named ledger and the accounting of its policy; or a ledger in memory whose lifetime budget is that of this fit."""
    data_set = given.data_set or DEFAULT_DATA_SET
    if given.ledger is None:
        ledger = Ledger.create("sqlite://")
        ledger.set_policy(Policy(data_set=data_set, adjacency=Adjacency(given.adjacency), epsilon=given.epsilon, delta=given.delta))
    elif given.data_set is None or given.window is None:
        raise PlanError("a ledger needs data_set and window: arrays have no files, so their names say which records are charged")
    else:
        ledger = Ledger.open(given.ledger)
    try:
        policy = ledger.policies().get(data_set)
        yield ledger, policy.currency if policy else Currency.GAUSSIAN
    finally:
        ledger.engine.dispose()
