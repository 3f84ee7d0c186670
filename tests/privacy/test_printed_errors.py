"""The papers' errors, implemented as printed: each claims more privacy than it gives, and our accountant, check or audit says so.

None of this is in the package. Soft truncation's cancelling formula is in test_psi.py.
"""

import math

import numpy as np
import pytest

from nightfit.numerics.prf import groups_of
from nightfit.privacy.accounting import Currency, cost, limit, sampled_multiplier, tight_epsilon
from nightfit.privacy.audit import lower_bound
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.boundings.phi import SUPREMUM
from nightfit.queries.boundings.psi import Psi
from nightfit.queries.boundings.threshold import Threshold
from nightfit.queries.gradient_sums import GradientSum, Groups
from nightfit.types import WHOLE, Adjacency, Block, Sample, parts_of

EPSILON, DELTA, STEPS, FINE = 1.0, 1e-5, 50, 2.0**45
CONFIDENCE = 1 - 1e-6  # of an audit; all seeds are fixed


def steps_of(multiplier, draws, adjacency=Adjacency.REPLACE_ONE):
    """One question per draw with noise of so many sensitivities, on a grid whose own mass is nothing."""
    return [
        GaussianEvent(
            label=f"{t}", sensitivity=FINE, sigma=multiplier * FINE, coordinates=1, adjacency=adjacency, draw=draw, removal=FINE / 2
        )
        for t, draw in enumerate(draws)
    ]


def fits(events):
    return cost(events, Currency.GAUSSIAN).fits(limit(EPSILON, DELTA, Currency.GAUSSIAN))


def audited(multiplier, steps, runs=200_000):
    """The epsilon that an attacker proves who adds up `steps` noisy answers, each moved by one sensitivity between neighbours."""
    rng = np.random.default_rng(17)
    noise = rng.normal(0, multiplier * math.sqrt(steps), (2, runs))
    return lower_bound(noise[0], noise[1] + steps, delta=DELTA, confidence=CONFIDENCE).epsilon


def correct(steps):
    return math.sqrt(steps) / math.sqrt(float(limit(EPSILON, DELTA, Currency.GAUSSIAN).amount) / 2.0**200)


def test_the_check_and_the_audit_let_the_right_noise_pass():
    assert fits(steps_of(correct(STEPS) * (1 + 1e-9), [WHOLE] * STEPS))
    assert audited(correct(STEPS), STEPS) <= EPSILON


