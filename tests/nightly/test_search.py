"""A search over settings: what it costs, what it chooses, and that a repeated one leaves nothing but its winner."""

import json
import logging
import math
import os
import signal
import sqlite3
import time
import warnings
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dp_accounting.dp_event import GaussianDpEvent, RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from typer.testing import CliRunner

from nightfit.bundled import bundled
from nightfit.cli import app
from nightfit.config import Config, ConfigError, parse
from nightfit.ledger import BudgetExceeded, Ledger, LedgerError, Policy, verify
from nightfit.ledger.answers import text_of, unpack
from nightfit.ledger.history import exported
from nightfit.nightly import open_ledger, prepare, prepare_search, publish, reserve, run_fit
from nightfit.nightly.search import AllCharged, Repetition, Setting
from nightfit.planning.plan import PlanError
from nightfit.privacy.accounting import UNIT, Cost, Currency, cost, epsilon_of, tight_epsilon
from nightfit.privacy.events import GaussianEvent, RepeatedEvent, event_from_dict
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise, OperatingSystemNoise, SeededNoise
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.queries.loss_sums import LossSum, Margin
from nightfit.records.preprocessing import Preprocessing
from nightfit.release import Release, releases_in
from nightfit.release.words import in_words
from nightfit.shards.manifest import DataError
from nightfit.types import Adjacency, Block

ROWS = 600
GRID = {"model.penalty": [{}, {"l2": 5.0}], "method.steps": [2, 4]}


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(7)
    X = rng.uniform(-1, 1, (ROWS, 2))
    (tmp_path / "shards").mkdir()
    table = pa.table({"x0": X[:, 0], "x1": X[:, 1], "y": np.clip(0.8 * X[:, 0] - 0.5 * X[:, 1] + rng.normal(0, 0.1, ROWS), -1, 1)})
    pq.write_table(table, tmp_path / "shards" / "part.parquet")
    return tmp_path


def configured(place, *, currency: str = "zcdp", lifetime: float = 25.0, search: dict[str, Any] | None = None, **changes: Any) -> Config:
    content = {
        "name": "m",
        "data": {
            "name": "d",
            "path": "shards",
            "target": {"column": "y", "bounds": [-1, 1]},
            "default": {"kind": "number", "bounds": [-1, 1]},
        },
        "privacy": {"epsilon": 2.0, "delta": 1e-5, "lifetime": {"epsilon": lifetime, "delta": 1e-4, "currency": currency}},
        "method": {"steps": 3, "scales": "public"},
        "cluster": {"kind": "synchronous"},
        "search": {"epsilon": 15.0, "grid": GRID, **(search or {})},
        **changes,
    }
    return parse(content, place)


@pytest.fixture
def ledger(place):
    return Ledger.create(f"sqlite:///{place / 'ledger.db'}")


def searched(config: Config, **said: Any) -> Release:
    planned, ledger = prepare_search(config, **said), open_ledger(config)
    run = reserve(planned, ledger, unsafe=True, again=said.get("again", False))
    return publish(planned, ledger, run_fit(planned, ledger, run)).release


# what a repeated search costs


