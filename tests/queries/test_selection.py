"""Selection: what the gate chooses, what it costs, and the sparse and l1 methods that step by it.

Seeded draws cannot fail by chance. Where the operating system's noise is drawn, a false alarm has probability at most LEVEL per test.
"""

import dataclasses
import itertools
import json
import math
import re

import numpy as np
import opendp.prelude as dp
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, chi2
from sklearn.linear_model import Lasso

from nightfit.config import load
from nightfit.ledger import Ledger, Policy, Reservation
from nightfit.methods.loop.gradient_estimators import Allowance, Point
from nightfit.methods.loop.gradient_estimators.hard_thresholding import HardThresholding
from nightfit.methods.loop.gradient_estimators.private_lasso import ShrunkenVertex
from nightfit.methods.loop.gradient_estimators.vertex import Vertex
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.nightly.fit import fit
from nightfit.numerics.prf import slots_of
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.privacy.accounting import UNIT, Currency, cost, limit, tight_epsilon
from nightfit.privacy.events import GaussianEvent, SelectionEvent
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise, OperatingSystemNoise, SeededNoise
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.l1_ball import L1Ball
from nightfit.problem.penalties.sparsity import Sparsity
from nightfit.queries.base import Summed
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.boundings.phi import Phi
from nightfit.queries.column_subset import ChosenColumns
from nightfit.queries.gradient_sums import GradientSum, Magnitudes, Vertices
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import WHOLE, Adjacency, Block, Part, parts_of

LEVEL = 1e-9
KEY = b"0123456789abcdef"


def selection(chosen=1, coordinates=4, sensitivity=2.0, scale=8.0, draw=WHOLE, label="q", removal=None):
    return SelectionEvent(
        label=label,
        sensitivity=sensitivity,
        scale=scale,
        chosen=chosen,
        coordinates=coordinates,
        adjacency=Adjacency.REPLACE_ONE,
        draw=draw,
        removal=removal,
    )


@dataclasses.dataclass
class Free:
    """An account that pays for every question and keeps no answer."""

    events: dict
    key: bytes = KEY

    def asked(self, event):
        return None

    def answered(self, event, answer):
        pass


@dataclasses.dataclass(frozen=True)
class Scores(Summed):
    """Records that have these scores, which one of them moves by at most `contributions_changed`."""

    scores: np.ndarray
    moved: float = 2.0
    draw: Part = WHOLE

    @property
    def coordinates(self):
        return len(self.scores)

    def score_sensitivity(self, adjacency):
        return self.moved

    def chunk(self, block):
        return np.asarray(self.scores)

    def finalise(self, total):
        return total

    def aggregate(self, query):
        return np.asarray(self.scores)


def selected(scores, event, noise, runs):
    asked = Scores(np.array(scores))
    gate = Gate(account=Free({event.label: event}), records=asked, noise=noise)
    return [tuple(gate.select(event.label, asked).tolist()) for _ in range(runs)]


def peeled(scores, scale, chosen):
    """The probability of every sequence of choices by exponential mechanisms exp(score / scale) without replacement."""
    weight = np.exp(np.array(scores) / scale)
    found = {}
    for sequence in itertools.permutations(range(len(scores)), chosen):
        left = 1 - np.cumsum([0, *weight[list(sequence[:-1])] / weight.sum()])
        found[sequence] = float(np.prod(weight[list(sequence)] / weight.sum() / left))
    return found


def misfit(drawn, probabilities):
    """Pearson's statistic of drawn sequences, in units of the largest one that happens with probability LEVEL."""
    expected = np.array(list(probabilities.values())) * len(drawn)
    counts = np.array([drawn.count(sequence) for sequence in probabilities])
    return float(((counts - expected) ** 2 / expected).sum() / chi2.isf(LEVEL, len(expected) - 1))


