"""Slope, second moment and bias of the clipped logistic gradient if margins are normal. Imports numpy and constants."""

import functools
from dataclasses import dataclass

import numpy as np

from nightfit.methods.auto.constants.labels import (
    BISECTIONS,
    FARTHEST_INTERCEPT,
    LARGEST_LOGIT,
    MARGIN_NODES,
    MOST_EIGENVALUE_RATIO,
)
from nightfit.methods.auto.constants.numerical import POSITIVE
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True)
class ClippedGradient:
    """One record's clipped gradient at the true weights: the slope of its mean, its second moment, and its bias (its mean, which clipping
    makes differ from zero). `level` is the slope across the weights over the second moment of rows.
    """

    slope: Array
    moment: Array
    bias: Array
    level: float


def label_variance(second_moment: Array, weights: Array, free: tuple[int, ...]) -> float:
    """E p (1 - p) for p = P(label 1) at these weights, if rows of this second moment have normal margins."""
    p, masses = _probabilities(second_moment, weights, free)[1:]
    return float(masses @ (p * (1 - p)))


def label_share(second_moment: Array, weights: Array, free: tuple[int, ...]) -> float:
    """E p, the share of labels 1, under the same assumption."""
    p, masses = _probabilities(second_moment, weights, free)[1:]
    return float(masses @ p)


def with_share(second_moment: Array, weights: Array, free: tuple[int, ...], share: float) -> Array:
    """The weights with the intercept at which E p is the share, by bisection: E p grows with it."""
    low, high, moved = -FARTHEST_INTERCEPT, FARTHEST_INTERCEPT, weights.copy()
    for _ in range(BISECTIONS):
        moved[list(free)] = (low + high) / 2
        low, high = (low, moved[free[0]]) if label_share(second_moment, moved, free) > share else (moved[free[0]], high)
    return moved


@functools.cache
def _normal_nodes() -> tuple[Array, Array]:
    """Nodes and masses of the standard normal, made once: a bisection asks for them at every step."""
    g, masses = np.polynomial.hermite_e.hermegauss(MARGIN_NODES)
    g.flags.writeable = masses.flags.writeable = False
    return g, masses


def _probabilities(second_moment: Array, weights: Array, free: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """Nodes g, p(b + s g) and masses of a standard normal g, for the intercept b and the standard deviation s of margins without it."""
    slopes = weights.copy()
    slopes[list(free)] = 0.0
    g, masses = _normal_nodes()
    size = np.sqrt(max(float(slopes @ second_moment @ slopes), 0.0))
    p = 1 / (1 + np.exp(-np.clip(weights[list(free)].sum() + size * g, -LARGEST_LOGIT, LARGEST_LOGIT)))
    return g, p, masses / masses.sum()


def clipped_gradient(second_moment: Array, weights: Array, clip: float, ratio: float, free: tuple[int, ...]) -> ClippedGradient:
    """The clipped gradient of rows z of this second moment H whose margin is u = b + s g with a normal g, and P(label 1) = p(u).

    With c the clip, the clipped residual has the slope w(u) = p (1 - p) [p 1(1 - p < c) + (1 - p) 1(p < c)], the second moment
    s(u) = p min(1 - p, c)^2 + (1 - p) min(p, c)^2 and the mean m(u) = p min(1 - p, c) - (1 - p) min(p, c). E w(u) z z' is E w across the
    weights, E w g^2 along them and E w g between them and the intercept.

    Parameters
    ----------
    second_moment, weights : Array
        H, and the true weights.
    clip : float
        The clip of a residual.
    ratio : float
        Scales the slope: the paid E p (1 - p) over that of normal margins at the weights where it was paid.
    free : tuple of int
        The coordinate of the intercept, if there is one.
    """
    g, p, masses = _probabilities(second_moment, weights, free)
    slopes, q = weights.copy(), 1 - p
    slopes[list(free)] = 0.0
    slope = p * q * (p * (q < clip) + q * (p < clip))
    moment = p * np.minimum(q, clip) ** 2 + q * np.minimum(p, clip) ** 2
    mean = p * np.minimum(q, clip) - q * np.minimum(p, clip)
    values, vectors = np.linalg.eigh(second_moment)
    root = (vectors * np.sqrt(values)) @ vectors.T
    along = root @ slopes
    along = along / max(float(np.linalg.norm(along)), POSITIVE)
    last = np.zeros(len(weights)) if not free else root[:, free[0]] / np.linalg.norm(root[:, free[0]])
    weighted = [_between(masses * weight, g, along, last) for weight in (slope, moment)]
    K, S = (root @ inner @ root for inner in weighted)
    bias = root @ (along * float(masses @ (mean * g)) + last * float(masses @ mean))
    return ClippedGradient(slope=ratio * K, moment=S, bias=bias, level=ratio * float(masses @ slope))


def _between(masses: Array, g: Array, along: Array, last: Array) -> Array:
    """E w I + (E w g^2 - E w) a a' + E w g (a l' + l a'), with eigenvalues of at least a tenth of E w."""
    whole, coupled, stretched = float(masses.sum()), float(masses @ g), float(masses @ g**2)
    inner = whole * np.eye(len(along)) + (stretched - whole) * np.outer(along, along)
    inner += coupled * (np.outer(along, last) + np.outer(last, along))
    values, vectors = np.linalg.eigh(inner)
    positive: Array = (vectors * np.maximum(values, whole / MOST_EIGENVALUE_RATIO)) @ vectors.T
    return positive
