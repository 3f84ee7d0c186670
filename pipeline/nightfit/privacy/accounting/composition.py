"""The cost of many events together, and the tightest epsilon that we can prove of them. Imports the conversions."""

import math
from collections import Counter
from collections.abc import Iterable

from nightfit.privacy.accounting.budgets import epsilon_of
from nightfit.privacy.accounting.costs import MARGIN, Cost, Currency, CurrencyError, RenyiOrder
from nightfit.privacy.accounting.event import Event
from nightfit.privacy.accounting.gaussian import epsilon_with_mass
from nightfit.privacy.accounting.loss_distributions import reports_epsilon, sampled_gaussian_epsilon
from nightfit.types import WHOLE, Part

UNSUPPORTED = {
    Currency.PURE: "the currency pure adds local reports only, and {what}: give the data set a policy in the currency gaussian or zcdp",
    Currency.GAUSSIAN: (
        "the currency gaussian adds Gaussian queries of all records or disjoint parts only, and {what}: "
        "give the data set a policy in the currency zcdp (privacy.lifetime.currency: zcdp)"
    ),
    Currency.ZCDP: "the currency zcdp has no price for it: {what}",
}


def cost(events: Iterable[Event], currency: Currency, order: RenyiOrder | None = None) -> Cost:
    """The cost of events together, each rounded up to the unit.

    Parameters
    ----------
    events
        In any sequence; later ones may depend on the answers of earlier ones.
    currency
        In which they are added.
    order
        The policy's Renyi order. Poisson samples need it in the currency zcdp; repeated attempts are cheaper with it.

    Returns
    -------
    Cost
        The sum over the events that concern one record: at the worst record for the amount, and at the worst for the mass, which may be
        another.

    Raises
    ------
    CurrencyError
        If an event has no price in this currency.

    Notes
    -----
    Guarantee: a record's part is fixed by its slot and the run's key, so events on parts that do not overlap concern different
    records and the larger one bounds both (parallel composition). Broken by test_disjoint_parts_cost_the_largest_of_them.
    """
    totals = [_added(region, currency, order) for region in _regions(events)]
    return Cost(max((total.amount for total in totals), default=0), max((total.mass for total in totals), default=0))


def tight_epsilon(events: Iterable[Event], delta: float) -> float:
    """The smallest epsilon that we can prove of these events alone, rounded up, at the worst record.

    Parameters
    ----------
    events
        Fixed in advance. For reports only: a ledger adds in its currency, because later events may depend on earlier answers.
    delta
        Of the guarantee.

    Raises
    ------
    CurrencyError
        If Poisson samples stand beside other mechanisms: no accountant here composes them tightly.

    Notes
    -----
    Gaussian events exactly, with Poisson samples by privacy loss distributions; one event that has an accountant of its own by that;
    all else by the sum of rho, or of pure epsilons where every event has one and they add to less.
    """
    return max((_tight(region, delta) for region in _regions(events)), default=0.0)


def _regions(events: Iterable[Event]) -> list[tuple[Event, ...]]:
    """The events that concern one record, for every kind of record: cut where a part begins or ends."""
    listed = list(events)
    parts = [event.draw if isinstance(event.draw, Part) else WHOLE for event in listed]
    edges = sorted({part.low for part in parts})
    return [tuple(event for event, part in zip(listed, parts, strict=True) if part.low <= edge < part.high) for edge in edges]


def _added(events: Iterable[Event], currency: Currency, order: RenyiOrder | None = None) -> Cost:
    return sum((_cost_of_one(event, currency, order) for event in events), Cost())


def _cost_of_one(event: Event, currency: Currency, order: RenyiOrder | None) -> Cost:
    if not event.supports(currency):
        what = f"{event.label!r} is a {event.mechanism}{' on a Poisson sample' if event.sampled else ''}"
        raise CurrencyError(UNSUPPORTED[currency].format(what=what))
    return event.price(currency, order).rounded_up()


def _tight(events: tuple[Event, ...], delta: float) -> float:
    """Of events that all concern one record."""
    if all(event.gaussian is not None for event in events):
        return _tight_gaussian(events, delta)
    alone = events[0].epsilon_alone(delta) if len(events) == 1 else None
    if alone is not None:
        return alone
    if all(event.supports(Currency.PURE) for event in events):
        return _tight_reports(events, delta)
    if any(event.sampled for event in events):
        raise CurrencyError("Poisson samples beside other mechanisms have no tight accountant here")
    concentrated = epsilon_of(_added(events, Currency.ZCDP), delta, Currency.ZCDP)
    return min(concentrated, math.fsum(_pure_epsilon(event) for event in events) * (1 + MARGIN))


def _tight_gaussian(events: tuple[Event, ...], delta: float) -> float:
    if not any(event.sampled for event in events):
        return epsilon_of(_added(events, Currency.GAUSSIAN), delta, Currency.GAUSSIAN)
    prices = [(event, event.gaussian) for event in events]
    mass = float(sum(price.mass for _, price in prices if price is not None))
    counted = Counter((float(price.amount), event.draw.fraction, event.adjacency) for event, price in prices if price is not None)
    return epsilon_with_mass(mass, delta, lambda left: sampled_gaussian_epsilon(tuple(sorted(counted.items())), left))


def _tight_reports(events: tuple[Event, ...], delta: float) -> float:
    added = epsilon_of(_added(events, Currency.PURE), delta, Currency.PURE)
    reports = tuple((float(event.pure[0]), event.pure[1]) for event in events if event.pure is not None)
    if sum(times for _, times in reports) == 1:
        return added
    return min(added, reports_epsilon(reports, delta))


def _pure_epsilon(event: Event) -> float:
    """The epsilon at which it is private with delta 0; infinite where there is none."""
    return math.inf if event.pure is None else float(event.pure[0] * event.pure[1])