def test_an_exponential_mechanism_costs_an_eighth_of_its_squared_epsilon_and_not_less():
    """D_alpha / alpha <= epsilon^2 / 8 for pairs of bounded range epsilon, of which two outcomes are the worst; it is nearly reached."""
    largest = 0.0
    for epsilon in (0.01, 0.3, 1.0, 4.0):
        odds = np.exp(np.linspace(-6, 6, 241) + epsilon / 2)
        p = np.stack([odds / (1 + odds), 1 / (1 + odds)])
        q = np.stack([odds / (odds + math.exp(epsilon)), 1 / (1 + odds * math.exp(-epsilon))])
        for order in (1.01, 1.5, 2.0, 5.0, 30.0):
            divergence = np.log((p**order * q ** (1 - order)).sum(axis=0)) / (order - 1)
            largest = max(largest, float((divergence / order / (epsilon**2 / 8)).max()))
    assert 0.999 < largest <= 1


@pytest.mark.parametrize("chosen", [1, 2])
@pytest.mark.parametrize(
    ("noise", "runs"), [(SeededNoise(np.random.default_rng(5)), 20_000), (OperatingSystemNoise(), 1_000)], ids=["seeded", "OpenDP"]
)
def test_selection_has_the_distribution_of_the_exponential_mechanism(chosen, noise, runs):
    """One-shot Gumbel top-k is peeling: each sequence is as likely as by `chosen` exponential mechanisms with
    epsilon_0 / (2 sensitivity) = 1 / scale, one after the other.
    """
    scores, event = [0, 10, -6, 4], selection(chosen)
    drawn = selected(scores, event, noise, runs)
    assert math.isclose(sum(peeled(scores, 8.0, chosen).values()), 1)
    assert misfit(drawn, peeled(scores, event.scale, chosen)) < 1
    assert misfit(drawn, peeled(scores, event.scale / 2, chosen)) > 1


@pytest.mark.parametrize("chosen", [1, 3, 40])
@pytest.mark.parametrize(("reach", "scale"), [(2.0, 8.0), (2.0**41, 2.0**43.7)])
def test_opendp_asks_no_more_for_a_selection_than_its_event_declares(chosen, reach, scale):
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=100), dp.linf_distance(T="i64", monotonic=False)
    theirs = dp.m.make_noisy_top_k(*space, dp.zero_concentrated_divergence(), k=chosen, scale=scale).map(int(reach))
    ours = float(selection(chosen, 100, reach, scale).rho)
    assert ours * (1 - 1e-12) <= theirs <= ours * (1 + 1e-12)
    assert ours == pytest.approx(chosen * (2 * reach / scale) ** 2 / 8, rel=1e-12)


def caught(noise, neighbours=([0, 6], [2, 4]), runs=2_000):
    """A lower bound of the log ratio by which neighbours' probabilities of a choice differ, wrong with probability at most LEVEL.

    Clopper and Pearson (1934) on either side; the first score is moved up by the whole sensitivity, the other down.
    """
    event = selection(coordinates=2, sensitivity=2.0, scale=2.0)  # epsilon_0 = 2
    least, most = (sum(place == (0,) for place in selected(scores, event, noise, runs)) for scores in neighbours)
    return math.log(beta.ppf(LEVEL / 2, most, runs - most + 1) / beta.isf(LEVEL / 2, least + 1, runs - least))


class Weaker(SeededNoise):
    """A sampler that draws half of the noise that was paid for."""

    def largest(self, scores, count, scale):
        return super().largest(scores, count, scale / 2)


def test_an_attacker_does_not_catch_the_right_gumbel_noise_and_catches_half_of_it():
    claimed = float(selection(coordinates=2, sensitivity=2.0, scale=2.0).pure[0])
    assert 0 < caught(OperatingSystemNoise()) <= claimed
    assert caught(Weaker(np.random.default_rng(0))) > claimed


def test_a_choice_more_sensitive_than_was_reserved_is_refused_before_reading():
    event = selection()
    for scores in (Scores(np.zeros(4, dtype=np.int64), moved=math.nextafter(2.0, 3)), Scores(np.zeros(4, dtype=np.int64), moved=math.nan)):
        with pytest.raises(GateError, match="more sensitive"):
            Gate(account=Free({"q": event}), records=None, noise=NoNoise()).select("q", scores)


