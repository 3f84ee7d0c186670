"""Smooth sensitivity: trimmed means and sample-and-aggregate, the noise that follows them, and what the paper prints instead."""

import dataclasses
import functools
import itertools
import math

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import logsumexp
from scipy.stats import chi, kstest, laplace, norm

from nightfit.config import load
from nightfit.ledger import Ledger
from nightfit.methods.loop.gradient_estimators import Allowance, Point
from nightfit.methods.loop.gradient_estimators.sample_aggregate import SampleAggregate
from nightfit.methods.loop.gradient_estimators.trimmed import ARSINH, LAPLACE, Trimmed, deviation_of, trimmed_at, trimming_at
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.numerics.prf import slots_of
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.privacy.accounting import Currency, smooth_gaussian_delta, smooth_gaussian_shift
from nightfit.privacy.events import SmoothEvent, SmoothGaussianEvent
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise, OperatingSystemNoise, SeededNoise
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.l2 import L2
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.block_minimisers import MINIMISER_BITS, BlockMinimisers, centre, minimiser, ordered, projected
from nightfit.queries.trimmed_gradients import TrimmedGradients
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import arrays, grouping, placement
from nightfit.shards.arrays import ArrayRecords
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import DataError, scan
from nightfit.types import WHOLE, Adjacency, Block, Part, Sample, parts_of

KEY = b"0123456789abcdef"


# the trimmed mean


def trimmed_question(columns=1, trimmed=2, smoothness=0.3, bound=2.0, bits=40, **more):
    said = {"loss": Squared(), "weights": np.zeros(columns), "expected": 2 * trimmed + 1, **more}
    return TrimmedGradients(bound=bound, bits=bits, trimmed=trimmed, smoothness=smoothness, **said)


def gradients(values):
    """A block whose gradients at zero weights are these values (rows x columns): slope(-1, 0) = 1."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    return Block(values, np.full(len(values), -1.0), slots_of("test", 0, len(values)))


def released(question, values):
    """(f, S) of a question on these gradients, without the step that S is rounded up by."""
    numbers, bounds = question.finalise(question.chunk(gradients(values)))
    return numbers, bounds - question.grid


@pytest.mark.parametrize(("n", "m"), [(5, 1), (5, 2), (6, 2), (4, 0)])
def test_the_bound_of_a_trimmed_mean_is_the_smallest_smooth_one(n, m):
    """max_k e^(-kt) times the largest local sensitivity within k changes, by walking all data sets of five possible values."""
    lattice, t = (-2.0, -1.0, 0.0, 1.0, 2.0), 0.3
    sets = list(itertools.combinations_with_replacement(lattice, n))
    mean = {x: sum(x[m : n - m]) / (n - 2 * m) for x in sets}
    near = {
        x: {tuple(sorted((*x[:i], *x[i + 1 :], value))) for i in range(n) for value in lattice}
        for x in sets
    }  # fmt: skip
    reach = {x: max(abs(mean[x] - mean[y]) for y in near[x]) for x in sets}
    smooth = dict(reach)
    for k in range(1, n + 1):
        reach = {x: max(reach[y] for y in near[x]) for x in sets}
        smooth = {x: max(smooth[x], math.exp(-k * t) * reach[x]) for x in sets}
    question = trimmed_question(columns=len(sets), trimmed=m, smoothness=t, expected=n)
    numbers, bounds = released(question, np.array(sets).T)
    np.testing.assert_allclose(numbers, [mean[x] for x in sets], atol=1e-11)
    np.testing.assert_allclose(bounds, [smooth[x] for x in sets], rtol=1e-9, atol=1e-11)


def wild(rng, rows, columns):
    """Heavy tails, ties, zeros, values at and beyond the bound."""
    values = rng.standard_t(1, (rows, columns)) * rng.choice([1e-3, 1.0, 100.0], columns)
    values = np.where(rng.random((rows, columns)) < 0.3, rng.choice([-2.0, 0.0, 0.5, 2.0, 1e9], (rows, columns)), values)
    return np.where(rng.random(columns) < 0.2, 0.25, values)


@pytest.mark.parametrize("seed", range(6))
def test_the_bound_of_a_trimmed_mean_is_smooth_and_holds(seed):
    """|f - f'| <= S, S' and S <= e^t S', from either side, on 6 x 40 x 60 random neighbours through the compiled kernel."""
    rng = np.random.default_rng(seed)
    columns = 60
    for _ in range(40):
        rows, t = int(rng.integers(3, 40)), float(rng.choice([0.01, 0.1, 0.7, 3.0]))
        m = int(rng.integers(0, (rows + 1) // 2))
        expected = max(2 * m + 1, rows + int(rng.integers(-3, 4)))
        question = trimmed_question(columns, m, t, bits=int(rng.choice([8, 20, 40])), expected=expected)
        before = wild(rng, rows, columns)
        after = before.copy()
        after[rng.integers(rows)] = (
            rng.choice([0.0, -2.0, 2.0, 1e308, np.nan, np.inf, -np.inf, 0.3], columns) if rng.random() < 0.7 else 1.5
        )
        (f, S), (g, R) = (question.finalise(question.chunk(gradients(values))) for values in (before, after))
        assert (np.abs(f - g) <= np.minimum(S, R)).all()
        assert (np.maximum(S / R, R / S) <= math.exp(t)).all()
        assert (question.grid <= S).all()
        assert (np.abs(f) <= 2.0).all()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), rows=st.integers(0, 60), trimmed=st.integers(0, 20))
