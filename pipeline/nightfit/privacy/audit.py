"""Empirical lower bounds on epsilon. Imports numpy and scipy; shares no code with the accountant it checks."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import beta, norm

from nightfit.types import Array

CANDIDATES = 512  # thresholds that are tried on the first half of the runs


@dataclass(frozen=True, kw_only=True, slots=True)
class LowerBound:
    """With probability `confidence` the mechanism that was run is not mu'-Gaussian-private for any mu' < mu.

    `epsilon` is what mu means at the audited delta; `threshold` is the output above which the attack guessed the second data set. Of a
    mechanism that is not Gaussian mu is zero and epsilon is bounded by itself.
    """

    epsilon: float
    mu: float
    confidence: float
    threshold: float


def lower_bound(first: Array, second: Array, *, delta: float, confidence: float = 0.999, gaussian: bool = True) -> LowerBound:
    """A lower bound on epsilon from one number per independent run on each of two neighbours.

    Parameters
    ----------
    first, second
        The outputs on either neighbour: an attacker's score, larger where the second neighbour is likelier.
    delta, confidence
        At which epsilon is bounded; with which probability the bound holds.
    gaussian
        Whether the claim is that of a Gaussian mechanism, whose whole trade-off one point of it tells; without that, less is proved.

    Raises
    ------
    ValueError
        If there are fewer than two runs, a NaN among them, or confidence or delta is not between 0 and 1.

    Notes
    -----
    Guarantee: if the mechanism is mu-Gaussian-private, the result's mu exceeds it with probability at most 1 - confidence. Proof:
    the threshold comes from the first half of the runs; on the other half both error counts are binomial, so by Clopper and
    Pearson (1934) each error rate is above its bound with probability at most (1 - confidence) / 2; and every test between
    neighbours has mu >= z(1 - false positives) - z(false negatives), z the normal quantile (Dong, Roth, Su 2022; used
    to audit by Nasr et al. 2023). Where the claim is not Gaussian, 1 - false negatives <= e^epsilon false positives + delta and the same
    with the errors exchanged bound epsilon (Kairouz, Oh, Viswanath 2015). Broken by
    test_the_right_noise_is_not_caught_and_half_the_noise_is and test_a_mechanism_that_is_not_gaussian_is_not_overstated.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = lower_bound(rng.normal(0, 1, 20_000), rng.normal(2, 1, 20_000), delta=1e-5)
    >>> 1.8 < found.mu < 2, 8 < found.epsilon < 10.1
    (True, True)
    """
    if not (0 < confidence < 1 and 0 < delta < 1):
        raise ValueError(f"confidence and delta must lie between 0 and 1, got {confidence} and {delta}")
    if min(len(first), len(second)) < 2 or np.isnan(first).any() or np.isnan(second).any():
        raise ValueError("an audit needs at least two runs on each data set and no NaN among their outputs")
    (choose_0, judge_0), (choose_1, judge_1) = _halves(first), _halves(second)
    thresholds = np.quantile(np.concatenate([choose_0, choose_1]), np.linspace(0, 1, CANDIDATES), method="lower")
    if not gaussian:
        best = thresholds[[int(np.argmax(_any_epsilon(choose_0, choose_1, thresholds, confidence, delta)))]]
        found = max(0.0, float(_any_epsilon(judge_0, judge_1, best, confidence, delta)[0]))
        return LowerBound(epsilon=found, mu=0.0, confidence=confidence, threshold=float(best[0]))
    threshold = thresholds[[int(np.argmax(_mu(choose_0, choose_1, thresholds, confidence)))]]
    mu = max(0.0, float(_mu(judge_0, judge_1, threshold, confidence)[0]))
    return LowerBound(epsilon=_epsilon(mu, delta), mu=mu, confidence=confidence, threshold=float(threshold[0]))


def _halves(runs: Array) -> tuple[Array, Array]:
    """The runs that choose the threshold, and those that judge it, sorted."""
    middle = len(runs) // 2
    return np.sort(runs[:middle]), np.sort(runs[middle:])


def _mu(first: Array, second: Array, thresholds: Array, confidence: float) -> Array:
    """z(1 - false positives) - z(false negatives), each error rate at its upper confidence bound; both outputs are sorted."""
    false_positives, false_negatives = _error_rates(first, second, thresholds, confidence)
    mu: Array = norm.isf(false_positives) - norm.ppf(false_negatives)
    return mu


def _any_epsilon(first: Array, second: Array, thresholds: Array, confidence: float, delta: float) -> Array:
    """max(log((1 - delta - false negatives) / false positives), log((1 - delta - false positives) / false negatives))."""
    one, other = _error_rates(first, second, thresholds, confidence)
    found: Array = np.log(np.maximum([(1 - delta - other) / one, (1 - delta - one) / other], 1e-300)).max(axis=0)
    return found


def _error_rates(first: Array, second: Array, thresholds: Array, confidence: float) -> tuple[Array, Array]:
    """The upper confidence bounds of false positives and false negatives at each threshold."""
    false_positives = len(first) - np.searchsorted(first, thresholds, side="right")
    false_negatives = np.searchsorted(second, thresholds, side="right")
    return _upper(false_positives, len(first), confidence), _upper(false_negatives, len(second), confidence)


def _upper(errors: npt.NDArray[np.integer], runs: int, confidence: float) -> Array:
    """Clopper and Pearson's upper bound on a rate at level 1 - (1 - confidence) / 2."""
    bound: Array = np.where(errors >= runs, 1.0, beta.isf((1 - confidence) / 2, errors + 1, np.maximum(runs - errors, 1)))
    return bound


