"""Epsilon of a release's stored events by two routes that share nothing. Imports numpy, scipy and dp_accounting; nothing of nightfit.

An event is a dictionary of the release's list `events`. Which mechanisms there are, and what each costs a record that it concerns:

====================  ======================================================================================================
discrete_gaussian     mu = sensitivity / sigma against continuous noise; the lattice adds a total variation of 0.021 coordinates / sigma^2
thresholded_gaussian  the same, and the chance that a level of one unit alone is told
gumbel_selection      rho = chosen (sensitivity / scale)^2 / 2; without a delta, chosen * 2 sensitivity / scale
smooth_sensitivity    rho = coordinates e^2 / 2, e by the theorem of the noise's family
smooth_gaussian       (epsilon, delta) as stated, if the profile of the two Gaussians allows it
local_reports         `reports` answers of `epsilon` each, without a delta
repeat_and_select     the best of a geometric number of attempts of attempt_rho each
====================  ======================================================================================================
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, logsumexp
from scipy.stats import ncx2, norm

Event = dict[str, Any]
GAUSSIAN = ("discrete_gaussian", "thresholded_gaussian")
END = 2**32  # of parts: a part is the units whose keyed hash lies from `low` to below `high`
WHOLE_ORDERS = np.arange(2.0, 512.0)  # Mironov, Talwar, Zhang (2019), sec. 3.3, gives a sample's divergence at whole orders
ORDERS = 1 + np.logspace(-3, 6, 4000)


@dataclass(frozen=True)
class Route:
    """An epsilon, how it was computed, and whether a true claim cannot lie below it (an upper bound may be loose)."""

    name: str
    epsilon: float
    tight: bool


def routes(events: list[Event], delta: float) -> list[Route]:
    """Both routes, each at the worst record.

    A record is in one part, so events of parts that do not overlap do not add. Under replace_one its new values may lie in another part:
    then one part loses a record and another gains one, at the price of a removal each.
    """
    by_part = [_in_part(events, low) for low in sorted({_part(event)[0] for event in events})]
    groups = [*by_part]
    if any(event["adjacency"] == "replace_one" for event in events) and len(by_part) > 1:
        groups += [_moved(first, second) for i, first in enumerate(by_part) for second in by_part[i + 1 :]]
    found = [(accountant(group, delta), closed_form(group, delta)) for group in _distinct(groups)]
    return [max(options, key=lambda route: route.epsilon) for options in zip(*found, strict=True)]


def _part(event: Event) -> tuple[int, int]:
    draw = event.get("draw") or {}
    return (draw["low"], draw["high"]) if "low" in draw else (0, END)


def _in_part(events: list[Event], point: int) -> list[Event]:
    return [event for event in events if _part(event)[0] <= point < _part(event)[1]]


def _moved(first: list[Event], second: list[Event]) -> list[Event]:
    """What a record meets that leaves one part and enters another: events of both once in full, the others as removals."""
    both = [event for event in first if event in second]
    alone = [event for event in [*first, *second] if event not in both]
    return [*both, *({**event, "sensitivity": event.get("removal", event["sensitivity"])} if "sensitivity" in event else event
                     for event in alone)]  # fmt: skip


def _distinct(groups: list[list[Event]]) -> list[list[Event]]:
    """Groups that differ in what they cost."""
    costs = {str(sorted(Counter(str(_shape(event)) for event in group).items())): group for group in groups}
    return list(costs.values())


def _shape(event: Event) -> Event:
    return {name: value for name, value in event.items() if name != "label"} | {"draw": (event.get("draw") or {}).get("rate")}


# Route 1: dp_accounting. Privacy loss distributions where every event has one, its Renyi accountant otherwise.


def accountant(events: list[Event], delta: float) -> Route:
    """Epsilon by Google's dp_accounting."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    kinds = {event["mechanism"] for event in events}
    if "smooth_gaussian" in kinds:
        return _basic(accountant, "stated by its own theorem", events, delta)
    if not kinds <= {*GAUSSIAN, "local_reports"}:
        return _renyi_accountant(events, delta)
    shapes: Counter[Any] = Counter()
    for event in events:
        shapes[_loss(event)] += event.get("reports", 1)
    total = None
    for (mechanism, size, rate, relation), times in shapes.items():
        step = min(1e-4, size / 20) if rate is None else 1e-3 if len(events) <= 2000 else 2e-4
        if mechanism in GAUSSIAN:
            made = pld.from_gaussian_mechanism(
                1 / size, sampling_prob=rate or 1.0, neighboring_relation=relation, value_discretization_interval=step
            )
        else:  # randomised response is the worst of all mechanisms of this epsilon: Kairouz, Oh, Viswanath (2015)
            made = pld.from_randomized_response(2 / (1 + math.exp(size)), 2, value_discretization_interval=min(1e-3, size / 100))
        composed = made.self_compose(times)
        total = composed if total is None else total.compose(composed)
    epsilon = 0.0 if total is None else _with_mass(lambda left: float(total.get_epsilon_for_delta(left)), _mass(events), delta)
    return Route("privacy loss distributions (dp_accounting)", epsilon, True)


