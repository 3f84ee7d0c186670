"""The local model: records' owners report, an untrusted server learns. Imports iteration and rooms below.

DJW is private sampling alone (Duchi, Jordan, Wainwright 2013); PRESTIGE adds a curriculum (Han et al. 2018, alg. 1).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from nightfit.methods.procedure import Outcome, Progress
from nightfit.plugins import described, member, named
from nightfit.privacy.accounting import UNIT, Cost, Currency, CurrencyError
from nightfit.privacy.events import Event, PureEvent
from nightfit.privacy.gate import LABELS, Ask, Gate
from nightfit.privacy.local import randomisers as local
from nightfit.privacy.local.curriculum import Curriculum, Everyone, LabelOnly, Masked
from nightfit.privacy.local.protocol import LocalProtocol, ReportSum, Walk
from nightfit.privacy.local.reports import Randomiser
from nightfit.privacy.local.schedule import CELL_BYTES, schedule
from nightfit.privacy.local.server import Server, State, step_size_of
from nightfit.problem.losses import Loss
from nightfit.problem.penalties import Penalty
from nightfit.problem.penalties.l2 import L2
from nightfit.problem.penalties.l2_ball import L2Ball
from nightfit.problem.penalties.none import NoPenalty
from nightfit.records.targets import Target
from nightfit.types import Adjacency, Integers

REPORTS = "reports"
REACHED = 8.0
LABEL_SHARE = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalMethod:
    """How to fit from reports; what is None is chosen from public facts. `start` and `drop` are the curriculum's threshold."""

    solver: Literal["djw", "prestige"] = "djw"
    curriculum: Literal["masked", "label_only"] = "masked"
    sampler: str = "djw"
    batch: int = 10
    epochs: int = 1
    cohorts: bool = True
    bound: float | None = None
    radius: float | None = None
    steps: Literal["convex", "strongly_convex"] = "convex"
    iterate: Literal["average", "last"] = "average"
    start: float = 1.5
    drop: float = 1.0
    cell_bytes: int = CELL_BYTES

    @property
    def label_only(self) -> bool:
        return self.solver == "prestige" and self.curriculum == "label_only"


