"""Han et al. (2018), PRESTIGE: table 3, with a user's whole epsilon. Imports prestige and below."""

import math
from pathlib import Path

from nightfit_flows.reproduce import prestige
from nightfit_flows.reproduce.experiment import Curve, Figure, Kind, Page, Point, Scale, Show, Table, Verdict, judged

CITATION = (
    "Han et al. (2018), PRESTIGE: stochastic gradient descent under local differential privacy with a curriculum. Table 3, figures 4 to 7."
)
NOMINAL = 1.0  # their epsilon n T_max
KINDS: dict[str, Kind] = {"djw": "method", "prestige": "method", "sgd": "not private"}
CONFIGURATION = {
    "data": {"target": "y", "default": {"kind": "number", "bounds": [-1, 1]}},
    "privacy": {"epsilon": 1.0, "delta": 1e-9, "trust": "local", "lifetime": {"epsilon": 1.0, "delta": 1e-9, "currency": "pure"}},
    "model": {"loss": "hinge", "penalty": {"l2": prestige.L2_WEIGHT}},
    "method": {"solver": "prestige", "batch": 5, "epochs": prestige.EPOCHS},
}
NAMES = {"djw": "DJW", "prestige": "PRESTIGE (masked)", "sgd": "not private"}


TABLED = 1.0  # the budget of table 3


def page(scale: Scale, data: Path | None, show: Show) -> Page:
    size = {"train": 6_000, "test": 3_000} if scale.fast else {}
    sets = [prestige.adult_like(**size), prestige.digits_like(**size)]
    given = [] if data is None else [path for name in ("adult", "mnist_3v8") if (path := data / f"{name}.parquet").exists()]
    sets += [prestige.parquet(path) for path in given]
    repeats, epsilons, batches = scale.of(20, 2), scale.of(prestige.EPSILONS, (0.5, 1.0, 8.0)), scale.of(prestige.BATCHES, (1, 10))
    losses = tuple(prestige.LOSSES)
    hinge = list(prestige.prestige(sets, repeats=repeats, losses=("hinge",), batches=batches, epsilons=epsilons, show=show))
    others = prestige.prestige(sets, repeats=repeats, losses=losses[1:], batches=batches[-1:], epsilons=(TABLED, epsilons[-1]), show=show)
    cells = [*hinge, *others]
    train = len(sets[0].train)
    return Page(
        paper="han2018",
        citation=CITATION,
        settings=_settings(train, repeats, [path.name for path in given]),
        figures=tuple(_figure(hinge, made.name, batches, epsilons) for made in sets),
        tables=(*_tables(cells, losses, batches[-1], epsilons[-1]),),
        verdicts=(*_of_privacy(train), *_of_accuracy(cells, losses, batches, epsilons)),
        configuration=CONFIGURATION,
        command="nightfit reproduce han2018" + (" --fast" if scale.fast else "") + (" --data DIR --public" if given else ""),
    )