def test_any_division_and_order_gives_the_same_integers(data, rows, trimmed):
    question = trimmed_question(3, trimmed, bits=30)
    values = wild(np.random.default_rng(rows), rows, 3)
    whole = question.chunk(gradients(values))
    order = np.array(data.draw(st.permutations(range(rows))), dtype=int)
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=5)))
    parts = [question.chunk(gradients(part)) for part in np.split(values[order], cuts)]
    joined = functools.reduce(question.merge, data.draw(st.permutations(parts)))
    assert joined.dtype == np.int64
    assert np.array_equal(joined, whole)


def test_what_a_large_chunk_keeps_is_what_sorting_keeps():
    rng = np.random.default_rng(3)
    question = trimmed_question(5, 700, bits=40)
    values = np.concatenate([np.sort(rng.standard_t(2, (30_000, 5)), axis=0)[::-1], rng.uniform(-0.5, 0.5, (30_000, 5))])
    kept = question.chunk(gradients(values))
    steps = np.sort(np.clip(np.rint(values / question.grid), -(2.0**40), 2.0**40), axis=0).astype(np.int64).T
    assert np.array_equal(kept, np.column_stack([steps[:, :701], steps[:, -701:], steps.sum(axis=1), np.full(5, 60_000)]))


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_a_trimmed_mean_holds_for_a_unit_that_leaves(seed):
    """|f - f'| <= S, S' and S <= e^t S' where a unit is removed, whether fewer or more units are left than were expected."""
    rng = np.random.default_rng(seed)
    columns = 60
    for _ in range(60):
        rows, t = int(rng.integers(2, 30)), float(rng.choice([0.01, 0.1, 0.7]))
        m = int(rng.integers(0, rows // 2 + 1))
        question = trimmed_question(columns, m, t, bits=20, expected=max(2 * m + 1, rows + int(rng.integers(-4, 3))))
        before = wild(rng, rows, columns)
        before[rng.integers(rows)] = rng.choice([-2.0, 2.0, 1e308, 0.3], columns)
        leaving = rng.integers(rows)
        (f, S), (g, R) = (question.finalise(question.chunk(gradients(values))) for values in (before, np.delete(before, leaving, axis=0)))
        assert (np.abs(f - g) <= np.minimum(S, R)).all()
        assert (np.maximum(S / R, R / S) <= math.exp(t)).all()


def test_fewer_units_than_expected_are_filled_up_with_zeros():
    question = trimmed_question(2, 10, expected=25)
    few, filled = np.full((3, 2), 1e9), np.concatenate([np.full((3, 2), 1e9), np.zeros((22, 2))])
    one, other = (question.finalise(question.chunk(gradients(values))) for values in (few, filled))
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    with pytest.raises(ValueError, match="leave nothing between 10 trimmed"):
        trimmed_question(2, 10, expected=20)


def test_a_part_reads_its_own_records_alone():
    values = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    parts = [trimmed_question(2, 0, key=KEY, draw=part) for part in parts_of(4)]
    integers = [question.chunk(gradients(values)) for question in parts]
    assert sum(total[0, -1] for total in integers) == 500
    assert np.array_equal(sum(total[:, -2] for total in integers), trimmed_question(2, 0).chunk(gradients(values))[:, -2])


def printed_trimmed_scale(x, m, t, low, high):
    """Wang et al. 2020, alg. 2, as printed."""
    x = np.sort(x)
    return max((x[-1] - x[0]) / (len(x) - 2 * m), math.exp(-m * t) * (high - low))


def test_one_huge_record_shows_with_the_printed_scale_and_not_with_ours():
    """The attack: a thousand zeros, one of which becomes 1e9; look whether the answer is large. Printed: seen in 99 of 100 cases."""
    n, m, epsilon = 1000, 10, 1.0
    t, shift = epsilon**2 / 16, epsilon / 4
    noise = np.sinh(np.random.default_rng(1).standard_normal(200_000))
    before, after = np.zeros(n), np.where(np.arange(n) == 0, 1e9, 0.0)
    ours = trimmed_question(1, m, t, bound=1.0)

    def advantage(scales):
        answers = [np.abs(scale / shift * noise) for scale in scales]
        edges = np.quantile(np.concatenate(answers), np.linspace(0, 1, 400))
        return max(abs(np.mean(answers[0] > edge) - np.mean(answers[1] > edge)) for edge in edges)

    assert advantage([printed_trimmed_scale(x, m, t, -1, 1) for x in (before, after)]) > 0.98
    bounds = [ours.finalise(ours.chunk(gradients(x[:, None])))[1][0] for x in (before, after)]
    assert advantage(bounds) < 0.05


def test_the_printed_scale_of_a_trimmed_mean_is_not_smooth():
    rng = np.random.default_rng(1)
    broken = 0
    for _ in range(500):
        x = rng.choice([-50.0, -2.0, -1.0, 0.0, 1.0, 2.0, 50.0], 6)
        y = np.where(np.arange(6) == rng.integers(6), rng.choice([-50.0, 0.0, 50.0]), x)
        one, other = (printed_trimmed_scale(values, 2, 0.3, -2, 2) for values in (x, y))
        broken += max(one / other, other / one) > math.exp(0.3) * (1 + 1e-9)
    assert broken > 25


def point(columns=4, units=20_000, adjacency=Adjacency.REPLACE_ONE, draw=WHOLE, loss=None):
    zeros = np.zeros(columns)
    return Point(
        loss=loss or Squared(), weights=zeros, previous=zeros, units=units, bits=40, adjacency=adjacency, draw=draw, key=KEY
    )  # fmt: skip


def allowed(rho):
    return Allowance(multiplier=math.sqrt(0.5 / rho), epsilon=1.0, delta=1e-6)


@pytest.mark.parametrize("noise", [LAPLACE, ARSINH])
@pytest.mark.parametrize("rho", [1e-6, 1e-4, 0.01, 1.0])
@pytest.mark.parametrize("units", [100, 20_000, 10**6])
def test_a_trimmed_mean_spends_what_it_may_on_smoothness_and_shift(noise, rho, units):
    (event,) = Trimmed(bound=1.0, noise=noise).events(point(units=units), "q", allowed(rho))
    assert 0.9999 * rho < float(event.rho) <= rho


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
def test_the_split_is_no_noisier_than_that_of_the_table(epsilon):
    """At smoothness epsilon / 10 the table has spread .31 and shift .5865 epsilon: ours is at most as noisy at that smoothness."""
    shares = [trimming_at(LAPLACE, epsilon, share, 10**6, 4) for share in np.linspace(0.01, 0.9, 4000)]
    ours = min(shares, key=lambda made: abs(made.smoothness - epsilon / 10))
    assert ours.spread == pytest.approx(0.31, abs=0.01)
    assert deviation_of(LAPLACE, ours.spread) / ours.shift <= 2.66 / epsilon


@pytest.mark.parametrize(
    ("where", "match"),
    [
        (point(adjacency=Adjacency.ADD_REMOVE), "add_remove"),
        (dataclasses.replace(point(adjacency=Adjacency.ZERO_OUT), draw=Sample(0.1, 0)), "Poisson"),
    ],
)
def test_a_trimmed_mean_needs_a_fixed_number_of_records(where, match):
    with pytest.raises(ValueError, match=match):
        Trimmed(bound=1.0).events(where, "q", allowed(0.1))


def test_what_is_trimmed_is_bounded_by_records_and_memory():
    assert trimmed_at(0.01, 10**6, 10) == math.ceil(math.log(100) / 0.01)
    assert trimmed_at(0.001, 4000, 10) == 1000
    assert trimmed_at(0.001, 10**6, 2000) <= 2**21 // 2000
    assert trimmed_at(1e-6, 1000, 10) == 0


def test_a_bound_less_smooth_than_reserved_is_refused_before_reading():
    mean, where = Trimmed(bound=1.0), point()
    (event,) = mean.events(where, "q", allowed(0.1))

    class Unread:
        key, events = KEY, {"q": event}

        def aggregate(self, query):
            raise AssertionError

    gate = Gate(account=Unread(), records=Unread(), noise=NoNoise())
    with pytest.raises(GateError, match="less smooth"):
        gate.smooth_release("q", trimmed_question(4, 10, 1.01 * event.smoothness))
    with pytest.raises(GateError, match="other records"):
        gate.smooth_release("q", trimmed_question(4, 10, event.smoothness, key=KEY, draw=Part(0, 5)))


@pytest.mark.parametrize("family", [LAPLACE, ARSINH, "gaussian"])
def test_the_gate_asks_for_noise_of_the_smooth_bound_over_the_reserved_shift(family):
    if family == "gaussian":
        event = SmoothGaussianEvent(
            label="q", smoothness=0.01, shift=0.2, epsilon=1.0, delta=1e-6, coordinates=4, adjacency=Adjacency.REPLACE_ONE
        )
    else:
        (event,) = Trimmed(bound=1.0, noise=family).events(point(), "q", allowed(0.1))
    question = trimmed_question(4, 10, event.smoothness)
    total = question.chunk(gradients(wild(np.random.default_rng(0), 60, 4)))
    values, bounds = question.finalise(total)

    class Written:
        key, events = KEY, {"q": event}

        def asked(self, event):
            return None

        def answered(self, event, answer):
            self.stored = answer

        def aggregate(self, query):
            return total

        def smooth(self, *asked):
            self.noise = asked
            return np.arange(4)

    written = Written()
    answer = Gate(account=written, records=written, noise=written).smooth_release("q", question)
    np.testing.assert_array_equal(written.noise[0], values)
    np.testing.assert_allclose(written.noise[1], bounds / event.shift, rtol=1e-12)
    assert written.noise[2:] == (family, event.spread, question.grid)
    np.testing.assert_array_equal(written.stored, np.arange(4))
    np.testing.assert_array_equal(answer, np.arange(4) * question.grid)


# sample and aggregate


def scattered(rng, many, columns):
    """Points of all sizes within a ball of 1e6, some of them in clusters."""
    points = rng.standard_t(1.2, (many, columns)) * float(rng.choice([1.0, 100.0]))
    points = np.where(rng.random((many, 1)) < 0.3, float(rng.choice([0.0, 5.0])), points)
    points = points[rng.integers(0, 2, many)] if many > 1 and rng.random() < 0.3 else points  # two clusters at most
    return np.array([np.rint(projected(point, 1e6)) for point in points]).astype(np.int64)


@pytest.mark.parametrize("touched", [1, 2, 3])
def test_the_bound_of_the_aggregate_is_smooth_and_holds(touched):
    """||g - g'|| <= S, S' and S <= e^t S' on 3 x 1500 random neighbours that differ in as many blocks as a unit touches."""
    rng = np.random.default_rng(touched)
    for _ in range(1500):
        many, t = int(rng.integers(3, 30)), float(rng.choice([0.05, 0.5, 2.0, 4.0]))
        before = scattered(rng, many, 2)
        after = before.copy()
        changed = rng.choice(many, touched, replace=False)
        after[changed] = scattered(rng, touched, 2) * int(rng.choice([1, 1, 0]))
        (i, S), (j, R) = (centre(points, touched, t, 2e6) for points in (before, after))
        assert np.linalg.norm(before[i] - after[j]) <= min(S, R) * (1 + 1e-12)
        assert max(S, R) <= math.exp(t) * min(S, R) * (1 + 1e-12) + 1e-12


def radii(points, t):
    distances = np.sort(np.linalg.norm(points[:, None] - points[None], axis=2), axis=1)
    return distances[:, t - 1]


def test_the_bound_of_the_aggregate_is_its_formula():
    rng = np.random.default_rng(5)
    for touched, t in itertools.product((1, 2, 3), (0.2, 1.0, 4.0)):
        many, diameter = 23, 1e7
        points = scattered(rng, many, 3)
        half = (many + touched) // 2 + 1

        def q(order, rank, points=points, many=many, diameter=diameter):
            return diameter if order > many or rank > many else min(diameter, np.sort(radii(points, order))[rank - 1])

        terms = [
            math.exp(-t * k) * min(diameter, q(half + k * touched, k * touched + 1) + q(half + (k + 1) * touched, (k + 1) * touched + 1))
            for k in range(many)
        ]
        place, bound = centre(points, touched, t, diameter)
        assert bound == pytest.approx(max(terms), rel=1e-12)
        assert radii(points, half)[place] == radii(points, half).min()


def printed_aggregate_scale(points, touched, t, diameter):
    """Wang et al. 2020, alg. 1, with "top" read as largest, and even with a tail of the diameter."""
    many, count, best = len(points), math.ceil(touched / t), 0.0
    half = (many + touched) // 2 + 1
    for k in itertools.count():
        order = half + (k + 1) * touched
        if order > many:
            return 2 * max(best, diameter * math.exp(-t * k))
        best = max(best, np.sort(np.minimum(radii(points, order), diameter))[-count:].mean() * math.exp(-t * k))


def test_the_printed_mean_of_largest_radii_is_not_smooth():
    points = np.random.default_rng(3).standard_normal((81, 2))
    moved = np.where(np.arange(81)[:, None] == 0, [5e5, 0.0], points)
    printed = [printed_aggregate_scale(each, 1, 0.5, 1e6) for each in (points, moved)]
    assert printed[1] / printed[0] > 1e4
    ours = [centre(np.rint(each * 1000).astype(np.int64), 1, 0.5, 1e9)[1] for each in (points, moved)]
    assert max(ours) <= math.exp(0.5) * min(ours)


def minimisers(columns=3, blocks=20, smoothness=0.2, radius=5.0, **more):
    said = {"loss": Squared(), "penalty": NoPenalty(), "features": columns - 1, "touched": 1, "key": KEY, **more}
    return BlockMinimisers(coordinates=columns, radius=radius, blocks=blocks, smoothness=smoothness, **said)


def linear(rows=600, columns=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, columns))
    X[:, -1] = 1.0
    return Block(X, X @ np.linspace(1, 2, columns) + rng.normal(0, 0.3, rows), slots_of("test", 0, rows))


@pytest.mark.parametrize("bad", [1e9, 1e308, np.inf, np.nan])
def test_a_record_moves_the_minimiser_of_its_own_block_alone(bad):
    question, block = minimisers(), linear()
    own = question.block_of(block.slots)[7]
    y = block.y.copy()
    y[7] = bad
    before, after = question.chunk(block), question.chunk(Block(block.X, y, block.slots))
    assert set(np.flatnonzero((before != after).any(axis=1))) == {own}
    (f, S), (g, R) = question.finalise(before), question.finalise(after)
    assert np.linalg.norm(f - g) <= min(S[0], R[0])
    assert max(S[0] / R[0], R[0] / S[0]) <= math.exp(question.smoothness)
    assert (np.linalg.norm(after, axis=1) <= 2.0**MINIMISER_BITS + 2).all()


def test_empty_and_failed_blocks_have_the_centre():
    question = minimisers(blocks=400)
    block = linear(rows=300)
    empty = np.setdiff1d(np.arange(400), question.block_of(block.slots))
    assert len(empty) > 10
    assert not question.chunk(block)[empty].any()
    assert not question.chunk(Block(block.X, np.full(300, np.nan), block.slots)).any()
    assert not question.chunk(Block(np.zeros((300, 3)), block.y, block.slots)).any()
    assert not projected(np.array([1e200, 1e200]), 1.0).any()


@pytest.mark.parametrize("columns", [1, 3, 12])
def test_a_block_is_solved_to_its_optimum(columns):
    block = linear(rows=80, columns=columns)
    found = minimiser(Squared(), NoPenalty(), columns - 1, block.X, block.y, np.ones(len(block)))
    np.testing.assert_allclose(found, np.linalg.lstsq(block.X, block.y)[0], atol=1e-8)
    ridge = minimiser(Squared(), L2(weight=0.1), columns, block.X, block.y, np.ones(len(block)))
    np.testing.assert_allclose(ridge, np.linalg.solve(block.X.T @ block.X + 8 * np.eye(columns), block.X.T @ block.y), atol=1e-8)


def test_a_logistic_block_is_solved_to_its_optimum():
    block = linear(rows=200)
    labels = np.where(block.y > 1, 1.0, -1.0)
    found = minimiser(Logistic(), L2(weight=0.05), 3, block.X, labels, np.ones(len(block)))
    slopes = -labels / (1 + np.exp(labels * (block.X @ found)))
    np.testing.assert_allclose(block.X.T @ slopes / 200 + 0.05 * found, 0, atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whole_blocks_in_any_division_and_order_give_the_same_integers(data):
    question, block = minimisers(blocks=7), linear(rows=90)
    twice = Block(block.X, block.y, block.slots // np.uint64(2**60))  # few slots: records that share one
    for rows in (block, twice):
        whole = question.chunk(rows)
        order = np.array(data.draw(st.permutations(range(90))))
        edges = sorted({0, 7, *data.draw(st.lists(st.integers(0, 7), max_size=3))})
        shuffled = Block(rows.X[order], rows.y[order], rows.slots[order])
        cut = data.draw(st.integers(0, 90))
        halves = [Block(shuffled.X[s], shuffled.y[s], shuffled.slots[s]) for s in (slice(cut), slice(cut, None))]
        pieces = grouping.split_by_range(question, halves, edges)
        assert np.array_equal(functools.reduce(question.merge, [question.chunk(piece) for piece in pieces]), whole)


def test_records_that_share_a_slot_are_ordered_by_their_values_and_never_by_arrival():
    block = linear(rows=90)
    shared = block.slots // np.uint64(2**62)
    arrived = np.random.default_rng(0).permutation(90)
    sequences = []
    for rows in (np.arange(90), arrived):
        part = Block(block.X[rows], block.y[rows], shared[rows])
        order = ordered(part, np.zeros(90, dtype=np.int64))
        sequences.append((part.slots[order], part.y[order], part.X[order]))
    assert all(np.array_equal(one, other) for one, other in zip(*sequences, strict=True))


@settings(max_examples=200, deadline=None)
@given(groups=st.integers(1, 3000), held=st.integers(0, 2**36), room=st.floats(1, 2.0**34), workers=st.integers(1, 40))
def test_every_group_is_in_one_range_of_one_pass_and_a_pass_fits(groups, held, room, workers):
    seen = []
    for edges in grouping.range_passes(groups, held, room, workers):
        assert len(edges) >= 2
        seen += [number for low, high in itertools.pairwise(edges) for number in range(low, high)]
        if len(edges) > 2:
            assert (len(edges) - 2) / groups * held <= room * 1.001
    assert seen == list(range(groups))


BOUNDS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0.0,) * 3, scale=(4.0,) * 3, target_scale=3.0, intercept=True)


def asked():
    return [
        minimisers(columns=4, blocks=23),
        trimmed_question(trimmed=30, smoothness=0.1, weights=np.array([0.3, -0.2, 0.1, 0.05])),
    ]


def test_any_files_chunks_or_scheduler_give_the_same_answer(table, write, client, monkeypatch, tmp_path):
    """A record's slot is that of its file and row, however the rows of a file are grouped."""
    folders = [write("one", table, [100, 250, 350], row_group_size=350), write("many", table, [100, 250, 350], row_group_size=33)]
    monkeypatch.setattr(grouping, "RANGE_BYTES", 2**13)  # several ranges
    for question in asked():
        first = ShardedDataset(scan(str(folders[0])), BOUNDS).aggregate(question)
        assert first.any()
        assert np.array_equal(ShardedDataset(scan(str(folders[1])), BOUNDS, chunk_bytes=2**12).aggregate(question), first)
        for folder, resident, passes in ((folders[0], 0.4, 2), (folders[1], 0.0, 2), (folders[1], 0.0, 1)):  # memory, files, Parquet
            monkeypatch.setattr(placement, "RESIDENT_SHARE", resident)
            monkeypatch.setattr(placement, "GROUPING_SHARE", 0.1 if resident else 1e-6)
            with ShardedDataset(scan(str(folder)), BOUNDS, client, chunk_bytes=2**13, passes=passes) as shards:
                assert np.array_equal(shards.aggregate(question), first)


def test_arrays_of_any_chunks_give_the_same_answer(table, monkeypatch):
    raw = np.column_stack([table[name].to_numpy() for name in BOUNDS.features])
    y = table["y"].to_numpy()
    whole = BOUNDS.block(raw, y, slots_of("array", 0, 700))
    monkeypatch.setattr(grouping, "RANGE_BYTES", 2**13)
    monkeypatch.setattr(arrays, "SLICE_BYTES", 2**12)
    monkeypatch.setattr(arrays, "GROUPING_BYTES", 2**14)
    for question in asked():
        expected = question.chunk(whole)
        assert np.array_equal(ArrayRecords(raw, y, BOUNDS).aggregate(question), expected)
        lazy = ArrayRecords(da.from_array(raw, chunks=(101, 2)), da.from_array(y, chunks=333), BOUNDS)
        assert np.array_equal(lazy.aggregate(question), expected)


def test_a_shard_that_changed_is_named_and_no_value_is(table, write, client):
    folder = write("one", table, [300, 400])
    manifest = scan(str(folder))
    (folder / "part-00001.parquet").write_bytes((folder / "part-00000.parquet").read_bytes())
    for where in (None, client):
        with pytest.raises(DataError, match="added, removed or rewritten"):
            ShardedDataset(manifest, BOUNDS, where).aggregate(asked()[0])


def test_tasks_over_arrays_raise_nothing():
    assert arrays.split_task(asked()[0], None, np.zeros(3), 0, BOUNDS, (0, 1, 2)) == (None, None)
    assert arrays.range_task(asked()[0], [None]) is None


# the noise


ORDERS = np.array([1.001, 1.1, 1.5, 2.0, 4.0, 10.0, 40.0])


def log_density(family, spread, z):
    """log of the density of one noise, by quadrature over the normal factor."""
    if family == ARSINH:
        y = np.arcsinh(spread * z) / spread
        return norm.logpdf(y) - 0.5 * np.log1p((spread * z) ** 2)
    nodes, weights = hermegauss(61)
    return logsumexp(-spread * nodes - np.abs(z)[:, None] * np.exp(-spread * nodes), b=weights / math.sqrt(8 * math.pi), axis=1)


def renyi(family, spread, scale, shift):
    """D_order(Z || e^scale Z + shift) for ORDERS, on a grid that is fine near zero and reaches far enough."""
    q = np.linspace(-1, 1, 3001)
    most, k = (math.exp(8 * spread) * 60, 14.0) if family == LAPLACE else (math.sinh(14.0), 20.0)
    z, width = np.sinh(k * q) / math.sinh(k) * most, np.cosh(k * q) * k / math.sinh(k) * most * (q[1] - q[0])
    p, other = log_density(family, spread, z), log_density(family, spread, (z - shift) * math.exp(-scale)) - scale
    assert np.exp(p) @ width == pytest.approx(1, abs=1e-4)
    return np.array([logsumexp(order * p + (1 - order) * other, b=width) / (order - 1) for order in ORDERS])


@pytest.mark.parametrize("rho", [1e-4, 0.02, 0.5])
@pytest.mark.parametrize("family", [LAPLACE, ARSINH])
def test_smooth_noise_costs_no_more_than_its_event_says(family, rho):
    """The Renyi divergence of neighbours, at the corners and inside of what scale and shift may do, is at most order times rho."""
    (event,) = Trimmed(bound=1.0, noise=family).events(point(columns=1), "q", allowed(rho))
    corners = [(scale, shift) for scale in (-1.0, 0.0, 1.0) for shift in (0.0, 0.5, 1.0) if scale or shift]
    worst = max(
        (renyi(family, event.spread, scale * event.smoothness, shift * event.shift) / ORDERS).max() for scale, shift in corners
    )  # fmt: skip
    assert worst <= float(event.rho) * (1 + 1e-3)
    assert worst > 0.1 * float(event.rho)


def distribution(family, spread):
    if family == "gaussian":
        return norm.cdf
    if family == ARSINH:
        return lambda z: norm.cdf(np.arcsinh(spread * z) / spread)
    nodes, weights = hermegauss(101)
    return lambda z: (laplace.cdf(np.asarray(z)[..., None] * np.exp(-spread * nodes)) * weights).sum(axis=-1) / math.sqrt(2 * math.pi)


@pytest.mark.parametrize("sampler", [OperatingSystemNoise(), SeededNoise(np.random.default_rng(0))], ids=["system", "seeded"])
@pytest.mark.parametrize(("family", "spread"), [("gaussian", 1.0), (ARSINH, 1.0), (LAPLACE, 0.31), (LAPLACE, 0.1)])
def test_smooth_noise_has_the_distribution_that_its_event_names(sampler, family, spread):
    """Kolmogorov's test on 10,000 draws: a right sampler fails with probability 1e-7, one of a quarter more or less scale always."""
    steps = sampler.smooth(np.full(10_000, 3.0), np.full(10_000, 2.0), family, spread, 2.0**-30)
    drawn = (steps * 2.0**-30 - 3.0) / 2.0
    assert kstest(drawn, distribution(family, spread)).pvalue > 1e-7
    assert all(kstest(drawn * wrong, distribution(family, spread)).pvalue < 1e-7 for wrong in (0.8, 1.25))


def hockey_stick(epsilon, smoothness, shift):
    """delta in one dimension, by summing (p - e^epsilon q)+ along the line, at the worst of many scales and shifts."""
    y = np.linspace(-14, 14, 100_001)
    return max(
        np.maximum(0.0, norm.pdf(y) - math.exp(epsilon) * norm.pdf(y, fraction * shift * min(1.0, lam), lam)).sum() * (y[1] - y[0])
        for lam, fraction in itertools.product(np.exp(smoothness * np.linspace(-1, 1, 9)), (0.0, 0.5, 1.0))
    )


@pytest.mark.parametrize(("smoothness", "shift"), [(0.01, 0.232), (0.03, 0.157), (0.05, 0.4)])
def test_gaussian_noise_of_a_smooth_scale_is_as_private_as_its_event_says(smoothness, shift):
    """In one dimension by integration; the corners of the scale's change are the worst."""
    assert hockey_stick(1.0, smoothness, shift) == pytest.approx(smooth_gaussian_delta(1.0, smoothness, shift, 1), rel=2e-3)


@pytest.mark.parametrize("coordinates", [2, 10])
def test_gaussian_noise_of_a_smooth_scale_is_as_private_in_many_dimensions(coordinates):
    """E_P[(1 - e^(epsilon - loss))+] over 400,000 draws, within five standard errors, at the worse corner."""
    epsilon, smoothness, shift = 0.5, 0.03, 0.4
    rng = np.random.default_rng(7)
    worst, error = 0.0, 0.0
    for lam in (math.exp(smoothness), math.exp(-smoothness)):
        y = rng.standard_normal((400_000, coordinates))
        other = y.copy()
        other[:, 0] -= shift * min(1.0, lam)
        loss = coordinates * math.log(lam) + (other**2).sum(axis=1) / (2 * lam**2) - (y**2).sum(axis=1) / 2
        excess = np.maximum(0.0, 1 - np.exp(epsilon - loss))
        if excess.mean() > worst:
            worst, error = float(excess.mean()), float(excess.std() / math.sqrt(len(excess)))
    assert worst > 20 * error
    assert smooth_gaussian_delta(epsilon, smoothness, shift, coordinates) == pytest.approx(worst, abs=5 * error)


def rotated_hockey_stick(epsilon, lam, moved, coordinates):
    """The integral of (p - e^epsilon q)+ for P = N(0, I), Q = N(moved e_1, lam^2 I): over the first coordinate and the others' norm."""
    y, step = np.linspace(-9, 9, 721, retstep=True)
    edges = chi.ppf(np.linspace(0, 1, 401)[1:-1], coordinates - 1)
    r = np.concatenate([np.linspace(0, edges[0], 40, endpoint=False), edges, np.linspace(edges[-1], edges[-1] + 6, 80)[1:]])
    p = norm.pdf(y)[:, None] * chi.pdf(r, coordinates - 1)
    q = norm.pdf(y, moved, lam)[:, None] * chi.pdf(r, coordinates - 1, scale=lam)
    return float(np.trapezoid(np.maximum(0.0, p - math.exp(epsilon) * q).sum(axis=0) * step, r))


@pytest.mark.parametrize(
    ("epsilon", "smoothness", "shift", "coordinates"),
    [(0.5, 0.03, 0.4, 3), (0.5, 0.1, 0.2, 10), (0.1, 0.05, 0.05, 40), (1.0, 0.2, 1.2, 5), (0.05, 0.3, 0.01, 2)],
)
def test_no_change_of_scale_exceeds_the_delta_of_smooth_noise(epsilon, smoothness, shift, coordinates):
    """By integration, inside the interval too: the steps of the proof one by one, and what they lead to."""
    logs = np.linspace(0, smoothness, 7)

    def at(log, fraction=1.0):
        return rotated_hockey_stick(epsilon, math.exp(log), fraction * shift * math.exp(min(0.0, log)), coordinates)

    told = smooth_gaussian_delta(epsilon, smoothness, shift, coordinates)
    narrower, wider = [at(-log) for log in logs], [at(log) for log in logs]
    near = 2e-3 * told
    assert all(at(log, 0.6) <= at(log) + near for log in (-smoothness, smoothness / 3, smoothness))
    assert (np.diff(narrower) >= -near).all()
    assert max(*narrower, *wider) <= told + near
    assert told <= 1.05 * max(*narrower, *wider) + near


def test_where_the_proof_of_smooth_noise_does_not_hold_nothing_is_claimed():
    assert smooth_gaussian_delta(0.5, 0.01, 1.001, 4) == 1.0
    assert smooth_gaussian_delta(0.5, 0.01, 0.999, 4) < 0.4


@pytest.mark.parametrize(
    ("coordinates", "smoothness", "shift"),
    [(1, 0.005, 0.250), (1, 0.01, 0.232), (1, 0.02, 0.195), (1, 0.03, 0.157), (10, 0.005, 0.249), (10, 0.01, 0.228), (10, 0.02, 0.179),
     (10, 0.03, 0.113), (50, 0.005, 0.245), (50, 0.01, 0.212), (50, 0.02, 0.075), (10, 0.04, 0.0)],
)  # fmt: skip
def test_the_exact_shift_of_smooth_gaussian_noise(coordinates, smoothness, shift):
    """At (1, 1e-5); the printed one is .0405 at ten coordinates."""
    assert smooth_gaussian_shift(1.0, 1e-5, smoothness, coordinates) == pytest.approx(shift, abs=6e-4)


# whole fits


def specification(adjacency=Adjacency.REPLACE_ONE, loss=None, penalty=None, unit=None, **method):
    shape = dataclasses.replace(BOUNDS, unit=unit)
    if loss:
        shape = dataclasses.replace(shape, target_domain=loss.target, target_scale=BOUNDS.target_scale if loss.scalable else 1.0)
    budget = Budget(epsilon=1.0, delta=1e-6, adjacency=adjacency, currency=Currency.ZCDP, unit=unit or "record")
    return Specification(
        name="m", data_set="d", preprocessing=shape, budget=budget, loss=loss or Squared(), penalty=penalty_of(penalty or {}),
        method=Method(**{"scales": "public", **method}),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (specification(mean="trimmed", adjacency=Adjacency.ADD_REMOVE), "not public"),
        (specification(mean="trimmed", adjacency=Adjacency.ZERO_OUT, batch=100), "Poisson samples"),
        (specification(mean="clipped", noise="arsinh_normal"), "no noise"),
        (specification(mean="clipped", blocks=30), "no blocks"),
        (specification(mean="sample_aggregate"), "radius"),
        (specification(mean="sample_aggregate", bound=3.0, steps=2), "a fit by itself"),
        (specification(mean="sample_aggregate", bound=3.0, batch="splits", steps=1, blocks=2), "blocks"),
        (specification(mean="sample_aggregate", bound=3.0, loss=Hinge()), "smooth losses"),
        (specification(mean="sample_aggregate", bound=3.0, blocks=2999), "at most"),
    ],
)
def test_what_has_no_proof_is_not_planned(said, match):
    with pytest.raises(PlanError, match=match):
        make(said, 5000)


