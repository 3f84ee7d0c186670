"""From events to epsilon(delta), and from (epsilon, delta) to a budget. The only importer of dp_accounting."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cache

import numpy as np
import numpy.typing as npt

from nightfit.privacy.events import Event, GaussianEvent, PureEvent, RepeatedEvent, SelectionEvent, SmoothGaussianEvent
from nightfit.types import WHOLE, Adjacency, Part, Sample

UNIT = Fraction(1, 2**200)
LATTICE_SHARE = Fraction(1, 2**14)
FAILURE_SHARE = Fraction(1, 8)  # of delta, in the currency zcdp, for events with a mass of their own
# dp_accounting's Gaussian profile subtracts nearly equal numbers: from epsilon = SMALLEST up its root is good to 1e-10, below it is not.
SMALLEST = 5e-4
MARGIN = 1e-9
SERIES_ERROR = 2.0**-44  # for each of a series' terms, about as many as its order; their logarithms are as large
HEADROOM = 1e-8
MOST_PIECES = 64


class Currency(StrEnum):
    """In what a ledger adds and refuses. Both are valid filters: a sum fixed in advance bounds any adaptive sequence of questions.

    gaussian: the sum of mu^2 of Gaussian questions, converted exactly (Dong, Roth, Su 2022; Balle, Wang 2018, thm 8).
    zcdp: the sum of rho and of a mass of failure, converted by the best Renyi order (Canonne, Kamath, Steinke 2020, prop. 12);
    Poisson samples and repeated attempts at the one order that the budget fixes. An eighth of delta is kept for the mass.
    pure: the sum of epsilon of questions that are private without a delta (local reports); a policy's delta is not used.
    """

    GAUSSIAN = "gaussian"
    ZCDP = "zcdp"
    PURE = "pure"


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of a currency and a mass of delta, in whole units of 2^-200: addition is exact and every rounding is upward."""

    amount: int = 0
    mass: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.amount + other.amount, self.mass + other.mass)

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(self.amount - other.amount, self.mass - other.mass)

    def fits(self, limit: "Cost") -> bool:
        return self.amount <= limit.amount and self.mass <= limit.mass


class CurrencyError(ValueError):
    """The currency of the data set's policy cannot carry a question of this kind."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a zcdp budget of this epsilon fixes for good about Poisson samples and repeated attempts, whose divergences are no multiple
    of their order: the Renyi order at which they are priced.
    """

    epsilon: float
    order: float


def cost(events: Iterable[Event], currency: Currency, tariff: Tariff | None = None) -> Cost:
    """What the events cost together, each rounded up to the unit: the sum over those that concern one record, at the worst record
    for the amount and at the worst one for the mass, which may be another.

    Only Poisson samples need the policy's `tariff`; repeated attempts are cheaper with it. A sample's mass is (1 + e^epsilon) times
    its lattice mass, because both neighbours' answers are that far from those of continuous noise, of which the divergence is known.
    Guarantee: a record's part is fixed by its slot and the run's key, so events on parts that do not overlap concern different
    records and the larger one bounds both (parallel composition). Broken by test_disjoint_parts_cost_the_largest_of_them.
    """
    totals = [sum((_cost(event, currency, tariff) for event in together), Cost()) for together in _regions(events)]
    return Cost(max((total.amount for total in totals), default=0), max((total.mass for total in totals), default=0))