# -- neighbours ---------------------------------------------------------------------------------------------------------------------

NASTY = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e-300, 1e154, 1e308, -1e308, math.inf, -math.inf, math.nan]
numbers = st.one_of(st.sampled_from(NASTY), st.floats(-2, 2), st.floats())


@st.composite
def neighbours(draw, columns=3):
    """Two blocks that differ in one record, and how."""
    adjacency = draw(st.sampled_from(list(Adjacency)))
    rows = draw(st.integers(1, 5))
    row = st.lists(numbers, min_size=columns + 1, max_size=columns + 1)
    first = np.array([draw(row) for _ in range(rows)])
    second = first.copy()
    second[draw(st.integers(0, rows - 1))] = draw(row) if adjacency is Adjacency.REPLACE_ONE else 0.0
    slots = slots_of("test", 0, rows)
    return adjacency, *(Block(np.ascontiguousarray(data[:, :-1]), data[:, -1].copy(), slots) for data in (first, second))


def sums(bounding=None, weights=(0.5, -0.25, 0.125), bits=30, draw=WHOLE, loss=None):
    return GradientSum(
        loss=loss or Squared(), bounding=bounding or CoordinateClip(bound=1.0), weights=np.array(weights), bits=bits, key=KEY, draw=draw
    )


def point(weights=(0.0, 0.0, 0.0), units=100, bits=30, adjacency=Adjacency.REPLACE_ONE, loss=None, draw=WHOLE):
    return Point(
        loss=loss or Squared(),
        weights=np.array(weights),
        previous=np.zeros(len(weights)),
        units=units,
        bits=bits,
        adjacency=adjacency,
        draw=draw,
        key=KEY,
    )


CHOICES = {
    "magnitudes": Magnitudes(sums=sums(), offsets=np.array([2.0**33, -(2.0**40)])),
    "far magnitudes": Magnitudes(sums=sums(), offsets=np.array([1e300, -math.inf, math.nan])),
    "vertices": Vertices(sums=sums(Phi(scale=0.7))),
    "lasso": Vertices(sums=ShrunkenVertex(bound=0.5, penalty=L1Ball(radius=2.0)).sums(point((1.0, -0.5, 0.5)))),
    "part": Vertices(sums=sums(draw=Part(0, 2**31))),
}


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
@settings(max_examples=150, deadline=None)
@given(pair=neighbours())
def test_a_neighbour_moves_no_score_by_more_than_the_reach(choice, pair):
    adjacency, first, second = pair
    one, other = (choice.finalise(choice.chunk(block)) for block in (first, second))
    assert one.dtype == np.int64
    assert one.shape == (choice.coordinates,)
    assert max(abs(int(a) - int(b)) for a, b in zip(one, other, strict=True)) <= choice.score_sensitivity(adjacency)


@settings(max_examples=150, deadline=None)
@given(pair=neighbours(), places=st.sampled_from([[0], [2, 0], [1, 2], [0, 1, 2]]))
def test_a_neighbour_moves_chosen_columns_by_at_most_the_sensitivity(pair, places):
    adjacency, first, second = pair
    query = ChosenColumns(query=sums(), places=np.array(places))
    one, other = (query.finalise(query.chunk(block)) for block in (first, second))
    assert math.dist(one.tolist(), other.tolist()) <= query.sensitivity(adjacency)


def test_the_reach_is_attained():
    block = Block(np.ones((1, 3)), np.array([1e300]), slots_of("test", 0, 1))
    for choice in (CHOICES["vertices"], Vertices(sums=sums())):
        one, other = (choice.finalise(choice.chunk(Block(block.X, sign * block.y, block.slots))) for sign in (1, -1))
        assert np.abs(one - other).max() == choice.score_sensitivity(Adjacency.REPLACE_ONE)


def test_scores_at_far_offsets_do_not_overflow():
    block = Block(np.ones((2, 3)), np.array([9.0, -9.0]), slots_of("test", 0, 2))
    choice = Magnitudes(sums=sums(), offsets=np.array([1e300, -math.inf, math.nan]))
    scores = choice.finalise(choice.chunk(block) + np.array([-(2**61), 2**61, 7]))
    assert scores.tolist() == [2**62 + 2**61, 2**62 + 2**61, 7]