class TestWang2020Algorithm4:
    """Its line 1: s = sqrt(n v / (2 log(1 / (delta' T)))), sigma^2 = 8 v d T / (9 log(1 / delta') n eps~)."""

    units, second, columns = 100_000, 1.0, 10
    rho = (math.sqrt(math.log(1 / DELTA) + EPSILON) - math.sqrt(math.log(1 / DELTA))) ** 2

    def printed(self, failure, rho):
        """Sensitivities and noise, as a multiplier."""
        s = math.sqrt(self.units * self.second / (2 * math.log(1 / (failure * STEPS))))
        sigma = math.sqrt(8 * self.second * self.columns * STEPS / (9 * math.log(1 / failure) * self.units * rho))
        return sigma / (2 * s * SUPREMUM * math.sqrt(self.columns) / self.units)

    @pytest.mark.parametrize(("failure", "true"), [(1e-3, 1.17), (1e-2, 2.11)])
    def test_two_logarithms_make_the_noise_too_small(self, failure, true):
        events = steps_of(self.printed(failure, self.rho), [WHOLE] * STEPS)
        assert tight_epsilon(events, DELTA) == pytest.approx(true, abs=0.01)
        assert not fits(events)

    def test_an_audit_finds_the_two_logarithms(self):
        assert audited(self.printed(1e-2, self.rho), STEPS) > 1.5 * EPSILON

    def test_a_larger_failure_gives_no_number_at_all(self):
        with pytest.raises(ValueError, match=r"domain|positive input"):
            self.printed(0.05, self.rho)

    def test_a_root_without_its_bar_gives_away_more_than_six_times_the_epsilon(self):
        """sqrt(log(1 / delta)) + epsilon - sqrt(log(1 / delta)), read as it is set, is epsilon: rho = epsilon^2."""
        rho = (math.sqrt(math.log(1 / DELTA)) + EPSILON - math.sqrt(math.log(1 / DELTA))) ** 2
        multiplier = math.sqrt(STEPS / (2 * rho))
        events = steps_of(multiplier, [WHOLE] * STEPS)
        assert tight_epsilon(events, DELTA) == pytest.approx(6.6, abs=0.05)
        assert not fits(events)
        assert audited(multiplier, STEPS) > 5 * EPSILON

    def test_the_cancelling_formula_exceeds_the_norm_that_its_noise_is_made_for(self):
        """Eq. 10 in floating point, where psi's norm is declared."""
        bits, a, beta = 30, 1e6, 3.0
        V = [math.sqrt(beta) * (math.sqrt(2) / a + side) for side in (-1, 1)]
        F, E = [math.erfc(v / math.sqrt(2)) / 2 for v in V], [math.exp(-v * v / 2) for v in V]
        b, k = a / math.sqrt(beta), 1 / math.sqrt(2 * math.pi)
        c = SUPREMUM * (F[0] - F[1]) - (a - a**3 / 6) * (F[0] + F[1]) + b * k * (1 - a * a / 2) * (E[1] - E[0])
        c += a * b * b / 2 * (sum(F) + k * (V[1] * E[1] + V[0] * E[0]))
        c += b**3 * k / 6 * ((2 + V[0] ** 2) * E[0] - (2 + V[1] ** 2) * E[1])
        value = a * (1 - b * b / 2) - a**3 / 6 + c
        ours, one = Psi(scale=1.0), np.zeros(1, dtype=np.int64)
        sums = np.zeros((1, 1), dtype=np.int64)
        ours.add(np.array([[a]]), np.ones(1), np.array([a * a]), one, bits, sums)
        assert abs(value) / ours.grid(bits) > 30 * ours.l2_bound(1, bits)
        assert abs(sums[0, 0]) <= ours.l2_bound(1, bits)


class TestTao2022Algorithm2:
    """Its line 8 gives the estimator X where line 5 has made X_t, and each step has the whole budget."""

    classical = math.sqrt(2 * math.log(1.25 / DELTA)) / EPSILON

    def test_all_records_in_every_step_cost_nearly_seven_times_the_epsilon(self):
        events = steps_of(self.classical, [WHOLE] * STEPS)
        assert tight_epsilon(events, DELTA) == pytest.approx(6.8, abs=0.05)
        assert not fits(events)
        assert fits(steps_of(self.classical, parts_of(STEPS)))
        assert audited(self.classical, STEPS) > 5 * EPSILON

    def test_the_gate_refuses_all_records_where_a_part_was_reserved(self):
        class Unread:
            def __init__(self, events):
                self.key, self.events = bytes(16), {event.label: event for event in events}

            def aggregate(self, query):
                raise AssertionError("a row was read")

        account = Unread(steps_of(self.classical, parts_of(STEPS)))
        question = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.zeros(1), bits=30)
        with pytest.raises(GateError, match="other records than the plan reserved for"):
            Gate(account=account, records=account, noise=NoNoise()).ask("0", question)


