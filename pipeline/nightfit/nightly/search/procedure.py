"""The procedure of a search's plan. Imports planning, privacy and release."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from nightfit.methods.procedure import Outcome, Progress
from nightfit.nightly.search.payments import Payment
from nightfit.nightly.search.settings import Setting
from nightfit.plugins import described
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.release.words import in_words


@dataclass(frozen=True, kw_only=True)
class Search:
    """Fit and score settings, and choose the best. `chosen` is its index, once it is known; `offers` and `why` explain the payment."""

    prediction: ClassVar[None] = None
    settings: tuple[Setting, ...]
    payment: Payment
    chosen: int | None = None
    offers: tuple[str, ...] = field(default=(), compare=False)
    why: str = field(default="", compare=False)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return self.payment.events(self.settings)

    @property
    def passes(self) -> int:
        return self.payment.passes(self.settings)

    @property
    def engine(self) -> str:
        return " and ".join(sorted({setting.plan.procedure.engine for setting in self.settings}))

    @property
    def private(self) -> bool:
        return all(setting.plan.procedure.private for setting in self.settings)

    def coefficient_noise(self) -> float | None:
        return None if self.chosen is None else self.settings[self.chosen].plan.procedure.coefficient_noise()

    def describe(self) -> dict[str, Any]:
        score = self.settings[0].scored
        own = {} if self.chosen is None else self.settings[self.chosen].plan.procedure.describe()
        return {
            **own,
            "search": {
                "payment": self.payment.name,
                "settings": [{"said": setting.values, "plan": setting.plan.digest()} for setting in self.settings],
                "score": {"loss": described(score.loss), "most": score.most, "sigma": score.event().sigma, "bits": score.bits},
            },
        }

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        return self.payment.search(self.settings, gate, show).outcome

    def explain(self) -> list[str]:
        first = self.settings[0]
        budget = first.plan.specification.budget
        return [
            f"Search over {len(self.settings)} settings, each fitted at epsilon {budget.epsilon:.4g} and scored by its mean "
            f"{described(first.scored.loss)['kind']} loss (one {budget.unit} counts at most {first.scored.most:.4g}), with noise of "
            f"{first.scored.noise:.3g}:",
            *(f"- {in_words(setting.values)}" for setting in self.settings),
            "What it would cost in all:",
            *(f"- {offer}" for offer in self.offers),
            f"Payment: {self.payment.name}{self.why}. {self.payment.explain(self.settings)}",
        ]