@pytest.mark.parametrize("rho", [1e-4, 0.01, 0.05, 0.5, 4.0])
@pytest.mark.parametrize("mean", [2, 12, 300])
def test_a_repeated_search_costs_no_less_than_another_accountant_says(rho, mean):
    """At every order, and in the epsilon that a ledger enforces; and hardly more, so that the bound is the theorem's."""
    event = RepeatedEvent(label="s", attempt_rho=rho, mean=mean, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    best = math.sqrt(math.log(mean) / rho)
    orders = np.sort(np.r_[1 + np.logspace(-2, 4, 900), max(1.0, best), 1 + best])  # with those at which the theorem is best
    other = RdpAccountant(orders)
    other.compose(RepeatAndSelectDpEvent(GaussianDpEvent((2 * rho) ** -0.5), mean, 1))
    divergences = other._rdp
    ours = np.array([event.divergence(order) for order in orders])
    assert (ours >= divergences).all()
    assert (ours <= divergences * (1 + 1e-9)).all()
    assert (float(event.rho) * orders >= ours * (1 - 1e-12)).all()
    told = tight_epsilon((event,), 1e-6)
    fine = 1 + np.logspace(-2, 4, 5000)
    assert told >= compute_epsilon(fine, [event.divergence(order) for order in fine], 1e-6)[0] * (1 - 1e-9)
    assert told <= other.get_epsilon(1e-6) * 1.01
    for epsilon in (1.0, 8.0, 25.0):
        policy = Policy(data_set="d", adjacency=Adjacency.REPLACE_ONE, epsilon=epsilon, delta=1e-6, currency=Currency.ZCDP)
        enforced = epsilon_of(policy.cost((event,)), policy.delta, policy.currency, policy.renyi_order)
        assert enforced >= told * (1 - 1e-9)
        assert cost((event,), Currency.ZCDP).amount * UNIT == math.ceil(event.rho / UNIT) * UNIT


@pytest.mark.parametrize("mean", [2, 5, 40])
def test_the_divergence_of_the_best_of_many_is_below_its_bound(mean):
    """Exactly, for mechanisms of a few outcomes, best last: P[best <= y] = E F(y)^K = g F / (1 - (1 - g) F) with g = 1 / mean."""
    rng = np.random.default_rng(3)
    largest = 0.0
    for scale in (0.02, 0.3, 1.5):
        for _ in range(60):
            p = rng.dirichlet(np.ones(5))
            q = p * np.exp(rng.uniform(-scale, scale, 5))
            q /= q.sum()
            orders = np.geomspace(1.001, 200, 300)
            rho = max(renyi(p, q, a) / a for a in orders) * 1.001
            event = RepeatedEvent(label="s", attempt_rho=rho, mean=mean, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
            best, other = (np.diff((f := np.r_[0.0, np.cumsum(d)]) / mean / (1 - (1 - 1 / mean) * f)) for d in (p, q))
            for order in (1.5, 4.0, 30.0):
                found = renyi(best, other, order)
                assert found <= event.divergence(order)
                largest = max(largest, found / event.divergence(order))
    assert largest > 0.2  # the bound says something


def renyi(p, q, order):
    with np.errstate(over="ignore"):
        return math.log(float(np.sum(q * (p / q) ** order))) / (order - 1)


def test_a_repeated_search_is_not_priced_where_nobody_proved_a_price():
    event = RepeatedEvent(label="s", attempt_rho=0.02, mean=8, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    assert event_from_dict(event.as_dict()) == event
    for currency in (Currency.GAUSSIAN, Currency.PURE):
        with pytest.raises(ValueError, match="currency"):
            cost((event,), currency)
    with pytest.raises(ValueError, match="at least 2"):
        replace(event, mean=1)


def test_a_policy_that_priced_a_search_at_its_order_is_not_changed(place, ledger):
    config = configured(place, search={"payment": "repetition", "repetitions": 2})
    searched(config)
    kept = ledger.policies()["d"]
    with pytest.raises(LedgerError, match="repeated search"):
        ledger.set_policy(replace(kept, epsilon=20.0))
    assert ledger.single_order("d")


# the gate


class Coin:
    """An attempt that asks one question and remembers that it was made."""

    def __init__(self, made: list[int], number: int, score: float = 0.0, rho: float = 0.02) -> None:
        self.made, self.number, self.told = made, number, score
        sigma = 2.0**30 / math.sqrt(2 * rho)
        self.events = (GaussianEvent(label="g", sensitivity=2.0**30, sigma=sigma, coordinates=1, adjacency=Adjacency.ZERO_OUT),)

    def score(self, gate: Gate) -> float:
        self.made.append(self.number)
        gate.account.answered(self.events[0], np.array([self.number]))
        return self.told


class Kept:
    """An account in memory that counts what is written to it."""

    def __init__(self, *events):
        self.events, self.key, self.secret, self.written = {event.label: event for event in events}, bytes(16), bytes(32), {}

    def asked(self, event):
        return self.written.get(event.label)

    def answered(self, event, answer):
        self.written[event.label] = answer


def search_event(mean, rho=0.0200001):
    return RepeatedEvent(label="search", attempt_rho=rho, mean=mean, coordinates=3, adjacency=Adjacency.ZERO_OUT)


def test_the_number_of_attempts_is_geometric():
    """4,000 searches of mean 3 among 2: chi-square tests that a right sampler fails once in 1,000 times, at this seed never."""
    noise, lengths, chosen = SeededNoise(np.random.default_rng(11)), [], []
    for _ in range(4000):
        made: list[int] = []
        gate = Gate(account=Kept(search_event(3)), records=SimpleNamespace(), noise=noise)
        gate.repeat("search", [Coin(made, 0), Coin(made, 1)])
        lengths.append(len(made))
        chosen += made
    counts = np.bincount(np.minimum(lengths, 12), minlength=13)[1:]
    shares = np.array([(2 / 3) ** k / 3 for k in range(11)])
    assert chisquare(counts, 4000 * np.r_[shares, 1 - shares.sum()]).pvalue > 1e-3
    assert chisquare(np.bincount(chosen)).pvalue > 1e-3
    assert abs(np.mean(lengths) - 3) < 4 * math.sqrt(6 / 4000)


def test_the_best_attempt_is_kept_and_its_answers_come_back():
    noise = SeededNoise(np.random.default_rng(1))
    account = Kept(search_event(40))
    made: list[int] = []
    attempts = [Coin(made, number, score=abs(number - 2)) for number in range(5)]
    place, stored = Gate(account=account, records=SimpleNamespace(), noise=noise).repeat("search", attempts)
    assert place == 2
    assert set(made) == {0, 1, 2, 3, 4}
    assert stored.account.asked(attempts[2].events[0]).tolist() == [2]
    assert account.written["search"].tolist() == [2, 1, 2]
    with pytest.raises(GateError, match="no answer"):
        stored.account.asked(replace(attempts[2].events[0], label="other"))
    made.clear()
    again, _ = Gate(account=account, records=SimpleNamespace(), noise=noise).repeat("search", attempts)
    assert (again, made) == (2, [])


class Failing(Coin):
    """An attempt that fails after its answer, in the way that it is told."""

    def __init__(self, made: list[int], number: int, failure: BaseException | float) -> None:
        super().__init__(made, number)
        self.failure = failure

    def score(self, gate: Gate) -> float:
        super().score(gate)
        warnings.warn("a fact about an answer", RuntimeWarning, stacklevel=1)
        np.array([1e300]) * 1e300
        if isinstance(self.failure, BaseException):
            raise self.failure
        return float(self.failure)


FAILURES = (ValueError("a fact"), RuntimeError("a fact"), KeyError("a"), FloatingPointError("a fact"), AssertionError(), math.nan, math.inf)


@pytest.mark.parametrize("failure", FAILURES, ids=repr)
def test_an_attempt_that_fails_is_only_the_worst(failure):
    """No exception and no warning of an attempt is seen (warnings are errors here), and a failed one never wins against another."""
    made: list[int] = []
    account = Kept(search_event(40))
    attempts = [Failing(made, 0, failure), Coin(made, 1, score=1e300), Failing(made, 2, failure)]
    gate = Gate(account=account, records=SimpleNamespace(), noise=SeededNoise(np.random.default_rng(1)))
    assert gate.repeat("search", attempts)[0] == 1
    assert {0, 1, 2} == set(made)


def test_records_that_cannot_be_read_end_a_repeated_search():
    class Unreadable:
        def aggregate(self, query):
            raise DataError("restore the shard")

    class Reading(Coin):
        def score(self, gate: Gate) -> float:
            return float(gate.records.aggregate(None)[0])

    account = Kept(search_event(4))
    with pytest.raises(DataError, match="restore the shard"):
        Gate(account=account, records=Unreadable(), noise=NoNoise()).repeat("search", [Reading([], 0)])
    assert account.written == {}


@pytest.mark.parametrize("rho", [0.021, 0.5])
def test_attempts_that_cost_more_than_was_reserved_are_refused(rho):
    gate = Gate(account=Kept(search_event(4)), records=SimpleNamespace(), noise=NoNoise())
    made: list[int] = []
    with pytest.raises(GateError, match="cost more"):
        gate.repeat("search", [Coin(made, 0), Coin(made, 1, rho=rho)])
    with pytest.raises(GateError, match="not in the plan"):
        gate.repeat("another", [Coin(made, 0)])
    other = Coin(made, 0)
    other.events = (replace(other.events[0], adjacency=Adjacency.REPLACE_ONE),)
    with pytest.raises(GateError, match="not in the plan"):
        gate.repeat("search", [other])
    assert made == []
    assert gate.account.written == {}


# the score

EDGES = [math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, -0.0, 0.0, 1.0, -1.0]
numbers = st.one_of(st.floats(-3, 3), st.sampled_from(EDGES))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), loss=st.sampled_from([Squared(), Huber(delta=0.5), Logistic()]), bits=st.integers(8, 40))
def test_a_neighbour_moves_a_score_by_at_most_its_sensitivity(data, loss, bits):
    """Whatever a record says, whatever the weights are, however rows are cut; and a null record adds nothing."""
    rows, intercept = data.draw(st.integers(1, 5)), data.draw(st.booleans())
    free = data.draw(st.booleans())
    shape = Preprocessing(
        features=("a", "b"),
        target="y",
        centre=(0.0, 0.5),
        scale=(1.0, 2.0),
        reach=(math.inf, 1.0) if free else (),
        intercept=intercept,
        target_domain=loss.target,
    )
    fitted = (
        replace(shape, centre=(data.draw(st.floats(-2, 2)), 0.5), scale=(data.draw(st.floats(0.1, 9)), 2.0), reach=()) if free else shape
    )
    weights = np.array(data.draw(st.lists(numbers, min_size=shape.columns, max_size=shape.columns)))
    query = LossSum(loss=loss, margin=Margin.of(weights, fitted, shape), most=data.draw(st.sampled_from([1e-6, 1.0, 1e9])), bits=bits)
    raw = np.array(data.draw(st.lists(st.lists(numbers, min_size=2, max_size=2), min_size=rows, max_size=rows)))
    target = np.array(data.draw(st.lists(numbers, min_size=rows, max_size=rows)))
    other, said = raw.copy(), target.copy()
    other[0], said[0] = data.draw(st.lists(numbers, min_size=2, max_size=2)), data.draw(numbers)
    before, after = (query.chunk(shape.block(*one)) for one in ((raw, target), (other, said)))
    without, null = query.chunk(shape.block(raw[1:], target[1:])), np.array([[math.nan, 0.0]])
    assert abs(int(before[0]) - int(after[0])) <= query.sensitivity(Adjacency.REPLACE_ONE)
    for adjacency in (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE):
        assert abs(int(before[0]) - int(without[0])) <= query.sensitivity(adjacency)
    assert query.chunk(shape.block(null, np.array([1.0])))[0] == 0
    parts = [query.chunk(shape.block(raw[i : i + 1], target[i : i + 1])) for i in range(rows)]
    assert int(before[0]) == sum(int(part[0]) for part in parts)
    assert before.dtype == np.int64


@settings(max_examples=60, deadline=None)
@given(data=st.data(), bits=st.integers(8, 40))
def test_a_person_moves_a_score_by_at_most_its_sensitivity(data, bits):
    """Whatever rows a person has instead, and however many; with one row each, persons are records."""
    margin = Margin(weights=np.array(data.draw(st.lists(numbers, min_size=2, max_size=2))), centre=np.zeros(2), scale=np.ones(2))
    query = LossSum(loss=Squared(), margin=margin, most=data.draw(st.sampled_from([1e-6, 1.0, 1e9])), bits=bits)
    row = st.tuples(numbers, numbers, numbers)
    others = data.draw(st.lists(st.lists(row, min_size=1, max_size=4), max_size=3))
    persons = [data.draw(st.lists(row, min_size=1, max_size=9)) for _ in range(2)]

    def score(*people):
        rows = np.array([row for rows in people for row in rows]).reshape(-1, 3)
        starts = np.cumsum([0, *(len(rows) for rows in people)])
        return int(
            query.chunk(Block(rows[:, :2], rows[:, 2], np.repeat(np.arange(len(people)), np.diff(starts)).astype(np.uint64), starts))[0]
        )

    one, other = (score(person, *others) for person in persons)
    assert abs(one - other) <= query.sensitivity(Adjacency.REPLACE_ONE)
    assert abs(one - score(*others)) <= query.sensitivity(Adjacency.ZERO_OUT)
    alone = np.array(persons[0])
    records = int(query.chunk(Block(alone[:, :2], alone[:, 2]))[0])
    assert records == score(*([row] for row in persons[0]))


def test_the_sensitivity_of_a_score_is_reached_and_a_diverged_fit_has_the_worst():
    """Two bounds: a record that is predicted exactly becomes one that is not at all."""
    margin = Margin(weights=np.array([1.0]), centre=np.zeros(1), scale=np.ones(1))
    query = LossSum(loss=Squared(), margin=margin, most=0.5, bits=20)
    right, wrong = (query.chunk(Block(np.array([[1.0]]), np.array([y])))[0] for y in (1.0, 77.0))
    assert wrong - right == query.sensitivity(Adjacency.REPLACE_ONE) == 2 * query.sensitivity(Adjacency.ADD_REMOVE)
    lost = replace(query, margin=replace(margin, weights=np.array([math.nan])))
    assert lost.chunk(Block(np.array([[1.0]]), np.array([1.0])))[0] == 2**20


# the plan


def test_a_search_that_charges_all_costs_what_its_questions_add_to(place, ledger):
    for currency in ("gaussian", "zcdp"):
        plan = prepare_search(configured(place, currency=currency, search={"payment": "all"})).plan
        one = prepare(configured(place, currency=currency)).plan
        assert plan.procedure.payment == AllCharged()
        assert len(plan.events) == 2 * (2 + 1 + 4 + 1)
        assert len({event.label for event in plan.events}) == len(plan.events)
        spent = sum(float(event.mu_squared) for event in plan.events)
        fits = one.specification.budget.mu_squared()
        assert 4 * fits * 1.1 * (1 - 1e-6) <= spent <= 4 * fits * 1.1
        paid = cost(plan.events, Currency(currency))
        assert paid.amount == sum(cost((event,), Currency(currency)).amount for event in plan.events)
        assert plan.epsilon > one.epsilon


def grid_of(count: int) -> dict[str, list[Any]]:
    return {"model.penalty": [{"l2": float(number)} for number in range(1, count + 1)]}


def test_the_cheaper_payment_is_taken_and_both_are_told(place):
    """Few settings are charged one by one, many are repeated; a lifetime budget of few such searches fixes a good order for them."""
    kinds = {}
    for count in (2, 40):
        planned = prepare_search(configured(place, lifetime=12.0, search={"grid": grid_of(count), "epsilon": 30.0}))
        kinds[count] = type(planned.plan.procedure.payment)
        offers = planned.plan.procedure.offers
        shares = {offer.split(":")[0]: float(offer.split(" and ")[1].split()[0]) for offer in offers}
        assert min(shares, key=lambda name: shares[name]) == planned.plan.procedure.payment.name
        policy = configured(place, lifetime=12.0).policy()
        for payment, share in shares.items():
            named = configured(place, lifetime=12.0, search={"grid": grid_of(count), "epsilon": 30.0, "payment": payment})
            needed = policy.cost(prepare_search(named).plan.events)
            assert share == pytest.approx(needed.amount / policy.limit().amount, rel=1e-2)
        said = planned.explain()
        assert all(offer in said for offer in offers)
        assert "the cheaper" in said
        assert said.count("- model.penalty {l2: ") == count
    assert kinds == {2: AllCharged, 40: Repetition}


def test_without_a_policy_the_smaller_epsilon_is_the_cheaper(place):
    content = configured(place, search={"epsilon": 30.0}).model_dump(by_alias=True, exclude_unset=True, exclude={"folder"})
    del content["privacy"]["lifetime"]
    planned = prepare_search(parse(content, place))
    assert planned.plan.procedure.payment == AllCharged()
    assert "gaussian" in planned.explain()  # why it cannot be repeated


def test_the_chance_that_a_setting_is_tried_is_as_told(place):
    repeated = prepare_search(configured(place, search={"payment": "repetition", "repetitions": 6})).plan.procedure
    rng, tried = np.random.default_rng(5), 0
    for number in rng.geometric(1 / 6, 4000):
        tried += bool((rng.integers(4, size=number) == 0).any())
    assert abs(tried / 4000 - repeated.payment.probability_tried(len(repeated.settings))) < 4 * math.sqrt(0.25 / 4000)


def test_a_search_dearer_than_it_may_be_is_refused_before_anything_is_read(place, ledger):
    with pytest.raises(PlanError, match=r"more than search.epsilon 3"):
        prepare_search(configured(place, search={"epsilon": 3.0}))
    config = configured(place, lifetime=3.0)
    planned, opened = prepare_search(config), open_ledger(config)
    with pytest.raises(BudgetExceeded, match="Nothing was read or charged"):
        reserve(planned, opened)
    assert opened.runs() == []
    assert opened.spent("d") == Cost()


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"grid": {"data.bounds": [1, 2]}}, "cannot be searched"),
        ({"grid": {"model.kind": ["linear", "mean"]}}, "cannot be searched"),
        ({"grid": {"method.steps": [3]}}, "from 2 to 64 settings"),
        ({"grid": {"method.steps": list(range(1, 66))}}, "from 2 to 64 settings"),
        ({"grid": {"method.steps": [3, 3]}}, "different values"),
        ({"grid": {}}, "grid"),
        ({"grid": {"method": ["clipped", "soft"], "method.steps": [2, 3]}}, "not both"),
        ({"grid": {"method.stpes": [2, 3]}}, "did you mean 'steps'"),
        ({"grid": {"model.penalty": [{"l1": 1}, {"ll": 1}]}}, "ll"),
        ({"grid": {"model.loss": ["squared", "logistic"]}}, "predicts labels"),
        ({"grid": {"method.batch": [100, 200]}, "privacy": "zero_out"}, "Poisson"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"payment": "free"}, "payment"),
        ({"repetitions": 1}, "repetitions"),
        ({"payment": "repetition", "currency": "gaussian"}, "zcdp"),
    ],
)
def test_what_cannot_be_searched_is_refused_with_the_reason(place, search, message):
    said = dict(search)
    changes = {}
    if adjacency := said.pop("privacy", None):
        changes["privacy"] = {"epsilon": 2.0, "delta": 1e-5, "adjacency": adjacency}
    with pytest.raises((ConfigError, PlanError), match=message):
        prepare_search(configured(place, currency=said.pop("currency", "zcdp"), search=said, **changes))