def _cost(event: Event, currency: Currency, tariff: Tariff | None = None) -> Cost:
    if currency is Currency.PURE:
        if not isinstance(event, PureEvent):
            raise CurrencyError(
                f"the currency pure adds local reports only, and {event.label!r} is a {event.mechanism}: "
                "give the data set a policy in the currency gaussian or zcdp"
            )
        return Cost(math.ceil(event.reports * Fraction(event.epsilon) / UNIT), 0)
    if currency is Currency.GAUSSIAN:
        if not isinstance(event, GaussianEvent) or isinstance(event.draw, Sample):
            raise CurrencyError(
                f"the currency gaussian adds Gaussian questions to all records or disjoint parts only, and {event.label!r} is a "
                f"{event.mechanism} {'on a Poisson sample' if isinstance(event.draw, Sample) else ''}".rstrip()
                + ": give the data set a policy in the currency zcdp (privacy.lifetime.currency: zcdp)"
            )
        return Cost(math.ceil(event.mu_squared / UNIT), math.ceil(event.lattice_mass / UNIT))
    if isinstance(event, GaussianEvent) and isinstance(event.draw, Sample):
        if tariff is None:
            raise CurrencyError(f"{event.label!r} is on a Poisson sample: its price needs the tariff of a zcdp policy")
        divergence = _renyi_sampled(float(event.mu_squared), event.draw.rate, tariff.order)
        mass = event.lattice_mass * (1 + Fraction(math.exp(tariff.epsilon) * (1 + MARGIN)))
        return Cost(math.ceil(Fraction(divergence) / Fraction(tariff.order) / UNIT), math.ceil(mass / UNIT))
    if isinstance(event, RepeatedEvent) and tariff is not None:
        return Cost(math.ceil(Fraction(event.divergence(tariff.order)) / Fraction(tariff.order) / UNIT))
    if isinstance(event, SmoothGaussianEvent):
        exact = smooth_gaussian_delta(event.epsilon, event.smoothness, event.shift, event.coordinates)
        if not exact <= event.delta:
            raise ValueError(f"{event.label!r} is not ({event.epsilon:g}, {event.delta:g}) private")
    return Cost(math.ceil(event.rho / UNIT), math.ceil(event.mass / UNIT))


def _regions(events: Iterable[Event]) -> list[tuple[Event, ...]]:
    """The events that concern one record, for every kind of record: cut where a part begins or ends."""
    asked = list(events)
    parts = [event.draw if isinstance(event.draw, Part) else WHOLE for event in asked]
    edges = sorted({part.low for part in parts})
    return [tuple(event for event, part in zip(asked, parts, strict=True) if part.low <= edge < part.high) for edge in edges]


def limit(epsilon: float, delta: float, currency: Currency) -> Cost:
    """The largest cost that is still (epsilon, delta), rounded down.

    Guarantee: gaussian: with mu^2 <= amount and mass of total variation TV <= mass, the discrete Gaussians are within TV of
    rounded continuous ones on each side, so delta(epsilon) <= delta_G(mu, epsilon) + (1 + e^epsilon) TV
    <= delta (1 - 2^-14) + delta 2^-14. Broken by test_the_limit_of_a_budget_is_that_budget_and_no_more.
    """
    check_budget(epsilon, delta)
    if currency is Currency.PURE:
        return Cost(math.floor(Fraction(epsilon) / UNIT), 0)
    if currency is Currency.GAUSSIAN:
        mu = _mu(epsilon, delta * float(1 - LATTICE_SHARE)) * (1 - HEADROOM)
        mass = Fraction(delta) * LATTICE_SHARE / (1 + Fraction(math.exp(epsilon) * (1 + MARGIN)))
        return Cost(math.floor(Fraction(mu) ** 2 / UNIT), math.floor(mass / UNIT))
    rho = _rho(epsilon, delta * float(1 - FAILURE_SHARE)) * (1 - HEADROOM)
    return Cost(math.floor(Fraction(rho) / UNIT), math.floor(Fraction(delta) * FAILURE_SHARE / UNIT))


def tariff_of(epsilon: float, delta: float) -> Tariff:
    """The order at which a zcdp budget that is spent to the end converts best; fixed by the budget, so a sum of divergences at this
    order is a valid filter (choosing the best order afterwards is not).
    """
    kept = delta * float(1 - FAILURE_SHARE)
    return Tariff(epsilon, float(ORDERS[int(np.argmin(_epsilons(_rho(epsilon, kept), kept)))]))


