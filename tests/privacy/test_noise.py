"""The only sampler, against the exact discrete Gaussian and against an attacker.

The noise comes from the operating system and cannot be seeded, so every level below makes a false alarm rarer than 1e-9.
"""

import json
import math
import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from nightfit.privacy import audit
from nightfit.privacy.accounting import UNIT, Cost, Currency, cost, epsilon_of, limit
from nightfit.privacy.events import GaussianEvent
from nightfit.privacy.noise import LEAST_SLICE, Noise, NoNoise, OperatingSystemNoise, SeededNoise
from nightfit.types import Adjacency, Array, Integers

LEVEL = 1e-10
DRAWS = 20_000
EVERY_NOISE: list[Noise] = [OperatingSystemNoise(), SeededNoise(np.random.default_rng(0)), NoNoise()]
every_noise = pytest.mark.parametrize("noise", EVERY_NOISE, ids=lambda noise: type(noise).__name__)


def draws(sigma: float, count: int = DRAWS) -> Integers:
    return OperatingSystemNoise().discrete_gaussian(np.zeros(count, dtype=np.int64), sigma)


def distance(drawn: Integers, sigma: float) -> float:
    """Kolmogorov and Smirnov's distance to the exact discrete Gaussian."""
    reach = int(12 * sigma) + 2
    k = np.arange(-reach, reach + 1)
    weight = np.exp(-0.5 * (k / sigma) ** 2)
    exact = np.cumsum(weight) / weight.sum()
    empirical = np.searchsorted(np.sort(drawn), k, side="right") / len(drawn)
    return float(np.max(np.abs(empirical - exact)))


def allowed(count: int) -> float:
    """A true distribution is farther than this with probability at most LEVEL, atoms or not (Massart 1990)."""
    return math.sqrt(math.log(2 / LEVEL) / (2 * count))


@pytest.mark.parametrize("sigma", [0.8, 2.5, 40.0, 3000.3])
def test_the_sampler_is_the_exact_discrete_gaussian_and_of_no_other_scale(sigma: float) -> None:
    drawn = draws(sigma)
    assert distance(drawn, sigma) <= allowed(DRAWS)
    assert distance(drawn, 2 / 3 * sigma) > allowed(DRAWS)
    assert distance(drawn, 3 / 2 * sigma) > allowed(DRAWS)


def test_noise_on_a_fine_grid_has_the_scale_and_no_correlation_between_coordinates() -> None:
    sigma = 2.0**40
    z = draws(sigma) / sigma
    near = 7 / math.sqrt(DRAWS)
    assert abs(z.mean()) < near
    assert abs((z**2).mean() - 1) < math.sqrt(2) * near
    assert abs((z[1:] * z[:-1]).mean()) < near


def test_noise_is_added_to_the_values() -> None:
    values = np.array([-(2**50), 0, 7, 2**50])
    noisy = OperatingSystemNoise().discrete_gaussian(values, 2.0)
    assert noisy.dtype == np.int64
    assert np.all(np.abs(noisy - values) < 30)
    assert values.tolist() == [-(2**50), 0, 7, 2**50]


@pytest.mark.parametrize(("sensitivity", "sigma"), [(1.0, 3.0), (2.0, 7.3), (2.0**41, 2.0**43.7), (2.0**33 * math.sqrt(11), 1e12)])
def test_opendp_asks_no_more_than_the_event_declares(sensitivity: float, sigma: float) -> None:
    dp.enable_features("contrib")  # as drawing noise does
    space = dp.vector_domain(dp.atom_domain(T="i64"), size=3), dp.l2_distance(T=float)
    theirs = dp.m.make_gaussian(*space, scale=sigma).map(sensitivity)
    ours = GaussianEvent(label="q", sensitivity=sensitivity, sigma=sigma, coordinates=3, adjacency=Adjacency.ZERO_OUT).rho
    assert theirs <= float(ours) * (1 + 1e-15)
    assert theirs >= float(ours) * (1 - 1e-12)


def test_a_long_vector_that_is_drawn_in_slices_keeps_its_order_and_has_other_noise_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2})
    values = np.arange(3 * LEAST_SLICE + 1) << 40
    noisy = OperatingSystemNoise().discrete_gaussian(values, 2.0**30)
    assert np.all(np.abs(noisy - values) < 2.0**35)
    assert len(set((noisy - values).tolist())) > len(values) - 10
    assert OperatingSystemNoise().discrete_gaussian(values[:0], 2.0).tolist() == []


FORKED = """
import json, os
import numpy as np
from nightfit.privacy.noise import OperatingSystemNoise

def draw():
    return OperatingSystemNoise().discrete_gaussian(np.zeros(4, dtype=np.int64), 2.0**50).tolist()

drawn = [draw()]
for _ in range(4):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, json.dumps(draw()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    drawn.append(json.loads(os.read(reader, 65536)))
drawn.append(draw())
print(json.dumps(drawn))
"""


