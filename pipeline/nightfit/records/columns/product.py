"""The interaction of two columns. Imports its own package."""

from dataclasses import dataclass
from typing import Any, ClassVar

from nightfit.records.columns import Column, Feature, Reading
from nightfit.records.expressions import Expression, of
from nightfit.types import Array


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """The product of each feature of one column with each feature of another; missing where either is."""

    name: ClassVar[str] = "product"
    one_hot: ClassVar[bool] = False
    reading: ClassVar[Reading | None] = None
    drops: ClassVar[bool] = False
    of: tuple[str, str]

    def __post_init__(self) -> None:
        if len(self.of) != 2:
            raise ValueError(f"a product is of two columns, got {', '.join(self.of)}")

    def accepts(self, arrow_type: str) -> bool:
        return False

    def features(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Feature, ...]:
        first, second = factors
        return tuple(
            Feature(name=f"{a.name} * {b.name}", indicator=a.indicator and b.indicator, imputed=a.imputed or b.imputed, **_bounds(a, b))
            for a in first
            for b in second
        )

    def encode(self, values: Any, out: Array) -> None:
        """Of the two columns' features, (rows x features) each."""
        first, second = values
        out[:] = (first[:, :, None] * second[:, None, :]).reshape(len(out), -1)

    def expressions(self, name: str, *factors: tuple[Feature, ...]) -> tuple[Expression, ...]:
        first, second = factors
        return tuple(of("feature", a.name) * of("feature", b.name) for a in first for b in second)


def _bounds(a: Feature, b: Feature) -> dict[str, float]:
    """Of a product, where both factors have theirs."""
    ends = [(0.0, 1.0) if one.indicator else (one.low, one.high) for one in (a, b)]
    if (a.indicator and b.indicator) or any(end is None for pair in ends for end in pair):
        return {}
    products = [one * other for one in ends[0] for other in ends[1]]  # type: ignore[operator]
    return {"low": min(products), "high": max(products)}


EXAMPLES: tuple[Column, ...] = (Product(of=("emergency", "age")),)
