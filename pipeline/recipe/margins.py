"""What clipping does to a logistic fit whose margins are normal: slope, moment and bias of the clipped gradient. Imports numpy."""

from dataclasses import dataclass

import numpy as np

from pipeline.types import Array

NODES = 60


@dataclass(frozen=True, kw_only=True)
class Margins:
    """Of one record's clipped gradient at the true weights: the slope of its mean, its second moment, and its mean, which clipping
    makes differ from zero; `level` is the slope across the weights over that of rows.
    """

    slope: Array
    moment: Array
    bias: Array
    level: float


def normal_margins(second_moment: Array, weights: Array, clip: float, spread: float, free: tuple[int, ...]) -> Margins:
    """For rows z of this second moment H whose margin is u = b + s g with a normal g, and P(label 1) = p(u):

    slope  w(u) = p (1 - p) [p 1(1 - p < c) + (1 - p) 1(p < c)], moment s(u) = p min(1 - p, c)^2 + (1 - p) min(p, c)^2 and mean
    m(u) = p min(1 - p, c) - (1 - p) min(p, c) of the clipped residual. E w(u) z z' is E w across the weights, E w g^2 along them and
    E w g between them and the intercept. Slopes are scaled so that E p (1 - p) is `spread`, which was paid for.
    """
    slopes = weights.copy()
    slopes[list(free)] = 0.0
    size = float(np.linalg.norm(slopes))
    g, masses = np.polynomial.hermite_e.hermegauss(NODES)
    masses = masses / masses.sum()
    p = 1 / (1 + np.exp(-np.clip(weights[list(free)].sum() + size * g, -500, 500)))
    q = 1 - p
    slope = p * q * (p * (q < clip) + q * (p < clip))
    moment = p * np.minimum(q, clip) ** 2 + q * np.minimum(p, clip) ** 2
    mean = p * np.minimum(q, clip) - q * np.minimum(p, clip)
    level = spread / float(masses @ (p * q))
    values, vectors = np.linalg.eigh(second_moment)
    root = (vectors * np.sqrt(values)) @ vectors.T
    along = root @ slopes
    along = along / max(float(np.linalg.norm(along)), 1e-300)
    last = np.zeros(len(weights)) if not free else root[:, free[0]] / np.linalg.norm(root[:, free[0]])
    weighted = [_between(masses * weight, g, along, last) for weight in (slope, moment)]
    K, S = (root @ inner @ root for inner in weighted)
    bias = root @ (along * float(masses @ (mean * g)) + last * float(masses @ mean))
    return Margins(slope=level * K, moment=S, bias=bias, level=level * float(masses @ slope))


def _between(masses: Array, g: Array, along: Array, last: Array) -> Array:
    """E w I + (E w g^2 - E w) a a' + E w g (a l' + l a'), its eigenvalues at least a tenth of E w."""
    whole, coupled, stretched = float(masses.sum()), float(masses @ g), float(masses @ g**2)
    inner = whole * np.eye(len(along)) + (stretched - whole) * np.outer(along, along)
    inner += coupled * (np.outer(along, last) + np.outer(last, along))
    values, vectors = np.linalg.eigh(inner)
    made: Array = (vectors * np.maximum(values, whole / 10)) @ vectors.T
    return made
