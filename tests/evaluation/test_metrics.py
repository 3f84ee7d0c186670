"""Metrics of histograms: without noise those that scikit-learn computes from rows; with noise an interval that holds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import evaluation as benchmark
from sklearn.metrics import (
    brier_score_loss,
    log_loss,
    mean_absolute_error,
    mean_poisson_deviance,
    r2_score,
    roc_auc_score,
)

from nightfit.evaluation.axes import BEYOND, Axis
from nightfit.evaluation.estimates import DEVIATIONS, Estimate, exactly
from nightfit.queries.evaluations import NODES, nodes

SETTINGS = {setting.name: setting for setting in benchmark.SETTINGS}
UNITS = 60_000


def evaluated(name, **changes):
    """A setting's evaluation, without noise unless changes say otherwise, and the rows that it is of."""
    setting, rng = SETTINGS[name], np.random.default_rng(1)
    asked, block = replace(benchmark.held_out(setting), units=UNITS * 5, **changes), setting.draw(rng, UNITS)
    told, _ = benchmark.evaluated(asked, block, rng, noisy=bool(changes))
    return told, block.X[:, 0], block.y


def test_numbers_have_the_metrics_of_scikit_learn():
    found, z, y = evaluated("numbers, R2 0.5")
    metrics = {name: one["value"] for name, one in found["metrics"].items()}
    assert metrics["r2"] == pytest.approx(r2_score(y, z), abs=1e-3)
    assert metrics["rmse"] == pytest.approx(math.sqrt(np.mean((y - z) ** 2)), rel=1e-4)
    assert metrics["mae"] == pytest.approx(mean_absolute_error(y, z), rel=0.005)
    assert metrics["within_10"] == pytest.approx(np.mean(np.abs(y - z) <= 0.1 * np.abs(y)), abs=1e-9)
    assert found["constant"]["rmse"]["value"] == pytest.approx(y.std(), rel=1e-3)
    other = benchmark.EARLIER[0] * z + benchmark.EARLIER[1]
    assert found["previous"]["change"]["value"] == pytest.approx(r2_score(y, z) - r2_score(y, other), rel=0.01)


def test_labels_have_the_metrics_of_scikit_learn():
    found, z, y = evaluated("labels, balanced")
    p = 1 / (1 + np.exp(-z))
    metrics = {name: one["value"] for name, one in found["metrics"].items()}
    assert metrics["auc"] == pytest.approx(roc_auc_score(y, p), abs=0.001)
    assert metrics["log_loss"] == pytest.approx(log_loss(y, p), abs=0.001)
    assert metrics["brier"] == pytest.approx(brier_score_loss((y + 1) / 2, p), abs=0.001)
    assert metrics["accuracy"] == pytest.approx(np.mean((p > 0.5) == (y > 0)), abs=0.002)
    assert metrics["deviance_explained"] == pytest.approx(1 - log_loss(y, p) / log_loss(y, np.full(len(y), np.mean(y > 0))), abs=0.002)
    other = 1 / (1 + np.exp(-benchmark.EARLIER[0] * z - benchmark.EARLIER[1]))
    entropy = log_loss(y, np.full(len(y), np.mean(y > 0)))
    assert found["previous"]["change"]["value"] == pytest.approx((log_loss(y, other) - log_loss(y, p)) / entropy, rel=0.002)
    for point in found["curves"]["calibration"]:
        assert abs(point["predicted"] - point["value"]) < 0.03
        assert point["low"] <= point["value"] <= point["high"]
    roc = np.array(found["curves"]["roc"])
    assert (np.diff(roc, axis=0) >= 0).all()
    assert np.trapezoid(roc[:, 1], roc[:, 0]) == pytest.approx(metrics["auc"], abs=0.005)


def test_counts_and_quantiles_are_judged_by_their_own_loss():
    found, z, y = evaluated("counts")
    explained = 1 - mean_poisson_deviance(y, np.exp(z)) / mean_poisson_deviance(y, np.full(len(y), y.mean()))
    assert found["metrics"]["deviance_explained"]["value"] == pytest.approx(explained, abs=0.01)
    found, z, y = evaluated("quantile 0.7")
    lost = np.mean(np.where(y > z, 0.7 * (y - z), 0.3 * (z - y)))
    assert found["metrics"]["pinball_loss"]["value"] == pytest.approx(lost, rel=1e-3)


def test_checks_say_how_many_units_could_be_judged_and_what_is_usual():
    for name in ("numbers, R2 0.5", "labels, balanced"):
        complete = evaluated(name)[0]["checks"]["complete"]
        assert complete["value"] == pytest.approx(1.0, abs=1e-6)
    found, z, y = evaluated("labels, balanced")
    assert found["checks"]["share_of_positives"]["value"] == pytest.approx(np.mean(y > 0), abs=1e-6)
    assert found["checks"]["mean_prediction"]["value"] == pytest.approx(np.mean(1 / (1 + np.exp(-z))), abs=0.002)


def test_noise_that_hides_everything_is_told_as_such():
    for name in ("numbers, R2 0.5", "labels, balanced"):
        found, _, _ = evaluated(name, mu_squared=1e-12)
        main = next(iter(found["metrics"].values()))
        assert (main["low"], main["high"]) == (-1.0, 1.0)
        assert found["previous"]["change"] == {"value": 0.0, "low": -1.0, "high": 1.0}


@pytest.mark.parametrize("name", ["numbers, R2 0.5", "labels, balanced", "counts"])
def test_intervals_hold_as_often_as_they_say(name, monkeypatch):
    """Of 60 evaluations at 90% fewer than 46 hold with a chance of one in a thousand; the benchmark has 1,000 of each."""
    monkeypatch.setattr(benchmark, "TRUTH_UNITS", 200_000)
    found = benchmark.coverage(SETTINGS[name], repetitions=60, seed=2)
    assert {metric: one["coverage"] for metric, one in found.items() if one["coverage"] * 60 < 46} == {}
    assert all(one["told"] > 0.9 for one in found.values())


def test_the_tail_of_a_histogram_ends_where_noise_hides_it():
    counts = np.zeros(NODES)
    counts[60:64] = (100, 400, 400, 100)
    quiet = Axis(counts, np.zeros(NODES), 1.0)
    assert quiet.top(False) == 63 + BEYOND
    assert Axis(counts, np.zeros(NODES), 1000.0).top(False) is None
    mean = quiet.mean(1000.0, 64)
    assert mean.value == pytest.approx(float(counts @ nodes()) / 1000)
    spread = float(counts @ nodes() ** 2) / 1000 - mean.value**2
    assert mean.variance == pytest.approx(float((nodes()[:65] ** 2).sum()) / 1e6 + spread / 1000)


def test_an_interval_counts_both_errors_of_a_ratio():
    one, other = Estimate(2.0, 0.04), Estimate(4.0, 0.16)
    assert one.over(other) == Estimate(0.5, pytest.approx((0.04 + 0.25 * 0.16) / 16))
    assert Estimate(1.0, 0.01).interval(high=1.0) == {"value": 1.0, "low": pytest.approx(1 - DEVIATIONS * 0.1), "high": 1.0}
    assert Estimate(0.04, 0.0004).root()["low"] == pytest.approx(math.sqrt(max(0.0, 0.04 - DEVIATIONS * 0.02)))
    assert exactly(3.0) == {"value": 3.0, "low": 3.0, "high": 3.0}
