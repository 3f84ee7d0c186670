"""The cost of many events together, and the tightest epsilon that we can prove of them. Imports the conversions."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from nightfit.privacy.accounting.budgets import epsilon_of
from nightfit.privacy.accounting.costs import MARGIN, Cost, Currency, CurrencyError, RenyiOrder
from nightfit.privacy.accounting.event import Event
from nightfit.privacy.accounting.gaussian import epsilon_with_mass
from nightfit.privacy.accounting.loss_distributions import reports_epsilon, sampled_gaussian_epsilon
from nightfit.types import WHOLE, Adjacency, Part

PRICES = 2**12
"""So many events are priced once: the models of a night ask the same ones, and a plan's cost is read many times."""

UNSUPPORTED = {
    Currency.PURE: "the currency pure adds local reports only, and {what}: give the data set a policy in the currency gaussian or zcdp",
    Currency.GAUSSIAN: (
        "the currency gaussian adds Gaussian queries of all records or disjoint parts only, and {what}: "
        "give the data set a policy in the currency zcdp (privacy.lifetime.currency: zcdp)"
    ),
    Currency.ZCDP: "the currency zcdp has no price for it: {what}",
    Currency.APPROXIMATE: (
        "the currency approximate adds queries that have an epsilon and a delta of their own, and {what}: choose sample_aggregate, "
        "frank_wolfe or private_lasso with method.scales public, or give the data set a policy in the currency gaussian or zcdp"
    ),
}