def epsilon_of(spent: Cost, delta: float, currency: Currency, tariff: Tariff | None = None) -> float:
    """The smallest epsilon, rounded up, at which what was spent is (epsilon, delta); infinity if there is none.

    With a `tariff`, only its order is used: what was spent on Poisson samples was priced there and says nothing about others.
    """
    amount, mass = float(spent.amount * UNIT), float(spent.mass * UNIT)
    if amount == 0 and mass == 0:
        return 0.0
    if currency is Currency.PURE:
        return amount if Fraction(amount) >= spent.amount * UNIT else math.nextafter(amount, math.inf)
    if currency is Currency.ZCDP:
        return _epsilon_zcdp(amount, delta - mass, tariff.order if tariff else None) if mass < delta else math.inf
    return _with_mass(mass, delta, lambda left: _epsilon_gaussian(math.sqrt(amount), left))


def epsilon_for(rho: float, delta: float, currency: Currency) -> float:
    """The epsilon of the budget (epsilon, delta) whose limit in this currency is rho, and no more: mu^2 = 2 rho of Gaussian
    questions, or rho zero-concentrated. Broken by test_a_budget_given_as_rho_is_that_rho_and_no_more.
    """
    if not (math.isfinite(rho) and rho > 0):
        raise ValueError(f"rho must be positive and finite, got {rho}: 0.03 is about epsilon 1 at delta 1e-5")
    amount, share = (2 * Fraction(rho), LATTICE_SHARE) if currency is Currency.GAUSSIAN else (Fraction(rho), FAILURE_SHARE)
    return epsilon_of(Cost(math.floor(amount / UNIT)), delta * float(1 - share), currency)


def tight_epsilon(events: Iterable[Event], delta: float) -> float:
    """The smallest epsilon that we can prove of these events alone, rounded up, at the worst record.

    Gaussian ones exactly, with Poisson samples by privacy loss distributions, one approximate or repeated event by itself, all else
    by the sum of rho, or of pure epsilons where every event has one and they add to less. For reports: a ledger adds in its currency,
    because later events may depend on earlier answers.
    """
    return max((_tight(together, delta) for together in _regions(events)), default=0.0)


def _tight(events: tuple[Event, ...], delta: float) -> float:
    gaussian = [event for event in events if isinstance(event, GaussianEvent)]
    sampled = [event for event in gaussian if isinstance(event.draw, Sample)]
    if len(gaussian) == len(events) and not sampled:
        return epsilon_of(sum((_cost(event, Currency.GAUSSIAN) for event in events), Cost()), delta, Currency.GAUSSIAN)
    if len(gaussian) == len(events):
        mass = float(sum(event.lattice_mass for event in gaussian))
        counted = Counter((float(event.mu_squared), event.draw.fraction, event.adjacency) for event in gaussian)
        return _with_mass(mass, delta, lambda left: _epsilon_loss_distribution(tuple(sorted(counted.items())), left))
    if len(events) == 1 and isinstance(events[0], RepeatedEvent):
        return _epsilon_repeated(events[0].attempt_rho, events[0].mean, delta)
    if len(events) == 1 and isinstance(events[0], SmoothGaussianEvent):
        _cost(events[0], Currency.ZCDP)
        return events[0].epsilon if events[0].delta <= delta else math.inf
    pure = [event for event in events if isinstance(event, PureEvent)]
    if len(pure) == len(events):
        added = epsilon_of(sum((_cost(event, Currency.PURE) for event in pure), Cost()), delta, Currency.PURE)
        if sum(event.reports for event in pure) == 1:
            return added
        return min(added, _epsilon_reports(tuple((event.epsilon, event.reports) for event in pure), delta))
    if sampled:
        raise CurrencyError("Poisson samples beside other mechanisms have no tight accountant here")
    concentrated = epsilon_of(sum((_cost(event, Currency.ZCDP) for event in events), Cost()), delta, Currency.ZCDP)
    return min(concentrated, math.fsum(_pure(event) for event in events) * (1 + MARGIN))