def test_neither_is_planned_in_the_currency_gaussian():
    for method in ({"mean": "trimmed"}, {"mean": "sample_aggregate", "bound": 3.0}):
        said = specification(**method)
        with pytest.raises(PlanError, match="zcdp"):
            make(dataclasses.replace(said, budget=dataclasses.replace(said.budget, currency=Currency.GAUSSIAN)), 5000)


def test_an_aggregate_takes_the_whole_budget_and_two_blocks_where_ids_may_change():
    plan = make(specification(mean="sample_aggregate", penalty={"l2_ball": 3.0}), 5000)
    assert [type(event) for event in plan.events] == [SmoothGaussianEvent]
    assert plan.epsilon == 1.0
    assert plan.procedure.estimator.bound == 3.0
    assert plan.procedure.estimator.touched == 1
    assert "blocks by a keyed hash" in plan.explain()
    assert make(specification(mean="sample_aggregate", bound=3.0, unit="id"), 5000).procedure.estimator.touched == 2
    for unit in (None, "id"):
        removed = specification(mean="sample_aggregate", bound=3.0, unit=unit, adjacency=Adjacency.ADD_REMOVE)
        assert make(removed, 5000).procedure.estimator.touched == 1


def test_a_trimmed_plan_says_what_it_leaves_out():
    plan = make(specification(mean="trimmed", steps=8), 50_000)
    assert all(isinstance(event, SmoothEvent) for event in plan.events)
    assert "smallest" in plan.explain()
    assert 0.9 < plan.epsilon <= 1.0
    split = make(specification(mean="trimmed", batch="splits", steps=8), 50_000)
    assert 0.9 < split.epsilon <= 1.0
    assert split.events[0].shift > 1.5 * plan.events[0].shift