class TestTao2022Algorithm3:
    def test_line_7_sums_all_rows_and_every_group_is_the_same(self):
        rng = np.random.default_rng(0)
        values, count = rng.normal(1.0, 1.0, (1600, 1)), 16
        groups = [count / len(values) * values.sum() for _ in range(count)]
        assert np.median(groups) == pytest.approx(16, rel=0.1)  # of a mean of 1
        question = medians(count, bits=30)
        ours = question.finalise(question.chunk(held(values))) * question.grid / question.divisor(len(values))
        assert ours == pytest.approx([1.0], abs=0.2)

    def test_an_odd_median_moves_twice_as_far_and_is_refused(self):
        rng = np.random.default_rng(1)
        moves = {4: 0.0, 5: 0.0}
        for count in moves:
            for _ in range(2000):
                sums = rng.choice([-1.0, 0.0, 1.0], count)
                moved = sums.copy()
                moved[rng.integers(count)] += 1.0
                moves[count] = max(moves[count], abs(np.median(moved) - np.median(sums)))
        assert moves == {4: 0.5, 5: 1.0}
        with pytest.raises(ValueError, match="twice the sensitivity"):
            Groups(count=5)

    def test_a_value_times_an_indicator_is_not_a_number_where_the_value_is_infinite(self):
        with np.errstate(invalid="ignore"):
            printed = np.array([np.inf, 0.5]) * (np.abs([np.inf, 0.5]) <= 1)
        assert np.isnan(printed.sum())
        sums = np.zeros((1, 1), dtype=np.int64)
        values, one = np.array([[np.inf], [0.5]]), np.ones(2)
        Threshold(bound=1.0).add(values, one, values[:, 0] ** 2, np.zeros(2, dtype=np.int64), 30, sums)
        assert sums[0, 0] == 2.0**29


class TestXie2023:
    @pytest.mark.parametrize(("epsilon", "true"), [(0.5, (1.1, 1.3)), (1.0, (2.6, 2.95)), (3.0, (9.5, 14.5))])
    def test_noise_that_does_not_know_the_steps_is_too_small_for_those_that_are_run(self, epsilon, true):
        """sigma = sqrt(log(1 / delta)) / (m epsilon) with T = 5 n^2 / m^2, here at m = n / 10."""
        multiplier = math.sqrt(math.log(1 / DELTA)) / epsilon
        samples = [Sample(0.1, number) for number in range(500)]
        found = tight_epsilon(steps_of(multiplier, samples, Adjacency.ADD_REMOVE), DELTA)
        assert true[0] <= found <= true[1]
        if epsilon == 1.0:
            assert sampled_multiplier(0.1, 500, epsilon, DELTA, Adjacency.ADD_REMOVE) > 2.4 * multiplier

    def test_groups_by_place_in_a_batch_move_far_when_their_size_jumps(self):
        """Alg. 3 with the realised batch for n: one record more, at the right number of them, moves every boundary."""
        count, width = 12, 2.0

        def printed(batch):
            size = len(batch) // count
            means = [count / len(batch) * batch[k * size : (k + 1) * size].sum() for k in range(count)]
            return np.median(means)

        size = 24
        claimed = width / 2 * count / (count * size)  # one record in or out moves one group's mean by this, an odd median as far
        rng = np.random.default_rng(2)
        worst = 0.0
        for _ in range(300):
            place = np.sort(rng.integers(0, count * size, 2 * rng.integers(1, 3 * count)))
            signs = np.where(np.searchsorted(place, np.arange(count * size), side="right") % 2, 1.0, -1.0)
            worst = max(worst, abs(printed(signs) - printed(signs[:-1])))
        assert worst > 2.5 * claimed

    def test_groups_by_hash_do_not(self):
        count, rng = 12, np.random.default_rng(3)
        question = medians(count, bits=20)
        limit_of_move = question.sensitivity(Adjacency.ADD_REMOVE)
        for _ in range(100):
            values = rng.choice([-1.0, 1.0], (288, 1))
            block = held(values)
            fewer = Block(block.X[:-1], block.y[:-1], block.slots[:-1])
            before, after = (question.finalise(question.chunk(each)) for each in (fewer, block))
            assert np.linalg.norm(after - before) <= limit_of_move
            assert np.array_equal(groups_of(KEY, count, fewer.slots), groups_of(KEY, count, block.slots)[:-1])


KEY = b"0123456789abcdef"


def medians(count, bits):
    """The median of means of gradients that are the features themselves, at weights zero and targets -1."""
    return GradientSum(
        loss=Squared(), bounding=CoordinateClip(bound=20.0), weights=np.zeros(1), bits=bits, key=KEY, groups=Groups(count=count)
    )


def held(values):
    return Block(np.ascontiguousarray(values), -np.ones(len(values)), np.arange(len(values), dtype=np.uint64))