def test_a_search_needs_its_section_a_target_and_central_trust(place):
    with pytest.raises(ConfigError, match="no `search` section"):
        prepare_search(configured(place).model_copy(update={"search": None}))
    with pytest.raises(ConfigError, match="write method as a section"):
        prepare_search(configured(place, method="clipped"))
    means = {"name": "d", "path": "shards", "default": {"kind": "number", "bounds": [-1, 1]}}
    with pytest.raises(PlanError, match=r"model\.kind linear"):
        prepare_search(
            configured(place, data=means, model={"kind": "mean"}, search={"grid": {"method.mean": ["clipped", "threshold"]}}, method={})
        )
    unbounded = {"name": "d", "path": "shards", "target": "y"}
    with pytest.raises(ConfigError, match=r"search\.bound"):
        prepare_search(configured(place, data=unbounded, method="auto", search={"grid": {"model.penalty": [{}, {"l2": 1.0}]}}))


# whole searches


def exact_scores(config: Config) -> dict[str, float]:
    """Mean clipped losses of all settings, without noise, by numpy alone; in units of the scaled target, bounds are -1 and 1."""
    table = pq.read_table(config.folder / "shards" / "part.parquet").to_pandas()
    found = {}
    for setting in prepare_search(config).plan.procedure.settings:
        release = refitted(with_setting(config, setting))
        coef, intercept = release.content["coef"], release.content["intercept"]
        prediction = coef["x0"] * table["x0"] + coef["x1"] * table["x1"] + intercept
        found[in_words(setting.values)] = float(np.minimum((prediction - table["y"]) ** 2 / 2, 0.5).mean())
    return found


