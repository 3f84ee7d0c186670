"""The lifetime budget of a data set. Imports accounting and types."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pipeline.privacy.accounting import Cost, Currency, Tariff, cost, limit, tariff_of
from pipeline.privacy.events import Event
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

    @property
    def tariff(self) -> Tariff | None:
        """At what Poisson samples are priced."""
        return tariff_of(self.epsilon, self.delta) if self.currency is Currency.ZCDP else None

    def cost(self, events: Iterable[Event]) -> Cost:
        """What the events cost under this policy; a CurrencyError if its currency cannot carry them."""
        return cost(events, self.currency, self.tariff)

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "adjacency": str(self.adjacency), "currency": str(self.currency)}

    @classmethod
    def from_dict(cls, stored: dict[str, str | float]) -> "Policy":
        return cls(
            data_set=str(stored["data_set"]),
            unit=str(stored["unit"]),
            adjacency=Adjacency(str(stored["adjacency"])),
            epsilon=float(stored["epsilon"]),
            delta=float(stored["delta"]),
            currency=Currency(str(stored["currency"])),
            blocks=str(stored["blocks"]),
        )

    @property
    def kind(self) -> tuple[str, ...]:
        """What a sum of costs means; costs of two kinds do not add."""
        return self.unit, self.adjacency, self.currency, self.blocks

    def loosens(self, earlier: "Policy") -> bool:
        """Whether this policy allows anything that the earlier one does not."""
        return not (self.kind == earlier.kind and self.epsilon <= earlier.epsilon and self.delta <= earlier.delta)