def people(rows):
    rng = np.random.default_rng(11)
    X = rng.uniform(-4, 4, (rows, 3))
    y = X @ [0.5, -0.25, 0.0] + rng.standard_t(2.5, rows) * 0.3
    y[::97] = 1e6
    y[1::97] = np.nan
    return pa.table({**{f"x{j}": X[:, j] for j in range(3)}, "y": y})


def refit(folder, cluster, method, adjacency="replace_one"):
    content = {
        "name": f"m-{method['mean']}-{method.get('noise', 'usual')}",
        "data": {
            "name": "d",
            "path": "shards",
            "target": {"column": "y", "bounds": [-8, 8]},
            "default": {"kind": "number", "bounds": [-4, 4]},
        },
        "privacy": {
            "epsilon": 4.0,
            "delta": 1e-6,
            "adjacency": adjacency,
            "lifetime": {"epsilon": 30.0, "delta": 1e-4, "currency": "zcdp"},
        },
        "model": {"loss": "huber"},
        "method": method,
        "cluster": cluster,
    }
    (folder / "refit.yaml").write_text(yaml.safe_dump(content))
    config = load(folder / "refit.yaml")
    job, ledger = prepare(config), open_ledger(config)
    return publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))


@pytest.mark.parametrize("where", ["synchronous", "workers"])
def test_both_are_refitted_from_a_configuration(write, tmp_path, client, where):
    """With true noise. The trimmed fit finds the slopes; the aggregate stays in its ball."""
    cluster = {"kind": "synchronous"} if where == "synchronous" else {"address": client.scheduler.address}
    write("shards", people(20_000), [8_000, 12_000], row_group_size=4000)
    Ledger.create(f"sqlite:///{tmp_path}/ledger.db")
    trimmed = refit(tmp_path, cluster, {"mean": "trimmed", "bound": 2.0, "steps": 10})
    assert trimmed.release.private
    assert trimmed.release.content["guarantee"]["epsilon"] <= 4.0
    assert trimmed.release.content["coef"]["x0"] == pytest.approx(0.5, abs=0.15)
    assert trimmed.release.content["coef"]["x1"] == pytest.approx(-0.25, abs=0.15)
    steps = [event for event in trimmed.release.content["events"] if event["label"].startswith("gradient")]  # the others are about scales
    assert {event["mechanism"] for event in steps} == {"smooth_sensitivity"}
    aggregate = refit(tmp_path, cluster, {"mean": "sample_aggregate", "bound": 2.0})
    assert aggregate.release.content["guarantee"]["epsilon"] == pytest.approx(4.0, abs=1e-4)
    assert np.isfinite(aggregate.release.weights).all()  # the ball is of weights of scaled rows
    for published in (trimmed, aggregate):
        assert "floating-point" in published.release.statement()
        assert "floating-point" in published.report_path.read_text()


def test_without_noise_the_aggregate_is_near_the_fit_of_all():
    mean, where = SampleAggregate(bound=5.0, penalty=NoPenalty(), features=2, blocks=60), point(columns=3, units=6000)
    block = linear(rows=6000)
    (event,) = mean.events(where, "q", Allowance(multiplier=1.0, epsilon=1.0, delta=1e-6))

    class Held:
        key, events = KEY, {"q": event}

        def asked(self, event):
            return None

        def answered(self, event, answer):
            pass

        def aggregate(self, question):
            return question.chunk(block)

    found = mean.estimate(Gate(account=Held(), records=Held(), noise=NoNoise()), where, "q")
    np.testing.assert_allclose(found, [1.0, 1.5, 2.0], atol=0.15)