@dataclass(frozen=True, kw_only=True)
class Local:
    """A protocol, and the server that steps on its reports, batch after batch.

    Guarantee: the events are those of one record: `reports` reports of epsilon each, and once the label's share where labels are
    flipped. Everything else, weights, averages and path, is post-processing. Broken by test_an_outsider_learns_no_more_than_the_report
    and, for the arithmetic, test_a_user_pays_for_each_report.
    """

    protocol: LocalProtocol
    server: Server
    method: LocalMethod
    columns: int
    adjacency: Adjacency

    @property
    def private(self) -> bool:
        return True

    @property
    def events(self) -> tuple[Event, ...]:
        flipped = self.protocol.label_epsilon
        labels = (PureEvent(label=LABELS, epsilon=flipped, reports=1, coordinates=1, adjacency=self.adjacency),) if flipped else ()
        reports = PureEvent(
            label=REPORTS,
            epsilon=self.protocol.epsilon,
            reports=self.protocol.reports,
            coordinates=self.coordinates,
            adjacency=self.adjacency,
        )
        return (*labels, reports)

    @property
    def coordinates(self) -> int:
        """The server's state after each cell, of which the last tells the fit."""
        return (1 + 2 * self.columns) * (self.cells + 1)

    @property
    def passes(self) -> int:
        return self.cells

    @property
    def cells(self) -> int:
        return self.protocol.schedule.epochs * self.protocol.schedule.cells

    def describe(self) -> dict[str, Any]:
        randomiser = self.protocol.randomiser
        return {
            "local": {
                "protects": self.protects,
                "solver": self.method.solver,
                "sampler": described(randomiser.sampler),
                "curriculum": {"kind": type(randomiser.curriculum).__name__, **asdict(randomiser.curriculum)},  # type: ignore[call-overload]
                "bound": randomiser.bound,
                "report_norm": randomiser.norm(self.columns),
                "schedule": asdict(self.protocol.schedule),
                "server": asdict(self.server),
                "iterate": self.method.iterate,
            }
        }

    @property
    def protects(self) -> str:
        if not self.method.label_only:
            return "the whole record, before anything is collected"
        return "the label only: whether a record reports is decided by its features in the clear, so nothing of the features is protected"

    def explain(self) -> list[str]:
        protocol, times = self.protocol, self.protocol.schedule
        norm = protocol.randomiser.norm(self.columns)
        often = "one report" if times.reports == 1 else f"{times.reports} reports"
        flipped = f", and once {protocol.label_epsilon:.4g} for its flipped label" if protocol.label_epsilon else ""
        passes = f"{self.cells} passes over the data" if self.cells > 1 else "one pass over the data"
        return [
            f"Local privacy: every record sends {often} of norm {norm:.4g} about a gradient of at most {protocol.randomiser.bound:.4g} "
            f"({named(protocol.randomiser.sampler)}), each {protocol.epsilon:.4g}-private{flipped}. It protects {self.protects}.",
            f"The server steps on means of {times.batch:,} reports, {times.epochs} epochs, "
            f"{'in cohorts, ' if times.cohorts else ''}{passes}; "
            f"noise of {norm / math.sqrt(times.batch * self.columns):.3g} per coordinate of a mean.",
        ]

    def coefficient_noise(self) -> float | None:
        return None

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        return self.outcome(gate.report(REPORTS, self.protocol, self.coordinates, lambda ask: self.exchange(ask, show)))

    def outcome(self, kept: Integers) -> Outcome:
        """The fit that the server's states tell."""
        states = [State.unpacked(packed) for packed in kept.reshape(self.cells + 1, -1)]
        final = states[-1]
        return Outcome(
            weights=final.average() if self.method.iterate == "average" else final.weights, path=[state.weights for state in states]
        )

    def exchange(self, ask: Ask, show: Callable[[Progress], None]) -> Integers:
        """The server's states, cell after cell: many small batches by a walk, one large batch by a sum over shards."""
        state, times = self.server.start(self.columns), self.protocol.schedule
        told = [state.packed()]
        noise = self.protocol.randomiser.norm(self.columns) / math.sqrt(times.batch * self.columns)
        for cell in range(self.cells):
            before = state.weights
            state = self._next(ask, state, cell // times.cells, cell % times.cells)
            told.append(state.packed())
            moved = float(np.linalg.norm(state.weights - before))
            show(Progress(step=cell + 1, steps=self.cells, moved=moved, noise=noise))
        return np.concatenate(told)

    def _next(self, ask: Ask, state: State, epoch: int, cell: int) -> State:
        if not self.protocol.schedule.together:
            asked = Walk(protocol=self.protocol, server=self.server, epoch=epoch, cell=cell, state=state)
            return State.unpacked(ask(asked))
        question = ReportSum(protocol=self.protocol, epoch=epoch, cell=cell, weights=state.weights)
        return self.server.update(state, question.mean(ask(question)))


def reporting(
    method: LocalMethod,
    *,
    loss: Loss,
    penalty: Penalty,
    features: int,
    columns: int,
    units: int,
    ceiling: Cost,
    currency: Currency,
    adjacency: Adjacency,
) -> Local:
    """The local procedure of a method that costs at most `ceiling`, from public facts; a ValueError says what does not fit together."""
    if adjacency is Adjacency.ADD_REMOVE:
        raise ValueError("a report shows that its owner takes part: local privacy is for replace_one or zero_out")
    if loss.target is not Target.LABELS or not math.isfinite(loss.lipschitz):
        raise ValueError(f"local reports are for losses of labels with a bounded slope, such as logistic, and {named(loss)} is none")
    l2, radius = _penalty(penalty, method.radius)
    times = schedule(
        units=units, columns=columns, batch=method.batch, epochs=method.epochs, cohorts=method.cohorts, cell_bytes=method.cell_bytes
    )
    each, flipped = _shares(ceiling, currency, times.reports, LABEL_SHARE if method.label_only else 0.0)
    bound = method.bound or loss.lipschitz * math.sqrt(columns)
    curriculum: Curriculum = Everyone()
    if method.solver == "prestige":
        falling = {"start": method.start, "drop": method.drop}
        curriculum = LabelOnly(label_epsilon=flipped, **falling) if method.label_only else Masked(**falling)
    randomiser = Randomiser(loss=loss, bound=bound, sampler=member(local, method.sampler)(epsilon=each), curriculum=curriculum)
    radius = radius or REACHED * loss.lipschitz / bound
    server = Server(
        radius=radius,
        l2=l2,
        strongly=method.steps == "strongly_convex",
        size=step_size_of(randomiser.norm(columns), bound, method.batch, l2, radius),
        penalised=features,
    )
    return Local(
        protocol=LocalProtocol(randomiser=randomiser, schedule=times), server=server, method=method, columns=columns, adjacency=adjacency
    )


def _penalty(penalty: Penalty, radius: float | None) -> tuple[float, float | None]:
    """(l2 weight, radius of the ball)."""
    if isinstance(penalty, L2):
        return penalty.weight, radius
    if isinstance(penalty, L2Ball):
        if radius is not None:
            raise ValueError("the radius is given twice, by the penalty l2_ball and by method.radius: keep one")
        return 0.0, penalty.radius
    if isinstance(penalty, NoPenalty):
        return 0.0, radius
    raise ValueError("local reports are for the penalties {}, l2 and l2_ball")


def _shares(ceiling: Cost, currency: Currency, reports: int, label_share: float) -> tuple[float, float]:
    """(epsilon of a report, epsilon of the label) that use the ceiling up: epsilon adds in pure, epsilon^2 / 2 in zcdp.

    The paper gives a fifth to the label (their epsilon_r : epsilon_s = 1 : 4).
    """
    if currency is Currency.GAUSSIAN:
        raise CurrencyError(
            "the currency gaussian cannot add local reports: give the data set a policy in the currency pure "
            "(privacy.lifetime.currency: pure)"
        )
    amount = float(ceiling.amount * UNIT) * (1 - 1e-12)
    if currency is Currency.PURE:
        return amount * (1 - label_share) / reports, amount * label_share
    return math.sqrt(2 * amount * (1 - label_share) / reports), math.sqrt(2 * amount * label_share)