def _loss(event: Event) -> tuple[str, float, float | None, Any]:
    """Mechanism, mu or epsilon, rate of a sample, and which neighbours dp_accounting compares."""
    from dp_accounting import NeighboringRelation as Relation

    if event["mechanism"] == "local_reports":
        return event["mechanism"], event["epsilon"], None, None
    relation = Relation.REPLACE_SPECIAL if event["adjacency"] == "zero_out" else Relation.ADD_OR_REMOVE_ONE
    return event["mechanism"], event["sensitivity"] / event["sigma"], (event.get("draw") or {}).get("rate"), relation


def _renyi_accountant(events: list[Event], delta: float) -> Route:
    from dp_accounting import GaussianDpEvent
    from dp_accounting.dp_event import RepeatAndSelectDpEvent, ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    made = RdpAccountant(ORDERS[::8])
    for event in events:
        if event["mechanism"] == "repeat_and_select":
            made.compose(RepeatAndSelectDpEvent(GaussianDpEvent((2 * event["attempt_rho"]) ** -0.5), event["mean"], 1))
        else:
            made.compose(ZCDpEvent(_rho(event)))
    left = delta - sum(_failure(event) for event in events)
    epsilon = float(made.get_epsilon(left)) if left > 0 else math.inf
    return Route("Renyi accountant (dp_accounting)", min(epsilon, _pure(events)), True)


# Route 2: closed forms, with scipy.


def closed_form(events: list[Event], delta: float) -> Route:
    """Epsilon by formulas: the profile of a Gaussian, or the best order of a sum of Renyi divergences."""
    sampled = any("rate" in (event.get("draw") or {}) for event in events)
    if all(event["mechanism"] in GAUSSIAN for event in events) and not sampled:
        mu = math.sqrt(math.fsum((event["sensitivity"] / event["sigma"]) ** 2 for event in events))
        return Route("exact profile of a Gaussian (scipy)", _with_mass(lambda left: gaussian_epsilon(mu, left), _mass(events), delta), True)
    if any(event["mechanism"] == "smooth_gaussian" for event in events):
        holds = all(
            smooth_gaussian_delta(event["epsilon"], event["smoothness"], event["shift"], event["coordinates"]) <= event["delta"]
            for event in events
            if event["mechanism"] == "smooth_gaussian"
        )
        found = _basic(closed_form, "profile of two Gaussians of different scale (scipy)", events, delta)
        return found if holds else Route(found.name, math.inf, True)
    orders = WHOLE_ORDERS if sampled else ORDERS
    divergence = sum((_divergence(event, orders) for event in events), np.zeros(len(orders)))
    left = delta - sum(_failure(event) for event in events)
    renyi = _with_mass(lambda part: _converted(orders, divergence, part), _mass(events) if sampled else 0.0, left)
    return Route("sum of Renyi divergences (scipy)", min(renyi, _pure(events)), not sampled and "local_reports" not in
                 {event["mechanism"] for event in events})  # fmt: skip


