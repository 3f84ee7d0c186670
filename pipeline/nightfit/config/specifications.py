"""From a configuration and a manifest to the specification of a plan: names, types, row counts, public bounds. Imports packages below."""

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from nightfit.config.faults import ConfigError, nearest
from nightfit.config.sections import LocalMethodSection
from nightfit.ledger import Policy
from nightfit.methods.loop.theory import Moment
from nightfit.planning.defaults import MOST_ROWS
from nightfit.planning.specification import AUTO, Budget, Method, Specification, method_named
from nightfit.privacy.accounting import UNIT, Currency, epsilon_for, limit
from nightfit.problem.losses import Loss
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import ANYWHERE, Target, Treatment, treatment
from nightfit.shards.manifest import DataError, Manifest, check_columns, check_id_column
from nightfit.types import Adjacency

if TYPE_CHECKING:
    from nightfit.config.model import Config

Pair = tuple[float, float]
UNKNOWN = (-1.0, 1.0)  # centre 0 and scale 1 of a column whose bounds will be paid for


def specification_of(config: "Config", manifest: Manifest, currency: Currency, policy: Policy | None) -> Specification:
    """The specification of a refit.

    Parameters
    ----------
    config : Config
        The configuration.
    manifest : Manifest
        The shards, whose columns it names.
    currency : Currency
        The accounting of the data set's policy.
    policy : Policy, optional
        The data set's policy, of which `privacy.pace` takes a share.

    Returns
    -------
    Specification

    Raises
    ------
    ConfigError, DataError
        If columns are missing, named twice or of unsuitable type, or if public bounds are missing.
    """
    features = _features(config, manifest)
    bounds = [config.data.bounds.get(name, config.data.default_bounds) for name in features]
    loss, method = config.model.loss_of(), method_of(config)
    _check_bounds(config, features, bounds, loss, method)
    return Specification(
        name=config.name,
        data_set=config.data_set,
        preprocessing=_preprocessing(config, features, bounds, loss),
        budget=_budget(config, currency, policy),
        loss=loss,
        penalty=config.model.penalty_of(),
        method=method,
        local=config.local_method(),
        residual=_residual(config, loss),
    )


def unit_count(config: "Config", manifest: Manifest, chosen: tuple[int, int]) -> int:
    """The public number of units: the footers' row count, or `data.units` where that is private, as of persons.

    Of K of N hash buckets, `chosen`, it is that number K / N rounded down: a constant, whatever ids the records have.
    """
    counted = config.privacy.adjacency is not Adjacency.ADD_REMOVE and config.data.person is None
    if counted and config.data.units is not None:
        raise ConfigError(
            f"data.units is for persons and for add_remove; under {config.privacy.adjacency} the number of rows is public and counted: "
            "remove it"
        )
    if not counted and config.data.units is None:
        raise ConfigError("under add_remove the number of records is private: state a public one in data.units (it divides every mean)")
    if manifest.rows >= MOST_ROWS:
        raise DataError(
            f"{config.data.path} has {MOST_ROWS:,} rows or more: sums would not fit in 64 bits; read parts of it, each a data set"
        )
    return (manifest.rows if config.data.units is None else config.data.units) * chosen[0] // chosen[1]