def _epsilon(mu: float, delta: float) -> float:
    """The largest epsilon with Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) > delta, rounded down; 0 if there is none."""
    if mu == 0:
        return 0.0
    low, high = 0.0, mu * (mu / 2 + 40)
    for _ in range(100):
        middle = (low + high) / 2
        profile = norm.cdf(mu / 2 - middle / mu) - math.exp(min(700.0, middle + norm.logcdf(-mu / 2 - middle / mu)))
        low, high = (middle, high) if profile > delta else (low, middle)
    return low


def pure_lower_bound(first: npt.NDArray[np.integer], second: npt.NDArray[np.integer], *, confidence: float = 0.999) -> float:
    """A lower bound on pure epsilon from counts of outcomes in independent runs on each of two neighbours.

    Parameters
    ----------
    first, second
        How often each outcome came on either neighbour.
    confidence
        With which the bound holds.

    Raises
    ------
    ValueError
        If the counts are not of the same outcomes.

    Notes
    -----
    Guarantee: if the mechanism is epsilon-private with delta 0, the result exceeds epsilon with probability at most 1 - confidence.
    Proof: for each outcome and order of the neighbours, P_1 is above its Clopper-Pearson lower bound and P_2 below its upper bound but for
    probability (1 - confidence) / (4 outcomes) each, and log(P_1 / P_2) <= epsilon. Broken by
    test_a_histogram_catches_more_epsilon_than_promised.

    Examples
    --------
    >>> round(pure_lower_bound(np.array([9000, 1000]), np.array([1000, 9000])), 1)
    2.1
    """
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise ValueError("an audit needs the counts of the same outcomes on both data sets")
    level = (1 - confidence) / (4 * len(first))
    found = 0.0
    for ones, others in ((first, second), (second, first)):
        runs, rest = int(ones.sum()), int(others.sum())
        low = np.where(ones > 0, beta.ppf(level, np.maximum(ones, 1), runs - ones + 1), 0.0)
        high = np.where(others < rest, beta.isf(level, others + 1, np.maximum(rest - others, 1)), 1.0)
        with np.errstate(divide="ignore"):
            found = max(found, float(np.max(np.log(low / high))))
    return found
