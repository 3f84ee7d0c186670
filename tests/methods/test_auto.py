"""`auto`: the mathematics between its queries, and that it asks exactly what was reserved."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from benchmarks._fits import Memory
from sklearn.metrics import roc_auc_score
from sklearn.svm import LinearSVC

from nightfit.methods.auto import thresholds
from nightfit.methods.auto.adaptive_shrinkage import mixture_posterior
from nightfit.methods.auto.column_scales import ColumnScales, find_scales, find_spreads
from nightfit.methods.auto.complete_rows import believed_share, counted_share
from nightfit.methods.auto.constants.histograms import SIGNIFICANCE_MARGIN
from nightfit.methods.auto.constants.screening import MOST_WHITENED
from nightfit.methods.auto.constants.shrinkage import MIXTURE_VARIANCES
from nightfit.methods.auto.descent import AskedGradient, Descent
from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution, quantile
from nightfit.methods.auto.logistic_margins import label_share, with_share
from nightfit.methods.auto.noisy_histograms import noise_level, significant
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.quadratic_prox import proximal
from nightfit.methods.auto.scale_windows import together, windowed_scales
from nightfit.methods.auto.screening import ScreenedAutoFit, automatic
from nightfit.methods.auto.screening_round import Evidence
from nightfit.methods.auto.shrinkage import shrunk
from nightfit.methods.auto.tuning import Tuning
from nightfit.methods.auto.whitened_coordinates import find_coordinates
from nightfit.methods.auto.whitening import centring, largest_noise_eigenvalue, repaired, safe_curvature
from nightfit.methods.procedure import Outcome
from nightfit.privacy.accounting import UNIT, Currency, cost, limit
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise, SeededNoise
from nightfit.problem.losses import Loss
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.huber import Huber
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.box import Box
from nightfit.problem.penalties.elastic_net import ElasticNet
from nightfit.problem.penalties.l1 import L1
from nightfit.problem.penalties.l2 import L2
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.magnitudes import COLUMN_GRID, NORM_GRID, RESIDUAL_GRID, WINDOW_GRID, LogGrid
from nightfit.queries.rows import Rows
from nightfit.queries.second_moments import DIAGONAL
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import Adjacency, Array


def shape(features: int, *, bounds: float = math.inf, intercept: bool = True, labels: bool = False) -> Preprocessing:
    return Preprocessing(
        features=tuple(f"x{j}" for j in range(features)),
        target="y",
        centre=(0.0,) * features,
        scale=(1.0 if bounds == math.inf else bounds,) * features,
        reach=(math.inf,) * features if bounds == math.inf else (),
        intercept=intercept,
        target_domain=Target.LABELS if labels else Target.REAL,
    )


def auto_of(
    preprocessing: Preprocessing, units: int, loss: Loss, *, epsilon: float = 1.0, penalty: Penalty | None = None, **more: Any
) -> AutoFit:
    return AutoFit(
        **{
            "loss": loss,
            "penalty": penalty or NoPenalty(),
            "preprocessing": preprocessing,
            "units": units,
            "adjacency": Adjacency.REPLACE_ONE,
            "mu_squared": float(limit(epsilon, 1e-6, Currency.GAUSSIAN).amount * UNIT),
            "largest_units": units,
            **more,
        }
    )


def gate_of(plan: AutoFit | ScreenedAutoFit, X: Array, y: Array, seed: int | None = 0) -> tuple[Gate, Memory]:
    account = Memory({event.label: event for event in plan.events})
    noise = NoNoise() if seed is None else SeededNoise(np.random.default_rng(seed))
    return Gate(account=account, records=ArrayRecords(X, y, plan.preprocessing), noise=noise), account


def ran(plan: AutoFit | ScreenedAutoFit, X: Array, y: Array, seed: int | None = 0) -> tuple[Outcome, Memory]:
    gate, account = gate_of(plan, X, y, seed)
    return plan.run(gate, lambda _: None), account


def coefficients(outcome: Outcome) -> tuple[Array, float]:
    assert outcome.preprocessing is not None
    return outcome.preprocessing.in_original_units(outcome.weights)


def predictions(outcome: Outcome, X: Array) -> Array:
    assert outcome.preprocessing is not None
    return outcome.preprocessing.features_of(X)[0] @ outcome.weights


def linear(seed: int, rows: int, features: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(rows, features)), rng.normal(size=features)
    return X, X @ w + 1.0 + rng.normal(size=rows), w


WILD = [
    np.zeros((40, 3)),
    np.full((40, 3), math.nan),
    np.full((40, 3), 1e308),
    np.full((40, 3), 5e-324),
    np.random.default_rng(0).standard_cauchy((40, 3)) * 1e200,
    np.random.default_rng(1).normal(size=(40, 3)),
]


@pytest.mark.parametrize("loss", [Squared(), Huber(), Logistic(), Hinge()], ids=["squared", "huber", "logistic", "hinge"])
@pytest.mark.parametrize("bounds", [1.0, math.inf])
@pytest.mark.parametrize("intercept", [True, False])
def test_auto_asks_exactly_its_events_whatever_the_data_are(loss: Loss, bounds: float, intercept: bool) -> None:
    plan = auto_of(shape(3, bounds=bounds, intercept=intercept, labels=loss.target is Target.LABELS), 40, loss)
    labels = [event.label for event in plan.events]
    assert ("hidden scales" in labels) == (bounds == math.inf)
    for X in WILD:
        outcome, account = ran(plan, X, np.where(np.arange(40) % 2, 1.0, 0.0) if loss.target is Target.LABELS else X[:, 0])
        assert list(account.stored) == labels
        assert np.isfinite(outcome.weights).all()


@pytest.mark.parametrize("epsilon", [0.01, 0.25, 1.0, 8.0])
@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("features", [1, 40, 400])
def test_auto_costs_its_budget_and_no_more(epsilon: float, adjacency: Adjacency, features: int) -> None:
    plan = auto_of(shape(features), 50_000, Squared(), epsilon=epsilon, adjacency=adjacency)
    ceiling = limit(epsilon, 1e-6, Currency.GAUSSIAN)
    spent = cost(plan.events, Currency.GAUSSIAN)
    assert spent.fits(ceiling)
    assert spent.amount >= ceiling.amount * 0.999999
    assert abs(sum(plan.shares.values()) - 1) < 1e-12
    assert all(event.sigma >= 2**30 for event in plan.events)


def test_columns_with_public_bounds_pay_for_no_scale() -> None:
    events = auto_of(shape(3, bounds=2.0), 100, Squared()).events
    assert {"scales", "hidden scales", "spreads"} & {event.label for event in events} == set()


def test_a_stored_answer_makes_the_same_fit() -> None:
    X, y, _ = linear(0, 500, 3)
    plan = auto_of(shape(3), 500, Squared())
    outcome, account = ran(plan, X, y)
    gate = Gate(account=account, records=ArrayRecords(X[:0], y[:0], plan.preprocessing), noise=NoNoise())
    assert np.array_equal(plan.run(gate, lambda _: None).weights, outcome.weights)


@pytest.mark.parametrize("bounds", [8.0, math.inf])
def test_without_noise_auto_finds_the_least_squares_fit(bounds: float) -> None:
    X, y, w = linear(1, 4_000, 4)
    plan = auto_of(shape(4, bounds=bounds), 4_000, Squared(), epsilon=8.0)
    coef, intercept = coefficients(ran(plan, X, y, seed=None)[0])
    assert np.abs(coef - w).max() < 0.1
    assert abs(intercept - 1.0) < 0.1


@pytest.mark.parametrize("scale", [1e-5, 1.0, 1e7])
def test_units_of_columns_and_target_do_not_matter(scale: float) -> None:
    X, y, w = linear(2, 20_000, 4)
    X = X * [1e-4, 1.0, 1e3, 1e6]
    coef, _ = coefficients(ran(auto_of(shape(4), 20_000, Squared()), X, y * scale)[0])
    assert np.abs(coef * [1e-4, 1.0, 1e3, 1e6] / scale - w).max() < 0.15


def test_a_small_variance_about_a_large_mean_is_found() -> None:
    X, y, w = linear(3, 20_000, 4)
    y += (1 - w[0]) * X[:, 0]
    X[:, 0] = 2_000 + 3 * X[:, 0]
    said = auto_of(shape(4), 20_000, Squared())
    coef, _ = coefficients(ran(said, X, y)[0])
    assert abs(3 * coef[0] - 1) < 0.15
    blind = replace(said, tuning=Tuning(means=0.0, spreads=0.0))
    assert abs(3 * coefficients(ran(blind, X, y)[0])[0][0] - 1) > 0.5


def test_huber_withstands_noise_that_breaks_least_squares() -> None:
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(20_000, 5)), rng.normal(size=5)
    y = X @ w + rng.standard_t(1.5, 20_000)
    coef, _ = coefficients(ran(auto_of(shape(5), 20_000, Huber()), X, y)[0])
    assert np.linalg.norm(coef - w) < 0.15


@pytest.mark.parametrize("loss", [Logistic(), Hinge()], ids=["logistic", "hinge"])
def test_labels_are_told_apart(loss: Loss) -> None:
    X, z, w = linear(5, 20_000, 5)
    y = (z > 1.0).astype(float)
    outcome, _ = ran(auto_of(shape(5, labels=True), 20_000, loss), X, y)
    truth = X @ w > 0
    assert ((predictions(outcome, X) > 0) == truth).mean() > 0.95


def test_a_hinge_is_as_small_as_without_privacy() -> None:
    """Within a tenth of scikit-learn's on the same rows. A hinge's residuals are 0 or 1: where their sizes set the clip, as those of other
    losses do, steps after the first did not move and the mean loss was six times as large.
    """
    rng = np.random.default_rng(6)
    X, w = rng.normal(size=(20_000, 10)), rng.normal(size=10)
    y = (rng.random(20_000) < 1 / (1 + np.exp(0.5 - X @ w))).astype(float)
    plain = LinearSVC(loss="hinge", C=0.01, max_iter=20_000, random_state=0).fit(X, y).decision_function(X)
    private = predictions(ran(auto_of(shape(10, labels=True), 20_000, Hinge()), X, y)[0], X)
    losses = [np.maximum(0.0, 1 - (2 * y - 1) * margin).mean() for margin in (private, plain)]
    assert losses[0] < 1.1 * losses[1]


def labels_with_nulls(share: float, loss: Loss, seed: int | None) -> tuple[Outcome, Array, Array]:
    """A fit of 60,000 labels, of which so many lack a value; all rows before they lost it, and the labels."""
    rng = np.random.default_rng(0)
    X = rng.normal([0, 2, 0, 0, 1], size=(60_000, 5))
    margins = (X - [0, 2, 0, 0, 1]) @ [1.0, -0.5, 0.3, 0.0, 0.4] - 2
    y = (rng.random(60_000) < 1 / (1 + np.exp(-margins))).astype(float)
    lacking = X.copy()
    lacking[rng.random(60_000) < share, 0] = math.nan
    return ran(auto_of(shape(5, labels=True), 60_000, loss), lacking, y, seed)[0], X, y


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("share", [0.0, 0.26, 0.5])
def test_null_records_do_not_move_a_rate_towards_a_half(share: float, seed: int | None) -> None:
    """One label in six. A null record adds nothing to the mean residual, which was taken for that of complete rows: 0.168 was predicted
    as 0.263 and 0.341, far outside of the intercept's interval.
    """
    outcome, X, y = labels_with_nulls(share, Logistic(), seed)
    assert (1 / (1 + np.exp(-predictions(outcome, X)))).mean() == pytest.approx(y.mean(), abs=0.015)
    slopes, intercept = coefficients(outcome)
    np.testing.assert_allclose(slopes, [1.0, -0.5, 0.3, 0.0, 0.4], atol=0.1)
    assert outcome.intervals is not None
    low, high = outcome.intervals.at(0.95)[-1]
    assert low < intercept < high


def test_slopes_of_a_well_known_logistic_model_are_not_too_small() -> None:
    """Steps of labels only approach: without one more, by the curvature of clipped gradients, slopes were an eighth too small, and the
    intercept lay above its own interval.
    """
    outcome = labels_with_nulls(0.0, Logistic(), None)[0]
    slopes, intercept = coefficients(outcome)
    assert outcome.intervals is not None
    np.testing.assert_allclose(slopes, outcome.intervals.estimate[:-1], atol=0.01)
    assert slopes[0] > 0.98
    low, high = outcome.intervals.at(0.95)[-1]
    assert low < intercept < high


def test_null_records_do_not_move_a_hinge() -> None:
    """The first intercept was that of a mean residual with zeros in it, and steps led from there to slopes five times as large."""
    complete, lacking = (coefficients(labels_with_nulls(share, Hinge(), None)[0]) for share in (0.0, 0.5))
    np.testing.assert_allclose(lacking[0], complete[0], atol=0.02)
    assert lacking[1] == pytest.approx(complete[1], abs=0.02)


def test_null_records_do_not_stretch_a_least_squares_fit() -> None:
    """Half of the rows are null. The second moment of predictions was half of what it was taken for, and slopes became a fifth larger:
    the interval of the first lay above its truth.
    """
    rng = np.random.default_rng(0)
    X, w = rng.normal([0, 2, 0, 0, 1], size=(60_000, 5)), np.array([1.0, -0.5, 0.3, 0.0, 0.4])
    y = X @ w + np.random.default_rng(3).exponential(3, size=60_000)
    X[rng.random(60_000) < 0.5, 0] = math.nan
    outcome, _ = ran(auto_of(shape(5), 60_000, Squared()), X, y, 1)
    np.testing.assert_allclose(coefficients(outcome)[0], w, atol=0.1)
    assert outcome.intervals is not None
    low, high = outcome.intervals.at(0.95)[:-1].T
    assert ((low < w) & (w < high)).all()


def test_the_share_of_complete_rows_is_one_unless_noise_cannot_have_made_it_smaller() -> None:
    rows = Rows(centre=np.zeros(3), scale=np.ones(3), reach=np.array([8.0, 8.0, 2.0]))
    counts = np.zeros(NORM_GRID.bins)
    counts[34:40] = 100.0
    counts[[0, -1]] = 500.0  # no row has such a norm: noise
    told = [counted_share(counts, deviation, rows, 1_000) for deviation in (1.0, 100.0)]
    assert [used.share for used in told] == pytest.approx([0.6, 0.6])
    assert [believed_share(used.share, used.deviation) for used in told] == pytest.approx([0.6, 1.0])
    nothing = counted_share(np.zeros(NORM_GRID.bins), 1.0, rows, 1_000)
    assert believed_share(nothing.share, nothing.deviation) > nothing.share == 0


@pytest.mark.parametrize("amounts", [0, 3])
def test_printed_coefficients_of_rare_indicators_serve_as_they_are_printed(amounts: int) -> None:
    """The table without clamps on raw rows, epsilon 0.25, 6 fixed seeds. Where noise hid an indicator's scale, one of 2^-26 was suspected,
    and its coefficient was 10^7: in 7 seeds of 20 the squared error was 2.5 to 10^14 times that of the mean, in 12 with amounts beside.
    """
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = (rng.random((5_000, 60)) < np.geomspace(0.0005, 0.05, 60)).astype(float)
        X = np.hstack([X, rng.normal(38, 10, size=(5_000, amounts))])
        y = 2 + X[:, :60] @ rng.normal(size=60) + 0.02 * X[:, 60:].sum(axis=1) + rng.normal(size=5_000)
        coef, intercept = coefficients(ran(auto_of(shape(60 + amounts), 5_000, Squared(), epsilon=0.25), X, y, seed)[0])
        assert np.mean((y - X @ coef - intercept) ** 2) < 1.1 * y.var(), seed


@pytest.mark.parametrize(("epsilon", "least"), [(0.25, 0.62), (1.0, 0.77)])
def test_a_rare_label_is_told_apart(epsilon: float, least: float) -> None:
    """Area under the curve for one label in 25 and rare indicators, mean of 5 fixed seeds: 0.82 without privacy. Where a histogram of
    residuals set the clip, at the size of nearly all of them, it was 0.75 at epsilon 1; now 0.787. Where the steps that approach were
    shrunk, it was 0.54 at 0.25; now 0.668.
    """
    areas = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = np.hstack([(rng.random((25_000, 20)) < np.geomspace(0.005, 0.5, 20)).astype(float), rng.normal(size=(25_000, 10))])
        direction = X / X.std(axis=0) @ rng.normal(size=30)
        y = (rng.random(25_000) < 1 / (1 + np.exp(4 - 1.2 * (direction - direction.mean()) / direction.std()))).astype(float)
        areas.append(
            roc_auc_score(y, predictions(ran(auto_of(shape(30, labels=True), 25_000, Logistic(), epsilon=epsilon), X, y, seed)[0], X))
        )
    assert np.mean(areas) > least


def test_the_clip_of_labels_is_a_public_number() -> None:
    """A half where noise is large, more where it is small, one where there is hardly any; a hinge has nothing to cut."""

    def clip(units: int, loss: Loss) -> float:
        return auto_of(shape(50, labels=True), units, loss).clip_of_labels

    clips = [clip(units, Logistic()) for units in (1_000, 30_000, 100_000, 10**7)]
    assert clips[0] == 0.5 < clips[1] < clips[2] < clips[3] == 1.0
    assert clip(1_000, Hinge()) == 1.0


def seeds(epsilon: float, count: int) -> Iterator[tuple[float, float]]:
    for seed in range(count):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1_000, 4)) * [1, 10, 0.1, 1]
        X[:, 3] = X[:, 3] > 0.5
        y = X[:, 0] + X[:, 3] + rng.standard_t(3, 1_000)
        outcome, _ = ran(auto_of(shape(4), 1_000, Squared(), epsilon=epsilon), X, y, seed)
        residual = y - predictions(outcome, X)
        yield float(np.sqrt(np.mean((predictions(outcome, X) - X[:, 0] - X[:, 3]) ** 2))), 1 - residual.var() / y.var()


@pytest.mark.parametrize(
    ("epsilon", "count"), [(1.0, 40), pytest.param(0.25, 200, marks=pytest.mark.sweep), pytest.param(1.0, 200, marks=pytest.mark.sweep)]
)
def test_no_seed_blows_up(epsilon: float, count: int) -> None:
    """Worst over median error below 5; at epsilon 1, on average no worse than the mean of the target."""
    errors, explained = zip(*seeds(epsilon, count), strict=True)
    assert max(errors) < 5 * float(np.median(errors))
    assert epsilon < 1 or np.mean(explained) > -0.01


def test_with_no_signal_the_fit_is_the_mean() -> None:
    """Mean R2 over 20 seeds of a target that no column explains: at least -0.01."""
    scores = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(3_000, 8)), 5 + rng.normal(size=3_000)
        predicted = predictions(ran(auto_of(shape(8), 3_000, Squared()), X, y, seed)[0], X)
        scores.append(1 - np.mean((y - predicted) ** 2) / y.var())
    assert np.mean(scores) >= -0.01


EIGHT = LogGrid(low=0.0, step=1.0, bins=8)


def test_windows_that_noise_would_not_show_and_the_slopes_beside_them_are_kept() -> None:
    counts = np.array([30.0, 0, 900, 1000, -30, 0, 300, 0, 0, 0, 0, 0, 80])
    assert significant(counts, 20.0, math.inf).tolist() == [0, 0, 900, 1000, 0, 0, 300, 0, 0, 0, 0, 0, 0]
    counts[-1] = 95
    assert significant(counts, 20.0, math.inf)[-1] == 95
    assert significant(counts, 20.0, math.inf, among=1_000)[-1] == 0
    assert significant(np.full(8, 10.0), 20.0, math.inf).tolist() == [0.0] * 8
    beside = np.array([0.0, 1000, 60, 0, 0, 0, 0, 0, 0])  # by itself 60 would not show
    assert significant(beside, 20.0, math.inf).tolist() == beside.tolist()
    assert significant(beside[::-1], 20.0, math.inf).tolist() == beside[::-1].tolist()
    assert quantile(np.zeros(8), EIGHT, 0.5) is None
    assert quantile(np.array([0, 1.0, 1.0, 0, 0, 0, 0, 0]), EIGHT, 0.75) == pytest.approx(2**2.5)


def noise(histograms: int, bins: int = COLUMN_GRID.bins) -> Array:
    return np.random.default_rng(0).normal(size=(histograms, bins))


def test_noise_alone_shows_nothing_and_half_of_the_records_always_show() -> None:
    """Noise passes in about one of 8,000 histograms of 145 bins, so in more than 2 of 2,000 with a chance of 0.002; a window with twice the
    level is always found where it is."""
    empty = noise(2_000)
    assert sum(bool(significant(counts, 1.0, math.inf).any()) for counts in empty) <= 2
    for counts in empty[:100]:
        counts[60:63] += 7.0
        kept = np.flatnonzero(significant(counts, 1.0, math.inf))
        assert 55 <= kept.min() <= kept.max() <= 67


def nineties(counts: Array) -> Array:
    """The 0.9 quantile of each row's cleaned counts, not a number where there are none."""
    return np.array([quantile(significant(row, 1.0, math.inf), COLUMN_GRID, 0.9) or math.nan for row in counts])


