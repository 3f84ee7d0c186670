"""Probabilities of classes if rows are normal: their shares and the curvature of their loss. Imports the loss and constants.

Expectations are means over the same normal points in every run, which no record enters.
"""

import numpy as np

from nightfit.methods.auto.constants.labels import CLASS_POINTS, CLASS_ROUNDS, LEAST_CLASS_CURVATURE
from nightfit.problem.losses.softmax import Softmax
from nightfit.types import Array


def normal_rows(second_moment: Array, free: tuple[int, ...]) -> Array:
    """Points (rows x directions) with this second moment; the direction of the intercept is constant, the others are normal."""
    d = len(second_moment)
    half = np.random.default_rng(0).standard_normal((CLASS_POINTS // 2, d))
    g = np.vstack([half, -half])
    if not free:
        return g @ _root(second_moment)
    (last,) = free
    others = np.arange(d) != last
    constant = float(np.sqrt(max(second_moment[last, last], 0.0)))
    means = second_moment[last, others] / max(constant, LEAST_CLASS_CURVATURE)
    points = np.empty((CLASS_POINTS, d))
    points[:, others] = means + g[:, others] @ _root(second_moment[np.ix_(others, others)] - np.outer(means, means))
    points[:, last] = constant
    return points


def with_shares(loss: Softmax, second_moment: Array, V: Array, last: int, shares: Array) -> Array:
    """V with the intercepts at which the mean probability of each class is its share, by Newton steps of scores that change by one at most;
    V itself where noise hides that there are records.
    """
    points, moved = normal_rows(second_moment, (last,)), V.copy()
    if points[0, last] < LEAST_CLASS_CURVATURE:
        return V
    for _ in range(CLASS_ROUNDS):
        p = loss.probabilities(points @ moved)
        S = loss.contrasts.T @ (np.diag(p.mean(axis=0)) - p.T @ p / len(p)) @ loss.contrasts
        gap = loss.contrasts.T @ (shares - p.mean(axis=0))
        step = np.linalg.solve(S + LEAST_CLASS_CURVATURE * np.eye(len(S)), gap)
        moved[last] += step / max(1.0, float(np.linalg.norm(step))) / points[0, last]
    return moved


def curvature(loss: Softmax, second_moment: Array, V: Array, free: tuple[int, ...]) -> Array:
    """K = E C'(diag p - p p')C (x) z z', contrasts outside and directions inside."""
    points = normal_rows(second_moment, free)
    p, C, d = loss.probabilities(points @ V), loss.contrasts, len(second_moment)
    K = np.empty((loss.outputs * d, loss.outputs * d))
    means = p @ C
    for a in range(loss.outputs):
        for b in range(a + 1):
            weights = p @ (C[:, a] * C[:, b]) - means[:, a] * means[:, b]
            block = (points * weights[:, None]).T @ points / len(points)
            K[a * d : (a + 1) * d, b * d : (b + 1) * d] = block
            K[b * d : (b + 1) * d, a * d : (a + 1) * d] = block.T
    return K


def _root(M: Array) -> Array:
    """The symmetric root of M; what noise made negative counts as zero."""
    values, vectors = np.linalg.eigh(M)
    root: Array = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return root
