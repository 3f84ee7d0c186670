"""Private robust means of the units' gradients, one file each, as questions to the gate. Imports gate, query and rooms below."""

from typing import Protocol

from pipeline.gate import Gate
from pipeline.losses import Loss
from pipeline.query import Query
from pipeline.types import Array


class Mean(Protocol):
    @property
    def bound(self) -> float:
        """The public number that bounds a contribution, in units of the gradient."""

    def query(self, loss: Loss, weights: Array, bits: int, key: bytes) -> Query:
        """What is asked about the gradients at public weights, with groups drawn from the run's key; its sensitivity in steps
        depends on neither.
        """


def estimate(mean: Mean, gate: Gate, label: str, loss: Loss, weights: Array, units: int, bits: int) -> Array:
    """The private mean gradient at the weights, by the question that the plan reserved under this label."""
    query = mean.query(loss, weights, bits, gate.account.key)
    return gate.ask(label, query) / query.divisor(units)