def with_setting(config: Config, setting: Setting) -> Config:
    content = config.model_dump(by_alias=True, exclude_unset=True, exclude={"search", "folder"})
    content["model"] = {"penalty": setting.values["model.penalty"]}
    content["method"] = {"steps": setting.values["method.steps"], "scales": "public"}
    return parse({**content, "name": f"s{setting.values['method.steps']}-{len(setting.values['model.penalty'])}"}, config.folder)


def refitted(config: Config) -> Release:
    planned, ledger = prepare(config), open_ledger(config)
    return run_fit(planned, ledger, reserve(planned, ledger, unsafe=True))


@pytest.mark.parametrize("payment", ["all", "repetition"])
def test_the_setting_with_the_least_loss_is_released(place, ledger, payment, monkeypatch):
    """Without noise, against numpy: the best of all, or the best of those that were tried."""
    attempts = counted(monkeypatch)
    config = configured(place, lifetime=30.0, unsafe={"noise": "none"}, search={"payment": payment, "repetitions": 10, "epsilon": 30.0})
    expected = exact_scores(config)
    release = searched(config)
    tried = expected if payment == "all" else {in_words(setting.values) for setting, _ in attempts}
    best = min(tried, key=lambda said: expected[said])
    assert in_words(release.content["search"]["chosen"]) == best
    scores = {in_words(told["setting"]): told["score"] for told in release.content["search"]["scores"]}
    assert scores == pytest.approx(expected if payment == "all" else {best: expected[best]}, abs=1e-9)
    assert not release.private
    assert release.content["plan"]["penalty"]["kind"] == ("none" if release.content["search"]["chosen"]["model.penalty"] == {} else "l2")