def _pure(event: Event) -> float:
    """The epsilon at which it is private with delta 0; infinite where there is none."""
    if isinstance(event, PureEvent):
        return event.reports * event.epsilon
    return float(event.epsilon) if isinstance(event, SelectionEvent) else math.inf


def sampled_multiplier(rate: float, steps: int, epsilon: float, delta: float, adjacency: Adjacency) -> float:
    """The smallest noise, in sensitivities of a drawn record, at which `steps` Poisson samples are (epsilon, delta), rounded up."""
    kept = delta * float(1 - LATTICE_SHARE)
    low, high = 0.2, 0.4

    def enough(multiplier: float) -> bool:
        return _epsilon_loss_distribution((((multiplier**-2, rate, adjacency), steps),), kept) <= epsilon

    while not enough(high):
        low, high = high, 2 * high
        if high > 1e6:
            raise ValueError(f"no noise makes {steps} samples of rate {rate:g} ({epsilon:g}, {delta:g}) private: fewer steps")
    while high > low * (1 + 1e-3):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def smooth_gaussian_delta(epsilon: float, smoothness: float, shift: float, coordinates: int) -> float:
    """A delta at which f + (S / shift) N(0, I) is private when neighbours move f by at most S and S by a factor of at most e^smoothness.

    In units of one neighbour's noise: P = N(0, I) against Q = N(D e_1, lam^2 I), |ln lam| <= smoothness, D <= shift min(1, lam), and
    delta is the largest P(A) - e^epsilon Q(A), at A = {dP / dQ > e^epsilon}: outside a ball for lam < 1, inside one for lam > 1.
    Guarantee: no lam and D give more than is returned. Three steps; each moves Q or P and keeps A, which only underestimates the new pair.
    (1) D: the ball's centre D / (1 - lam^2) lies beyond Q's mean for lam < 1 and behind it for lam > 1, so a larger D takes mass of
    Q out of A (Anderson): the largest D is the worst. (2) lam <= 1, in units of Q's noise: P = N(shift e_1, s^2 I), s = 1 / lam, against
    N(0, I). P's mean has the loss shift^2 / 2 - coordinates ln s <= epsilon, so it lies in the ball, which is convex: a larger s takes
    mass of P out of the ball, into A, and s = e^smoothness is the worst. A shift^2 above 2 epsilon is refused (delta 1). (3) lam >= 1: Q's
    density at lam in [l, l'] is at least (l / l')^coordinates times that at l, so delta is at most that of l at
    epsilon - coordinates ln(l' / l): the interval is cut until that is no more than what (2) gives, or into MOST_PIECES.
    Corrected: Wang et al. 2020, alg. 1, print a shift five times too small. Broken by
    test_no_change_of_scale_exceeds_the_delta_of_smooth_noise.
    """
    if shift**2 > 2 * epsilon:
        return 1.0
    worst = float(_scaled_profile(epsilon, np.array([-smoothness]), shift, coordinates)[0])
    pieces, wider = 4, math.inf
    while wider > worst and pieces <= MOST_PIECES:
        each = smoothness / pieces
        wider = float(_scaled_profile(epsilon - coordinates * each, each * np.arange(pieces, dtype=np.float64), shift, coordinates).max())
        pieces *= 4
    return max(worst, wider) * (1 + MARGIN)


