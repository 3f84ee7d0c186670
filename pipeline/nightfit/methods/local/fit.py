"""The engine `local`: the records' owners send randomised reports, an untrusted server fits. Imports privacy.local and packages below.

DJW is private sampling alone (Duchi, Jordan, Wainwright 2013); PRESTIGE adds a curriculum (Han et al. 2018, alg. 1).
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

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
from nightfit.records.targets import Target
from nightfit.types import Adjacency, Integers

REPORTS = "reports"
MARGIN_REACHED = 8.0  # largest margin that the default radius allows: beyond it a logistic probability is within 0.0004 of 0 or 1
LABEL_SHARE = 0.2  # of the budget, for the label: the paper's epsilon_r : epsilon_s = 1 : 4


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalMethod:
    """How to fit from reports. What is None is chosen from public facts.

    Parameters
    ----------
    solver : {"djw", "prestige"}
        Private sampling alone, or with a curriculum.
    curriculum : {"masked", "label_only"}
        Of prestige: protect the whole record, or its label only.
    sampler : str
        Name of the local randomiser.
    batch : int
        Number of reports whose mean makes a step.
    epochs : int
        Number of passes over the reports' owners.
    cohorts : bool
        Whether each record reports in one epoch only, with the whole epsilon.
    bound, radius : float, optional
        Bounds on the norm of a record's gradient and of the weights.
    steps : {"convex", "strongly_convex"}
        Step sizes in proportion to 1 / sqrt(t), or to 1 / t.
    iterate : {"average", "last"}
        Which iterate is the result.
    start, drop : float
        Threshold of the curriculum in the first epoch, and its fall after each.
    cell_bytes : int
        Memory for the reports that one worker takes at a time.
    """

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
        """Whether only the labels are protected."""
        return self.solver == "prestige" and self.curriculum == "label_only"


@dataclass(frozen=True, kw_only=True)
class LocalFit:
    """A local protocol, and the server that takes a step for every batch of its reports.

    Guarantee: the events are those of one record: `reports` reports of epsilon each, and once the label's share where labels are
    flipped. Weights, averages and path are post-processing. Broken by test_an_outsider_learns_no_more_than_the_report
    and, for the arithmetic, test_a_user_pays_for_each_report.
    """

    engine: ClassVar[str] = "local"
    prediction: ClassVar[None] = None
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
        """Length of the stored answer: the server's state at the start and after each cell."""
        return (1 + 2 * self.columns) * (self.cells + 1)

    @property
    def passes(self) -> int:
        return self.cells

    @property
    def cells(self) -> int:
        """Number of passes over the records, in all epochs."""
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
        """What the guarantee protects, in words."""
        if not self.method.label_only:
            return "the whole record, before anything is collected"
        return "the label only: whether a record reports is decided by its features in the clear, so nothing of the features is protected"

    def explain(self) -> list[str]:
        protocol, schedule = self.protocol, self.protocol.schedule
        norm = protocol.randomiser.norm(self.columns)
        reports = "one report" if schedule.reports == 1 else f"{schedule.reports} reports"
        flipped = f", and once {protocol.label_epsilon:.4g} for its flipped label" if protocol.label_epsilon else ""
        passes = f"{self.cells} passes over the data" if self.cells > 1 else "one pass over the data"
        return [
            f"Local privacy: every record sends {reports} of norm {norm:.4g} about a gradient of at most {protocol.randomiser.bound:.4g} "
            f"({named(protocol.randomiser.sampler)}), each {protocol.epsilon:.4g}-private{flipped}. It protects {self.protects}.",
            f"The server takes a step for each mean of {schedule.batch:,} reports, {schedule.epochs} epochs, "
            f"{'in cohorts, ' if schedule.cohorts else ''}{passes}; noise of {self.noise:.3g} per coordinate of a mean.",
        ]

    @property
    def noise(self) -> float:
        """Standard deviation of the noise in each coordinate of the mean of a batch: norm / sqrt(batch columns)."""
        return self.protocol.randomiser.norm(self.columns) / math.sqrt(self.protocol.schedule.batch * self.columns)

    def coefficient_noise(self) -> float | None:
        return None

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        return self.outcome(gate.report(REPORTS, self.protocol, self.coordinates, lambda ask: self.exchange(ask, show)))

    def outcome(self, answer: Integers) -> Outcome:
        """The fit that the stored answer, the server's states, contains."""
        states = [State.unpacked(packed) for packed in answer.reshape(self.cells + 1, -1)]
        final = states[-1]
        return Outcome(
            weights=final.average() if self.method.iterate == "average" else final.weights, path=[state.weights for state in states]
        )

    def exchange(self, ask: Ask, show: Callable[[Progress], None]) -> Integers:
        """The server's states, packed: at the start and after each cell."""
        state, schedule = self.server.start(self.columns), self.protocol.schedule
        states = [state.packed()]
        for cell in range(self.cells):
            before = state.weights
            state = self._next_state(ask, state, cell // schedule.cells, cell % schedule.cells)
            states.append(state.packed())
            moved = float(np.linalg.norm(state.weights - before))
            show(Progress(step=cell + 1, steps=self.cells, moved=moved, noise=self.noise))
        return np.concatenate(states)

    def _next_state(self, ask: Ask, state: State, epoch: int, cell: int) -> State:
        """The state after a cell: a walk over many small batches, or one large batch as a sum over shards."""
        if not self.protocol.schedule.together:
            walk = Walk(protocol=self.protocol, server=self.server, epoch=epoch, cell=cell, state=state)
            return State.unpacked(ask(walk))
        query = ReportSum(protocol=self.protocol, epoch=epoch, cell=cell, weights=state.weights)
        return self.server.update(state, query.mean(ask(query)))


def local_fit(
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
) -> LocalFit:
    """The local fit of a method that costs at most `ceiling`, from public facts.

    Raises
    ------
    ValueError
        If the settings do not fit together, with the cure.
    """
    _check_reports(loss, adjacency)
    l2, radius = _ridge_and_radius(penalty, method.radius)
    timetable = schedule(
        units=units, columns=columns, batch=method.batch, epochs=method.epochs, cohorts=method.cohorts, cell_bytes=method.cell_bytes
    )
    epsilon, label_epsilon = _epsilons(ceiling, currency, timetable.reports, LABEL_SHARE if method.label_only else 0.0)
    randomiser = Randomiser(
        loss=loss,
        bound=method.bound or loss.lipschitz * math.sqrt(columns),
        sampler=member(local, method.sampler)(epsilon=epsilon),
        curriculum=_curriculum(method, label_epsilon),
    )
    radius = radius or MARGIN_REACHED * loss.lipschitz / randomiser.bound
    size = step_size_of(randomiser.norm(columns), randomiser.bound, method.batch, l2, radius)
    server = Server(radius=radius, l2=l2, strongly=method.steps == "strongly_convex", size=size, penalised=features)
    protocol = LocalProtocol(randomiser=randomiser, schedule=timetable)
    return LocalFit(protocol=protocol, server=server, method=method, columns=columns, adjacency=adjacency)


def _check_reports(loss: Loss, adjacency: Adjacency) -> None:
    """Raise ValueError unless reports of this loss are private under this adjacency."""
    if adjacency is Adjacency.ADD_REMOVE:
        raise ValueError("a report shows that its owner takes part: local privacy is for replace_one or zero_out")
    if loss.target is not Target.LABELS or not math.isfinite(loss.lipschitz):
        raise ValueError(f"local reports are for losses of labels with a bounded slope, such as logistic; {named(loss)} is not one")


def _curriculum(method: LocalMethod, label_epsilon: float) -> Curriculum:
    if method.solver == "djw":
        return Everyone()
    if method.label_only:
        return LabelOnly(label_epsilon=label_epsilon, start=method.start, drop=method.drop)
    return Masked(start=method.start, drop=method.drop)


def _ridge_and_radius(penalty: Penalty, radius: float | None) -> tuple[float, float | None]:
    """(l2 weight, radius of the ball of weights) of the penalty and the method."""
    if penalty.ridge is None:
        raise ValueError("local reports are for the penalties {}, l2 and l2_ball")
    if penalty.radius is not None and radius is not None:
        raise ValueError("the radius is given twice, by the penalty l2_ball and by method.radius: keep one")
    return penalty.ridge, radius if penalty.radius is None else penalty.radius


def _epsilons(ceiling: Cost, currency: Currency, reports: int, label_share: float) -> tuple[float, float]:
    """(epsilon of a report, epsilon of the label) that use the ceiling up: epsilon adds in pure, epsilon^2 / 2 in zcdp."""
    if currency is Currency.GAUSSIAN:
        raise CurrencyError(
            "the currency gaussian cannot add local reports: give the data set a policy in the currency pure "
            "(privacy.lifetime.currency: pure)"
        )
    amount = float(ceiling.amount * UNIT) * (1 - 1e-12)
    if currency.adds_epsilons:
        return amount * (1 - label_share) / reports, amount * label_share
    return math.sqrt(2 * amount * (1 - label_share) / reports), math.sqrt(2 * amount * label_share)