@pytest.mark.process
def test_forked_processes_draw_different_noise() -> None:
    finished = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    drawn = [value for vector in json.loads(finished.stdout) for value in vector]
    assert len(drawn) == 24
    assert len(set(drawn)) == 24


@every_noise
@pytest.mark.parametrize("values", [np.zeros(3), np.zeros(3, dtype=np.int32), np.zeros((3, 1), dtype=np.int64)], ids=str)
def test_what_is_not_a_vector_of_int64_is_refused(noise: Noise, values: Integers) -> None:
    with pytest.raises(TypeError, match="vector of int64"):
        noise.discrete_gaussian(values, 1.0)


@every_noise
@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan, math.inf, 2.0**60])
def test_a_sigma_that_is_no_scale_is_refused(noise: Noise, sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma must lie between"):
        noise.discrete_gaussian(np.zeros(3, dtype=np.int64), sigma)


def test_only_the_noise_of_the_operating_system_is_private() -> None:
    assert [noise.private for noise in EVERY_NOISE] == [True, False, False]


def test_a_seed_repeats_its_noise_and_no_noise_adds_none() -> None:
    values = np.arange(5)
    first, second = (SeededNoise(np.random.default_rng(3)).discrete_gaussian(values, 10.0) for _ in range(2))
    assert first.tolist() == second.tolist() != values.tolist()
    assert NoNoise().discrete_gaussian(values, 10.0).tolist() == values.tolist()


def attacked(event: GaussianEvent, sigma: float, delta: float) -> audit.LowerBound:
    """The bound proved by an attacker who sees a sum move by the whole sensitivity, noise sigma, in 2 DRAWS runs."""
    moved = np.full(DRAWS, int(event.sensitivity))
    noise = OperatingSystemNoise()
    without, with_ = (noise.discrete_gaussian(values, sigma).astype(float) for values in (np.zeros_like(moved), moved))
    return audit.lower_bound(without, with_, delta=delta, confidence=1 - 1e-9)


def test_the_right_noise_is_not_caught_and_half_the_noise_is() -> None:
    epsilon, delta, sensitivity = 8.0, 1e-5, 2.0**40
    mu = math.sqrt(limit(epsilon, delta, Currency.GAUSSIAN).amount * UNIT)
    event = GaussianEvent(label="q", sensitivity=sensitivity, sigma=sensitivity / mu, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    claimed = epsilon_of(cost([event], Currency.GAUSSIAN), delta, Currency.GAUSSIAN)
    assert claimed == pytest.approx(epsilon, rel=1e-3)
    right, half = attacked(event, event.sigma, delta), attacked(event, event.sigma / 2, delta)
    assert 0.6 * mu < right.mu <= mu  # fresh entropy: how much the attacker proves varies from run to run
    assert 0.5 * claimed < right.epsilon <= claimed < 1.3 * claimed < half.epsilon
    assert right.confidence == 1 - 1e-9
    assert abs(right.threshold - sensitivity / 2) < sensitivity  # where it proves most in these draws, which is near the middle


def normal(mean: float, count: int = 4000) -> Array:
    return np.random.default_rng(int(mean * 100)).normal(mean, 1, count)


def test_an_audit_of_what_does_not_depend_on_the_data_proves_nothing() -> None:
    found = audit.lower_bound(normal(0), normal(0), delta=1e-5)
    assert (found.epsilon, found.mu) == (0, 0)
    assert audit.lower_bound(normal(2), normal(0), delta=1e-5).epsilon == 0


def test_an_audit_knows_a_release_without_noise() -> None:
    found = audit.lower_bound(np.zeros(4000), np.ones(4000), delta=1e-5, confidence=0.95)
    assert found.mu > 5
    assert found.epsilon > 20


@pytest.mark.parametrize("mu", [0.01, 0.5, 2.0, 9.0])
def test_an_audit_converts_like_the_accountant_and_rounds_down(mu: float) -> None:
    accountant = epsilon_of(Cost(math.ceil(Fraction(mu) ** 2 / UNIT)), 1e-5, Currency.GAUSSIAN)
    assert accountant * (1 - 1e-6) <= audit._epsilon(mu, 1e-5) <= accountant


@pytest.mark.parametrize(("confidence", "delta"), [(0, 1e-5), (1, 1e-5), (math.nan, 1e-5), (0.9, 0), (0.9, 1)])
def test_an_audit_without_a_confidence_or_a_delta_is_refused(confidence: float, delta: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        audit.lower_bound(normal(0), normal(1), delta=delta, confidence=confidence)


@pytest.mark.parametrize("runs", [np.zeros(1), np.array([0.0, math.nan, 1.0])], ids=["one run", "NaN"])
def test_an_audit_without_usable_runs_is_refused(runs: Array) -> None:
    with pytest.raises(ValueError, match="at least two runs"):
        audit.lower_bound(runs, normal(1), delta=1e-5)