def test_chosen_columns_are_those_of_the_whole_sum():
    rng = np.random.default_rng(0)
    block = Block(rng.uniform(-1, 1, (300, 40)), rng.normal(size=300), slots_of("test", 0, 300))
    weights = np.where(np.arange(40) % 9 == 0, 0.25, 0.0)
    for draw in (WHOLE, Part(0, 2**31)):
        whole = sums(weights=weights, draw=draw)
        query = ChosenColumns(query=whole, places=np.array([7, 3, 39]))
        apart = query.finalise(query.chunk(block)) - whole.finalise(whole.chunk(block))[[7, 3, 39]]
        assert np.abs(apart).max() <= 300  # a margin may be summed in another order: one step for a record


@pytest.mark.parametrize("places", [[0, 0], [3], [-1]])
def test_places_that_are_no_set_of_columns_are_refused(places):
    with pytest.raises(ValueError, match="different columns among 3"):
        ChosenColumns(query=sums(), places=np.array(places))


# -- plans --------------------------------------------------------------------------------------------------------------------------


def specification(features, penalty, loss=None, intercept=True, epsilon=1.0, currency=Currency.ZCDP, clamped=False, **method):
    shape = Preprocessing(
        features=tuple(f"x{j}" for j in range(features)),
        target="y",
        centre=(0.0,) * features,
        scale=(1.0,) * features,
        target_reach=(-1.0, 1.0) if clamped else (-math.inf, math.inf),
        intercept=intercept,
    )
    return Specification(
        name="m",
        data_set="d",
        preprocessing=shape,
        budget=Budget(epsilon=epsilon, delta=1e-6, currency=currency),
        loss=loss or Squared(),
        penalty=penalty_of(penalty),
        method=Method(**{"scales": "public", **method}),
    )


SPARSE = {"mean": "hard_thresholding"}, {"sparsity": 3}
BALL = {"l1_ball": 2.0}
METHODS = {
    "hard_thresholding": SPARSE,
    "frank_wolfe": ({"solver": "frank_wolfe"}, BALL),
    "private_lasso": ({"mean": "private_lasso"}, BALL),
}
every_method = pytest.mark.parametrize(("method", "penalty"), METHODS.values(), ids=METHODS)


def fitted(said, X, y, noise=None):
    plan, ledger = make(said, len(y)), Ledger.create("sqlite://")
    ledger.set_policy(Policy(data_set="d", epsilon=1.0, delta=1e-6, adjacency=said.budget.adjacency, currency=Currency.ZCDP))
    run = ledger.reserve(
        Reservation(model="m", data_set="d", unit="record", plan=plan.digest(), events=plan.events, window="w", manifest="w", files=())
    )
    return fit(plan, ArrayRecords(X, y, said.preprocessing), run, noise or NoNoise())


@every_method
def test_a_method_is_one_name_and_fits_its_budget(method, penalty):
    plan = make(specification(10, penalty, **method), 1000)
    assert plan.cost.fits(plan.specification.budget.ceiling())
    assert 0.4 < plan.epsilon <= 1
    assert json.loads(json.dumps(plan.as_dict(), allow_nan=False))["solver"]["kind"] in ("assignment", "frank_wolfe")
    assert "nan" not in plan.explain()


@every_method
def test_the_currency_gaussian_refuses_with_the_cure(method, penalty):
    with pytest.raises(PlanError, match=r"gumbel_selection.*privacy.lifetime.currency: zcdp"):
        make(specification(10, penalty, currency=Currency.GAUSSIAN, **method), 1000)