def test_a_broad_column_is_found_though_each_of_its_bins_is_hidden() -> None:
    """Twenty bins of 2.5 deviations, where one needs 5: found in all of 200 histograms, its 0.9 quantile within a factor of 2 in 190."""
    column = np.zeros(COLUMN_GRID.bins)
    column[40:60] = 2.5
    assert column.max() < noise_level(COLUMN_GRID.bins, 1.0) + SIGNIFICANCE_MARGIN
    found = nineties(column + noise(200))
    assert np.isfinite(found).all()
    assert (np.abs(np.log2(found / quantile(column, COLUMN_GRID, 0.9))) <= 1).sum() >= 190


def test_an_indicator_is_found_in_its_bin() -> None:
    """Of 9 deviations, in all of 200 histograms; in fewer than one of 40 another bin is counted in."""
    column = np.zeros(COLUMN_GRID.bins)
    column[70] = 9.0
    kept = [np.flatnonzero(significant(row, 1.0, math.inf)).tolist() for row in column + noise(200)]
    assert all(70 in bins for bins in kept)
    assert sum(bins == [70] for bins in kept) >= 195


def test_a_lone_bin_of_noise_far_out_does_not_set_a_quantile() -> None:
    """Six bins of 5 deviations and one of 4.5 that lies 2^32 beyond, higher than noise shows in one of 2,000 histograms: the quantile is
    more than twice the largest size in fewer than 5 of 200."""
    counts = noise(200)
    counts[:, 40:46] += 5.0
    counts[:, 110] = 4.5
    assert (nineties(counts) > 2 * COLUMN_GRID.upper[45]).sum() < 5


