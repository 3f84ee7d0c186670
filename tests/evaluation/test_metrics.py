"""Metrics of histograms: without noise those that scikit-learn computes from rows; with noise an interval that holds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks import evaluation as benchmark
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    mean_poisson_deviance,
    r2_score,
    roc_auc_score,
)

from nightfit.evaluation.asking import apart
from nightfit.evaluation.axes import BEYOND, Axis
from nightfit.evaluation.checks import drift, shares_of
from nightfit.evaluation.errors import excess
from nightfit.evaluation.estimates import DEVIATIONS, Estimate, exactly
from nightfit.evaluation.judging import judge_of
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.squared import Squared
from nightfit.queries.checks import Check, CheckCounts, CheckKind
from nightfit.queries.evaluations import NODES, nodes
from nightfit.records.outcomes import Outcome

SETTINGS = {setting.name: setting for setting in benchmark.SETTINGS}
UNITS = 60_000


def evaluated(name, **changes):
    """A setting's evaluation, without noise unless changes say otherwise, and the rows that it is of."""
    setting, rng = SETTINGS[name], np.random.default_rng(1)
    asked, block = replace(benchmark.held_out(setting), units=UNITS * 5, **changes), setting.draw(rng, UNITS)
    told, _ = benchmark.evaluated(setting, asked, block, rng, noisy=bool(changes))
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


def test_a_prediction_is_within_a_tenth_of_the_target_itself_where_that_is_transformed():
    setting, rng = SETTINGS["numbers, R2 0.5"], np.random.default_rng(1)
    asked, block = replace(benchmark.held_out(setting), units=UNITS * 5), setting.draw(rng, UNITS)
    asked = replace(asked, shape=replace(asked.shape, outcome=Outcome(transform="log1p"), target_centre=3.0, target_scale=0.5))
    told, _ = benchmark.evaluated(setting, asked, block, rng, noisy=False)
    y, z = (np.expm1(3.0 + 0.5 * of) for of in (block.y, block.X[:, 0]))
    assert told["metrics"]["within_10"]["value"] == pytest.approx(np.mean(np.abs(y - z) <= 0.1 * np.abs(y)), abs=1e-9)


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


def test_classes_have_the_metrics_of_scikit_learn():
    found, z, y = evaluated("three classes")
    scores = np.column_stack([z, np.ones(len(z))]) @ np.array(benchmark.CLASS_WEIGHTS)
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    metrics = {name: one["value"] for name, one in found["metrics"].items()}
    assert metrics["accuracy"] == pytest.approx(accuracy_score(y, p.argmax(axis=1)), abs=1e-6)
    assert metrics["macro_auc"] == pytest.approx(roc_auc_score(y, p, multi_class="ovr"), abs=0.002)
    assert metrics["log_loss"] == pytest.approx(log_loss(y, p), abs=0.002)
    rates = np.bincount(y.astype(int)) / len(y)
    assert metrics["deviance_explained"] == pytest.approx(1 + log_loss(y, p) / float(rates @ np.log(rates)), abs=0.003)
    assert found["constant"]["accuracy"]["value"] == pytest.approx(rates.max(), abs=1e-6)
    table = found["curves"]["confusion"]
    assert table["classes"] == ["0", "1", "2"]
    assert np.array(table["shares"]) == pytest.approx(confusion_matrix(y, p.argmax(axis=1), normalize="all"), abs=1e-6)
    other = np.column_stack([z, np.ones(len(z))]) @ np.array(benchmark.EARLIER_CLASS_WEIGHTS)
    q = np.exp(other) / np.exp(other).sum(axis=1, keepdims=True)
    assert found["previous"]["change"]["value"] == pytest.approx(
        (log_loss(y, q) - log_loss(y, p)) / -float(rates @ np.log(rates)), rel=0.01
    )


