"""PrivUnit, private sampling from a cap (Bhowmick et al. 2018; Asi, Feldman, Talwar 2022). Imports numba and scipy."""

import math
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, betaln

from nightfit.numerics.compiled import compiled
from nightfit.numerics.keystream import SIGN, Key, draw, uniforms
from nightfit.numerics.prf import Slots
from nightfit.privacy.local.randomisers.djw import HALF, INWARDS, check_epsilon, products
from nightfit.types import Array

DRAWS = 32
ROOM = 2.0**-15
SCALE = 2.0**64
SMALLEST = 1e-4


@dataclass(frozen=True, kw_only=True, slots=True)
class Cap:
    """The points v of the sphere with <v, u> >= gamma are 1 / alpha times as likely as the others; `mean` is E <V, u>."""

    alpha: float
    gamma: float
    mean: float
    accepted: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivUnit:
    """B V with V on the unit sphere of density proportional to 1 in the cap <v, u> >= gamma and to alpha outside; u is the
    gradient's direction with probability 1/2 + |h| / (2 L) and the opposite one else.

    gamma is the best: with q(gamma) = P(<V, u> >= gamma) and M(gamma) = E[<V, u>; <V, u> >= gamma] for V uniform, the mean is
    (1 - alpha) M / (q + alpha (1 - q)), largest where gamma equals it; but the cap is never so small that a report takes more than 32
    draws on average. At gamma = 0 it is private sampling; for a larger epsilon its reports are shorter.

    Guarantee: a report is epsilon-private for its record. Proof: V is drawn by rejection from vectors of the keystream, which know
    nothing of the record: a draw is kept with probability 1 in the cap and alpha outside, so P(V = v) = P(draw = v) a(v, u) / Z(u)
    with a in {alpha, 1} and Z(u) = E a(draw, u). Every v is possible under every record, and the ratio is at most
    Z(u') / Z(u) / alpha. On paper Z does not depend on u; on the machine the draws lie on a grid of 2.4e-7 at most and the side of
    the cap is rounded, which moves P(cap) by less than 2 sqrt(d / 2 pi) 4.4e-7, hence log Z by less than 2.3e-5 sqrt(d), as
    Z >= 1/32; alpha is exp(-epsilon + 2^-15 sqrt(d)), which leaves room for that. A choice between two opposite u mixes such laws,
    and -V is drawn around -u as V is around u. Broken by test_no_report_tells_neighbours_apart_better_than_its_epsilon and
    test_the_cap_is_as_likely_and_as_long_as_said.
    """

    name: ClassVar[str] = "privunit"
    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    def cap(self, columns: int) -> Cap:
        return _cap(self.epsilon, columns)

    def size(self, columns: int) -> float:
        """1 / E <V, u>."""
        return 1 / self.cap(columns).mean

    @property
    def reach(self) -> float:
        return HALF * INWARDS

    def towards(self, key: Key, epoch: int, slots: Slots, X: Array, squares: Array, numbers: Array, coins: Slots) -> Array:
        cap, factors = self.cap(X.shape[1]), np.zeros(len(slots))
        alpha = np.uint64(math.ceil(cap.alpha * SCALE))
        coins[:] = uniforms(key, SIGN, epoch, slots)
        waiting, drawn, attempt = np.arange(len(slots)), numbers, 0
        while len(waiting):
            keeps = np.empty(len(waiting), dtype=np.uint64)
            draw(key, epoch, slots[waiting], attempt, drawn, keeps)
            factors[waiting] = _kept(X, squares, waiting, drawn, keeps, cap.gamma, alpha)
            numbers[waiting] = drawn
            waiting, attempt = waiting[factors[waiting] == 0], attempt + 1
            drawn = np.empty((len(waiting), X.shape[1]))
        return factors


@compiled
def _kept(X: Any, squares: Any, rows: Any, drawn: Any, keeps: Any, gamma: Any, alpha: Any) -> Any:
    """1 / |drawn[i]| where the draw for X[rows[i]] is kept, else 0; a record without direction has the first axis."""
    out = np.zeros(len(rows))
    for i in range(np.uintp(len(rows))):
        row = np.uintp(rows[i])
        dot, square = products(X[row : row + 1], 0, drawn[i : i + 1])
        length = math.sqrt(squares[row])
        near = dot >= gamma * math.sqrt(square) * length if length > 0.0 else drawn[i, 0] >= gamma * math.sqrt(square)
        if near or keeps[i] < alpha:
            out[i] = 1.0 / math.sqrt(square)
    return out


@cache
def _cap(epsilon: float, columns: int) -> Cap:
    exponent = epsilon - ROOM * math.sqrt(columns)
    if exponent < SMALLEST:
        raise ValueError(
            f"privunit needs an epsilon of {SMALLEST + ROOM * math.sqrt(columns):.2g} or more for {columns} columns, got {epsilon}: use djw"
        )
    alpha = math.exp(-exponent)

    def share(gamma: float) -> float:
        return 0.5 * float(betainc((columns - 1) / 2, 0.5, 1 - gamma * gamma)) if columns > 1 else 0.5

    def first(gamma: float) -> float:
        if columns == 1:
            return 0.5
        return math.exp((columns - 1) / 2 * math.log1p(-gamma * gamma) - betaln((columns - 1) / 2, 0.5)) / (columns - 1)

    def accepted(gamma: float) -> float:
        return share(gamma) + alpha * (1 - share(gamma))

    gamma, most = 0.0, 1 - 1e-9
    if columns > 1:
        gamma = brentq(lambda g: g * accepted(g) - (1 - alpha) * first(g), 0.0, most)
        if accepted(gamma) < 1 / DRAWS:
            gamma = brentq(lambda g: accepted(g) - 1 / DRAWS, 0.0, gamma)
    return Cap(alpha=alpha, gamma=gamma, mean=(1 - alpha) * first(gamma) / accepted(gamma), accepted=accepted(gamma))


EXAMPLES = (PrivUnit(epsilon=1.0), PrivUnit(epsilon=0.1), PrivUnit(epsilon=8.0))
