"""The automatic method: its questions are fixed in advance, their bounds come from paid answers. Imports descent and below."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from nightfit.methods.auto.descent import Descent
from nightfit.methods.auto.prediction import Prediction, predicted, remedies
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.warm import in_frame
from nightfit.methods.auto.whitened_coordinates import framed
from nightfit.methods.procedure import Outcome, Progress
from nightfit.methods.warm_start import Previous
from nightfit.privacy.gate import Gate


@dataclass(frozen=True, kw_only=True)
class AutoFit(QueryPlan):
    """Scales, means, second moments, then Newton-like steps on a clipped loss; every bound is read from an answer paid before.

    `start` is the earlier model that the steps begin at and shrink towards.
    """

    engine: ClassVar[str] = "auto"
    start: Previous | None = None

    @property
    def passes(self) -> int:
        return len(self.events)

    @property
    def private(self) -> bool:
        return True

    def coefficient_noise(self) -> float | None:
        return None

    def describe(self) -> dict[str, Any]:
        return {"method": "auto", "tuning": asdict(self.tuning), "steps": self.steps}

    def explain(self) -> list[str]:
        said = {
            "scales": "the size of each column",
            "hidden scales": "the size of the columns that the first did not show",
            "means": "the mean of each column",
            "spreads": "the size of each column about its mean",
        }
        said |= {"norms": "the size of a row", "moment": "the second moment of rows", "whitened norms": "the size of a whitened row"}
        said |= {"whitened moment": "the second moment of whitened rows"}
        said |= {"signed residuals": "the size of residuals, above and below zero", "residuals": "the size of residuals"}
        said |= {"target": "the mean of the target", "calibration": "the level and scale of predictions"}
        said |= {"tails": "whether predictions go on in proportion where columns are far out"}
        lines = [f"Automatic: {len(self.events)} questions; each one's bound is read from answers paid before it."]
        lines += [
            f"  {label}: {self.shares[label]:.1%} of the budget, {said[label.rstrip(' 0123456789')]}"
            for label in self.shares
            if not label.startswith("gradient")
        ]
        gradients = sum(share for label, share in self.shares.items() if label.startswith("gradient"))
        along = ", each with the second moment of whitened rows" if self.moment_comes_along else ""
        return [*lines, f"  {self.steps} gradients{along}: {gradients:.1%} of the budget.", *self.usefulness()]

    @property
    def prediction(self) -> Prediction:
        return predicted(self)

    def usefulness(self) -> list[str]:
        """What public facts tell about the chance of a useful fit, and what would make it one."""
        if self.prediction.useful:
            return [self.prediction.said()]
        return [
            self.prediction.said(),
            "Warning: no useful fit is likely: noise hides all but the strongest slopes, and what it hides is shrunk away. "
            f"{' or '.join(remedies(self)).capitalize()} would do{'; public bounds help a little' if self.unbounded else ''}.",
        ]

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        frame = framed(self, gate)
        return Descent(asked=self, gate=gate, frame=frame, start=in_frame(self.start, self.preprocessing, frame)).run(show)