@every_method
def test_splits_cost_what_one_of_them_costs(method, penalty):
    splits, full = (make(specification(10, penalty, **method, steps=8, batch=batch), 10_000) for batch in ("splits", "full"))
    per_step = len(splits.events) // 8
    assert splits.cost == cost(splits.events[:per_step], Currency.ZCDP)
    assert {event.draw for event in splits.events} == set(parts_of(8))
    assert splits.cost.amount == pytest.approx(full.cost.amount, rel=1e-9)
    assert full.cost.amount == pytest.approx(8 * cost(full.events[:per_step], Currency.ZCDP).amount, rel=1e-9)
    ratio = full.events[0].scale / full.events[0].sensitivity / (splits.events[0].scale / splits.events[0].sensitivity)
    assert ratio == pytest.approx(math.sqrt(8), rel=1e-9)


def test_each_method_has_its_usual_batch_and_steps():
    drawn = {name: {event.draw for event in make(specification(10, p, **m), 10_000).events} for name, (m, p) in METHODS.items()}
    assert set(map(frozenset, drawn.values())) == {frozenset({WHOLE})}
    assert make(specification(10, {"sparsity": 3}, **SPARSE[0]), 10_000).procedure.solver.steps == 10


@pytest.mark.parametrize("nonzeros", [1, 3])
@pytest.mark.parametrize("intercept", [0, 1])
def test_a_step_costs_what_it_may_and_half_of_it_for_the_choice(nonzeros, intercept):
    """b = lam sqrt(s / (2 rho_1)) for the choice, sigma = lam sqrt(s' / (2 rho_2)) for the s' = s + intercept values."""
    mean = HardThresholding(bound=1.0, step_size=0.5, features=5, penalty=Sparsity(nonzeros=nonzeros))
    allowed = Allowance(multiplier=3.0, epsilon=1.0, delta=1e-6)
    choice, values = mean.events(point(np.zeros(5 + intercept)), "q", allowed)
    assert isinstance(choice, SelectionEvent)
    assert isinstance(values, GaussianEvent)
    for event in (choice, values):
        assert allowed.rho / 2 * (1 - 1e-9) <= float(event.rho) <= allowed.rho / 2
    lam = 2 * 2.0**30
    assert (choice.sensitivity, choice.chosen, choice.coordinates) == (lam, nonzeros, 5)
    assert choice.scale == pytest.approx(lam * math.sqrt(nonzeros / allowed.rho))
    assert values.coordinates == nonzeros + intercept
    assert values.sigma == pytest.approx(lam * math.sqrt((nonzeros + intercept) / allowed.rho))