def _scaled_profile(epsilon: float, logarithms: npt.NDArray[np.float64], shift: float, coordinates: int) -> npt.NDArray[np.float64]:
    """The largest P(A) - e^epsilon Q(A) for P = N(0, I) and Q = N(D e_1, lam^2 I), D = shift min(1, lam), at each ln lam: negative ones
    or others.

    The privacy loss is c |y - y0|^2 + constant, so both are tails of non-central chi-square distributions; half spaces for lam = 1.
    """
    from scipy.stats import ncx2, norm

    found = np.full(len(logarithms), norm.cdf(shift / 2 - epsilon / shift) - math.exp(epsilon) * norm.cdf(-shift / 2 - epsilon / shift))
    changed = logarithms != 0
    lam = np.exp(logarithms[changed])
    moved = shift * np.minimum(1.0, lam)
    c = (1 / lam**2 - 1) / 2
    y0 = (moved / lam**2) / (1 / lam**2 - 1)
    constant = coordinates * np.log(lam) + moved**2 / (2 * lam**2) - c * y0**2
    radius = np.maximum((epsilon - constant) / c, 0.0)
    seen = (radius, coordinates, y0**2), (radius / lam**2, coordinates, ((y0 - moved) / lam) ** 2)
    one, other = ((ncx2.sf if logarithms[0] < 0 else ncx2.cdf)(*tail) for tail in seen)
    found[changed] = one - math.exp(epsilon) * other
    return found


def smooth_gaussian_shift(epsilon: float, delta: float, smoothness: float, coordinates: int) -> float:
    """The largest shift with smooth_gaussian_delta <= delta, by bisection that keeps the safe side; 0 if there is none."""
    low, high = 0.0, 1.0
    while smooth_gaussian_delta(epsilon, smoothness, high, coordinates) <= delta:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if smooth_gaussian_delta(epsilon, smoothness, middle, coordinates) <= delta else (low, middle)
    return low


