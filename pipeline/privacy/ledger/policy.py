"""The lifetime budget of a data set. Imports accounting and types."""

from dataclasses import asdict, dataclass

from pipeline.privacy.accounting import Cost, Currency, limit
from pipeline.types import Adjacency


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """For life and for every block of `data_set`: all that is ever released of it is (epsilon, delta) private for one `unit`."""

    data_set: str
    unit: str = "record"
    adjacency: Adjacency
    epsilon: float
    delta: float
    currency: Currency = Currency.GAUSSIAN
    blocks: str = "all"

    def limit(self) -> Cost:
        return limit(self.epsilon, self.delta, self.currency)

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "adjacency": str(self.adjacency), "currency": str(self.currency)}

    @classmethod
    def from_dict(cls, stored: dict[str, str | float]) -> "Policy":
        return cls(
            data_set=str(stored["data_set"]),
            unit=str(stored["unit"]),
            adjacency=Adjacency(stored["adjacency"]),
            epsilon=float(stored["epsilon"]),
            delta=float(stored["delta"]),
            currency=Currency(stored["currency"]),
            blocks=str(stored["blocks"]),
        )

    def loosens(self, earlier: "Policy") -> bool:
        """Whether this policy allows anything that the earlier one does not."""
        same = (self.unit, self.adjacency, self.currency, self.blocks) == (earlier.unit, earlier.adjacency, earlier.currency, earlier.blocks)
        return not (same and self.epsilon <= earlier.epsilon and self.delta <= earlier.delta)
