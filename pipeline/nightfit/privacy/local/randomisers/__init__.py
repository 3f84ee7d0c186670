"""Local privacy: each record's own randomiser, and the server that learns from reports alone. Imports numba, scipy and rooms below.

A report is what a record's owner would send to a server that is not trusted: private by itself, whatever the server does
with it. Here the randomiser runs inside a task over the record's shard, from the record's own tape; weights, averages and paths are
functions of reports alone.
"""

from typing import ClassVar, Protocol

from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import Slots
from nightfit.types import Array


class Sampler(Protocol):
    """`name` is what configurations and plans call it."""

    name: ClassVar[str]

    @property
    def epsilon(self) -> float:
        """What one report costs the record that sends it, whatever it holds: a pure epsilon of local differential privacy."""

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