def _basic(route: Any, name: str, events: list[Event], delta: float) -> Route:
    """Basic composition: stated epsilons and deltas add to what the other events are at the delta that is left; or all by Renyi orders."""
    stated = [event for event in events if event["mechanism"] == "smooth_gaussian"]
    others = [event for event in events if event["mechanism"] != "smooth_gaussian"]
    epsilon, left = math.fsum(event["epsilon"] for event in stated), delta - math.fsum(event["delta"] for event in stated)
    if left < 0 or (others and left <= 0):
        return Route(name, math.inf, True)
    beside = route(others, left) if others else Route(name, 0.0, True)
    together = math.inf if len(stated) == len(events) == 1 else _renyi_accountant(events, delta).epsilon
    return Route(name, min(epsilon + beside.epsilon, together), beside.tight)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The root of delta = Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu) (Balle, Wang 2018, thm 8)."""

    def beyond(epsilon: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))) - delta

    return 0.0 if beyond(0.0) <= 0 else float(brentq(beyond, 0.0, mu * (mu / 2 + 40), xtol=1e-13))


def _converted(orders: Any, divergence: Any, delta: float) -> float:
    """min over a of D(a) + log(1 - 1/a) - (log delta + log a) / (a - 1) (Canonne, Kamath, Steinke 2020, prop. 12)."""
    if delta <= 0:
        return math.inf
    return max(0.0, float(np.min(divergence + np.log1p(-1 / orders) - (math.log(delta) + np.log(orders)) / (orders - 1))))


def _divergence(event: Event, orders: Any) -> Any:
    rate = (event.get("draw") or {}).get("rate")
    if event["mechanism"] == "repeat_and_select":  # Papernot, Steinke (2022), thm 2 with eta = 1, at the best b
        rho, log_mean = event["attempt_rho"], math.log(event["mean"])
        b = max(1.0, math.sqrt(log_mean / rho))
        return orders * rho + 2 * ((b - 1) * rho + log_mean / b) + log_mean / (orders - 1)
    if rate is None:
        return orders * _rho(event)
    mu = event["sensitivity"] / event["sigma"]
    return np.array([_sampled(mu, rate, int(order)) for order in orders])


def _sampled(mu: float, rate: float, order: int) -> float:
    """log(sum over k of C(a, k) (1 - q)^(a - k) q^k e^(k (k - 1) mu^2 / 2)) / (a - 1)."""
    k = np.arange(order + 1)
    binomial = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    return float(logsumexp(binomial + (order - k) * math.log1p(-rate) + k * math.log(rate) + k * (k - 1) * mu**2 / 2)) / (order - 1)


def smooth_gaussian_delta(epsilon: float, smoothness: float, shift: float, coordinates: int) -> float:
    """The largest delta of N(0, I) against N(D e_1, lam^2 I), D = shift min(1, lam), for ln lam from -smoothness to smoothness."""
    worst = 0.0
    for lam in np.exp(np.linspace(-smoothness, smoothness, 20)):  # an even number, so that lam is not 1
        moved = shift * min(1.0, lam)
        c, y0 = (1 / lam**2 - 1) / 2, moved / (1 - lam**2)
        squared = max((epsilon - coordinates * math.log(lam) - moved**2 / (2 * lam**2) + c * y0**2) / c, 0.0)
        tail = ncx2.sf if lam < 1 else ncx2.cdf
        one, other = tail(squared, coordinates, y0**2), tail(squared / lam**2, coordinates, ((y0 - moved) / lam) ** 2)
        worst = max(worst, float(one - math.exp(epsilon) * other))
    return worst


# What one event costs.


def _rho(event: Event) -> float:
    mechanism = event["mechanism"]
    if mechanism in GAUSSIAN:
        return (event["sensitivity"] / event["sigma"]) ** 2 / 2
    if mechanism == "gumbel_selection":
        return event["chosen"] * (event["sensitivity"] / event["scale"]) ** 2 / 2
    if mechanism == "local_reports":
        return event["reports"] * event["epsilon"] ** 2 / 2
    if mechanism == "smooth_gaussian":
        return event["epsilon"] ** 2 / 2
    if mechanism == "smooth_sensitivity":
        t, shift, spread = event["smoothness"], event["shift"], event["spread"]
        one = (
            t / spread + math.exp(1.5 * spread**2) * shift
            if event["family"] == "laplace_log_normal"
            else math.sqrt(t * (t + 3)) + 7 / 6 * shift
        )
        return event["coordinates"] * one**2 / 2
    raise ValueError(f"the mechanism {mechanism!r} is not known to this verifier")


def _pure(events: list[Event]) -> float:
    """The sum of epsilons without a delta; infinite where an event has none."""
    each = {
        "gumbel_selection": lambda event: event["chosen"] * 2 * event["sensitivity"] / event["scale"],
        "local_reports": lambda event: event["reports"] * event["epsilon"],
    }
    return math.fsum(each[event["mechanism"]](event) if event["mechanism"] in each else math.inf for event in events)


def _failure(event: Event) -> float:
    return float(event["delta"]) if event["mechanism"] == "smooth_gaussian" else 0.0


def _mass(events: list[Event]) -> float:
    """The distance of discrete noise from continuous: at most 0.021 coordinates / sigma^2 each; and what thresholds let through."""
    lattice = math.fsum(0.021 * event["coordinates"] / event["sigma"] ** 2 if event["sigma"] >= 1 else event["coordinates"]
                        for event in events if event["mechanism"] in GAUSSIAN)  # fmt: skip
    return lattice + math.fsum(_told(event) for event in events if event["mechanism"] == "thresholded_gaussian")


def _told(event: Event) -> float:
    """The chance that noise lifts any of the levels of one unit alone above the threshold."""
    return math.ceil(event["coordinates"] / 2) * float(norm.sf((event["threshold"] - event["contribution"]) / event["sigma"]))


def _with_mass(epsilon_at: Any, mass: float, delta: float) -> float:
    """The smallest epsilon with epsilon_at(delta - (1 + e^epsilon) mass) <= epsilon."""
    epsilon = 0.0
    for _ in range(100):
        left = delta - (1 + math.exp(min(epsilon, 700.0))) * mass
        if left <= 0:
            return math.inf
        wider = epsilon_at(left)
        if wider <= epsilon * (1 + 1e-12):
            return epsilon
        epsilon = wider
    return math.inf