def test_a_run_of_mild_noise_beside_a_window_is_no_tail() -> None:
    """Twenty bins of one deviation, together 4.5: as slope steps they would need 3 more than a single bin does."""
    counts = np.zeros(COLUMN_GRID.bins)
    counts[40:45], counts[45:65] = 6.0, 1.0
    assert np.flatnonzero(significant(counts, 1.0, math.inf)).tolist() == [40, 41, 42, 43, 44]
    assert np.flatnonzero(significant(counts[::-1], 1.0, math.inf)).tolist() == [100, 101, 102, 103, 104]


def test_a_window_holds_no_more_than_all_records() -> None:
    """Seven bins of what is there, 28 of mild noise beside: all of them together stand out more than the seven alone."""
    counts = np.zeros(COLUMN_GRID.bins)
    counts[40:47], counts[47:75] = 2.2, 0.8
    assert np.flatnonzero(significant(counts, 1.0, math.inf))[-1] > 70
    assert np.flatnonzero(significant(counts, 1.0, 15.4)).tolist() == list(range(40, 47))
    counts[:] = 0.0
    counts[39:42] = 4.9, 16.0, 4.9
    assert significant(counts, 1.0, math.inf)[39:42].tolist() == [4.9, 16.0, 4.9]
    assert significant(counts, 1.0, 16.0)[39:42].tolist() == pytest.approx([1.0, 16.0, 1.0])  # two deviations of the window's noise


def test_a_target_far_from_zero_is_found_and_one_of_any_size_does_no_harm() -> None:
    """A target of deviation one about 100 (mean R2 of five seeds 0.27 without noise), and one whose size noise hides in most seeds."""
    far, small = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3_000, 10))
        y = 0.5 * X[:, 0] + math.sqrt(0.75) * rng.normal(size=3_000)
        for found, rows, target, epsilon in ((far, 3_000, 100 + y, 1.0), (small, 600, 1e-7 * y, 0.25)):
            plan = auto_of(shape(10), rows, Squared(), epsilon=epsilon)
            predicted = predictions(ran(plan, X[:rows], target[:rows], seed=seed)[0], X)
            found.append(1 - np.mean((target - predicted) ** 2) / target.var())
    assert np.mean(far) > 0.1
    assert np.min(small) > -0.2


def test_a_window_of_norms_pays_for_its_width() -> None:
    """A histogram that made the cap on rows sixteen times too large: rows lie in the fifth to eighth of these bins, the rest is noise."""
    counts = np.zeros(NORM_GRID.bins)
    counts[32:44] = [0.9, 0.4, 0.7, 1.1, 3.1, 4.2, 1.1, 2.0, 0.8, 0.6, 0.8, 0.4]
    counts[44:56] = [2.1, 0.6, 1.8, 0.0, 1.3, 0.0, 0.7, 1.9, 0.9, 1.2, 0.5, 0.9]
    assert np.flatnonzero(significant(counts, 1.0, math.inf))[-1] == 55
    sizes = MagnitudeDistribution.of(counts, NORM_GRID, 1.0, 11)
    assert sizes is not None
    assert sizes.quantile(0.9) < NORM_GRID.upper[44]


def test_hidden_records_are_put_beyond_the_visible_ones() -> None:
    """Above as many as may hide there, and the rest below."""
    sizes = MagnitudeDistribution.of(np.array([0.0, 500, 300, 0, 0, 0, 0, 0]), EIGHT, 10.0, 1_000)
    assert sizes is not None
    tail = noise_level(8, 10.0) * 0.25 ** np.arange(5)  # in the next bin no more than would have been seen there
    expected = np.r_[200 - tail.sum(), 500, 300, tail]
    assert sizes.shares.tolist() == pytest.approx((expected / expected.sum()).tolist())
    assert MagnitudeDistribution.of(np.zeros(8), EIGHT, 10.0, 1_000) is None


