"""Private sampling of a bounded gradient (Duchi, Jordan, Wainwright 2013; Han et al. 2018, prop. 1). Imports numba."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nightfit.numerics.compiled import compiled
from nightfit.numerics.keystream import Key, draw
from nightfit.numerics.prf import Slots
from nightfit.types import Array

HALF = 2.0**63
INWARDS = 1 - 2.0**-40
LEAST, MOST = 1e-3, 30.0


def check_epsilon(epsilon: float) -> None:
    if not (math.isfinite(epsilon) and LEAST <= epsilon <= MOST):
        raise ValueError(f"the epsilon of a report must be a number from {LEAST} to {MOST:g}, got {epsilon}")


@dataclass(frozen=True, kw_only=True, slots=True)
class PrivateSampling:
    """B V with V uniform on the half of the unit sphere around the gradient h with probability 1/2 + kappa |h| / (2 L), and on the
    other half else; kappa = (e^epsilon - 1) / (e^epsilon + 1).

    That is the paper's rescaling and its Bernoulli draw Q in one coin: both agree with probability
    (1/2 + |h| / 2L) e^epsilon / (1 + e^epsilon) + (1/2 - |h| / 2L) / (1 + e^epsilon).

    Guarantee: a report is epsilon-private for its record, on the machine as on paper, zero gradient included. Proof: the line
    through V comes from the keystream alone; which of its two ends is sent is one coin, which falls on either with a probability
    between 1 / (1 + e^epsilon) and e^epsilon / (1 + e^epsilon) whatever the record: it is compared with HALF + lean reach, |lean| <= 1
    and (HALF + reach) / (HALF - reach) <= e^epsilon. So, given the line, any report is at most e^epsilon times as likely under
    another record. Rounding of numbers, products and norms changes V or which end counts as near, never these bounds. Broken by
    test_no_report_tells_neighbours_apart_better_than_its_epsilon and test_the_coin_is_within_e_to_the_epsilon_exactly.
    """

    name: ClassVar[str] = "djw"
    epsilon: float

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)

    @property
    def reach(self) -> float:
        """kappa 2^63, a little less."""
        return HALF * math.tanh(self.epsilon / 2) * INWARDS

    def size(self, columns: int) -> float:
        """sqrt(pi) Gamma((d + 1) / 2) / Gamma(d / 2) / kappa: 1 / E|V_1| / kappa.

        Han et al. (2018), lemma 2, print twice this: their eq. 14 drops the 2 of their eq. 13.
        """
        return math.sqrt(math.pi) * math.exp(math.lgamma((columns + 1) / 2) - math.lgamma(columns / 2)) / math.tanh(self.epsilon / 2)

    def towards(self, key: Key, epoch: int, slots: Slots, X: Array, squares: Array, numbers: Array, coins: Slots) -> Array:
        factors = np.empty(len(slots))
        draw(key, epoch, slots, 0, numbers, coins)
        _turned(X, numbers, factors)
        return factors


@compiled(fastmath={"reassoc"})
def products(X: Any, i: Any, numbers: Any) -> Any:
    """(X[i] . numbers[i], |numbers[i]|^2)."""
    dot, square = 0.0, 0.0
    for j in range(np.uintp(X.shape[1])):
        dot += X[i, j] * numbers[i, j]
        square += numbers[i, j] * numbers[i, j]
    return dot, square


@compiled
def _turned(X: Any, numbers: Any, factors: Any) -> None:
    """factors[i] = +-1 / |numbers[i]|, the sign that turns numbers[i] to the side of X[i]."""
    for i in range(np.uintp(len(factors))):
        dot, square = products(X, i, numbers)
        factors[i] = (1.0 if dot >= 0.0 else -1.0) / math.sqrt(square)


EXAMPLES = (PrivateSampling(epsilon=1.0), PrivateSampling(epsilon=0.1), PrivateSampling(epsilon=8.0))
