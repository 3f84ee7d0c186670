"""`auto` on counts, amounts and quantiles: it asks what was reserved, and its predictions are in the outcome's units."""

import math

import numpy as np
import pytest
from benchmarks._fits import Memory, unbounded
from sklearn.linear_model import GammaRegressor, PoissonRegressor, QuantileRegressor
from sklearn.metrics import mean_gamma_deviance, mean_poisson_deviance

from nightfit.methods.auto.distributions import MagnitudeDistribution, SignedDistribution
from nightfit.methods.auto.log_mean_descent import LogMeanDescent
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.screening import ScreenedAutoFit, automatic
from nightfit.methods.procedure import Outcome
from nightfit.privacy.accounting import UNIT, Currency, cost, limit
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.links.log import Log
from nightfit.problem.losses import Loss
from nightfit.problem.losses.gamma import Gamma
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.none import NoPenalty
from nightfit.queries.magnitudes import LogGrid
from nightfit.shards.arrays import ArrayRecords
from nightfit.types import Adjacency, Array

ROWS = 50_000
every_outcome = pytest.mark.parametrize("loss", [Poisson(), Gamma(), Quantile(quantile=0.9)], ids=["counts", "amounts", "quantile"])


def plan_of(
    features: int, units: int, loss: Loss, *, epsilon: float = 1.0, intercept: bool = True, adjacency: Adjacency = Adjacency.REPLACE_ONE
) -> AutoFit:
    return AutoFit(
        loss=loss,
        penalty=NoPenalty(),
        preprocessing=unbounded(features, intercept=intercept, target=loss.target),
        units=units,
        adjacency=adjacency,
        mu_squared=float(limit(epsilon, 1e-6, Currency.GAUSSIAN).amount * UNIT),
        largest_units=units,
    )


def ran(plan: AutoFit | ScreenedAutoFit, X: Array, y: Array, seed: int = 0) -> tuple[Outcome, Memory]:
    account = Memory({event.label: event for event in plan.events})
    gate = Gate(account=account, records=ArrayRecords(X, y, plan.preprocessing), noise=SeededNoise(np.random.default_rng(seed)))
    return plan.run(gate, lambda _: None), account


def margins(outcome: Outcome, X: Array) -> Array:
    assert outcome.preprocessing is not None
    return outcome.preprocessing.features_of(X)[0] @ outcome.weights


def skewed(seed: int, rows: int) -> tuple[Array, Array, np.random.Generator]:
    """Columns of several kinds, heavy-tailed ones among them, and a signal of standard deviation 0.7 with mean zero."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(rows, 4)), rng.random((rows, 2)) < 0.2, rng.lognormal(0, 1, (rows, 2))])
    z = X @ [0.5, -0.4, 0.2, 0.0, 0.6, -0.5, 0.03, 0.0]
    return X, 0.7 * (z - z.mean()) / z.std(), rng


def counts(seed: int, rows: int) -> tuple[Array, Array]:
    """Counts with a mean of about a half, more spread than Poisson's."""
    X, z, rng = skewed(seed, rows)
    return X, rng.poisson(0.5 * np.exp(z) * rng.gamma(1.5, 1 / 1.5, rows)).astype(float)


def costs(seed: int, rows: int) -> tuple[Array, Array]:
    """Log-normal amounts about 800."""
    X, z, rng = skewed(seed, rows)
    return X, 800 * np.exp(z) * rng.lognormal(-0.5, 1.0, rows)


WILD = [
    np.zeros((40, 3)),
    np.full((40, 3), math.nan),
    np.full((40, 3), 1e308),
    np.full((40, 3), 5e-324),
    np.random.default_rng(0).standard_cauchy((40, 3)) * 1e200,
    np.random.default_rng(1).normal(size=(40, 3)),
]


@every_outcome
@pytest.mark.parametrize("intercept", [True, False])
def test_auto_asks_exactly_its_events_whatever_the_outcomes_are(loss: Loss, intercept: bool) -> None:
    plan = plan_of(3, 40, loss, intercept=intercept)
    for X in WILD:
        for y in (X[:, 0], np.zeros(40), np.full(40, 1e300), np.arange(40.0)):
            outcome, account = ran(plan, X, y)
            assert list(account.stored) == [event.label for event in plan.events]
            assert np.isfinite(outcome.weights).all()


@every_outcome
@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_an_outcome_costs_its_budget_and_no_more(loss: Loss, adjacency: Adjacency) -> None:
    ceiling = limit(1.0, 1e-6, Currency.GAUSSIAN)
    spent = cost(plan_of(8, ROWS, loss, adjacency=adjacency).events, Currency.GAUSSIAN)
    assert spent.fits(ceiling)
    assert spent.amount >= ceiling.amount * 0.999999


@pytest.mark.parametrize("seed", [0, 1])
def test_counts_are_nearly_as_good_as_without_privacy_and_better_than_linear(seed: int) -> None:
    X, y = counts(seed, 2 * ROWS)
    X, y, tested, truth = X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]
    outcome, _ = ran(plan_of(8, ROWS, Poisson()), X, y, seed)
    assert isinstance(outcome.loss, Poisson)
    predicted = Log(low=outcome.loss.low, high=outcome.loss.high).inverse(margins(outcome, tested))
    straight = np.maximum(margins(ran(plan_of(8, ROWS, Squared()), X, y, seed)[0], tested), 0.01)
    centre, scale = X.mean(axis=0), X.std(axis=0)
    peer = PoissonRegressor(alpha=0, max_iter=1000).fit((X - centre) / scale, y).predict((tested - centre) / scale)
    deviance = mean_poisson_deviance(truth, predicted)
    assert deviance < mean_poisson_deviance(truth, straight) < mean_poisson_deviance(truth, np.full(ROWS, y.mean()))
    assert deviance < 1.01 * mean_poisson_deviance(truth, peer)
    assert abs(predicted.mean() / truth.mean() - 1) < 0.05