def test_metrics_of_a_group_are_those_of_its_rows():
    setting, rng = SETTINGS["labels, two groups"], np.random.default_rng(1)
    block = setting.draw(rng, UNITS)
    found, _ = benchmark.evaluated(setting, replace(benchmark.held_out(setting), units=UNITS * 5), block, rng, noisy=False)
    assert found["by"]["column"] == "group"
    inside = block.X[:, 2] > 0
    told = found["by"]["groups"]["b"]["metrics"]
    assert told["auc"]["value"] == pytest.approx(roc_auc_score(block.y[inside], block.X[inside, 0]), abs=0.002)
    assert told["accuracy"]["value"] == pytest.approx(np.mean((block.X[inside, 0] > 0) == (block.y[inside] > 0)), abs=0.005)
    empty = found["by"]["groups"]["other"]["metrics"]["deviance_explained"]
    assert (empty["low"], empty["high"]) == (-1.0, 1.0)


@pytest.mark.parametrize("name", ["counts", "amounts"])
def test_a_calibration_of_means_is_on_the_line_where_predictions_hold(name):
    found, _, _ = evaluated(name)
    points = found["curves"]["means"]
    assert len(points) > 5
    for point in points:
        assert point["value"] == pytest.approx(point["predicted"], rel=0.1)
        assert point["low"] <= point["value"] <= point["high"]


def test_drift_is_the_chance_that_a_unit_scores_higher_than_one_of_the_earlier_night():
    rng = np.random.default_rng(0)
    before, now = rng.normal(0, 1, 20_000), rng.normal(0.5, 1, 20_000)
    counts = [np.histogram(np.clip(z, -3.99, 3.99), 32, (-4, 4))[0].astype(float) for z in (before, now)]
    found = drift({"counts": counts[0].tolist(), "deviation": 0.0}, counts[1], 0.0)
    assert found["value"] == pytest.approx(roc_auc_score(np.repeat([0, 1], 20_000), np.concatenate([before, now])), abs=0.002)
    assert found["low"] > 0.5
    assert drift({"counts": counts[0].tolist(), "deviation": 1e9}, counts[1], 0.0) == {"value": 0.5, "low": 0.0, "high": 1.0}


def test_a_share_has_an_interval_that_holds():
    check = Check(kind=CheckKind.MISSING, column="lab", place=0)
    query, rng, deviation = CheckCounts(checks=(check, replace(check, column="age", place=1)), bits=30), np.random.default_rng(0), 15.0
    told = []
    for _ in range(400):
        lab, age = rng.binomial(1000, 0.3), rng.binomial(1000, 0.1)
        counts = np.array([1000, (lab + age) / 2, 0, 0, lab, age]) * query.weights + rng.normal(0, deviation * query.weights.mean(), 6)
        told.append(shares_of(query, counts, deviation * query.weights.mean()))
    for of, truth in (("lab", 0.3), ("age", 0.1)):
        assert 0.85 < np.mean([one["missing"][of]["low"] <= truth <= one["missing"][of]["high"] for one in told]) < 0.99
    assert "unknown_levels" not in told[0]


@pytest.mark.parametrize(("loss", "expected"), [(Squared(), 0.5), (Poisson(high=1e6), 0.5 / 20), (Gamma(), 0.5 / 20**2)])
def test_the_noise_of_a_constant_makes_it_worse_by_half_of_the_variance_and_the_curvature(loss, expected):
    """s^2 / 2 times the second derivative of the mean loss in the constant, at the mean 20: 1, 1 / m and 1 / m^2."""
    judge = judge_of(loss)
    assert excess(judge, 20.0, 3.0) == pytest.approx(9 * expected, rel=0.02)
    assert excess(judge, 20.0, 0.0) == 0.0
    assert math.isfinite(excess(judge, 1e-3, 1e3))


def test_counts_and_quantiles_are_judged_by_their_own_loss():
    found, z, y = evaluated("counts")
    explained = 1 - mean_poisson_deviance(y, np.exp(z)) / mean_poisson_deviance(y, np.full(len(y), y.mean()))
    assert found["metrics"]["deviance_explained"]["value"] == pytest.approx(explained, abs=0.01)
    found, z, y = evaluated("quantile 0.7")
    lost = np.mean(np.where(y > z, 0.7 * (y - z), 0.3 * (z - y)))
    assert found["metrics"]["pinball_loss"]["value"] == pytest.approx(lost, rel=1e-3)


