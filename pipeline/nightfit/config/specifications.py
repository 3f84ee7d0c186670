"""From a configuration and a manifest to the specification of a plan: names, types, row counts, public bounds. Imports packages below."""

import math
from typing import TYPE_CHECKING

import numpy as np

from nightfit.config.encodings import encoding_of
from nightfit.config.faults import ConfigError
from nightfit.config.sections import LocalMethodSection
from nightfit.config.sections.columns import NumberColumn
from nightfit.ledger import Policy
from nightfit.methods.auto.constants.budget import MOST_COLUMNS
from nightfit.planning.defaults import MOST_ROWS
from nightfit.planning.specification import PAID, Budget, Method, Specification, method_named
from nightfit.privacy.accounting import UNIT, Currency, epsilon_for, limit
from nightfit.problem.losses import Loss
from nightfit.records.columns import Feature
from nightfit.records.encoding import Encoding
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import ANYWHERE, Target, Treatment, treatment
from nightfit.shards.manifest import DataError, Manifest
from nightfit.types import Adjacency

if TYPE_CHECKING:
    from nightfit.config.model import Config

Pair = tuple[float, float]
UNKNOWN = (-1.0, 1.0)  # centre 0 and scale 1 of a feature whose scale will be paid for


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
    encoding, loss, method = encoding_of(config, manifest), config.loss_of(), method_of(config)
    paid = _pays_for_scales(config, method, len(encoding.features), currency)
    _check_bounds(config, encoding, loss, method, paid)
    return Specification(
        name=config.name,
        data_set=config.data_set,
        preprocessing=_preprocessing(config, encoding, loss, paid),
        budget=_budget(config, currency, policy),
        loss=loss,
        penalty=config.model.penalty_of(),
        method=method,
        local=config.local_method(),
        residual=_residual(config, loss),
        curvature=config.model.curvature,
        strong_convexity=config.model.strong_convexity,
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
    epsilon = min(30.0, total if currency.adds_epsilons else epsilon_for(rho, delta, currency))
    while limit(epsilon, delta, currency).amount > amount:
        epsilon *= 1 - 1e-7
    return epsilon


def largest_loss(config: "Config", specification: Specification) -> float:
    """The loss to which a record's loss is clipped in a search's score.

    It is the loss, at the margin 0, of a target that exceeds the prediction by `search.bound`, by default by half the width of its public
    bounds; for labels, that of a label at the margin -search.bound, by default -2.
    """
    if specification.class_names:
        raise ConfigError("a search scores models of one margin, and kind multinomial has one for each class: search with kind logistic")
    bound = config.search.bound if config.search is not None else None
    shape = specification.preprocessing
    if shape.classification:
        y, z = 1.0, -(bound or 2.0)
    elif bound is None and config.data.target_bounds is None and _default_bounds(config) is None:
        raise ConfigError("nothing says how large a residual may be: set search.bound, or the bounds of data.target")
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
        earlier_rows=None if policy is None else policy.earlier_rows,
    )


def _check_bounds(config: "Config", encoding: Encoding, loss: Loss, method: Method, paid: bool) -> None:
    """Refuse features without public bounds, and a target of unknown size, except where the method pays to find them."""
    data = config.data
    unbounded = next((name for name, made in encoding.made.items() if any(_pair(feature) is None for feature in made)), None)
    if unbounded is not None and not paid:
        raise ConfigError(
            f"column {unbounded!r} has no public bounds, from which means, local reports, `scales: public` and the currency approximate "
            f"take scales: state them "
            f"in data.columns, as in {unbounded}: {{kind: number, bounds: [0, 100]}}"
        )
    sized = data.target_bounds is not None or _default_bounds(config) is not None or method.bound is not None
    if not (sized or math.isfinite(loss.lipschitz) or paid):
        raise ConfigError(
            f"nothing says how large a residual may be: state the target's bounds, as in target: {{column: {data.target_column}, "
            "bounds: [0, 100]}, or set method.bound"
        )