def test_persons_are_scored_by_the_mean_of_their_rows(place, ledger):
    """Without noise, against numpy: a third of the persons have one row, a third two and a third three."""
    path = place / "shards" / "part.parquet"
    persons = np.repeat(np.arange(300), np.arange(300) % 3 + 1)[:ROWS]
    pq.write_table(pq.read_table(path).append_column("patient", pa.array(persons)), path)
    data = {"name": "d", "path": "shards", "target": {"column": "y", "bounds": [-1, 1]}, "default": {"kind": "number", "bounds": [-1, 1]}}
    data |= {"unit": "patient", "units": 300, "rows_per_unit": 3}
    config = configured(place, data=data, lifetime=30.0, unsafe={"noise": "none"}, search={"payment": "all", "epsilon": 30.0})
    table = pq.read_table(path).to_pandas()
    for told in searched(config).content["search"]["scores"]:
        setting = next(one for one in prepare_search(config).plan.procedure.settings if one.values == told["setting"])
        release = refitted(with_setting(config, setting))
        coef, intercept = release.content["coef"], release.content["intercept"]
        prediction = coef["x0"] * table["x0"] + coef["x1"] * table["x1"] + intercept
        losses = np.minimum((prediction - table["y"]) ** 2 / 2, 0.5).groupby(table["patient"]).mean()
        assert told["score"] == pytest.approx(losses.mean(), abs=1e-9)