def test_checks_say_how_many_units_could_be_judged_and_what_is_usual():
    for name in ("numbers, R2 0.5", "labels, balanced", "three classes"):
        complete = evaluated(name)[0]["checks"]["complete"]
        assert complete["value"] == pytest.approx(1.0, abs=1e-6)
    found, z, y = evaluated("labels, balanced")
    assert found["checks"]["share_of_positives"]["value"] == pytest.approx(np.mean(y > 0), abs=1e-6)
    assert found["checks"]["mean_prediction"]["value"] == pytest.approx(np.mean(1 / (1 + np.exp(-z))), abs=0.002)


def test_noise_that_hides_everything_is_told_as_such():
    for name in ("numbers, R2 0.5", "labels, balanced", "three classes", "counts"):
        found, _, _ = evaluated(name, mu_squared=1e-12)
        main = next(iter(found["metrics"].values()))
        assert (main["low"], main["high"]) == (-1.0, 1.0)
        assert found["previous"]["change"] == {"value": 0.0, "low": -1.0, "high": 1.0}


@pytest.mark.parametrize("name", ["numbers, R2 0.5", "labels, balanced", "counts", "three classes"])
def test_intervals_hold_as_often_as_they_say(name, monkeypatch):
    """Of 30 evaluations at 90% fewer than 21 hold with a chance of one in a thousand; the benchmark has 1,000 of each."""
    monkeypatch.setattr(benchmark, "TRUTH_UNITS", 100_000)
    found = benchmark.coverage(SETTINGS[name], repetitions=30, seed=2)
    assert {metric: one["coverage"] for metric, one in found.items() if one["coverage"] * 30 < 21} == {}
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


def test_the_mean_of_a_heavy_tail_is_clipped_where_its_noise_would_hide_more():
    """Of 1,000 targets two lie at 2^12: they are 8 of the mean, and the noise of that node alone would be 40."""
    positive = np.zeros(NODES)
    positive[[64, 66, 76]] = (500.0, 498.0, 2.0)
    axis = Axis(positive, np.zeros(NODES), 10.0)
    mean = axis.quiet_mean(1000.0, 77)
    assert mean.value == pytest.approx(0.5 + 0.498 * 4 + 0.002 * 4)
    assert mean.variance == pytest.approx(2 * 1e-4 * (sum(4.0**node for node in range(-64, 3)) + 11 * 16))
    assert Axis(positive, np.zeros(NODES), 1e-9).quiet_mean(1000.0, 77).value == pytest.approx(0.5 + 0.498 * 4 + 0.002 * 4096)


def test_an_interval_counts_both_errors_of_a_ratio():
    one, other = Estimate(2.0, 0.04), Estimate(4.0, 0.16)
    assert one.over(other) == Estimate(0.5, pytest.approx((0.04 + 0.25 * 0.16) / 16))
    assert Estimate(1.0, 0.01).interval(high=1.0) == {"value": 1.0, "low": pytest.approx(1 - DEVIATIONS * 0.1), "high": 1.0}
    assert Estimate(0.04, 0.0004).root()["low"] == pytest.approx(math.sqrt(max(0.0, 0.04 - DEVIATIONS * 0.02)))
    assert exactly(3.0) == {"value": 3.0, "low": 3.0, "high": 3.0}


@pytest.mark.parametrize("ends", [(1e12, 1e12), (0.0, 0.0), (-math.inf, math.inf), (1e308, 1.7e308), (-5e-324, 5e-324), (1.0, 2.0)])
def test_a_range_of_predictions_has_bins_whatever_was_paid(ends):
    low, high = apart(*ends)
    assert -math.inf < low < high < math.inf
    assert (np.diff(np.linspace(low, high, 33)) > 0).all()
    assert ends != (1.0, 2.0) or (low, high) == ends
