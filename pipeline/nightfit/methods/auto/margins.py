"""What clipping does to a logistic fit whose margins are normal: slope, moment and bias of the clipped gradient. Imports numpy."""

from dataclasses import dataclass

import numpy as np

from nightfit.types import Array

NODES = 60
FAR, HALVINGS = 100.0, 60


@dataclass(frozen=True, kw_only=True)
class Margins:
    """Of one record's clipped gradient at the true weights: the slope of its mean, its second moment, and its mean, which clipping
    makes differ from zero; `level` is the slope across the weights over that of rows.
    """

    slope: Array
    moment: Array
    bias: Array
    level: float


def normal_spread(second_moment: Array, weights: Array, free: tuple[int, ...]) -> float:
    """E p (1 - p) for p = P(label 1) at these weights, if rows of this second moment have normal margins."""
    p, masses = _chances(second_moment, weights, free)[1:]
    return float(masses @ (p * (1 - p)))


def normal_share(second_moment: Array, weights: Array, free: tuple[int, ...]) -> float:
    """E p likewise: the share of labels 1."""
    p, masses = _chances(second_moment, weights, free)[1:]
    return float(masses @ p)


def at_share(second_moment: Array, weights: Array, free: tuple[int, ...], share: float) -> Array:
    """The weights with the intercept at which E p is the share, by halving: E p grows with it."""
    low, high, made = -FAR, FAR, weights.copy()
    for _ in range(HALVINGS):
        made[list(free)] = (low + high) / 2
        low, high = (low, made[free[0]]) if normal_share(second_moment, made, free) > share else (made[free[0]], high)
    return made


def _chances(second_moment: Array, weights: Array, free: tuple[int, ...]) -> tuple[Array, Array, Array]:
    """g, p(b + s g) and masses of a normal g, for the intercept b and the deviation s of margins without it."""
    slopes = weights.copy()
    slopes[list(free)] = 0.0
    g, masses = np.polynomial.hermite_e.hermegauss(NODES)
    size = np.sqrt(max(float(slopes @ second_moment @ slopes), 0.0))
    p = 1 / (1 + np.exp(-np.clip(weights[list(free)].sum() + size * g, -500, 500)))
    return g, p, masses / masses.sum()


def normal_margins(second_moment: Array, weights: Array, clip: float, ratio: float, free: tuple[int, ...]) -> Margins:
    """For rows z of this second moment H whose margin is u = b + s g with a normal g, and P(label 1) = p(u):

    slope  w(u) = p (1 - p) [p 1(1 - p < c) + (1 - p) 1(p < c)], moment s(u) = p min(1 - p, c)^2 + (1 - p) min(p, c)^2 and mean
    m(u) = p min(1 - p, c) - (1 - p) min(p, c) of the clipped residual. E w(u) z z' is E w across the weights, E w g^2 along them and
    E w g between them and the intercept. Slopes are scaled by `ratio`: what E p (1 - p) was found to be where it was paid for, over what
    normal margins would make it there.
    """
    g, p, masses = _chances(second_moment, weights, free)
    slopes, q = weights.copy(), 1 - p
    slopes[list(free)] = 0.0
    slope = p * q * (p * (q < clip) + q * (p < clip))
    moment = p * np.minimum(q, clip) ** 2 + q * np.minimum(p, clip) ** 2
    mean = p * np.minimum(q, clip) - q * np.minimum(p, clip)
    values, vectors = np.linalg.eigh(second_moment)
    root = (vectors * np.sqrt(values)) @ vectors.T
    along = root @ slopes
    along = along / max(float(np.linalg.norm(along)), 1e-300)
    last = np.zeros(len(weights)) if not free else root[:, free[0]] / np.linalg.norm(root[:, free[0]])
    weighted = [_between(masses * weight, g, along, last) for weight in (slope, moment)]
    K, S = (root @ inner @ root for inner in weighted)
    bias = root @ (along * float(masses @ (mean * g)) + last * float(masses @ mean))
    return Margins(slope=ratio * K, moment=S, bias=bias, level=ratio * float(masses @ slope))


def _between(masses: Array, g: Array, along: Array, last: Array) -> Array:
    """E w I + (E w g^2 - E w) a a' + E w g (a l' + l a'), its eigenvalues at least a tenth of E w."""
    whole, coupled, stretched = float(masses.sum()), float(masses @ g), float(masses @ g**2)
    inner = whole * np.eye(len(along)) + (stretched - whole) * np.outer(along, along)
    inner += coupled * (np.outer(along, last) + np.outer(last, along))
    values, vectors = np.linalg.eigh(inner)
    made: Array = (vectors * np.maximum(values, whole / 10)) @ vectors.T
    return made