@pytest.mark.parametrize("payment", ["all", "repetition"])
def test_a_finished_search_is_returned_and_paid_once(place, ledger, payment, monkeypatch):
    config = configured(place, search={"payment": payment, "repetitions": 3})
    first = searched(config)
    plan = prepare_search(config).plan
    spent = ledger.spent("d")
    assert spent == ledger.policies()["d"].cost(plan.events)
    assert first.content["guarantee"]["epsilon"] == plan.epsilon <= 15.0
    assert first.content["plan_digest"] == plan.digest()
    assert first.content["events"] == [event.as_dict() for event in plan.events]
    assert first.name == "m-search"
    assert verify(ledger, [(name, release.claim) for name, release in releases_in(place / "releases")]) == []
    monkeypatch.setattr("nightfit.nightly.execution.ShardedDataset", None)
    assert searched(config).content == first.content
    assert searched(config, resume=first.run_id).content == first.content
    assert ledger.spent("d") == spent
    monkeypatch.undo()
    other = searched(config, again=True)
    assert other.run_id != first.run_id
    assert ledger.spent("d").amount == 2 * spent.amount


def test_a_refit_and_a_search_of_one_configuration_are_different_runs(place, ledger):
    config = configured(place)
    refit, search = refitted(config), searched(config)
    assert {refit.name, search.name} == {"m", "m-search"}
    assert [run["model"] for run in ledger.runs()] == ["m", "m-search"]
    both = prepare(config).plan.cost.amount + cost(prepare_search(config).plan.events, Currency.ZCDP).amount
    assert ledger.spent("d").amount == both