def _with_mass(mass: float, delta: float, epsilon_at: Callable[[float], float]) -> float:
    """The smallest epsilon with epsilon_at(delta - (1 + e^epsilon) mass) <= epsilon: both neighbours' answers are within total
    variation `mass` of ones that epsilon_at speaks of.
    """
    epsilon = 0.0
    for _ in range(200):
        left = delta - (1 + math.exp(min(epsilon, 700.0))) * mass
        if left <= 0:
            return math.inf
        tighter = epsilon_at(left)
        if tighter <= epsilon:
            return epsilon
        epsilon = tighter * (1 + MARGIN)
    return math.inf


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is not a privacy budget; never default silently."""
    if not (math.isfinite(epsilon) and 1e-3 <= epsilon <= 30):
        raise ValueError(f"epsilon must be a number from 0.001 to 30, got {epsilon}: 1 is a common choice, above 10 protects little")
    if not (math.isfinite(delta) and 1e-30 <= delta < 1):
        raise ValueError(f"delta must be a number from 1e-30 to below 1, got {delta}: choose it far below 1 / (number of units)")


@cache
def _mu(epsilon: float, delta: float) -> float:
    """The largest mu with delta_G(mu, epsilon) <= delta, where delta_G is that of N(0, 1) against N(mu, 1)."""
    from dp_accounting import get_sigma_gaussian

    with np.errstate(divide="ignore"):
        return float(1 / get_sigma_gaussian(epsilon, delta))


@cache
def _epsilon_gaussian(mu: float, delta: float) -> float:
    """The smallest epsilon with delta_G(mu, epsilon) <= delta, rounded up: to 0 exactly, or to SMALLEST at least."""
    from dp_accounting import get_epsilon_gaussian

    if math.erf(mu / math.sqrt(8)) * (1 + MARGIN) <= delta:  # delta_G(mu, 0) = 2 Phi(mu / 2) - 1
        return 0.0
    if mu <= _mu(SMALLEST, delta) * (1 - HEADROOM):
        return SMALLEST
    with np.errstate(divide="ignore"):
        return float(get_epsilon_gaussian(1 / mu, delta)) * (1 + MARGIN)


ORDERS = 1 + np.logspace(-4, 7, 4000)


def _epsilons(rho: float, delta: float) -> npt.NDArray[np.float64]:
    """epsilon at each order (Canonne, Kamath, Steinke 2020, prop. 12)."""
    a = ORDERS
    return np.maximum(0.0, a * rho + np.log1p(-1 / a) - (np.log(delta) + np.log(a)) / (a - 1))


def _epsilon_zcdp(rho: float, delta: float, order: float | None = None) -> float:
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    orders = ORDERS if order is None else np.array([order])
    return float(compute_epsilon(orders, orders * rho, delta)[0]) * (1 + MARGIN)


@cache
def _renyi_sampled(mu_squared: float, rate: float, order: float) -> float:
    """The Renyi divergence of a Poisson sampled Gaussian at this order, rounded up (Mironov, Talwar, Zhang 2019).

    dp-accounting's is the logarithm of a series whose terms add to nearly one where noise is large, hence wrong by rounding, and infinite
    where it does not converge. A divergence is quasi-convex, so sampling never raises the one without it, order mu^2 / 2. Broken by
    test_a_sample_s_price_is_neither_below_its_leading_term_nor_above_that_of_all_records.
    """
    from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant([order], NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(mu_squared**-0.5)))
    found = float(accountant.rdp[0]) * (1 + MARGIN) + SERIES_ERROR * (order + 1) / (order - 1)
    return min(found, order * mu_squared / 2 * (1 + MARGIN))


@cache
def _epsilon_repeated(rho: float, mean: int, delta: float) -> float:
    """Of the best of a geometric number of attempts, each no worse than a Gaussian question of this rho."""
    from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(1 + np.logspace(-2, 4, 400))
    accountant.compose(RepeatAndSelectDpEvent(GaussianDpEvent((2 * rho) ** -0.5), mean, 1))
    return float(accountant.get_epsilon(delta)) * (1 + MARGIN)


@cache
def _epsilon_loss_distribution(counted: tuple[tuple[tuple[float, float, Adjacency], int], ...], delta: float) -> float:
    """Of Gaussian questions (mu^2, rate, adjacency), each so many times, by privacy loss distributions with pessimistic rounding."""
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    relations = {Adjacency.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE, Adjacency.ZERO_OUT: NeighboringRelation.REPLACE_SPECIAL}
    total = None
    interval = 1e-3 if sum(times for _, times in counted) <= 2000 else 2e-4
    for (mu_squared, rate, adjacency), times in counted:
        one = privacy_loss_distribution.from_gaussian_mechanism(
            mu_squared**-0.5,
            sensitivity=1,
            sampling_prob=rate,
            value_discretization_interval=interval,
            neighboring_relation=relations.get(adjacency, NeighboringRelation.ADD_OR_REMOVE_ONE),
        ).self_compose(times)
        total = one if total is None else total.compose(one)
    return 0.0 if total is None else float(total.get_epsilon_for_delta(delta)) * (1 + MARGIN)


@cache
def _epsilon_reports(counted: tuple[tuple[float, int], ...], delta: float) -> float:
    """Of reports (epsilon, times): randomised response is the worst of all that cost epsilon (Kairouz, Oh, Viswanath 2015), so its
    privacy loss distribution, rounded pessimistically, bounds any adaptive sequence of them.
    """
    from dp_accounting.pld import privacy_loss_distribution

    total = None
    for epsilon, times in counted:
        one = privacy_loss_distribution.from_randomized_response(
            2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=min(1e-3, epsilon / 100)
        ).self_compose(times)
        total = one if total is None else total.compose(one)
    return 0.0 if total is None else float(total.get_epsilon_for_delta(delta)) * (1 + MARGIN)


@cache
def _rho(epsilon: float, delta: float) -> float:
    """The largest rho whose epsilon at delta is at most epsilon, by bisection that keeps the safe side."""
    low, high = 0.0, epsilon
    for _ in range(100):
        middle = (low + high) / 2
        if _epsilon_zcdp(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    return low
