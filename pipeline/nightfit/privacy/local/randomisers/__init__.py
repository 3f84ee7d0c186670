"""Local randomisers: how a bounded gradient becomes a private report. One file each. Imports numba, scipy and numerics."""

from typing import ClassVar, Protocol

from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import Slots
from nightfit.types import Array


class Sampler(Protocol):
    """Draws a report of fixed length whose mean is the record's bounded gradient. `name` is what configurations and plans call it."""

    name: ClassVar[str]

    @property
    def epsilon(self) -> float:
        """The pure epsilon of local differential privacy that one report costs its record, whatever the record holds."""

    def size(self, columns: int) -> float:
        """B / L: the norm of a report in units of the gradient's bound, so that the report's mean is the gradient."""

    @property
    def reach(self) -> float:
        """The coin of a report is compared with 2^63 + lean reach; below 2^63."""

    def towards(self, key: Key, epoch: int, slots: Slots, X: Array, squares: Array, numbers: Array, coins: Slots) -> Array:
        """Fill `numbers` and `coins` and return positive or negative factors: V_i = factors[i] numbers[i] is a unit vector, drawn as if
        the gradient were X[i] / |X[i]| of full length. squares[i] is |X[i]|^2.

        The report is B V_i or, by the coin, -B V_i, which is drawn as if the gradient were the opposite one.
        """
