"""Every kind of event: what it costs in each currency, at which record, how it is stored, and what ledger and gate do with it."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from nightfit.ledger import Ledger, LedgerError, Policy, Reservation
from nightfit.privacy.accounting import (
    UNIT,
    Cost,
    Currency,
    CurrencyError,
    cost,
    epsilon_of,
    limit,
    renyi_order_for,
    sampled_multiplier,
    smooth_gaussian_shift,
    tight_epsilon,
)
from nightfit.privacy.events import (
    GaussianEvent,
    PureEvent,
    SelectionEvent,
    SmoothEvent,
    SmoothGaussianEvent,
    ThresholdedEvent,
    event_from_dict,
)
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.types import WHOLE, Adjacency, Part, Sample, parts_of

DELTA, FINE = 1e-5, 2.0**45
FIRST, SECOND = parts_of(2)


def gaussian(mu, draw=WHOLE, label="g", adjacency=Adjacency.ZERO_OUT, coordinates=1):
    return GaussianEvent(label=label, sensitivity=FINE, sigma=FINE / mu, coordinates=coordinates, adjacency=adjacency, draw=draw)


SHIFT = smooth_gaussian_shift(0.5, 1e-7, 0.01, 3)
KINDS = [
    gaussian(0.1),
    gaussian(0.1, FIRST),
    gaussian(0.5, Sample(0.01, 7)),
    SelectionEvent(label="s", sensitivity=2.0, scale=30.0, chosen=2, coordinates=9, adjacency=Adjacency.REPLACE_ONE, draw=SECOND),
    SmoothEvent(
        label="l",
        family="laplace_log_normal",
        smoothness=0.01,
        shift=0.1,
        spread=0.31,
        coordinates=3,
        adjacency=Adjacency.REPLACE_ONE,
    ),
    SmoothEvent(label="a", family="arsinh_normal", smoothness=0.01, shift=0.1, spread=1.0, coordinates=3, adjacency=Adjacency.REPLACE_ONE),
    SmoothGaussianEvent(label="b", smoothness=0.01, shift=SHIFT, epsilon=0.5, delta=1e-7, coordinates=3, adjacency=Adjacency.REPLACE_ONE),
    PureEvent(label="p", epsilon=0.1, reports=3, coordinates=4, adjacency=Adjacency.REPLACE_ONE),
]
THRESHOLDED = ThresholdedEvent(
    label="t",
    sensitivity=2.0 * FINE,
    sigma=10 * FINE,
    threshold=int(100 * FINE),
    contribution=int(FINE),
    coordinates=4,
    most=9,
    adjacency=Adjacency.REPLACE_ONE,
)
every_kind = pytest.mark.parametrize(
    "event", [*KINDS, THRESHOLDED], ids=lambda event: f"{event.mechanism}-{event.label}-{type(event.draw).__name__}"
)


# storing


@every_kind
def test_an_event_survives_being_stored(event):
    assert event_from_dict(event.as_dict()) == event
    assert event.as_dict()["mechanism"] == event.mechanism


@every_kind
def test_an_event_that_cannot_be_is_refused(event):
    with pytest.raises(ValueError, match="at least 1"):
        replace(event, coordinates=0)
    number = next(name for name in ("sigma", "scale", "shift", "epsilon") if name in event.as_dict())
    for wrong in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=number):
            replace(event, **{number: wrong})


def test_a_sample_is_refused_where_no_accountant_is_proven():
    with pytest.raises(ValueError, match="no proven accountant for Poisson samples under replace_one"):
        gaussian(0.1, Sample(0.1, 0), adjacency=Adjacency.REPLACE_ONE)
    stored = gaussian(0.1, Sample(0.1, 0)).as_dict() | {"adjacency": "replace_one"}
    with pytest.raises(ValueError, match="no proven accountant"):
        event_from_dict(stored)


# what concerns one record


@pytest.mark.parametrize("currency", [Currency.GAUSSIAN, Currency.ZCDP])
def test_disjoint_parts_cost_the_largest_of_them(currency):
    parts = parts_of(3)
    small, large = gaussian(0.1, parts[0]), gaussian(0.3, parts[1])
    both = cost([small, large], currency)
    assert both == cost([large], currency)
    assert cost([small, gaussian(0.1, parts[0]), large], currency) == both
    assert cost([large, gaussian(0.2, Part(parts[1].high - 1, 2**32))], currency) == cost([large], currency) + cost(
        [gaussian(0.2)], currency
    )
    assert cost([small, large, gaussian(0.2)], currency) == cost([large], currency) + cost([gaussian(0.2)], currency)
    assert cost([], currency) == Cost()


def test_the_worst_record_for_the_amount_need_not_be_the_worst_for_the_mass():
    loud, rough = gaussian(0.3, FIRST), gaussian(0.1, SECOND, coordinates=10**6)
    assert cost([loud], Currency.GAUSSIAN).amount > cost([rough], Currency.GAUSSIAN).amount
    assert cost([loud], Currency.GAUSSIAN).mass < cost([rough], Currency.GAUSSIAN).mass
    both = cost([loud, rough], Currency.GAUSSIAN)
    assert both == Cost(cost([loud], Currency.GAUSSIAN).amount, cost([rough], Currency.GAUSSIAN).mass)
    assert cost([rough, loud], Currency.GAUSSIAN) == both


def test_parts_of_a_whole_share_no_record_and_leave_none_out():
    for count in (1, 2, 3, 50):
        parts = parts_of(count)
        assert (parts[0].low, parts[-1].high) == (0, 2**32)
        assert all(one.high == other.low for one, other in itertools.pairwise(parts))
        assert sum(part.fraction for part in parts) == pytest.approx(1)


def test_samples_concern_everybody():
    sampled, order = gaussian(0.5, Sample(0.01, 0)), renyi_order_for(1.0, DELTA)
    alone = cost([sampled], Currency.ZCDP, order)
    assert cost([sampled, gaussian(0.5, Sample(0.01, 1))], Currency.ZCDP, order) == alone + alone
    for quiet, loud in ((FIRST, SECOND), (SECOND, FIRST)):
        both = cost([sampled, gaussian(0.1, quiet), gaussian(0.3, loud)], Currency.ZCDP, order)
        assert both == alone + cost([gaussian(0.3)], Currency.ZCDP)


# prices


@pytest.mark.parametrize(
    ("rate", "steps", "multiplier"),
    [
        (0.01, 50, 0.858),
        (0.01, 500, 1.147),
        pytest.param(0.01, 5000, 2.753, marks=pytest.mark.sweep),
        (0.1, 50, 2.930),
        pytest.param(0.1, 500, 8.443, marks=pytest.mark.sweep),
    ],
)
def test_the_noise_of_samples_is_that_of_the_table(rate, steps, multiplier):
    found = sampled_multiplier(rate, steps, 1.0, DELTA, Adjacency.ADD_REMOVE)
    assert found == pytest.approx(multiplier, rel=2e-3)
    events = [gaussian(1 / found, Sample(rate, number)) for number in range(steps)]
    assert 0.99 < tight_epsilon(events, DELTA) <= 1.0


def test_a_sample_of_nearly_everybody_needs_the_noise_of_a_full_batch():
    full = math.sqrt(50) / math.sqrt(float(limit(1.0, DELTA, Currency.GAUSSIAN).amount * UNIT))
    assert full == pytest.approx(26.38, abs=0.02)
    assert sampled_multiplier(0.9999, 50, 1.0, DELTA, Adjacency.ADD_REMOVE) == pytest.approx(full, rel=2e-3)


def test_the_conversions_of_one_budget():
    gaussian_rho = float(limit(1.0, DELTA, Currency.GAUSSIAN).amount * UNIT) / 2
    zcdp_rho = float(limit(1.0, DELTA * 8 / 7, Currency.ZCDP).amount * UNIT)
    printed_rho = (math.sqrt(math.log(1 / DELTA) + 1) - math.sqrt(math.log(1 / DELTA))) ** 2
    assert (gaussian_rho, zcdp_rho, printed_rho) == pytest.approx((0.0359, 0.0306, 0.0208), abs=6e-5)
    # noise of fifty full batches: exact, zero-concentrated, and as printed in Wang et al. 2020 and Tao et al. 2022
    assert math.sqrt(50 / (2 * gaussian_rho)) == pytest.approx(26.38, abs=0.02)
    assert math.sqrt(50 / (2 * zcdp_rho)) == pytest.approx(28.60, abs=0.03)
    assert math.sqrt(50 / (2 * printed_rho)) == pytest.approx(34.65, abs=0.03)
    inner = 1 / (2 * math.sqrt(2 * 50 * math.log(2 / DELTA)))
    assert math.sqrt(2 * math.log(1.25 / (DELTA / 100))) / inner == pytest.approx(399.5, rel=1e-3)
    assert math.sqrt(8 * zcdp_rho / 50) == pytest.approx(0.0699, abs=1e-4)  # epsilon0 of fifty selections of one


def test_the_classical_multiplier_is_wasteful_and_then_wrong():
    ours = 1 / math.sqrt(float(limit(1.0, DELTA, Currency.GAUSSIAN).amount * UNIT))
    assert ours == pytest.approx(3.731, abs=2e-3)
    assert math.sqrt(2 * math.log(1.25 / DELTA)) == pytest.approx(4.845, abs=1e-3)
    for epsilon, valid in ((8.0, True), (8.8, False)):
        multiplier = math.sqrt(2 * math.log(1.25 / DELTA)) / epsilon
        assert (tight_epsilon([gaussian(1 / multiplier)], DELTA) <= epsilon) is valid


def test_peeling_costs_what_its_noise_says():
    """Gumbel and Gaussian noise of 5.72 sensitivities times the root of s: together rho of (1, 1e-5)."""
    s, lam = 5, 1000.0
    chosen = SelectionEvent(
        label="s", sensitivity=lam, scale=5.717 * lam * math.sqrt(s), chosen=s, coordinates=100, adjacency=Adjacency.ZERO_OUT
    )
    values = GaussianEvent(
        label="v", sensitivity=lam * math.sqrt(s), sigma=5.717 * lam * math.sqrt(s), coordinates=s, adjacency=Adjacency.ZERO_OUT
    )
    assert chosen.rho == pytest.approx(s * (2 * lam / chosen.scale) ** 2 / 8)
    assert float(cost([chosen, values], Currency.ZCDP).amount * UNIT) == pytest.approx(0.0306, rel=1e-3)


@pytest.mark.parametrize(("rate", "mu", "steps"), [(0.01, 1.0, 200), (0.1, 0.3, 100), (0.3, 0.05, 50), (0.001, 2.0, 1000)])
def test_a_sample_priced_at_the_budget_s_order_is_never_cheaper_than_its_loss_distribution(rate, mu, steps):
    events = [gaussian(mu, Sample(rate, number)) for number in range(steps)]
    for epsilon in (0.5, 4.0):
        order = renyi_order_for(epsilon, DELTA)
        one = cost(events[:1], Currency.ZCDP, order)
        priced = Cost(steps * one.amount, steps * one.mass)
        assert epsilon_of(priced, DELTA, Currency.ZCDP, order) >= tight_epsilon(events, DELTA)


def test_a_sample_pays_for_the_lattices_of_both_neighbours():
    """(1 + e^epsilon) times the lattice mass, as in _with_mass; and what is less than a unit costs one."""
    rough, fine = (replace(gaussian(1.0, Sample(0.01, 0)), sensitivity=sigma, sigma=sigma) for sigma in (10.0, 2.0**150))
    order = renyi_order_for(2.0, DELTA)
    paid = float(cost([rough], Currency.ZCDP, order).mass * UNIT)
    assert (1 + math.exp(2.0)) * float(rough.lattice_mass) <= paid <= (1 + math.exp(2.0)) * float(rough.lattice_mass) * (1 + 1e-8)
    assert cost([fine], Currency.ZCDP, order).mass == 1


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("rate", [0.01, 0.5])
def test_a_sample_s_price_is_neither_below_its_leading_term_nor_above_that_of_all_records(epsilon, rate):
    """order q^2 mu^2 / 2, of which the price in zcdp is q^2 mu^2 / 2, where noise is so large that rounding is all that a series gives."""
    order = renyi_order_for(epsilon, DELTA)
    for mu in (1e-8, 1e-6, 3e-4, 1e-2):
        paid = float(cost([gaussian(mu, Sample(rate, 0))], Currency.ZCDP, order).amount * UNIT)
        assert rate**2 * mu**2 / 2 * 0.999999 <= paid <= mu**2 / 2 * (1 + 1e-6)


@every_kind
def test_the_tight_epsilon_of_one_event_is_not_above_the_enforced_one(event):
    order = renyi_order_for(4.0, DELTA)
    enforced = epsilon_of(cost([event], Currency.ZCDP, order), DELTA, Currency.ZCDP, order)
    assert 0 < tight_epsilon([event], DELTA) <= enforced


def test_the_tight_epsilon_of_mixtures_is_not_above_the_enforced_one():
    unsampled = [event for event in KINDS if not isinstance(event.draw, Sample)]
    for events in (unsampled, KINDS[:2], KINDS[3:5], [KINDS[0]] * 20, [KINDS[-1]] * 30):
        enforced = epsilon_of(cost(events, Currency.ZCDP), DELTA, Currency.ZCDP)
        assert 0 < tight_epsilon(events, DELTA) <= enforced


def test_many_small_reports_cost_less_than_their_sum_and_few_exactly_it():
    few, many = (PureEvent(label="p", epsilon=0.01, reports=n, coordinates=1, adjacency=Adjacency.ZERO_OUT) for n in (3, 10_000))
    assert 0.0295 < tight_epsilon([few], DELTA) <= 0.03 * (1 + 1e-6)
    assert tight_epsilon([many], DELTA) < 10


# currencies


@pytest.mark.parametrize("event", KINDS[2:], ids=lambda event: event.label)
def test_the_gaussian_currency_refuses_what_it_cannot_carry_and_names_the_cure(event):
    with pytest.raises(CurrencyError, match=r"currency zcdp \(privacy\.lifetime\.currency: zcdp\)") as refused:
        cost([event], Currency.GAUSSIAN)
    assert repr(event.label) in str(refused.value)
    assert event.mechanism in str(refused.value)
    assert ("on a Poisson sample" in str(refused.value)) == isinstance(event.draw, Sample)


def test_a_sample_has_no_price_without_an_order_and_no_tight_accountant_beside_other_kinds():
    with pytest.raises(CurrencyError, match="needs the Renyi order of a zcdp policy"):
        cost([KINDS[2]], Currency.ZCDP)
    with pytest.raises(CurrencyError, match="beside other mechanisms"):
        tight_epsilon([KINDS[2], replace(KINDS[3], draw=WHOLE)], DELTA)


def test_a_smooth_scale_that_is_less_private_than_its_event_says_has_no_price():
    with pytest.raises(ValueError, match=r"is not \(0\.5, 1e-07\) private"):
        cost([replace(KINDS[6], shift=1.1 * SHIFT)], Currency.ZCDP)


# the ledger

ZCDP = Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=2.0, delta=DELTA, currency=Currency.ZCDP)


def order(*events, **changes):
    fields = {"model": "m", "data_set": "d", "unit": "record", "plan": "p", "window": "w", "manifest": "m", "files": ()}
    return Reservation(**{**fields, "events": tuple(events), **changes})


def answered(run, *labels):
    for label in labels:
        run.asked(run.events[label])
        run.answered(run.events[label], np.zeros(1, dtype=np.int64))


def test_a_policy_that_priced_samples_cannot_change_any_more(ledger: Ledger):
    ledger.set_policy(ZCDP)
    assert not ledger.single_order("d")
    ledger.set_policy(replace(ZCDP, epsilon=1.9))
    ledger.reserve(order(gaussian(0.1, Sample(0.01, 0))))
    assert ledger.single_order("d")
    for changed in (replace(ZCDP, epsilon=1.0), replace(ZCDP, epsilon=3.0), replace(ZCDP, epsilon=1.9, delta=1e-6)):
        with pytest.raises(LedgerError, match="cannot be changed any more"):
            ledger.set_policy(changed, override="because")
    ledger.set_policy(replace(ZCDP, epsilon=1.9))


def test_a_sample_is_charged_at_the_policys_order(ledger: Ledger):
    ledger.set_policy(ZCDP)
    events = [gaussian(0.5, Sample(0.01, number), label=f"{number}") for number in range(3)]
    ledger.reserve(order(*events))
    assert ledger.spent("d") == cost(events, Currency.ZCDP, renyi_order_for(2.0, DELTA))


@pytest.mark.parametrize("event", [KINDS[2], replace(KINDS[3], adjacency=Adjacency.ZERO_OUT)], ids=["sample", "selection"])
def test_a_gaussian_policy_refuses_other_kinds_and_charges_nothing(ledger: Ledger, event):
    ledger.set_policy(replace(ZCDP, currency=Currency.GAUSSIAN))
    with pytest.raises(LedgerError, match="currency zcdp"):
        ledger.reserve(order(event))
    assert ledger.spent("d") == Cost()


def test_abandoning_disjoint_parts_refunds_what_no_record_has_answered_to(ledger: Ledger):
    ledger.set_policy(replace(ZCDP, currency=Currency.GAUSSIAN))
    parts = parts_of(3)
    events = [gaussian(mu, part, label=f"{i}") for i, (mu, part) in enumerate(zip((0.1, 0.05, 0.02), parts, strict=True))]
    for asked in ([], ["2"], ["1", "2"], ["0"], ["0", "1", "2"]):
        before = ledger.spent("d")
        run = ledger.reserve(order(*events))
        whole = cost(events, Currency.GAUSSIAN)
        assert ledger.spent("d") == before + whole
        answered(run, *asked)
        kept = cost([event for event in events if event.label in asked], Currency.GAUSSIAN)
        assert ledger.abandon(run.run_id) == whole - kept
        assert ledger.spent("d") == before + kept


def test_a_refund_is_never_negative_where_amount_and_mass_belong_to_different_records(ledger: Ledger):
    ledger.set_policy(replace(ZCDP, currency=Currency.GAUSSIAN))
    loud, rough = gaussian(0.2, FIRST, label="loud"), gaussian(0.1, SECOND, label="rough", coordinates=1000)
    run = ledger.reserve(order(loud, rough))
    run.asked(rough)
    refund = ledger.abandon(run.run_id)
    assert refund.mass == 0
    assert refund.amount > 0
    assert ledger.spent("d") == cost([rough], Currency.GAUSSIAN)


# the gate


class Reserved:
    """An account of one event, and records that must not be read."""

    key = b"0123456789abcdef"

    def __init__(self, event):
        self.events = {"q": event}

    def asked(self, event):
        raise AssertionError("a question was recorded")

    def aggregate(self, query):
        raise AssertionError("a row was read")


def gate_of(event):
    account = Reserved(event)
    return Gate(account=account, records=account, noise=NoNoise())


def question(draw):
    return GradientSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.zeros(1), bits=20, key=Reserved.key, draw=draw)


DRAWS = [WHOLE, FIRST, SECOND, Part(0, 2**31 - 1), Sample(0.5, 0), Sample(0.5, 1), Sample(0.25, 0)]


@pytest.mark.parametrize("reserved", DRAWS, ids=str)
def test_a_question_to_other_records_than_reserved_is_refused_before_reading(reserved):
    for draw in DRAWS:
        if draw != reserved:
            with pytest.raises(GateError, match="other records than the plan reserved for"):
                gate_of(gaussian(0.1, reserved, label="q")).ask("q", question(draw))


@pytest.mark.parametrize("event", [KINDS[3], KINDS[4], KINDS[6], KINDS[7]], ids=lambda event: event.mechanism)
def test_a_sum_is_refused_where_another_kind_of_answer_was_reserved(event):
    event = replace(event, label="q", draw=WHOLE, coordinates=1, **({"chosen": 1} if event.mechanism == "gumbel_selection" else {}))
    with pytest.raises(GateError, match="more sensitive than the plan reserved for"):
        gate_of(event).ask("q", question(WHOLE))


class Choosing:
    draw, coordinates, smoothness, grid = WHOLE, 1, 1e-9, 1.0

    def score_sensitivity(self, adjacency):
        return 1e-9


def test_a_selection_or_smooth_release_is_refused_where_a_sum_was_reserved():
    reserved = gate_of(gaussian(0.1, label="q"))
    with pytest.raises(GateError, match="more sensitive"):
        reserved.select("q", Choosing())
    with pytest.raises(GateError, match="less smooth"):
        reserved.smooth_release("q", Choosing())


def test_a_selection_that_reaches_further_and_a_bound_that_is_less_smooth_are_refused():
    class Far(Choosing):
        smoothness = 0.0100001

        def score_sensitivity(self, adjacency):
            return 2.0000001

    chosen = replace(KINDS[3], label="q", draw=WHOLE, coordinates=1, chosen=1)
    with pytest.raises(GateError, match="more sensitive"):
        gate_of(chosen).select("q", Far())
    with pytest.raises(GateError, match="less smooth"):
        gate_of(replace(KINDS[4], label="q", coordinates=1)).smooth_release("q", Far())


def test_the_mass_of_an_event_is_counted_in_zcdp_too():
    assert cost([KINDS[6]], Currency.ZCDP).mass == math.ceil(Fraction(1e-7) / UNIT)