def _pays_for_scales(config: "Config", method: Method, features: int, currency: Currency) -> bool:
    """Whether scales are asked for; means, local reports, `scales: public` and the currency approximate take them from public bounds."""
    mean, local = config.model.kind == "mean", config.local_method() is not None
    priced = currency in (Currency.GAUSSIAN, Currency.ZCDP)
    return priced and not (mean or local) and method.scales == PAID and features + config.model.intercept <= MOST_COLUMNS


def _preprocessing(config: "Config", encoding: Encoding, loss: Loss, paid: bool) -> Preprocessing:
    """Bounds are clamps, which the encoding applies. Where scales are paid for, an indicator has the scale 1, and any other feature an
    infinite reach; else the middle of the bounds is the centre and half of their width the scale. An indicator stays zero or one, so that
    a row of many levels is short, except where means or local reports are bounded by it.
    """
    data = config.data
    stays = config.model.kind != "mean" and config.local_method() is None
    pairs = [UNKNOWN if stays and feature.indicator else _pair(feature) or UNKNOWN for feature in encoding.features]
    if paid:
        pairs = [UNKNOWN] * len(encoding.features)
    return Preprocessing(
        features=encoding.names,
        encoding=encoding,
        imputes=not paid,
        target=data.target_column,
        centre=tuple(_centre(pair) for pair in pairs),
        scale=tuple(_half(pair) for pair in pairs),
        reach=tuple(1.0 if feature.indicator else math.inf for feature in encoding.features) if paid else (),
        intercept=config.model.intercept and config.model.kind != "mean",
        row_id=data.row_id,
        unit=data.person,
        rows_per_unit=data.rows_per_unit if data.person is not None else 1,
        precision=data.precision,
        target_domain=loss.target,
        outcome=data.outcome,
        **_treatment(config, loss),
    )


def _pair(feature: Feature) -> Pair | None:
    """The public bounds of a feature, if both are known."""
    if feature.indicator:
        return (0.0, 1.0)
    return None if feature.low is None or feature.high is None else (feature.low, feature.high)


def _treatment(config: "Config", loss: Loss) -> Treatment:
    """What the target's public bounds do to it, as the loss allows."""
    treated = treatment(loss.target, loss.scalable, _transformed_bounds(config))
    if not loss.target.clamps(*treated.get("target_reach", ANYWHERE)):
        raise ConfigError(f"the loss {loss.name} is for {loss.target}: the bounds in data.target must be {loss.target} too")
    return treated


def _transformed_bounds(config: "Config") -> Pair | None:
    """The public bounds of the transformed target."""
    bounds = config.data.target_bounds
    if bounds is None:
        return None
    low, high = config.data.outcome.transformed(np.array(bounds)).tolist()
    return low, high


def _residual(config: "Config", loss: Loss) -> float:
    """The public size of a residual, in units of the (scaled) target: half the width of its bounds, by default of those of the columns
    that are not named; 1 for labels and columns.
    """
    data = config.data
    if loss.target in (Target.LABELS, Target.CLASSES) or data.target is None:
        return 1.0
    if (bounds := _transformed_bounds(config)) is not None:
        return 1.0 if loss.scalable else _half(bounds)
    return _half(_default_bounds(config) or UNKNOWN)


def _default_bounds(config: "Config") -> Pair | None:
    """The bounds of the columns that are not named."""
    default = config.data.default
    return default.bounds if isinstance(default, NumberColumn) else None


def method_of(config: "Config") -> Method:
    """The configured method of a trusted fit; the default one for a local protocol, which has its own."""
    if config.local_method() is not None or isinstance(config.method, LocalMethodSection):
        return Method()
    return method_named(config.method) if isinstance(config.method, str) else config.method.made()


def _centre(pair: Pair) -> float:
    return pair[0] + (pair[1] - pair[0]) / 2


def _half(pair: Pair) -> float:
    return (pair[1] - pair[0]) / 2
