"""The currency of plain addition, what binds a budget, and the share of delta that a lifetime keeps for lattices."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from nightfit.ledger import BudgetExceeded, Ledger, Policy, verify
from nightfit.nightly.fit import reservation_of
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.privacy.accounting import UNIT, Cost, Currency, epsilon_of, limit, short_of, tight_epsilon
from nightfit.privacy.events import GaussianEvent, SmoothGaussianEvent
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency

SHAPE = Preprocessing(features=("a", "b"), target="y", centre=(0.0, 0.0), scale=(1.0, 1.0), intercept=True)
UNKNOWN = replace(SHAPE, reach=(math.inf, math.inf))


def planned(currency, mean="sample_aggregate", epsilon=2.0, delta=1e-6, shape=SHAPE, **method):
    penalty = {"l2_ball" if mean == "sample_aggregate" else "l1_ball": 2.0}
    spec = Specification(
        name="m",
        data_set="d",
        preprocessing=shape,
        budget=Budget(epsilon=epsilon, delta=delta, currency=currency),
        loss=Squared(),
        penalty=penalty_of(penalty),
        method=Method(mean=mean, **method),
    )
    return make(spec, 50_000)


def ledger_of(currency, epsilon, delta=1e-5):
    ledger = Ledger.create("sqlite://")
    ledger.set_policy(Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=epsilon, delta=delta, currency=currency))
    return ledger


def reserve(ledger, plan, window):
    return ledger.reserve(reservation_of(plan, window=window, manifest=window, files=()))


def test_epsilons_and_deltas_add_and_each_of_them_binds():
    whole = limit(2.0, 1e-6, Currency.APPROXIMATE)
    assert (whole.amount * UNIT, whole.mass * UNIT) == (2, Fraction(1e-6))
    assert epsilon_of(whole, 1e-6, Currency.APPROXIMATE) == 2.0
    assert epsilon_of(whole, 0.99e-6, Currency.APPROXIMATE) == math.inf
    assert short_of(Cost(whole.amount + 1, 0), whole, Currency.APPROXIMATE) == "epsilon"
    assert short_of(Cost(0, whole.mass + 1), whole, Currency.APPROXIMATE) == "delta"
    assert short_of(Cost(0, whole.mass + 1), whole, Currency.GAUSSIAN).startswith("mass")


def test_a_fit_in_one_query_costs_what_it_is():
    plan = planned(Currency.APPROXIMATE)
    assert plan.cost == limit(2.0, 1e-6, Currency.APPROXIMATE)
    assert plan.epsilon == 2.0
    ledger = ledger_of(Currency.APPROXIMATE, 8.0)
    for night in range(4):
        reserve(ledger, plan, f"night {night}")
    with pytest.raises(BudgetExceeded, match="What binds is the epsilon"):
        reserve(ledger, plan, "night 4")
    assert verify(ledger) == []
    few = ledger_of(Currency.APPROXIMATE, 30.0, 2e-6)
    for night in range(2):
        reserve(few, plan, f"night {night}")
    with pytest.raises(BudgetExceeded, match="What binds is the delta"):
        reserve(few, plan, "night 2")


def test_a_refusal_names_the_currency_that_would_do():
    plan = planned(Currency.ZCDP, epsilon=4.0, scales="public")
    with pytest.raises(BudgetExceeded, match=r"would hold 2 such refits in the currency approximate \(in zcdp: 0\)"):
        reserve(ledger_of(Currency.ZCDP, 8.0), plan, "w")


@pytest.mark.parametrize("mean", ["vertex", "private_lasso"])
def test_selections_are_calibrated_to_their_pure_epsilons(mean):
    plan = planned(Currency.APPROXIMATE, mean=mean, bound=1.0, steps=10)
    spent = plan.cost
    assert spent.mass == 0
    assert 0.99 * 2 < float(spent.amount * UNIT) <= 2
    assert plan.epsilon <= 2


def test_gaussian_queries_have_no_price_there_and_the_refusal_says_the_cure():
    with pytest.raises(PlanError, match="give the data set a policy in the currency gaussian or zcdp"):
        planned(Currency.APPROXIMATE, mean="clipped", bound=1.0)
    with pytest.raises(PlanError, match="state the bounds of every column"):
        planned(Currency.APPROXIMATE, shape=UNKNOWN)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (4.0, 1e-8)])
def test_a_fit_in_one_query_and_its_scales_are_together_as_private_as_they_may_be(epsilon, delta):
    plan = planned(Currency.ZCDP, epsilon=epsilon, delta=delta, shape=UNKNOWN)
    aggregate = next(event for event in plan.events if isinstance(event, SmoothGaussianEvent))
    others = [event for event in plan.events if event is not aggregate]
    assert others
    assert aggregate.delta + delta / 2 <= delta
    assert aggregate.epsilon + tight_epsilon(others, delta / 2) <= epsilon
    assert 0.999 * epsilon < plan.epsilon <= epsilon


def test_a_plan_that_is_less_private_than_its_budget_is_refused(monkeypatch):
    """As when the one query spent the whole budget and the queries about scales came on top."""
    from nightfit.planning import defaults

    monkeypatch.setattr(defaults, "_beside", lambda spec, scales: defaults._whole_budget(spec))
    with pytest.raises(PlanError, match="more than the epsilon"):
        planned(Currency.ZCDP, shape=UNKNOWN)


def coarse(number):
    """One of a hundred queries on a grid so coarse that the mass of its lattice counts at epsilon 30."""
    return GaussianEvent(label=f"q{number}", sensitivity=2.0**34, sigma=2.0**36, coordinates=20, adjacency=Adjacency.REPLACE_ONE)


def test_a_large_lifetime_keeps_a_larger_share_of_delta_for_lattices_and_keeps_it():
    made = Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=30.0, delta=1e-5).made()
    plain = replace(made, lattice_share=None)
    assert made.lattice_share == 0.125
    assert Policy.from_dict(made.as_dict()) == made
    assert "lattice_share" not in plain.as_dict()
    assert replace(plain, epsilon=8.0).made() == replace(plain, epsilon=8.0)
    assert made.limit().mass > 1000 * plain.limit().mass
    assert 0.98 < made.limit().amount / plain.limit().amount < 1
    spent = made.cost([coarse(number) for number in range(100)])
    assert spent.fits(made.limit())
    assert not spent.fits(plain.limit())
    ledger = Ledger.create("sqlite://")
    for _ in range(2):
        ledger.set_policy(plain)
        assert ledger.policies()["d"] == made
    assert verify(ledger) == []


@pytest.mark.parametrize("share", [None, 0.125])
def test_the_limit_of_a_large_lifetime_is_that_lifetime_and_no_more(share):
    policy = Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=30.0, delta=1e-5, lattice_share=share)
    assert 29.5 < epsilon_of(policy.limit(), 1e-5, Currency.GAUSSIAN) <= 30.0