def _settings(train: int, repeats: int, given: list[str]) -> tuple[str, ...]:
    return (
        f"Rows like A7A and like MNIST's 3 and 8, {train:,} users each at most, {repeats} repetitions; one report per user, masked inside "
        "the randomiser, so that epsilon is what a user pays in the whole fit.",
        "Hinge loss in the figures, as theirs. Epsilons go up to 8: at 1 local reports of so few users teach little.",
        "auto has no local form, and zero weights err on the rarer class: their line is the share of wrong labels at random.",
        "SUSY, REAL-SIM, Cyberbully and Diabetes were not to be had.",
        f"Real data: {', '.join(given)}." if given else "Real data: `--data DIR` with adult.parquet and mnist_3v8.parquet.",
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


def _of_accuracy(
    cells: list[prestige.Cell], losses: tuple[str, ...], batches: tuple[int, ...], epsilons: tuple[float, ...]
) -> tuple[Verdict, ...]:
    names, private = tuple(dict.fromkeys(cell.data for cell in cells)), ("djw", "prestige")
    few, many, low, high = batches[0], batches[-1], epsilons[0], epsilons[-1]

    def hinge(name: str, method: str, epsilon: float, batch: int) -> float:
        return _error(cells, name, "hinge", method, epsilon, batch)

    def best(name: str, method: str) -> str:
        return min(losses, key=lambda loss: _error(cells, name, loss, method, high, many))

    places = [(name, epsilon, batch) for name in names for epsilon in epsilons for batch in batches]
    both = [(name, method) for name in names for method in private]
    return (
        judged(
            "Figures 4 and 5: PRESTIGE has a smaller error than DJW (hinge).",
            [(f"{name}, epsilon {e:g}, batch {k}", hinge(name, "prestige", e, k) < hinge(name, "djw", e, k)) for name, e, k in places],
            "Of one report per user: the curriculum drops most reports of its first epochs, which are paid for all the same.",
        ),
        judged(
            "Figures 4 and 5: errors fall with epsilon.",
            [(f"{name}, {NAMES[method]}", hinge(name, method, high, many) < hinge(name, method, low, many)) for name, method in both],
        ),
        judged(
            "Figures 6 and 7: larger batches have smaller errors.",
            [
                (f"{name}, {NAMES[method]}, epsilon {e:g}", hinge(name, method, e, many) < hinge(name, method, e, few))
                for name, method in both
                for e in epsilons
            ],
        ),
        *(
            judged(
                f"Table 3: the {loss} loss is best for {NAMES[method]} (at epsilon {high:g}).",
                [(f"{name}, where {best(name, method)} is", best(name, method) == loss) for name in names],
            )
            for method, loss in (("djw", "logistic"), ("prestige", "gompertz"))
        ),
    )


def _figure(cells: list[prestige.Cell], data: str, batches: tuple[int, ...], epsilons: tuple[float, ...]) -> Figure:
    """Figures 4 to 7 of one data set: the hinge loss, each batch."""
    curves = []
    for method, kind in KINDS.items():
        for batch in batches if kind == "method" else batches[-1:]:
            own = {c.epsilon: c for c in cells if (c.data, c.method, c.batch) == (data, method, batch)}
            at = [(epsilon, own.get(epsilon) or own[math.inf]) for epsilon in epsilons]
            points = tuple(Point(x=epsilon, mean=cell.error, deviation=cell.deviation) for epsilon, cell in at)
            name = f"{NAMES[method]}, batch {batch}" if kind == "method" else NAMES[method]
            curves.append(Curve(name=name, kind=kind, points=points))
    curves.append(Curve(name="at random", kind="zero", points=tuple(Point(x=epsilon, mean=0.5, deviation=0.0) for epsilon in epsilons)))
    return Figure(
        title=f"Figures 4 to 7: test error over epsilon, {data}",
        over="epsilon of a user",
        error="test error",
        curves=tuple(curves),
        logarithmic=False,
    )


def _tables(cells: list[prestige.Cell], losses: tuple[str, ...], batch: int, largest: float) -> list[Table]:
    """Table 3 at its budget, and at the largest one."""
    found = []
    for epsilon in (TABLED, largest):
        at = {(c.data, c.method, c.loss): c for c in cells if c.batch == batch and c.epsilon in (epsilon, math.inf)}
        names = dict.fromkeys((data, method) for data, method, _ in at)
        rows = tuple(
            (data, NAMES[method], *(f"{at[data, method, loss].error:.3f} ± {at[data, method, loss].deviation:.3f}" for loss in losses))
            for data, method in names
        )
        found.append(
            Table(title=f"Table 3: test errors at epsilon {epsilon:g}, batch {batch}", header=("data", "method", *losses), rows=rows)
        )
    return found


def _error(cells: list[prestige.Cell], data: str, loss: str, method: str, epsilon: float, batch: int) -> float:
    """The one cell of this place."""
    asked = (data, loss, method, epsilon, batch)
    return next(c.error for c in cells if (c.data, c.loss, c.method, c.epsilon, c.batch) == asked)