def counted(monkeypatch) -> list[tuple[Setting, dict[str, list[int]]]]:
    """Every attempt that is made, with all that it was answered."""
    attempts: list[tuple[Setting, dict[str, list[int]]]] = []
    honest = Setting.score

    def score(self, gate):
        told = honest(self, gate)
        attempts.append((self, {label: answer.tolist() for label, answer in gate.account.answers.items()}))
        return told

    monkeypatch.setattr(Setting, "score", score)
    return attempts


def test_a_repeated_search_keeps_nothing_but_the_winner(place, ledger, monkeypatch, capfd, caplog):
    """Every noisy number of every loser is looked for in all files, logs and output; and how many there were changes no file's shape."""
    caplog.set_level(logging.DEBUG)
    attempts = counted(monkeypatch)
    shapes, lines = set(), set()
    for window, wanted in (("one", 1), ("two", 3), ("three", 9)):
        attempts.clear()
        monkeypatch.setattr(Config, "noise", lambda config, wanted=wanted: Scripted(wanted))
        data = {
            "name": "d",
            "path": "shards",
            "target": {"column": "y", "bounds": [-1, 1]},
            "default": {"kind": "number", "bounds": [-1, 1]},
            "window": window,
        }
        config = configured(place, data=data, lifetime=30.0, search={"payment": "repetition", "repetitions": 8})
        before = len(entries(place))
        release = searched(config)
        assert len(attempts) == wanted
        written = entries(place)[before:]
        kinds = [kind for kind, _ in written]
        assert kinds == (["policy"] if window == "one" else []) + ["reserved", "asked", "answered", "finished"]
        stored = json.loads(written[kinds.index("answered")][1])["answer"]
        printed = capfd.readouterr()
        left = json.dumps([exported(ledger), printed, caplog.text, release.content, written])
        ours = [record for record in caplog.records if record.name.startswith(("root", "pipeline"))]
        lines.add((len("".join(printed).splitlines()), len(ours)))
        caplog.clear()
        everything = left.encode() + b"".join(path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file())
        winners = [answers for _, answers in attempts if all(value in stored for answer in answers.values() for value in answer)]
        assert len(winners) == 1
        for _, answers in attempts:
            for value in [value for answer in answers.values() for value in answer if abs(value) > 10**9]:
                assert (str(value).encode() in everything) == (answers in winners)
        shapes.add(json.dumps(shape(release.content)))
    assert len(shapes) <= 2  # with a penalty or without
    assert lines == {(0, 0)}


class Scripted:
    """Real noise, and as many attempts as are wanted: the coin of mean 8 shows zero only then."""

    private = True

    def __init__(self, wanted: float) -> None:
        self.wanted, self.real = wanted, OperatingSystemNoise()

    def discrete_gaussian(self, values, sigma):
        return self.real.discrete_gaussian(values, sigma)

    def uniform_integer(self, count: int) -> int:
        if count != 8:
            return self.real.uniform_integer(count)
        self.wanted -= 1
        return int(self.wanted > 0)


def shape(content: Any) -> Any:
    """What kind of thing stands where, without lengths that the winner's steps give."""
    if isinstance(content, dict):
        return {name: shape(value) for name, value in content.items() if name not in ("said", "setting", "chosen", "penalty")}
    return [shape(content[0])] if isinstance(content, list) and content else type(content).__name__


