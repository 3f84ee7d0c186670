"""A plan promises no interval that the evaluation does not hold."""

from dataclasses import replace

import numpy as np
import pytest
from benchmarks import evaluation as benchmark
from benchmarks.evaluation import Setting
from scipy.special import expit

from nightfit.evaluation import foretold
from nightfit.evaluation.foretold import HIDDEN, SPREAD_OF_SCORES
from nightfit.evaluation.held_out import HeldOut
from nightfit.evaluation.scores import score_range
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.queries.evaluations import LARGEST_SCORE, SCORE_BINS

SEED, EVALUATIONS = 3, 15


def half_widths(setting: Setting) -> tuple[HeldOut, list[float]]:
    """The evaluation that is planned, and half of the interval of its main metric, of some evaluations."""
    rng, asked = np.random.default_rng(SEED), replace(benchmark.held_out(setting), earlier=None)
    blocks = [setting.draw(rng, rng.binomial(setting.units, benchmark.SHARE)) for _ in range(EVALUATIONS)]
    mains = [benchmark.evaluated(setting, asked, block, rng)[0]["metrics"][asked.judge.main] for block in blocks]
    return asked, [(one["high"] - one["low"]) / 2 for one in mains]


def labels(share: float, units: int, epsilon: float = 1.0) -> Setting:
    """Of which this share is positive, and of which the model explains half."""
    level = float(np.median(foretold.log_odds(share)))
    return Setting(name="", loss=Logistic(), targets=benchmark._labels, level=level, spread=SPREAD_OF_SCORES, units=units, epsilon=epsilon)


@pytest.mark.parametrize(("share", "units", "epsilon"), [(0.5, 5_000, 1.0), (0.5, 50_000, 1.0), (0.1, 20_000, 2.0), (0.1, 15_000, 1.0)])
def test_what_is_foretold_of_labels_holds(share: float, units: int, epsilon: float) -> None:
    asked, found = half_widths(labels(share, units, epsilon))
    promised = asked.half_width(share)
    assert 0.6 * promised < np.median(found) < promised < HIDDEN


def test_labels_so_rare_that_noise_hides_them_are_promised_nothing() -> None:
    asked, found = half_widths(labels(0.05, 5_000))
    assert np.median(found) == asked.half_width(0.05) == HIDDEN
    assert asked.half_width(0.5) < HIDDEN
    told = " ".join(asked.explain("record"))
    assert "If 10% are: nothing; noise hides fewer than about" in told
    assert "To be known: nothing, of so few units" in " ".join(replace(asked, units=500).explain("record"))


@pytest.mark.parametrize("units", [5_000, 20_000, 100_000])
def test_what_is_foretold_of_numbers_holds(units: int) -> None:
    noisy = Setting(name="", loss=Squared(), targets=lambda rng, z: z + rng.normal(size=len(z)), units=units)
    asked, found = half_widths(noisy)
    assert np.median(found) < 1.1 * asked.expected_half_width < HIDDEN


@pytest.mark.parametrize("units", [5_000, 20_000])
def test_what_is_foretold_of_classes_holds(units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "CLASS_WEIGHTS", ((-3.5, 0.0, 3.5), (0.0, 0.5, -0.5)))  # which explain half
    asked, found = half_widths(replace(next(one for one in benchmark.SETTINGS if one.classes), units=units))
    assert np.median(found) < asked.expected_half_width < HIDDEN


def test_normal_log_odds_explain_half_of_the_deviance_at_every_share() -> None:
    for share in (0.05, 0.1, 0.5):
        p = expit(foretold.log_odds(share))
        lost, most = (-float(np.mean(of * np.log(of) + (1 - of) * np.log1p(-of))) for of in (p, np.array([share])))
        assert p.mean() == pytest.approx(share)
        assert 1 - lost / most == pytest.approx(0.5, abs=0.01)


def test_scores_at_both_ends_with_few_between_are_all_in_the_range() -> None:
    counts = np.zeros(2 * SCORE_BINS)
    counts[[0, 1, 2 * SCORE_BINS - 1]] = [1000.0, 300.0, 900.0]
    assert score_range(counts, 10.0) == (-LARGEST_SCORE, LARGEST_SCORE)
    assert score_range(np.where(counts > 500, 0.0, counts), 10.0) == pytest.approx((-LARGEST_SCORE, -LARGEST_SCORE + 1.5))
