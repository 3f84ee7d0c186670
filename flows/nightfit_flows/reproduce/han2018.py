"""Han et al. (2018), PRESTIGE: table 3, with a user's whole epsilon. Imports prestige and below."""

import math
from pathlib import Path

from nightfit_flows.reproduce import prestige
from nightfit_flows.reproduce.experiment import Curve, Figure, Kind, Page, Point, Scale, Show, Table, Verdict, judged

CITATION = "Han et al. (2018), PRESTIGE: stochastic gradient descent under local differential privacy with a curriculum. Table 3."
NOMINAL = 1.0  # their epsilon n T_max
KINDS: dict[str, Kind] = {"djw": "method", "prestige": "method", "sgd": "not private"}
CONFIGURATION = {
    "data": {"target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
    "privacy": {"epsilon": 1.0, "delta": 1e-9, "trust": "local", "lifetime": {"epsilon": 1.0, "delta": 1e-9, "currency": "pure"}},
    "model": {"loss": "hinge", "penalty": {"l2": prestige.L2_WEIGHT}},
    "method": {"solver": "prestige", "batch": 5, "epochs": prestige.EPOCHS},
}
NAMES = {"djw": "DJW", "prestige": "PRESTIGE (masked)", "sgd": "not private"}


def page(scale: Scale, data: Path | None, show: Show) -> Page:
    size = {"train": 6_000, "test": 3_000} if scale.fast else {}
    sets = [prestige.adult_like(**size), prestige.digits_like(**size)]
    if data is not None:
        sets += [prestige.parquet(path) for name in ("adult", "mnist_3v8") if (path := data / f"{name}.parquet").exists()]
    repeats, losses, epsilons = scale.of(20, 2), tuple(prestige.LOSSES), scale.of(prestige.EPSILONS, (0.5, 2.0, 8.0))
    batches = scale.of(prestige.BATCHES, (5,))
    cells = list(prestige.prestige(sets, repeats=repeats, losses=losses, batches=batches, epsilons=epsilons, show=show))
    figures = [_figure(cells, made.name, loss, batches[len(batches) // 2], epsilons) for made in sets for loss in losses]
    train = len(sets[0].train)
    return Page(
        paper="han2018",
        citation=CITATION,
        settings=(
            f"Rows like A7A and like MNIST's 3 and 8, {train:,} users each, batches of {', '.join(map(str, batches))}, {repeats} "
            "repetitions; one report per user, masked inside the randomiser, so that epsilon is what a user pays in the whole fit.",
            "auto has no local form, and zero weights err on the rarer class: their line is the share of wrong labels at random.",
            "Real data: `--data DIR` with adult.parquet and mnist_3v8.parquet." if data is None else "Real data were given.",
        ),
        figures=tuple(figures),
        tables=(_table(cells),),
        verdicts=(*_of_privacy(train), *_of_accuracy(cells, losses, epsilons)),
        configuration=CONFIGURATION,
        command="nightfit reproduce han2018" + (" --fast" if scale.fast else ""),
    )


def _of_privacy(train: int) -> tuple[Verdict, ...]:
    each = NOMINAL / (train * prestige.EPOCHS)
    return (
        Verdict(
            claim="The curriculum is private, because labels are randomised.",
            answer="does not hold",
            why="Whether a record reports depends on x in the clear: some records never report and others in half of the cases, so no "
            "epsilon bounds it. Masked inside the randomiser it is private, as it is here.",
        ),
        Verdict(
            claim="The budget of the experiments is epsilon n T_max = 1.",
            answer="does not hold",
            why=f"In local privacy a user pays for the reports they send. At that budget a report would have epsilon {each:.2g} and a "
            f"length of {1 / math.tanh(each / 2):.2g} clips: nothing could be learned, so the printed curves are not at it.",
        ),
        Verdict(
            claim="Lemma 2: the report's mean is the gradient.",
            answer="does not hold",
            why="The printed factor B is twice the right one; the mean is twice the gradient (tests/privacy/test_local_randomisers.py).",
        ),
    )


def _of_accuracy(cells: list[prestige.Cell], losses: tuple[str, ...], epsilons: tuple[float, ...]) -> tuple[Verdict, ...]:
    names = tuple(dict.fromkeys(cell.data for cell in cells))
    return (
        judged("PRESTIGE has a smaller error than DJW.", _compared(cells, losses, epsilons)),
        judged(
            "Smooth non-convex losses (Gompertz, ramp) are better than the hinge.",
            [
                (
                    f"{loss}, {name}",
                    _error(cells, name, loss, "prestige", epsilons[-1]) < _error(cells, name, "hinge", "prestige", epsilons[-1]),
                )
                for name in names
                for loss in ("gompertz", "ramp")
            ],
        ),
    )


def _figure(cells: list[prestige.Cell], data: str, loss: str, batch: int, epsilons: tuple[float, ...]) -> Figure:
    curves = []
    for method, kind in KINDS.items():
        own = [cell for cell in cells if (cell.data, cell.loss, cell.method, cell.batch) == (data, loss, method, batch)]
        at = {cell.epsilon: cell for cell in own}
        points = [
            Point(x=epsilon, mean=cell.error, deviation=cell.deviation)
            for epsilon in epsilons
            for cell in [at.get(epsilon, at.get(math.inf))]
            if cell is not None
        ]
        curves.append(Curve(name=NAMES[method], kind=kind, points=tuple(points)))
    curves.append(Curve(name="at random", kind="zero", points=tuple(Point(x=epsilon, mean=0.5, deviation=0.0) for epsilon in epsilons)))
    return Figure(title=f"{data}, {loss}, batch {batch}", over="epsilon", error="test error", curves=tuple(curves), logarithmic=False)


def _table(cells: list[prestige.Cell]) -> Table:
    return Table(
        title="Test errors",
        header=("data", "loss", "method", "batch", "epsilon", "error"),
        rows=tuple(
            (cell.data, cell.loss, cell.method, str(cell.batch), f"{cell.epsilon:g}", f"{cell.error:.3f} ± {cell.deviation:.3f}")
            for cell in cells
        ),
    )


def _error(cells: list[prestige.Cell], data: str, loss: str, method: str, epsilon: float) -> float:
    return min(cell.error for cell in cells if (cell.data, cell.loss, cell.method, cell.epsilon) == (data, loss, method, epsilon))


def _compared(cells: list[prestige.Cell], losses: tuple[str, ...], epsilons: tuple[float, ...]) -> list[tuple[str, bool]]:
    return [
        (f"{data}, {loss}, epsilon {epsilon:g}", _error(cells, data, loss, "prestige", epsilon) < _error(cells, data, loss, "djw", epsilon))
        for data in dict.fromkeys(cell.data for cell in cells)
        for loss in losses
        for epsilon in epsilons
    ]