def cost(events: Iterable[Event], currency: Currency, order: RenyiOrder | None = None, *, other_blocks: bool = False) -> Cost:
    """The cost of events together, each rounded up to the unit.

    Parameters
    ----------
    events
        In any sequence; later ones may depend on the answers of earlier ones.
    currency
        In which they are added.
    order
        The policy's Renyi order. Poisson samples need it in the currency zcdp; repeated attempts are cheaper with it.
    other_blocks
        Whether a replaced unit may change to a block with an account of its own, whose events cost as much.

    Returns
    -------
    Cost
        Of the unit that pays most: for the amount, and for the mass, which may be another's.

    Raises
    ------
    CurrencyError
        If an event has no price in this currency.

    Notes
    -----
    Guarantee: a unit's part is fixed by its slot and the run's key, so events on parts that do not overlap concern different units, and
    the larger one bounds both (parallel composition). Under replace_one the new unit may have another slot, and so another part: an event
    that reads both parts meets a replacement, one that reads either of them a removal or an addition, and their sum is a cost too. Of two
    blocks with accounts of their own each pays its half: with c >= 2 R in both, R + R' <= (c + c') / 2. Broken by
    test_disjoint_parts_cost_the_largest_of_them and test_a_unit_that_changes_its_part_pays_for_both.
    """
    listed = list(events)
    priced = [_priced(event, currency, order) for event in listed]
    regions = _regions(listed)
    found = [sum((priced[number].replaced for number in region), Cost()) for region in regions]
    if any(event.adjacency is Adjacency.REPLACE_ONE for event in listed):
        found.append(_largest_move(priced, regions))
        if other_blocks:
            found += [removed + removed for region in regions for removed in [sum((priced[number].removed for number in region), Cost())]]
    return _largest(found)


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
    events that state an epsilon and a delta by adding them to what the others are at the delta that is left; all else by the sum of rho,
    or of pure epsilons where every event has one and they add to less.
    """
    listed = list(events)
    regions = _regions(listed)
    staying = max((_tight(tuple(listed[number] for number in region), delta) for region in regions), default=0.0)
    return max(staying, _moved_epsilon(listed, regions, delta))


@dataclass(frozen=True, slots=True)
class _Priced:
    """What one event costs a unit that is replaced, and one that leaves or joins the records that it reads."""

    replaced: Cost
    removed: Cost


def _regions(events: Sequence[Event]) -> list[tuple[int, ...]]:
    """The numbers of the events that concern one unit, for every kind of unit: cut where a part begins or ends."""
    parts = [event.draw if isinstance(event.draw, Part) else WHOLE for event in events]
    edges = sorted({part.low for part in parts})
    return [tuple(number for number, part in enumerate(parts) if part.low <= edge < part.high) for edge in edges]


def _largest(costs: Iterable[Cost]) -> Cost:
    listed = list(costs)
    return Cost(max((one.amount for one in listed), default=0), max((one.mass for one in listed), default=0))


def _largest_move(priced: Sequence[_Priced], regions: Sequence[tuple[int, ...]]) -> Cost:
    """The largest cost of a unit that changes from one region i to another one j.

    R_i + R_j + sum over the events that read both of P - 2 R, with P the price of a replacement and R that of a removal: such an event
    meets a replacement. A mass is the same of both: M_i + M_j less that of the shared events. Regions that share the same events with
    others are alike but for R, so the two largest R of every kind are enough.
    """
    readers = Counter(number for region in regions for number in region)
    kinds: dict[frozenset[int], list[Cost]] = defaultdict(list)
    for region in regions:
        kinds[frozenset(number for number in region if readers[number] > 1)].append(sum((priced[one].removed for one in region), Cost()))
    found = []
    for shared, removals in kinds.items():
        for other, others in kinds.items():
            both = sum((_saved(priced[number]) for number in shared & other), Cost())
            pairs = _two_largest(removals) if shared == other else (_largest(removals), _largest(others))
            found += [pairs[0] + pairs[1] + both] if len(pairs) == 2 else []
    return _largest(found)


def _saved(event: _Priced) -> Cost:
    """What an event that reads both regions adds to two removals: a replacement takes their place, and its mass counts once."""
    return Cost(event.replaced.amount - 2 * event.removed.amount, -event.removed.mass)


def _two_largest(costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """The two largest amounts and masses; shorter if there are fewer than two costs."""
    amounts, masses = (sorted(values, reverse=True)[:2] for values in zip(*((one.amount, one.mass) for one in costs), strict=True))
    return tuple(Cost(*pair) for pair in zip(amounts, masses, strict=True))


def _moved_epsilon(events: Sequence[Event], regions: Sequence[tuple[int, ...]], delta: float) -> float:
    """The epsilon of a unit that changes its region; 0 where it pays no more than those that stay.

    It does not where every removal costs at most half a replacement and no mass is added: (P_i + P_j) / 2 is at most the larger one.
    """
    if len(regions) < 2 or not any(event.adjacency is Adjacency.REPLACE_ONE for event in events):
        return 0.0
    currency = Currency.GAUSSIAN if all(event.supports(Currency.GAUSSIAN) for event in events) else Currency.ZCDP
    priced = [_priced(event, currency, None) for event in events]
    if all(2 * one.removed.amount <= one.replaced.amount and not one.removed.mass for one in priced):
        return 0.0
    return epsilon_of(_largest_move(priced, regions), delta, currency)


def _added(events: Iterable[Event], currency: Currency) -> Cost:
    return sum((_priced(event, currency, None).replaced for event in events), Cost())


@lru_cache(maxsize=PRICES)
def _priced(event: Event, currency: Currency, order: RenyiOrder | None) -> _Priced:
    if not event.supports(currency):
        what = f"{event.label!r} is a {event.mechanism}{' on a Poisson sample' if event.sampled else ''}"
        raise CurrencyError(UNSUPPORTED[currency].format(what=what))
    replaced = event.price(currency, order).rounded_up()
    if event.adjacency is not Adjacency.REPLACE_ONE:
        return _Priced(replaced, replaced)
    return _Priced(replaced, event.removal_price(currency, order).rounded_up())


def _tight(events: tuple[Event, ...], delta: float) -> float:
    """Of events that all concern one record."""
    if all(event.gaussian is not None for event in events):
        return _tight_gaussian(events, delta)
    alone = events[0].epsilon_alone(delta) if len(events) == 1 else None
    if alone is not None:
        return alone
    stated = [event for event in events if event.stated is not None]
    if stated:
        return min(_tight_stated(events, stated, delta), _concentrated(events, delta))
    if all(event.supports(Currency.PURE) for event in events):
        return _tight_reports(events, delta)
    if any(event.sampled for event in events):
        raise CurrencyError("Poisson samples beside other mechanisms have no tight accountant here")
    return min(_concentrated(events, delta), math.fsum(_pure_epsilon(event) for event in events) * (1 + MARGIN))


def _concentrated(events: tuple[Event, ...], delta: float) -> float:
    return math.inf if any(event.sampled for event in events) else epsilon_of(_added(events, Currency.ZCDP), delta, Currency.ZCDP)


def _tight_stated(events: tuple[Event, ...], stated: list[Event], delta: float) -> float:
    """Basic composition: the epsilons and deltas of events that state them, and what the others are at the delta that is left."""
    epsilon, used = (sum((event.stated[place] for event in stated if event.stated), Fraction(0)) for place in (0, 1))
    others = tuple(event for event in events if event.stated is None)
    left = Fraction(delta) - used
    if left < 0 or (others and left == 0):
        return math.inf
    beside = _tight(others, float(left) * (1 - MARGIN)) if others else 0.0
    return float(epsilon) if not others else (float(epsilon) + beside) * (1 + MARGIN)


def _tight_gaussian(events: tuple[Event, ...], delta: float) -> float:
    if not any(event.sampled for event in events):
        return epsilon_of(_added(events, Currency.GAUSSIAN), delta, Currency.GAUSSIAN)
    prices = [(event, event.gaussian) for event in events]
    mass = float(sum(price.mass for _, price in prices if price is not None))
    sampled = [(event, price) for event, price in prices if event.sampled and price is not None]
    whole = sum(price.amount for event, price in prices if not event.sampled and price is not None)  # Gaussians compose to one
    counted = Counter((float(price.amount), event.draw.fraction, event.adjacency) for event, price in sampled)
    counted.update([(float(whole), 1.0, sampled[0][0].adjacency)] if whole else [])
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