def test_a_selection_is_stated_by_its_pure_epsilon_where_that_is_smaller():
    one = selection(sensitivity=1.0, scale=4.0)  # epsilon_0 = 1/2
    assert tight_epsilon([one], 1e-6) == pytest.approx(0.5, rel=1e-6)
    assert tight_epsilon([one], 1e-6) >= 0.5
    parts = [selection(sensitivity=1.0, scale=4.0, draw=part, label=str(part), removal=0.5) for part in parts_of(9)]
    assert tight_epsilon(parts, 1e-6) == tight_epsilon([one], 1e-6)
    many = [selection(sensitivity=1.0, scale=40.0, label=str(number)) for number in range(400)]
    assert tight_epsilon(many, 1e-6) < 400 / 20 * 0.5
    gaussian = GaussianEvent(label="g", sensitivity=1.0, sigma=1e6, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    assert tight_epsilon([one, gaussian], 1e-6) > tight_epsilon([one], 1e-6)


@pytest.mark.parametrize(
    ("features", "penalty", "method", "match"),
    [
        (10, {"l1": 0.1}, {"mean": "hard_thresholding"}, "sparsity: that number"),
        (10, {"sparsity": 10}, {"mean": "hard_thresholding"}, "nothing to choose"),
        (10, {"l1": 0.1}, {"solver": "frank_wolfe"}, "l1_ball: its radius"),
        (10, {"sparsity": 2}, {"mean": "private_lasso"}, "l1_ball: its radius"),
        (10, {"l2_ball": 1.0}, {"mean": "vertex"}, "vertex chooses between .*l1_ball: its radius"),
        (10, {"l2_ball": 1.0}, {"mean": "private_lasso"}, "private_lasso chooses between .*l1_ball: its radius"),
        (10, BALL, {"mean": "private_lasso", "loss": Huber()}, "set model.loss to squared"),
        (10, BALL, {"mean": "vertex", "step_size": 0.1}, "step_size means nothing"),
        (10, BALL, {"mean": "vertex", "averaged": 2}, "averaged means nothing"),
        (10, {"sparsity": 2}, {"mean": "hard_thresholding", "batch": 100}, "Poisson samples"),
        (10, BALL, {"mean": "vertex", "solver": "proximal_gradient"}, "name only one of them"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_cure(features, penalty, method, match):
    said = specification(features, penalty, **method)
    said = dataclasses.replace(said, budget=dataclasses.replace(said.budget, adjacency=Adjacency.ZERO_OUT))
    with pytest.raises(PlanError, match=match):
        make(said, 1000)


def test_an_estimate_that_is_a_fit_by_itself_has_one_step(monkeypatch):
    """Each would cost the whole budget, so more of them are refused."""
    monkeypatch.setattr(HardThresholding, "one_shot", True)
    assert make(specification(10, {"sparsity": 3}, **SPARSE[0]), 1000).procedure.solver.steps == 1
    with pytest.raises(PlanError, match="it has one step"):
        make(specification(10, {"sparsity": 3}, **SPARSE[0], steps=2), 1000)


def test_a_sparse_step_is_as_long_as_two_supports_allow_and_its_noise_adds_up():
    one, nine = (make(specification(50, {"sparsity": 3}, **SPARSE[0], steps=steps), 1000).procedure for steps in (1, 9))
    assert one.estimator.step_size == nine.estimator.step_size == 1 / 7
    assert make(specification(5, {"sparsity": 3}, **SPARSE[0]), 1000).procedure.estimator.step_size == 1 / 6
    # nine steps share the budget, so each has sqrt(9) times the noise, and nine of them add up to sqrt(9) times that of one
    assert nine.coefficient_noise() == pytest.approx(9 * one.coefficient_noise(), rel=1e-9)
    values = one.events[1]
    assert one.coefficient_noise() == pytest.approx(values.sigma * CoordinateClip(bound=1.0).grid(one.bits) / 7 / 1000, rel=1e-9)


def test_noise_that_would_not_fit_in_64_bits_makes_the_grid_coarser():
    plan = make(specification(10, BALL, epsilon=1e-3, mean="private_lasso", steps=2000), 1000)
    assert plan.procedure.bits < 40
    assert max(event.scale for event in plan.events) < 2.0**58


# -- fits ---------------------------------------------------------------------------------------------------------------------------


def sparse_records(rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    truth = np.zeros(columns)
    truth[[2, 5, 11]] = [0.5, -0.4, 0.3]
    return X, X @ truth + 0.2 + rng.normal(0, 0.1, rows), truth


@pytest.mark.parametrize("batch", ["full", "splits"])
def test_hard_thresholding_without_noise_recovers_a_sparse_model_exactly(batch):
    X, y, truth = sparse_records(4000, 40)
    release = fitted(specification(40, {"sparsity": 3}, mean="hard_thresholding", batch=batch, steps=25, step_size=1.0, bound=4.0), X, y)
    support = np.flatnonzero(release.weights[:-1])
    assert support.tolist() == [2, 5, 11]
    if batch == "full":
        best = np.linalg.lstsq(np.c_[X[:, support], np.ones(4000)], y, rcond=None)[0]
        np.testing.assert_allclose(release.weights[[2, 5, 11, 40]], best, atol=1e-3)
    else:
        np.testing.assert_allclose(release.weights, [*truth, 0.2], atol=0.1)


def test_private_hard_thresholding_recovers_a_sparse_model_of_many_records():
    X, y, truth = sparse_records(30_000, 20)
    noise = SeededNoise(np.random.default_rng(1))
    release = fitted(specification(20, {"sparsity": 3}, clamped=True, mean="hard_thresholding", step_size=1.0), X, y, noise)
    assert np.flatnonzero(release.weights[:-1]).tolist() == [2, 5, 11]
    np.testing.assert_allclose(release.weights[:-1], truth, atol=0.1)


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("hard_thresholding", 20_000),
        *(pytest.param(name, 100_000, marks=pytest.mark.sweep) for name in ("hard_thresholding", "frank_wolfe")),
    ],
)
def test_many_thousand_columns_are_walked_with_small_answers(name, columns):
    method, penalty = METHODS[name]
    rng = np.random.default_rng(0)
    X, y = rng.integers(-1, 2, (24, columns), dtype=np.int8), rng.uniform(-1, 1, 24)
    X[:, 777] = np.where(y > 0, 1, -1)
    release = fitted(specification(columns, penalty, clamped=True, **method, batch="full", steps=2), X, y)
    assert 1 <= np.count_nonzero(release.weights) <= 4
    assert release.weights[777] != 0
    assert [event.get("chosen", event["coordinates"]) for event in release.content["events"]] == ([3, 4] if "mean" in method else [1]) * 2


def objective(w, X, y):
    return float(np.mean((np.c_[X, np.ones(len(y))] @ w - y) ** 2) / 2)


@pytest.mark.parametrize("mean", ["vertex", "private_lasso"])
def test_without_noise_the_vertices_lead_to_the_lasso_in_a_ball(mean):
    """The lasso's solution is the optimum in the ball of its own l1 norm."""
    X, y, _ = sparse_records(500, 12)
    both = np.c_[X, np.ones(500)]
    lasso = Lasso(alpha=0.02, fit_intercept=False, tol=1e-12).fit(both, y).coef_
    radius = float(np.abs(lasso).sum())
    said = specification(12, {"l1_ball": radius}, mean=mean, batch="full", steps=400, bound=20.0 if mean == "vertex" else 2.0)
    weights = fitted(said, X, y).weights
    assert np.abs(weights).sum() <= radius * (1 + 1e-12)
    excess = objective(weights, X, y) - objective(lasso, X, y)
    assert -1e-9 < excess < 1e-3 * objective(np.zeros(13), X, y)


def test_shrunken_targets_and_the_ball_keep_every_gradient_below_the_clip():
    """By search: no record and no weights in the ball exceed radius + bound, corners attain it, and the clip changes no sum."""
    mean = ShrunkenVertex(bound=0.5, penalty=L1Ball(radius=2.0))
    rng = np.random.default_rng(0)
    X, y = rng.choice([-1.0, 0.3, 1.0], (200, 3)), rng.choice([-1e300, -0.5, 0.1, 0.5, math.inf], 200)
    largest = 0.0
    for _ in range(50):
        weights = L1Ball(radius=2.0).prox(rng.choice([-2.0, 0.0, 1.0, 2.0], 3), 1.0)
        query = mean.sums(point(weights))
        gradients = X * (X @ weights - np.clip(y, -0.5, 0.5))[:, None]
        largest = max(largest, float(np.abs(gradients).max()))
        total = query.finalise(query.chunk(Block(X, y, slots_of("test", 0, 200)))) * query.grid
        np.testing.assert_allclose(total, gradients.sum(axis=0), atol=200 * query.grid)
    assert largest == 2.5 == query.bounding.bound


def test_a_vertex_is_the_ball_s_radius_at_one_place():
    mean = Vertex(bound=1.0, penalty=L1Ball(radius=5.0))
    block = Block(np.array([[0.1, -0.9, 0.2]]), np.array([-0.5]), slots_of("test", 0, 1))

    class Held:
        def aggregate(self, query):
            return query.chunk(block)

    at = point()
    account = Free({event.label: event for event in mean.events(at, "q", Allowance(multiplier=3.0, epsilon=1.0, delta=1e-6))})
    # the gradient is 0.5 x: the loss falls most along + e_2
    assert mean.estimate(Gate(account=account, records=Held(), noise=NoNoise()), at, "q").tolist() == [0.0, 5.0, 0.0]


# -- what is in circulation -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("radius", "enough"), [(1.0, True), (3.0, True), (4.0, False)])
def test_sixteen_radii_are_too_small_a_sensitivity_for_the_lasso_beyond_three(radius, enough):
    """16 R K^2 / n for the scores R (2 / n) sum_i x_ij (<x_i, w> - y_i) with |x|, |y| <= K = 1, against two records at the corners; in
    our units (no factor 2 R / n) that is 8, and the gate refuses the question if the plan reserved for it.
    """
    weights = np.array([radius, 0.0])
    up, down = (2 * x[1] * (x @ weights + 1.0) for x in (np.array([1.0, 1.0]), np.array([1.0, -1.0])))  # both with y = -1
    attained = radius * abs(up - down)
    assert attained == 4 * radius * (radius + 1)
    assert (16 * radius >= attained) == enough
    mean = ShrunkenVertex(bound=1.0, penalty=L1Ball(radius=radius))
    choice = Vertices(sums=mean.sums(point(weights)))
    steps = 16 * radius / (2 * radius) / choice.sums.grid
    event = selection(coordinates=4, sensitivity=steps, scale=8 * steps)
    gate = Gate(account=Free({"q": event}), records=Scores(np.zeros((1, 2), dtype=np.int64)), noise=NoNoise())
    if enough:
        gate.select("q", choice)
    else:
        with pytest.raises(GateError, match="more sensitive"):
            gate.select("q", choice)


@pytest.mark.parametrize("epsilon", [0.005, 0.01])
def test_peeling_with_epsilon_inside_the_square_root_overspends(epsilon):
    """b = 4 lam sqrt(2 s ln(1 / delta) / epsilon), as in circulation, in place of 4 lam sqrt(2 s ln(1 / delta)) / epsilon: even its
    choice alone, with Gumbel noise that costs less than the Laplace noise meant, does not fit the budget that it states.
    """
    s, delta = 5, 1e-5
    wrong, printed = (selection(s, 100, 1.0, 4 * math.sqrt(2 * s * math.log(1 / delta)) / unit) for unit in (math.sqrt(epsilon), epsilon))
    budget = limit(epsilon, delta, Currency.ZCDP)
    assert cost([printed], Currency.ZCDP).fits(budget)
    assert not cost([wrong], Currency.ZCDP).fits(budget)
    assert tight_epsilon([wrong], delta) > epsilon


def test_a_choice_without_noise_is_caught_though_its_values_have_some():
    """Releasing noisy values at the exact largest places gives the places away."""

    class OnlyValues(SeededNoise):
        def largest(self, scores, count, scale):
            return NoNoise().largest(scores, count, scale)

    claimed = float(selection(coordinates=2, sensitivity=2.0, scale=2.0).pure[0])
    assert caught(OnlyValues(np.random.default_rng(0)), ([4, 6], [6, 4])) > claimed


# -- the whole path -------------------------------------------------------------------------------------------------------------------


@every_method
def test_a_refit_by_configuration_is_private_and_keeps_its_constraint(method, penalty, tmp_path, write):
    import pyarrow as pa

    X, y, _ = sparse_records(6_000, 13)
    table = pa.table({**{f"x{j}": X[:, j] for j in range(13)}, "y": y})
    write("shards", table, [2500, 3500])
    content = {
        "name": "m",
        "data": {
            "name": "d",
            "path": "shards",
            "target": {"column": "y", "bounds": [-2, 2]},
            "default": {"kind": "number", "bounds": [-1, 1]},
        },
        "privacy": {"epsilon": 2.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5, "currency": "zcdp"}},
        "model": {"penalty": penalty},
        "method": {**method, "scales": "public"},
        "cluster": {"kind": "synchronous"},
    }
    (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
    config = load(tmp_path / "refit.yaml")
    Ledger.create(config.ledger_url)
    job, ledger = prepare(config), open_ledger(config)
    published = publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))
    release = published.release
    assert release.private
    assert release.content["guarantee"]["epsilon"] <= 2.0
    assert penalty_of(penalty).value(release.weights[:-1]) == 0
    text = published.report_path.read_text()
    assert "gumbel selection" in text
    assert not re.search(r"\bnan\b", text)
    assert ledger.spent("d").amount * UNIT <= limit(2.0, 1e-6, Currency.ZCDP).amount * UNIT