def entries(place):
    """Kind and text of every entry, packed answers too."""
    with closing(sqlite3.connect(f"file:{place / 'ledger.db'}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT kind, body, packed FROM entry LEFT JOIN answer USING (seq) ORDER BY seq").fetchall()
    return [(kind, body if packed is None else text_of(unpack(packed))) for kind, body, packed in found]


@pytest.mark.process
@pytest.mark.parametrize(("payment", "until"), [("all", 2 + 2 * (2 + 1) + 2 * (4 + 1)), ("repetition", 3)])
def test_a_search_that_is_killed_is_gone_on_with_under_one_charge(place, ledger, payment, until, monkeypatch):
    """SIGKILL of a forked process in its third fit; a repetition has written then that it was asked, and nothing else."""
    config = configured(place, lifetime=30.0, search={"payment": payment, "repetitions": 8, "epsilon": 30.0})
    open_ledger(config)
    ledger.engine.dispose()
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        honest, fits = Setting.fit, []

        def fitted(self, *given):
            fits.append(self)
            if len(fits) == 3:
                os.write(told, b"!")
                time.sleep(600)
            return honest(self, *given)

        monkeypatch.setattr(Setting, "fit", fitted)
        monkeypatch.setattr(Config, "noise", lambda config: Scripted(math.inf))
        try:
            searched(config)
        finally:
            os._exit(1)
    os.close(told)
    assert os.read(ready, 1) == b"!"
    assert len(entries(place)) == until
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    kinds = [kind for kind, _ in entries(place)]
    if payment == "repetition":
        assert kinds == ["policy", "reserved", "asked"]
    assert "finished" not in kinds
    release = searched(config)
    plan = prepare_search(config).plan
    assert ledger.spent("d") == ledger.policies()["d"].cost(plan.events)
    assert len(ledger.runs()) == 1
    assert verify(ledger, [("release", release.claim)]) == []


def test_columns_without_bounds_are_scored_as_they_are_predicted(place, ledger):
    """The automatic method pays for a column's bounds; a score must clamp by them, as the release does."""
    data = {"name": "d", "path": "shards", "target": {"column": "y", "bounds": [-1, 1]}}
    config = configured(
        place,
        data=data,
        method="auto",
        lifetime=30.0,
        unsafe={"noise": "none"},
        search={"grid": {"model.penalty": [{}, {"l2": 0.1}]}, "payment": "all"},
    )
    release = searched(config)
    table = pq.read_table(place / "shards" / "part.parquet").to_pandas()
    shape = release.preprocessing
    X, _ = shape.features_of(table[["x0", "x1"]].to_numpy())
    loss = np.minimum((X @ release.weights - table["y"]) ** 2 / 2, 0.5).mean()
    (told,) = [tried["score"] for tried in release.content["search"]["scores"] if tried["setting"] == release.content["search"]["chosen"]]
    assert told == pytest.approx(loss, abs=1e-4)


def test_the_command_searches_the_bundled_data_and_its_ledger_is_whole(tmp_path):
    features = ["lncoins", "idp", "physlm"]
    content = f"""
name: visits
data: {{name: randhie, path: {bundled("randhie")}, target: {{column: mdvis, bounds: [-10, 10]}},
  columns: {{{", ".join(f"{name}: {{kind: number, bounds: [-10, 10]}}" for name in features)}}}}}
privacy: {{epsilon: 0.5, delta: 1.0e-6, lifetime: {{epsilon: 6, delta: 1.0e-5, currency: zcdp}}}}
method: {{steps: 4}}
search: {{epsilon: 4, payment: repetition, repetitions: 2, grid: {{model.penalty: [{{}}, {{l1: 0.5}}]}}}}
cluster: {{kind: synchronous}}
"""
    (tmp_path / "refit.yaml").write_text(content)

    def nightfit(*words):
        said = CliRunner().invoke(app, [*words], catch_exceptions=False)
        assert said.exit_code == 0, said.output
        return " ".join(said.output.split())

    config = str(tmp_path / "refit.yaml")
    nightfit("ledger", "init", "--config", config)
    told = nightfit("plan", config)
    assert "Plan of `nightfit search`" in told
    assert "Payment: repetition" in told
    assert nightfit("search", config, "--plan").count("model.penalty") == 2
    assert not (tmp_path / "releases").exists()
    found = json.loads(nightfit("search", config, "--json"))
    assert found["search"]["payment"] == "repetition"
    assert json.loads(nightfit("search", config, "--json"))["run"] == found["run"]
    assert "Best: model.penalty" in nightfit("search", config)
    assert "paid for every release (1)" in nightfit("ledger", "verify", "--config", config, "--releases", str(tmp_path / "releases"))
    lines = [line for line in CliRunner().invoke(app, ["ledger", "export", "--config", config]).output.splitlines() if line]
    (event,) = [json.loads(line)["event"] for line in lines]
    other = RdpAccountant(1 + np.logspace(-2, 4, 400))
    other.compose(RepeatAndSelectDpEvent(GaussianDpEvent((2 * event["attempt_rho"]) ** -0.5), event["mean"], 1))
    assert found["guarantee"]["epsilon"] >= other.get_epsilon(1e-6)
    assert found["guarantee"]["epsilon"] == pytest.approx(other.get_epsilon(1e-6), rel=1e-6)
    assert "Search" in (tmp_path / "releases" / found["run"] / "report.html").read_text()


@pytest.mark.parametrize("payment", ["all", "repetition"])
def test_settings_on_disjoint_parts_are_searched_at_the_cost_of_one_part_each(place, ledger, payment):
    method = {"steps": 3, "batch": "splits"}
    config = configured(place, method=method, search={"payment": payment, "repetitions": 3, "grid": {"model.penalty": [{}, {"l2": 1.0}]}})
    release = searched(config)
    plan = prepare_search(config).plan
    one = prepare(config).plan.specification.budget.mu_squared() / 2
    if payment == "all":
        assert 2.2 * one * (1 - 1e-6) <= float(cost(plan.events, Currency.ZCDP).amount * UNIT) <= 2.2 * one
    else:
        assert 1.1 * one * (1 - 1e-6) <= plan.events[0].attempt_rho <= 1.1 * one
    assert np.isfinite(release.weights).all()
    assert ledger.spent("d") == ledger.policies()["d"].cost(plan.events)