def refit_epsilon(config: "Config", currency: Currency, policy: Policy | None) -> float:
    """What one refit may cost: the stated epsilon, or the largest of which `privacy.pace` refits fit the lifetime budget."""
    pace = config.privacy.pace
    if pace is None:
        return config.privacy.epsilon_in(currency)
    if policy is None:
        raise ConfigError("privacy.pace divides a lifetime budget, and there is none: add `privacy: lifetime:`, or set a policy")
    try:
        return largest_epsilon(policy.limit().amount // pace, config.privacy.delta, policy.currency)
    except ValueError:
        raise ConfigError(f"privacy.pace {pace} leaves less than epsilon 0.001 for a refit: use a smaller pace") from None


def largest_epsilon(amount: int, delta: float, currency: Currency) -> float:
    """The largest epsilon, to 1e-6 of it, whose limit at delta is at most this amount; ValueError if it is below 0.001."""
    total = float(amount * UNIT)  # of epsilon, of mu^2 = 2 rho, or of rho
    rho = total / 2 if currency is Currency.GAUSSIAN else total
    epsilon = min(30.0, total if currency is Currency.PURE else epsilon_for(rho, delta, currency))
    while limit(epsilon, delta, currency).amount > amount:
        epsilon *= 1 - 1e-7
    return epsilon


def largest_loss(config: "Config", specification: Specification) -> float:
    """The loss to which a record's loss is clipped in a search's score.

    It is the loss, at the margin 0, of a target that exceeds the prediction by `search.bound`, by default by half the width of its public
    bounds; for labels, that of a label at the margin -search.bound, by default -2.
    """
    bound = config.search.bound if config.search is not None else None
    shape = specification.preprocessing
    if shape.classification:
        y, z = 1.0, -(bound or 2.0)
    elif bound is None and config.data.default_bounds is None and (config.data.target or "") not in config.data.bounds:
        raise ConfigError(f"nothing says how large a residual may be: set search.bound, or name {config.data.target!r} in data.bounds")
    else:
        residual = specification.residual if bound is None else bound / shape.target_scale
        y, z = float(specification.loss.link.inverse(np.zeros(1))[0]) + residual, 0.0
    return float(specification.loss.value(np.array([y]), np.array([z]))[0])


def _budget(config: "Config", currency: Currency, policy: Policy | None) -> Budget:
    """What one refit may cost, and whom it protects."""
    return Budget(
        epsilon=refit_epsilon(config, currency, policy),
        delta=config.privacy.delta,
        adjacency=config.privacy.adjacency,
        unit=config.data.unit,
        currency=currency,
    )


def _features(config: "Config", manifest: Manifest) -> tuple[str, ...]:
    """The names of the features, all of which exist and are numeric."""
    data, columns = config.data, config.model.columns or config.data.features
    features = tuple(columns) if columns is not None else _other_columns(config, manifest)
    twice = {name for name, times in Counter(features).items() if times > 1} | ({data.target, data.person} & set(features))
    if twice:
        raise ConfigError(f"column {min(map(str, twice))!r} is named twice among data.features, data.target and data.unit")
    _check_excluded(config, manifest, features)
    check_columns(manifest, [*features, *([data.target] if data.target else [])])
    if data.row_id is not None and data.row_id not in manifest.types:
        raise DataError(f"column {data.row_id!r}, data.row_id, is missing in {manifest.shards[0].name}")
    if data.person is not None:
        check_id_column(manifest, data.person)
    known = {*features, *([data.target] if data.target else [])}
    for name in data.bounds:
        if name not in known:
            raise ConfigError(f"data.bounds names {name!r}, which is neither a feature nor the target{nearest(name, known)}")
    return features


def _check_excluded(config: "Config", manifest: Manifest, features: tuple[str, ...]) -> None:
    """Refuse a name in `data.exclude` that is no column, or has a role: a typo would leave a column in."""
    data = config.data
    roles: dict[str | None, str] = {**dict.fromkeys(features, "a feature"), data.target: "the target"}
    for name, times in Counter(data.exclude).items():
        if name not in manifest.types:
            raise ConfigError(f"data.exclude names {name!r}, and there is no such column{nearest(name, manifest.types)}")
        if times > 1:
            raise ConfigError(f"data.exclude names {name!r} twice: remove one")
        if name in roles:
            raise ConfigError(f"data.exclude names {name!r}, which is {roles[name]}: remove it there or here")


def _other_columns(config: "Config", manifest: Manifest) -> tuple[str, ...]:
    """All columns that have no other role."""
    out = {config.data.target, config.data.row_id, config.data.person, *config.data.exclude}
    features = tuple(name for name in manifest.types if name not in out)
    if not features:
        raise ConfigError("no column is left to be a feature: shorten data.exclude or name data.features")
    return features


def _check_bounds(config: "Config", features: tuple[str, ...], bounds: list[Pair | None], loss: Loss, method: Method) -> None:
    """Refuse columns without public bounds, and a target of unknown size, except where `auto` pays to find them."""
    data, automatic = config.data, config.method == AUTO and config.model.kind == "linear"
    if None in bounds and not automatic:
        raise ConfigError(
            f"column {features[bounds.index(None)]!r} has no public bounds: name it in data.bounds, or set data.default_bounds"
        )
    sized = (data.target or "") in data.bounds or data.default_bounds is not None or method.bound is not None
    if not (sized or math.isfinite(loss.lipschitz) or (automatic and loss.estimand)):
        raise ConfigError(
            f"nothing says how large a residual may be: name the target {data.target!r} in data.bounds, or set data.default_bounds "
            "or method.bound"
        )


def _preprocessing(config: "Config", features: tuple[str, ...], bounds: list[Pair | None], loss: Loss) -> Preprocessing:
    """Centre and half-width of public bounds; a column without bounds has an infinite reach."""
    data = config.data
    return Preprocessing(
        features=features,
        target=data.target,
        centre=tuple(_centre(pair or UNKNOWN) for pair in bounds),
        scale=tuple(_half(pair or UNKNOWN) for pair in bounds),
        reach=tuple(1.0 if pair else math.inf for pair in bounds) if None in bounds else (),
        intercept=config.model.intercept and config.model.kind == "linear",
        row_id=data.row_id,
        unit=data.person,
        rows_per_unit=data.rows_per_unit if data.person is not None else 1,
        precision=data.precision,
        target_domain=loss.target,
        **_treatment(config, loss),
    )


def _treatment(config: "Config", loss: Loss) -> Treatment:
    """What the target's public bounds do to it, as the loss allows."""
    data = config.data
    treated = treatment(loss.target, loss.scalable, data.bounds.get(data.target or ""))
    if not loss.target.clamps(*treated.get("target_reach", ANYWHERE)):
        raise ConfigError(
            f"the loss {loss.name} is for {loss.target}: the bounds of {data.target!r} in data.bounds must be {loss.target} too"
        )
    return treated


def _residual(config: "Config", loss: Loss) -> float:
    """The public size of a residual, in units of the (scaled) target: half the width of its bounds; 1 for labels and columns."""
    data = config.data
    if loss.target is Target.LABELS or data.target is None:
        return 1.0
    if data.target in data.bounds:
        return 1.0 if loss.scalable else _half(data.bounds[data.target])
    return _half(data.default_bounds or UNKNOWN)


def method_of(config: "Config") -> Method:
    """The configured method of a trusted fit; the default one for a local protocol, which has its own."""
    if config.local_method() is not None or isinstance(config.method, LocalMethodSection):
        return Method()
    if isinstance(config.method, str):
        return method_named(config.method)
    moment = config.method.moment
    fields = config.method.model_dump(exclude={"moment"})
    return Method(**fields, moment=None if moment is None else Moment(order=moment.order, bound=moment.bound))


def _centre(pair: Pair) -> float:
    return pair[0] + (pair[1] - pair[0]) / 2


def _half(pair: Pair) -> float:
    return (pair[1] - pair[0]) / 2