@pytest.mark.parametrize("seed", [0, 1])
def test_amounts_are_nearly_as_good_as_without_privacy_and_better_than_linear(seed: int) -> None:
    X, y = costs(seed, 2 * ROWS)
    X, y, tested, truth = X[:ROWS], y[:ROWS], X[ROWS:], y[ROWS:]
    outcome, _ = ran(plan_of(8, ROWS, Gamma()), X, y, seed)
    assert isinstance(outcome.loss, Gamma)
    predicted = Log(low=outcome.loss.low, high=outcome.loss.high).inverse(margins(outcome, tested))
    straight = np.maximum(margins(ran(plan_of(8, ROWS, Squared()), X, y, seed)[0], tested), 1.0)
    centre, scale = X.mean(axis=0), X.std(axis=0)
    peer = GammaRegressor(alpha=0, max_iter=1000).fit((X - centre) / scale, y).predict((tested - centre) / scale)
    deviance = mean_gamma_deviance(truth, predicted)
    assert deviance < min(mean_gamma_deviance(truth, straight), mean_gamma_deviance(truth, np.full(ROWS, y.mean())))
    assert deviance < 1.01 * mean_gamma_deviance(truth, peer)
    assert abs(predicted.mean() / truth.mean() - 1) < 0.06


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_a_quantile_has_the_stated_share_of_targets_below_it(quantile: float) -> None:
    X, z, rng = skewed(3, 2 * ROWS)
    y = 20 + 5 * z + 4 * rng.lognormal(0, 1, 2 * ROWS)
    outcome, _ = ran(plan_of(8, ROWS, Quantile(quantile=quantile)), X[:ROWS], y[:ROWS])
    predicted = margins(outcome, X[ROWS:])
    assert abs((y[ROWS:] < predicted).mean() - quantile) < 0.02
    peer = QuantileRegressor(quantile=quantile, alpha=0).fit(X[:4000], y[:4000]).predict(X[ROWS:])

    def pinball(predicted: Array) -> float:
        over = y[ROWS:] - predicted
        return float(np.mean(np.maximum(quantile * over, (quantile - 1) * over)))

    assert pinball(predicted) < 1.02 * pinball(peer)
    assert pinball(predicted) < 0.98 * pinball(np.full(ROWS, np.quantile(y[:ROWS], quantile)))


def test_a_stated_range_of_means_is_never_widened_by_a_paid_one() -> None:
    X, y = counts(0, 5_000)
    outcome, _ = ran(plan_of(8, 5_000, Poisson(high=3.0)), X, y)
    assert isinstance(outcome.loss, Poisson)
    assert outcome.loss.high == 3.0


def test_many_columns_are_screened_for_the_logarithm_of_a_mean_too() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(10_000, 400))
    y = rng.poisson(np.exp(0.8 * X[:, 7] - 0.3)).astype(float)
    plan = automatic(plan_of(400, 10_000, Poisson(), epsilon=0.5))
    assert isinstance(plan, ScreenedAutoFit)
    outcome, account = ran(plan, X, y)
    assert list(account.stored) == [event.label for event in plan.events]
    assert np.corrcoef(margins(outcome, X), X[:, 7])[0, 1] > 0.9


def test_the_tilted_newton_step_inverts_the_hessian_of_a_poisson_model_with_normal_rows() -> None:
    """E exp(b + w.z) (z, 1)(z, 1)' of normal rows z, by its closed form, times the step from a gradient g is g over the mean."""
    from types import SimpleNamespace

    from nightfit.methods.auto.descent import AskedGradient

    w, g = np.array([0.4, -0.3, 0.0]), np.array([0.2, 0.1, -0.3])
    identity = SimpleNamespace(matrix=np.eye(3), inverse=np.eye(3))
    coordinates = SimpleNamespace(free=(2,), curvature=identity, complete=1.0)
    plan = plan_of(2, 100, Poisson())
    descent = LogMeanDescent(plan=plan, gate=None, coordinates=coordinates, start=np.zeros(3), mean=2.0)  # type: ignore[arg-type]
    step = AskedGradient(at=w, gradient=g, deviation=1.0, clip=1.0, slope=2.0)
    moved = descent.newton_step(step)[0] - w
    weighted = np.outer(w, w) + np.diag([1.0, 1.0, 0.0])
    weighted[:2, 2] = weighted[2, :2] = w[:2]
    weighted[2, 2] = 1.0
    np.testing.assert_allclose(2.0 * weighted @ moved, g, atol=1e-12)


def test_quantiles_and_shares_of_a_signed_distribution_are_inverse() -> None:
    grid = LogGrid(low=-2.0, step=1.0, bins=4)
    above, below = (MagnitudeDistribution(grid=grid, shares=np.array(shares)) for shares in ([0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]))
    signed = SignedDistribution(above=above, below=below, share=0.75)
    for level in (0.05, 0.25, 0.4, 0.9):
        assert abs(signed.share_below(signed.quantile(level)) - level) < 1e-12
    assert signed.share_below(0.0) == 0.25
    width = signed.half_width(0.5, 0.3)
    assert abs(signed.share_below(0.5 + width) - signed.share_below(0.5 - width) - 0.3) < 1e-9