def test_a_hidden_tail_falls_from_what_is_visible() -> None:
    """The next bin could hide more than twenty records, but beside 60 that fall to a quarter there are hardly more than three times 15."""
    sizes = MagnitudeDistribution.of(np.array([0.0, 5_000, 60, 0, 0, 0, 0, 0]), EIGHT, 20.0, 6_000)
    assert sizes is not None
    assert noise_level(8, 20.0) > 45
    tail = 45 * 0.25 ** np.arange(5)
    expected = np.r_[940 - tail.sum(), 5_000, 60, tail]
    assert sizes.shares.tolist() == pytest.approx((expected / expected.sum()).tolist())


def test_hidden_records_below_are_no_denser_than_the_first_visible_bin() -> None:
    """2,000 of 4,000 are missing: a bin of 800 per octave has 400 in the octave below it, 200 in the next."""
    sizes = MagnitudeDistribution.of(np.array([0.0, 0, 800, 1_200, 0, 0, 0, 0]), EIGHT, 10.0, 4_000)
    assert sizes is not None
    assert (sizes.shares[:2] / sizes.shares[2]).tolist() == pytest.approx([1 / 4, 1 / 2])


def test_a_clip_is_not_larger_because_noise_hides_small_residuals() -> None:
    """4,434 normal residuals in half octaves at a noise of 120 records, which hides those below a third of a deviation: the share inside of
    half a deviation is known within a tenth, on average over 40 seeds; it was 0.23 instead of 0.38 while they were left out.
    """
    shares = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        counts = np.histogram(np.abs(rng.normal(size=4_434)), np.r_[RESIDUAL_GRID.edges, RESIDUAL_GRID.upper[-1]])[0]
        sizes = MagnitudeDistribution.of(counts + rng.normal(0, 120, len(counts)), RESIDUAL_GRID, 120.0, 4_434)
        assert sizes is not None
        shares.append(float(sizes.cdf(np.array([0.5]))[0]))
    assert np.mean(shares) == pytest.approx(0.383, abs=0.1)


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_the_second_moment_comes_with_the_gradients_where_they_may_turn_round(loss: Loss) -> None:
    """Under replace_one it costs nothing, so it is not asked for by itself, and every gradient makes it better known while its noise tells;
    where a record may only vanish it would cost as much as the gradient.
    """
    rng, columns = np.random.default_rng(3), 6
    X = rng.normal(size=(3_000, columns))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(float) if loss.target is Target.LABELS else X[:, 0] + rng.normal(size=len(X))
    together = auto_of(shape(columns, labels=loss.target is Target.LABELS), len(X), loss)
    apart = replace(together, adjacency=Adjacency.ZERO_OUT)
    assert "whitened moment" not in together.shares
    assert "whitened moment" in apart.shares
    alone = together.adjacency.contributions_changed / (len(X) * math.sqrt(together.mu_squared * together.shares["gradient 1"]))
    gate, _ = gate_of(together, X, y)
    coordinates = find_coordinates(together, gate)
    descent = Descent(plan=together, gate=gate, coordinates=coordinates, start=np.zeros(columns + 1))
    noises = []
    for step in range(together.steps):
        descent, answer = descent.ask_gradient(f"gradient {step + 1}", descent.start, 0.5, 1.0)
        noises.append(descent.coordinates.moment_noise)
        if not step:
            assert answer.deviation == pytest.approx(0.5 * coordinates.cap * alone, rel=0.02)
    assert all(after < before for before, after in zip([math.inf, *noises], noises, strict=False))
    assert noises[-1] < noises[0] / 1.7
    rotated = np.c_[(X - coordinates.rows.centre[:-1]) / coordinates.rows.scale[:-1], np.ones(len(X))] @ coordinates.rotation.A.T
    clipped = rotated * np.minimum(1, coordinates.cap / np.linalg.norm(rotated, axis=1))[:, None]
    assert np.abs(descent.coordinates.moment - clipped.T @ clipped / len(X)).max() < 5 * noises[-1]


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_as_many_gradients_bring_the_second_moment_as_make_it_well_known(loss: Loss) -> None:
    """The others have the numbers of a gradient alone, and all events are asked."""
    labels, columns, rows = loss.target is Target.LABELS, 3, 3_000
    rng, d, counts = np.random.default_rng(1), columns + 1, []
    X = rng.normal(size=(rows, columns))
    y = np.where(X[:, 0] + rng.normal(size=rows) > 0, 1.0, 0.0) if labels else X[:, 0] + rng.normal(size=rows)
    for epsilon in (1.0, 5.0, 25.0):
        plan = auto_of(shape(columns, labels=labels), rows, loss, epsilon=epsilon)
        sizes = [event.coordinates for event in plan.events if event.label.startswith("gradient")]
        counts.append(sizes.count((d + 1) * (d + 2) // 2))
        assert sizes == [(d + 1) * (d + 2) // 2] * counts[-1] + [d] * (plan.steps - counts[-1])
        outcome, account = ran(plan, X, y)
        assert list(account.stored) == [event.label for event in plan.events]
        assert np.isfinite(outcome.weights).all()
        assert f"{plan.steps} gradients, " + {0: "each", 1: "the first 2", 2: "the first"}[len(counts) - 1] in " ".join(plan.explain())
    assert counts[0] == plan.steps > counts[1] > counts[2] == 1


def test_a_gradient_alone_is_the_one_that_comes_with_the_second_moment() -> None:
    """Without noise, at the same weights and with rows beyond the cap."""
    rng = np.random.default_rng(2)
    X = rng.standard_t(3, size=(3_000, 3))
    plan = auto_of(shape(3), len(X), Squared(), epsilon=25.0)
    gate, _ = gate_of(plan, X, X[:, 0] + rng.normal(size=len(X)), seed=None)
    descent = Descent(plan=plan, gate=gate, coordinates=find_coordinates(plan, gate), start=np.zeros(4))
    here, first = descent.ask_gradient("gradient 1", descent.start, 2.0, 1.0)
    there, alone = here.ask_gradient("gradient 2", descent.start, 2.0, 1.0)
    assert plan.gradients_with_moment == 1
    assert there.coordinates.moment is here.coordinates.moment
    np.testing.assert_allclose(alone.gradient, first.gradient, atol=1e-5)
    assert alone.deviation * math.sqrt(plan.shares["gradient 2"] / plan.shares["gradient 1"]) == pytest.approx(first.deviation, rel=0.02)


@pytest.mark.parametrize(("rows", "epsilon"), [(10_000, 1.0), (1_000_000, 4.0)])
def test_the_noise_of_the_second_moment_is_known_in_advance(rows: int, epsilon: float) -> None:
    """For the cap sqrt(d) on rows, it is the largest eigenvalue of the noise on the answers, within 2%."""
    plan = auto_of(shape(30), rows, Squared(), epsilon=epsilon)
    bounds = {"clip": 1.0, "cap": math.sqrt(2 * plan.columns)}
    noises = [plan.deviation(f"gradient {step + 1}", **bounds) / DIAGONAL for step in range(plan.gradients_with_moment)]
    together = np.cumsum(np.array(noises) ** -2) ** -0.5
    expected = [largest_noise_eigenvalue(deviation, plan.columns) for deviation in together]
    np.testing.assert_allclose(plan.moment_noise[: len(noises)], expected, rtol=0.02)


def test_a_step_that_goes_far_counts_by_a_tenth_of_its_way() -> None:
    """Two Newton steps of equal noise to different places: one from nearby, one over a way of 40 deviations of its noise, whose curvature
    may be wrong by a tenth. In two coordinates that adds (0.1 * 40)^2 / 2 = 8 variances to its one.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 1))
    plan = auto_of(shape(1), 3_000, Squared(), epsilon=30.0)
    gate, _ = gate_of(plan, X, X[:, 0], None)
    coordinates = replace(find_coordinates(plan, gate), moment=np.eye(2), moment_noise=1e-9)
    descent = Descent(plan=plan, gate=gate, coordinates=coordinates, start=np.zeros(2))
    near = AskedGradient(at=np.array([1.0, 0.0]), gradient=np.zeros(2), deviation=0.1, clip=1.0, slope=1.0)
    far = replace(near, at=np.array([-2.0, 0.0]), gradient=coordinates.curvature.matrix @ np.array([4.0, 0.0]))
    averaged, deviation = descent.averaged([near, far])
    weights = np.array([1.0, 1 / 9]) / 0.1**2
    assert averaged == pytest.approx([(weights @ [1.0, 2.0]) / weights.sum(), 0.0])
    assert deviation == pytest.approx(weights.sum() ** -0.5)


def test_a_column_that_noise_hides_cannot_fill_the_rows() -> None:
    """Rare huge values in one column: it is clamped near a scale that others have, and the fit is about as good as without it."""
    rng = np.random.default_rng(2)
    X = np.c_[rng.normal(size=(3_000, 5)), np.where(rng.random(3_000) < 0.03, np.exp(rng.normal(8, 3, 3_000)), 0.0)]
    y = X[:, 0] + rng.normal(size=3_000)
    outcome, _ = ran(auto_of(shape(6), 3_000, Squared()), X, y)
    assert outcome.preprocessing is not None
    assert outcome.preprocessing.scale[5] <= 2 * 2.0**2.5
    assert np.corrcoef(predictions(outcome, X), y)[0, 1] > 0.5


def test_a_scale_that_is_suspected_is_taken_before_that_of_other_columns() -> None:
    counts = np.zeros((3, COLUMN_GRID.bins))
    counts[:2, 40], counts[2, 60] = 900.0, 48.0
    seen = ColumnScales.of(counts, 10.0, 3_000, 3)
    assert np.isnan(seen.found).tolist() == [False, False, True]
    assert COLUMN_GRID.edges[60] <= seen.likely(seen.usual)[2] <= COLUMN_GRID.upper[60]
    counts[2, 60] = 0.0
    unsuspected = ColumnScales.of(counts, 10.0, 3_000, 3)
    assert unsuspected.likely(unsuspected.usual)[2] == COLUMN_GRID.upper[40]
    assert unsuspected.likely(np.full(3, 7.0)).tolist() == [*seen.found[:2], 7.0]


def test_a_column_that_other_columns_hide_gets_its_scale_from_a_second_question() -> None:
    """One record of 20 has a value beside 100 indicators of a share of 0.3: in each of 8 seeds the first question does not show it (what
    is guessed then is wrong by more than 4 in half of them), and the second does, within a factor of 2."""
    wrong = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rare = np.where(rng.random(20_000) < 0.05, rng.lognormal(7, 0.5, 20_000), 0.0)
        X = np.c_[rng.random((20_000, 100)) < 0.3, rare]
        twice = auto_of(shape(101), 20_000, Squared())
        once = replace(twice, tuning=Tuning(hidden_scales=0.0))
        (scale, hidden), (first, not_shown) = (find_scales(plan, gate_of(plan, X, rare, seed)[0]) for plan in (twice, once))
        truth = np.quantile(rare[rare > 0], 0.9)
        assert not hidden.any()
        assert 0.5 <= scale[-1] / truth <= 2
        assert np.flatnonzero(not_shown).tolist() == [100]
        np.testing.assert_allclose(scale[:100], math.sqrt(2) ** 0.9)
        wrong += not 0.25 <= first[-1] / truth <= 4
    assert wrong >= 4


def test_both_looks_at_scales_count_where_noise_hides_columns_from_each() -> None:
    """20 normal columns of 4,400 records at epsilon 0.25, 12 seeds: how many scales are within a factor of 2."""

    def near(found: Array) -> int:
        return int((np.abs(np.log2(found / 1.645)) < 1).sum())

    both = second = 0
    for seed in range(12):
        X = np.random.default_rng(seed).normal(size=(4_400, 20))
        plan = auto_of(shape(20), 4_400, Squared(), epsilon=0.25)
        gate, _ = gate_of(plan, X, X[:, 0], seed)
        first = ColumnScales.ask(plan, gate, "scales", np.zeros(20, dtype=bool))
        hidden = np.isnan(first.found)
        alone = ColumnScales.ask(plan, gate, "hidden scales", ~hidden).likely(first.likely(first.usual))
        both += near(find_scales(plan, gate)[0])
        second += near(np.where(hidden, alone, first.found))
    assert both > second + 8


def test_the_second_look_at_scales_is_left_out_where_the_first_shows_every_column() -> None:
    """By public facts alone (columns, records, budget): it is asked even where the first did show all, or nothing."""
    few = auto_of(shape(4), 1_000, Squared())
    for X, left in ((np.ones((1_000, 4)), 0), (np.zeros((1_000, 4)), 4)):
        gate, account = gate_of(few, X, X[:, 0])
        assert find_scales(few, gate)[1].sum() == left
        assert list(account.stored) == ["scales", "hidden scales"]
    assert "hidden scales" in auto_of(shape(100), 20_000, Squared()).shares
    assert "hidden scales" not in auto_of(shape(100), 2_000_000, Squared()).shares
    assert "hidden scales" not in auto_of(shape(100, bounds=1.0), 20_000, Squared()).shares
    assert any("the columns that the first query did not show" in line for line in auto_of(shape(100), 20_000, Squared()).explain())


def test_a_spread_is_believed_only_if_it_covers_most_of_a_column() -> None:
    """Half of a column at its mean, a column that is nowhere at it, and one that is always there."""
    rng = np.random.default_rng(0)
    X = 100.0 + np.c_[np.where(rng.random(5_000) < 0.5, 0.0, rng.normal(size=5_000)), rng.uniform(1.0, 1.4, 5_000), np.zeros(5_000)]
    plan = auto_of(shape(3), 5_000, Squared(), epsilon=8.0)
    found = find_spreads(plan, gate_of(plan, X, X[:, 0], None)[0], np.full(3, 100.0))
    assert np.isnan(found).tolist() == [True, False, True]
    assert found[1] == pytest.approx(math.sqrt(2))


def test_a_noisy_second_moment_is_made_positive_definite() -> None:
    rng = np.random.default_rng(0)
    d = 30
    for deviation in (0.0, 1e-3, 0.1, 10.0):
        made = repaired(np.eye(d) + symmetric_noise(rng, d, deviation), deviation)
        assert made.values.min() > 0
        assert np.abs(made.inverse_root @ made.matrix @ made.inverse_root.T - np.eye(d)).max() < 1e-9
    assert np.abs(repaired(np.diag([2.0, 3.0]), 0.0).matrix - np.diag([2.0, 3.0])).max() < 1e-12


def symmetric_noise(rng: np.random.Generator, d: int, deviation: float) -> Array:
    """As a second moment's: the deviation on the diagonal, 5/7 of it beside."""
    noise = np.triu(rng.normal(0, deviation * 5 / 7, (d, d)), 1)
    return noise + noise.T + np.diag(rng.normal(0, deviation, d))


@pytest.mark.parametrize("d", [40, 100])
def test_what_columns_have_in_common_is_kept_and_noise_is_not(d: int) -> None:
    """Two factors explain 0.6 of every column: the error is less than 0.7 of that of shrinking all that lies beside the diagonal alike
    (James and Stein's factor), in each of 10 seeds. Of pure noise less than a tenth is left."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        loadings = rng.normal(size=(d, 2))
        loadings /= np.linalg.norm(loadings, axis=1)[:, None]
        truth, noise = 0.4 * np.eye(d) + 0.6 * loadings @ loadings.T, symmetric_noise(rng, d, 0.1)
        M, beside = truth + noise, ~np.eye(d, dtype=bool)
        factor = 1 - (0.1 * 5 / 7) ** 2 * d * (d - 1) / (M[beside] ** 2).sum()
        alike = np.where(beside, factor * M, M)
        assert np.linalg.norm(repaired(M, 0.1).matrix - truth) < 0.7 * np.linalg.norm(alike - truth)
        left = repaired(np.eye(d) + noise, 0.1).matrix
        assert np.linalg.norm(left[beside]) < 0.1 * np.linalg.norm(noise[beside])


def test_a_weak_common_factor_is_shrunk_by_what_noise_added_to_it() -> None:
    """An eigenvalue of 4, which noise makes 5: the error is less than 0.9 of that of keeping what is seen, in each of 10 seeds."""
    d, deviation, beside = 200, 0.2, ~np.eye(200, dtype=bool)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        signs = rng.choice([-1.0, 1.0], d)
        truth = 0.98 * np.eye(d) + 0.02 * np.outer(signs, signs)
        M = truth + symmetric_noise(rng, d, deviation)
        values, vectors = np.linalg.eigh(np.where(beside, M, 0.0))
        seen = values[-1] * np.outer(vectors[:, -1], vectors[:, -1])
        assert np.linalg.norm((repaired(M, deviation).matrix - truth)[beside]) < 0.9 * np.linalg.norm((seen - truth)[beside])


def test_centring_whitens_about_the_mean() -> None:
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(size=(50_000, 3)) @ rng.normal(size=(3, 3)) + [5.0, -3.0, 1.0], np.ones(50_000)]
    Z = X @ centring(X.T @ X / len(X), 0.0, 0.75)[0].T
    assert np.abs(Z.T @ Z / len(X) - np.eye(4)).max() < 1e-6


def test_a_curvature_hidden_by_noise_is_taken_as_large_as_it_may_be() -> None:
    """Steps by the inverse must not diverge: the true largest eigenvalue is less than twice the one used."""
    d = 20
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth = np.eye(d) + 3 * np.outer(np.ones(d), np.ones(d)) / d
        made = safe_curvature(truth + symmetric_noise(rng, d, 0.3), 0.3, (), (0.0, 1.0))
        assert np.linalg.eigvalsh(truth @ made.inverse).max() < 2.2


def test_the_intercept_is_coupled_to_slopes_only_where_that_is_sure() -> None:
    """Rows of 20 directions whose second has a mean: with noise of 0.05 it is surely there, with 0.3 it is not."""
    d, mean = 20, np.zeros(20)
    mean[1] = 0.6
    truth = np.block([[np.eye(d) + np.outer(mean, mean), mean[:, None]], [mean[None, :], np.ones((1, 1))]])
    for deviation, coupled in ((0.05, True), (0.3, False)):
        for seed in range(20):
            rng = np.random.default_rng(seed)
            made = safe_curvature(truth + symmetric_noise(rng, d + 1, deviation), deviation, (d,), (0.35, 1.0)).matrix[-1, :-1]
            assert np.flatnonzero(np.abs(made) > 1e-9).tolist() == ([1] if coupled else [])


def test_slopes_that_are_shrunk_away_leave_their_mean_to_the_intercept() -> None:
    """A column of mean 3 that was not centred: predictions keep their level when its slope is shrunk."""
    plan = auto_of(shape(1), 1_000, Squared())
    coordinates = find_coordinates(plan, gate_of(plan, *linear(0, 1_000, 1)[:2])[0])
    moment = np.array([[9.01, 3.0], [3.0, 1.0]])
    descent = Descent(plan=plan, gate=None, coordinates=replace(coordinates, moment=moment, moment_noise=1e-3), start=np.zeros(2))  # type: ignore[arg-type]
    v = np.array([0.02, 1.0])
    kept = descent.shrunk(v, 1.0, 1.0)
    assert abs(kept[0]) < 0.01 * v[0]
    assert kept[1] + 3.0 * kept[0] == pytest.approx(v[1] + 3.0 * v[0], rel=0.01)
    assert descent.maps.signal(v) == pytest.approx(0.02**2 * (9.01 - 9.0), rel=0.2, abs=1e-3)


@pytest.mark.parametrize(("truth", "reach"), [("levels off", 1.5), ("goes on", 8.0), ("normal", None)])
def test_columns_reach_as_far_as_predictions_go_on_in_proportion(truth: str, reach: float | None) -> None:
    """Heavy-tailed columns whose effect ends at half of their scales, or does not; normal ones have no tail to tell."""
    rng = np.random.default_rng(5)
    n, X = 30_000, rng.standard_t(2, (40_000, 6)) if truth != "normal" else rng.normal(size=(40_000, 6))
    seen = np.clip(X, -1.5, 1.5) if truth == "levels off" else X
    y = seen @ np.array([1.0, -1.0, 0.5, 0.5, -0.5, 1.0]) + rng.normal(size=len(X))
    asked, silent = (auto_of(shape(6), n, Squared(), epsilon=4.0, tuning=Tuning(compares=compares)) for compares in (True, False))
    found, before = (ran(plan, X[:n], y[:n])[0] for plan in (asked, silent))
    assert found.preprocessing is not None
    assert before.preprocessing is not None
    if reach:
        ratio = np.array(found.preprocessing.scale) / np.array(before.preprocessing.scale)
        assert ratio == pytest.approx(np.full(6, reach / 2.0), rel=0.02)
    errors = [float(np.mean((y[n:] - predictions(outcome, X[n:])) ** 2)) for outcome in (found, before)]
    assert errors[0] < (1.01 if truth == "normal" else 0.97) * errors[1]


def test_a_first_gradient_is_averaged_unless_the_curvature_changes() -> None:
    """That of labels does: three are not."""
    for rows, loss, burn_in in ((4_000, Squared(), 0), (400_000, Squared(), 0), (400_000, Huber(), 0), (4_000, Logistic(), 3)):
        plan = auto_of(shape(20, labels=loss.target is Target.LABELS), rows, loss)
        assert plan.burn_in == burn_in


def test_clamps_are_compared_only_where_the_answer_would_tell_and_are_near_where_it_would_not() -> None:
    def compared(rows: int, epsilon: float, loss: Loss, **said: Any) -> tuple[int, float]:
        plan = auto_of(shape(20, labels=loss.target is Target.LABELS, **said), rows, loss, epsilon=epsilon)
        return len(plan.clamps), plan.reach

    assert compared(20_000, 1.0, Squared()) == (3, 4.0)
    assert compared(4_000, 0.25, Squared()) == (1, 2.0)
    assert compared(20_000, 1.0, Squared(), bounds=1.0)[0] == 1
    assert compared(20_000, 1.0, Huber()) == (1, 8.0)
    assert compared(20_000, 1.0, Logistic()) == (1, 4.0)


def test_the_cap_of_rows_of_one_norm_is_that_norm_and_tails_are_capped() -> None:
    def norms(draws: Array) -> MagnitudeDistribution:
        counts = np.histogram(draws, np.r_[NORM_GRID.edges, NORM_GRID.upper[-1]])[0]
        return MagnitudeDistribution(grid=NORM_GRID, shares=counts / counts.sum())

    assert thresholds.for_norms(norms(np.full(1000, 5.0)), 1e-3, 1e-4) == pytest.approx(5.0, rel=0.2)
    heavy = norms(np.random.default_rng(0).pareto(1.5, 100_000) + 1)
    caps = [thresholds.for_norms(heavy, noise, 1e-4) for noise in (1e-9, 1e-4, 1e-2, 1.0)]
    assert caps == sorted(caps, reverse=True)
    assert caps[-1] < caps[0]


def test_noise_is_shrunk_away_and_signal_is_kept() -> None:
    rng = np.random.default_rng(2)
    plain, flat = np.eye(200), (np.ones(200),)
    noise, signal = rng.normal(0, 1.0, 200), rng.normal(0, 10.0, 200)
    assert np.linalg.norm(shrunk(noise, plain, flat)) < 5
    assert np.linalg.norm(shrunk(signal + noise, plain, flat) - signal) < np.linalg.norm(noise)


def test_the_likelier_of_two_shapes_is_taken() -> None:
    """Signal in the first directions only: a shape that says so shrinks the rest harder."""
    rng = np.random.default_rng(3)
    falling = np.arange(1, 101) ** -2.0
    errors = []
    for _ in range(50):
        v = 20 * np.sqrt(falling) * rng.normal(size=100)
        estimate = v + rng.normal(size=100)
        errors.append([np.linalg.norm(shrunk(estimate, np.eye(100), shapes) - v) for shapes in ((np.ones(100),), (np.ones(100), falling))])
    flat, either = np.mean(errors, axis=0)
    assert either < 0.7 * flat


@pytest.mark.parametrize(
    "penalty", [L2(weight=0.3), L1(weight=0.1), ElasticNet(l1=0.1, l2=0.2), Box(low=-0.2, high=0.3)], ids=lambda p: type(p).__name__
)
def test_the_penalised_fit_is_optimal(penalty: Penalty) -> None:
    """No nearby point does better: first-order optimality by a prox step of the whole objective."""
    rng = np.random.default_rng(3)
    B = rng.normal(size=(6, 6))
    curvature, weights = B @ B.T + 0.1 * np.eye(6), rng.normal(size=6)
    found = proximal(weights, curvature, penalty, 5)
    step = 1 / np.linalg.eigvalsh(curvature)[-1]
    moved = found - step * curvature @ (found - weights)
    moved[:5] = penalty.prox(moved[:5], step)
    assert np.abs(moved - found).max() < 1e-7


def test_a_penalty_shrinks_the_fit() -> None:
    X, y, w = linear(6, 20_000, 4)
    ridge, _ = coefficients(ran(auto_of(shape(4, bounds=8.0), 20_000, Squared(), penalty=L2(weight=1 / 64)), X, y)[0])
    box, _ = coefficients(ran(auto_of(shape(4, bounds=8.0), 20_000, Squared(), penalty=Box(low=0.0, high=4.0)), X, y)[0])
    assert np.abs(ridge - w / 2).max() < 0.1
    assert (box >= -1e-9).all()
    assert (box <= 0.5 + 1e-9).all()


def test_the_plan_says_when_noise_hides_all_but_strong_effects() -> None:
    assert "noise hides all but" in "\n".join(auto_of(shape(50), 500, Squared()).explain())
    assert "noise hides all but" not in "\n".join(auto_of(shape(5), 100_000, Squared()).explain())


@pytest.mark.parametrize("skewed", [False, True])
def test_where_no_fit_is_of_use_the_mean_is_not_missed(skewed: bool) -> None:
    """Mean R2 over 20 seeds of 4,000 rows and 30 columns, one of them narrow about a large mean, at epsilon 0.25: at least -0.01."""
    scores = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(4_000, 30)), rng.lognormal(0, 1.0, 4_000) if skewed else 3 + rng.normal(size=4_000)
        X[:, 0] = 8 + X[:, 0] / 100
        plan = auto_of(shape(30), 4_000, Squared(), epsilon=0.25)
        assert plan.hopeless
        predicted = predictions(ran(plan, X, y, seed)[0], X)
        scores.append(1 - np.mean((y - predicted) ** 2) / y.var())
    assert np.mean(scores) >= -0.01


def test_weights_of_many_sizes_have_the_posterior_mean_of_their_prior() -> None:
    """Where columns are orthogonal the bound is the likelihood, sum_k share_k N(0, variance + sigma_k^2), at shares that no others beat."""
    rng = np.random.default_rng(4)
    estimate, variance = np.where(rng.random(400) < 0.1, rng.normal(0, 5, 400), 0.0) + rng.normal(0, 0.7, 400), 0.49
    bound, means = mixture_posterior(estimate, variance * np.eye(400), np.eye(400))
    sizes = np.r_[0.0, (estimate**2).max() * MIXTURE_VARIANCES]
    density = np.exp(-(estimate[:, None] ** 2) / (2 * (variance + sizes))) / np.sqrt(variance + sizes)
    shares = np.full(len(sizes), 1 / len(sizes))
    for _ in range(3_000):
        chance = shares * density / (density @ shares)[:, None]
        shares = chance.mean(axis=0)
    likelihood = -2 * float(np.log(density @ shares).sum())
    assert likelihood - 1e-6 <= bound <= likelihood + 1.0
    np.testing.assert_allclose(means, estimate * (chance @ (sizes / (variance + sizes))), atol=0.15)


def test_the_bound_of_weights_of_many_sizes_is_not_below_the_likelihood() -> None:
    """No mixture of normals is likelier than the likeliest of them, and where columns are correlated the bound is no less cautious."""
    noise, columns = np.array([[1.0, 0.6], [0.6, 1.0]]), np.array([[1.0, 0.8], [0.1, 1.0]])
    weighted = np.linalg.solve(noise, columns)
    for estimate in (np.array([3.0, 0.2]), np.array([0.3, -0.1]), np.array([4.0, 5.0])):
        sizes = np.r_[0.0, ((weighted.T @ estimate / np.diag(columns.T @ weighted)) ** 2).max() * MIXTURE_VARIANCES]
        covariances = [noise + columns * np.array([one, other]) @ columns.T for one in sizes for other in sizes]
        likeliest = min(float(np.linalg.slogdet(S)[1] + estimate @ np.linalg.solve(S, estimate)) for S in covariances)
        assert mixture_posterior(estimate, noise, columns)[0] >= likeliest - 1e-9


def test_little_of_noise_is_taken_for_slopes() -> None:
    """Of 400 fixed seeds: 1.3% of the noise's square is kept, 2.1% if what was fitted were not paid for. The mean has an error of 0.2%."""
    noise = [np.random.default_rng(seed).normal(size=20) for seed in range(400)]
    kept = [float(np.sum(shrunk(drawn, np.eye(20), (np.ones(20),), np.eye(20)) ** 2)) for drawn in noise]
    assert np.sum(kept) < 0.017 * np.sum(np.square(noise))


def test_slopes_count_by_the_odds_that_they_are_not_noise() -> None:
    """Where twice the log likelihood gains just what it costs they are as likely noise, and half of their posterior mean is kept."""
    direction = np.ones(20) / math.sqrt(20)

    def gained(size: float) -> float:
        """2 log likelihood of N(0, t + 1) less that of N(0, 1) for 20 numbers of this length together, and less the price."""
        mean = size**2 / 20
        return 20 * (mean - 1 - math.log(mean)) - 2.0

    size = next(size for size in np.arange(4.5, 9, 1e-3) if gained(size) >= 0)
    whole = (1 - 20 / size**2) * size
    assert shrunk(size * direction, np.eye(20), (np.ones(20),)) @ direction == pytest.approx(whole / 2, rel=0.03)
    assert shrunk(3 * size * direction, np.eye(20), (np.ones(20),)) @ direction == pytest.approx(
        (1 - 20 / (3 * size) ** 2) * 3 * size, rel=0.01
    )


def test_few_large_slopes_are_kept_and_many_of_one_size_shrunk_together() -> None:
    """Which prior is likelier decides, and for slopes of one size, or none, nothing changes. Fixed seeds: 40 of each."""
    few, alike, nothing = [], 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        noise, spike = rng.normal(size=60), np.zeros(60)
        spike[:3] = 8.0
        together, apart = (shrunk(spike + noise, np.eye(60), (np.ones(60),), columns) for columns in (None, np.eye(60)))
        few.append(np.sum((apart - spike) ** 2) / np.sum((together - spike) ** 2))
        same = 2.0 * rng.normal(size=60) + noise
        alike += np.array_equal(*(shrunk(same, np.eye(60), (np.ones(60),), columns) for columns in (None, np.eye(60))))
        nothing += np.array_equal(*(shrunk(noise, np.eye(60), (np.ones(60),), columns) for columns in (None, np.eye(60))))
    assert np.mean(few) < 0.35
    assert alike >= 39
    assert nothing >= 39


def test_slopes_of_columns_are_those_of_directions_turned_back() -> None:
    """B of the steps takes weights of scaled columns to the slopes whose predictions are theirs, directions left out or not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 4)) * [1.0, 5.0, 0.1, 20.0] + 7.0
    plan = auto_of(shape(4), 3_000, Squared(), epsilon=30.0)
    gate, _ = gate_of(plan, X, X @ np.ones(4), None)
    coordinates = find_coordinates(plan, gate)
    descent = Descent(plan=plan, gate=gate, coordinates=coordinates, start=np.zeros(5))
    w = rng.normal(size=4)
    v = np.r_[descent.maps.from_columns @ w, 0.0]
    np.testing.assert_allclose(descent.maps.scaled(v)[:4], w, rtol=1e-6)


def test_variances_are_told_apart_only_as_far_as_noise_lets() -> None:
    """40 columns, 20 fixed seeds: alike, their variances are nearer to the truth than answered; far apart, they stay as answered."""
    for seed in range(20):
        noise = symmetric_noise(np.random.default_rng(seed), 40, 0.1)
        left = repaired(np.eye(40) + noise, 0.1).matrix.diagonal() - 1
        assert np.linalg.norm(left) < 0.7 * np.linalg.norm(noise.diagonal())
    apart = np.diag(np.linspace(1.0, 50.0, 40))
    np.testing.assert_allclose(repaired(apart + noise, 0.1).matrix.diagonal(), (apart + noise).diagonal(), rtol=0.02)


def test_the_ends_of_targets_are_those_that_few_lie_beyond() -> None:
    counts = np.zeros((2, RESIDUAL_GRID.bins))
    counts[0, 70], counts[0, 80], counts[1, 60] = 500.0, 20.0, 480.0
    sides = SignedDistribution.of(counts.ravel(), RESIDUAL_GRID, 1e-9, 1_000)
    assert sides is not None
    assert sides.range_without(0.01) == pytest.approx((-RESIDUAL_GRID.upper[60], RESIDUAL_GRID.upper[80]))
    assert sides.range_without(0.03) == pytest.approx((-RESIDUAL_GRID.upper[60], RESIDUAL_GRID.upper[70]))
    assert sides.range_without(0.49) == pytest.approx((0.0, RESIDUAL_GRID.upper[70]))


def test_a_rare_label_is_predicted_as_often_as_it_comes() -> None:
    """One in ten records has the label; epsilon 0.3, mean of 4 fixed seeds. Where clips set the level, it was predicted half as often."""
    rates = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X, w = rng.normal(size=(25_000, 20)), rng.normal(size=20) / 4
        y = (rng.random(25_000) < 1 / (1 + np.exp(2.8 - X @ w))).astype(float)
        margin = predictions(ran(auto_of(shape(20, labels=True), 25_000, Logistic(), epsilon=0.3), X, y, seed)[0], X)
        rates.append(np.mean(1 / (1 + np.exp(-margin))) / y.mean())
    assert np.mean(rates) == pytest.approx(1.0, abs=0.1)


def test_the_mean_of_labels_is_told_with_the_noise_of_a_half() -> None:
    """Without weights a residual is a half; with some it may be near one. So a ninth of what numbers need makes it as well known."""
    X, y = np.random.default_rng(0).normal(size=(5_000, 3)), np.r_[np.ones(1_000), np.zeros(4_000)]
    plan = auto_of(shape(3, labels=True), 5_000, Logistic(), epsilon=0.25)
    for weights, clip in ((np.zeros(4), 0.5), (np.array([1.0, 0.0, 0.0, 0.0]), 1.0)):
        gate, _ = gate_of(plan, X, y, None)
        _, mean = Descent(plan=plan, gate=gate, coordinates=find_coordinates(plan, gate), start=np.zeros(4)).queries.target_mean(
            weights, None
        )
        assert mean is not None
        assert mean.deviation == plan.deviation("target", clip=clip)
        assert mean.residual == pytest.approx(-0.3, abs=0.02)
    assert plan.target_share == pytest.approx(auto_of(shape(3), 20_000, Huber(), epsilon=0.25).target_share * (4 / 3) ** 2)


def test_the_level_of_labels_is_that_of_their_share() -> None:
    moment, weights = np.diag([1.5, 0.5, 1.0]), np.array([1.0, -2.0, 0.3])
    made = with_share(moment, weights, (2,), 0.07)
    assert made[:2].tolist() == weights[:2].tolist()
    draws = np.random.default_rng(0).normal(size=400_000) * math.sqrt(1.5 + 4 * 0.5)
    assert np.mean(1 / (1 + np.exp(-made[2] - draws))) == pytest.approx(0.07, abs=1e-3)
    assert label_share(moment, made, (2,)) == pytest.approx(0.07)


def sparse(seed: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(4_000, 300)), np.zeros(300)
    w[rng.choice(300, 5, replace=False)] = rng.choice([-1.0, 1.0], 5)
    return X, 2 + X @ w + rng.standard_t(2, 4_000), w


def test_few_columns_of_many_are_found() -> None:
    X, y, w = sparse(0)
    screened = automatic(auto_of(shape(300), 4_000, Huber(), epsilon=1.0))
    assert isinstance(screened, ScreenedAutoFit)
    outcome, _ = ran(screened, X, y)
    coef, _ = coefficients(outcome)
    assert np.count_nonzero(coef) <= screened.fewest < 30
    assert np.linalg.norm(coef - w) < 0.4 * np.linalg.norm(w)


def with_bounds_of_every_second(said: Preprocessing, centre: float, bound: float) -> Preprocessing:
    known = [j % 2 == 1 for j in range(len(said.features))]
    return replace(
        said,
        centre=tuple(centre if has else 0.0 for has in known),
        scale=tuple(bound if has else 1.0 for has in known),
        reach=tuple(1.0 if has else math.inf for has in known),
    )


def test_few_columns_of_many_are_found_where_some_have_public_bounds() -> None:
    """Those lie about 1,000, so a clamp that is not told in their own units would be far from all rows."""
    X, y, w = sparse(0)
    X[:, 1::2] += 1_000.0
    screened = automatic(auto_of(with_bounds_of_every_second(shape(300), 1_000.0, 5.0), 4_000, Huber(), epsilon=3.0))
    assert isinstance(screened, ScreenedAutoFit)
    outcome, _ = ran(screened, X, y)
    coef, _ = coefficients(outcome)
    assert np.linalg.norm(coef - w) < 0.4 * np.linalg.norm(w)
    X[:, 1::2] -= 1_000.0
    truth = 2 + X @ w
    X[:, 1::2] += 1_000.0
    assert np.mean((predictions(outcome, X) - truth) ** 2) < 0.2 * truth.var()


@pytest.mark.parametrize("loss", [Squared(), Huber(), Logistic(), Hinge()], ids=["squared", "huber", "logistic", "hinge"])
@pytest.mark.parametrize("bounds", ["none", "all", "some"])
def test_screened_auto_asks_exactly_its_events(loss: Loss, bounds: str) -> None:
    bare = shape(200, bounds=1.0 if bounds == "all" else math.inf, labels=loss.target is Target.LABELS)
    screened = automatic(auto_of(with_bounds_of_every_second(bare, 1.0, 1.0) if bounds == "some" else bare, 40, loss))
    assert isinstance(screened, ScreenedAutoFit)
    assert cost(screened.events, Currency.GAUSSIAN).fits(limit(1.0, 1e-6, Currency.GAUSSIAN))
    assert cost(screened.events, Currency.GAUSSIAN).amount >= limit(1.0, 1e-6, Currency.GAUSSIAN).amount * 0.999999
    for X in (np.zeros((40, 200)), np.full((40, 200), math.nan), np.random.default_rng(0).standard_cauchy((40, 200)) * 1e200):
        outcome, account = ran(screened, X, np.where(np.arange(40) % 2, 1.0, 0.0) if loss.target is Target.LABELS else X[:, 0])
        assert list(account.stored) == [event.label for event in screened.events]
        assert np.isfinite(outcome.weights).all()


def test_scales_of_a_screening_are_found_by_few_numbers() -> None:
    """Each column's 0.9 quantile within half an octave, in any unit of measurement, from 27 numbers a column and not 145."""
    rng = np.random.default_rng(0)
    units = np.exp2(rng.integers(-24, 24, 300))
    X = rng.normal(size=(50_000, 300)) * units
    screened = ScreenedAutoFit(whole=auto_of(shape(300), 50_000, Squared(), epsilon=8.0), fewest=100)
    gate, account = gate_of(screened, X, X[:, 0])
    found = windowed_scales(screened.round_of(0, tuple(range(300))), screened.gate_of(gate, tuple(range(300))))
    assert np.abs(np.log2(found / (1.645 * units))).max() < 0.5
    assert sum(len(answer) for answer in account.stored.values()) == 27 * 300


def test_counts_of_windows_are_added_where_they_lie_without_the_bins_beside_them() -> None:
    """Where noise hides a column, its scale is the fullest bin of all; beside the windows lies the rest of all columns."""
    counts = np.zeros((2, WINDOW_GRID.bins))
    counts[0, 1], counts[1, 16], counts[:, 0], counts[:, -1] = 5.0, 7.0, 100.0, 200.0
    every = together(counts, np.array([0, -32]))
    assert {place: every[place] for place in np.flatnonzero(every)} == {64: 5.0, 15: 7.0}
    assert [COLUMN_GRID.edges[64], COLUMN_GRID.upper[15]] == pytest.approx([1.0, 2.0**-24])


def test_later_rounds_of_a_screening_use_the_scales_of_the_first() -> None:
    screened = automatic(auto_of(shape(300), 4_000, Squared()))
    assert isinstance(screened, ScreenedAutoFit)
    asked = [event.label for event in screened.events if "scales" in event.label]
    assert asked[:2] == ["screening 1: coarse scales", "screening 1: windowed scales"]
    assert not any(label.startswith("screening") for label in asked[2:])


def test_rounds_of_a_screening_are_equally_clear() -> None:
    """Half of the columns at half of the budget: the noise of a gradient for rows of norm sqrt(columns) stays what it is."""
    screened = automatic(auto_of(shape(1_024), 10_000, Squared()))
    assert isinstance(screened, ScreenedAutoFit)
    columns = (screened.whole.features, *screened.kept[:-1])
    screens = [screened.round_of(place, tuple(range(count))) for place, count in enumerate(columns)]
    assert [screen.features for screen in screens] == [1_024, 512, 256, 128, 64]
    assert screened.kept[-1] == screened.fewest == 29
    noise = [screen.deviation("gradient 1", clip=1.0, cap=math.sqrt(screen.columns)) for screen in screens]
    assert max(noise[1:]) < 1.05 * min(noise[1:])
    assert noise[0] < 1.2 * noise[1]


def test_rounds_of_a_screening_add_up_whatever_scales_they_found() -> None:
    once = Evidence.none(2).with_round(np.array([0.5, -1.0]), 0.1, np.array([2.0, 1.0]))
    np.testing.assert_allclose(once.relevance, [0.5, 1.0])
    twice = once.with_round(np.array([0.2, -3.0]), 0.1, np.array([4.0, 1.0]))
    np.testing.assert_allclose(twice.moment, [(25 * 1.0 + 6.25 * 0.8) / 31.25, -2.0])
    np.testing.assert_allclose(twice.relevance, [0.96 / 4, 2.0])
    np.testing.assert_allclose(twice.precision, [31.25, 200.0])


def test_a_screening_of_many_records_keeps_what_can_be_whitened() -> None:
    screened = automatic(auto_of(shape(3_000), 10_000_000, Squared()))
    assert isinstance(screened, ScreenedAutoFit)
    assert screened.kept == (1_999,)
    assert ScreenedAutoFit(whole=screened.whole, fewest=1_499).kept == (1_499,)
    assert ScreenedAutoFit(whole=screened.whole, fewest=999).kept == (1_500, 999)
    assert screened.expected.columns <= MOST_WHITENED
    assert screened.screening_share == pytest.approx(0.75 / 3, rel=0.01)


def test_the_plan_says_that_columns_are_chosen_first() -> None:
    words = "\n".join(automatic(auto_of(shape(300), 4_000, Squared())).explain())
    assert "300 columns are too many to be fitted together" in words
    assert "scaled, not whitened" in words
    assert not isinstance(automatic(auto_of(shape(300), 400_000, Squared())), ScreenedAutoFit)
    assert isinstance(automatic(auto_of(shape(2_001), 10_000_000, Squared())), ScreenedAutoFit)


def test_too_many_columns_and_penalties_that_are_not_convex_are_refused() -> None:
    from nightfit.problem.penalties.sparsity import EXAMPLES

    with pytest.raises(ValueError, match="at most 4000 columns"):
        auto_of(shape(4_001), 100, Squared())
    with pytest.raises(ValueError, match="convex penalty"):
        auto_of(shape(2), 100, Squared(), penalty=EXAMPLES[0])
