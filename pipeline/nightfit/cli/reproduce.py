"""The command `reproduce`: experiments of papers, re-run with true budgets. Imports flows, lazily."""

import dataclasses
import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.table import Table

from nightfit.cli.console import Json, err, out
from nightfit.types import NightfitError

if TYPE_CHECKING:
    from nightfit_flows.reproduce.prestige import Cell


def reproduce(
    experiment: Annotated[Literal["prestige"], typer.Argument(help="prestige: Table 3 of Han et al. (2018), local privacy.")],
    data: Annotated[Path | None, typer.Option(help="A Parquet file instead of the bundled generators.")] = None,
    target: Annotated[str | None, typer.Option(help="Its column to be predicted, of two values.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The data may be shown: test errors and a baseline without privacy are computed in the clear.")
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Repetitions of every fit.")] = 20,
    rows: Annotated[int | None, typer.Option(min=20, help="Training rows of the generators (default: as in the paper).")] = None,
    sampler: Annotated[Literal["djw", "privunit"], typer.Option(help="djw, as in the paper, or privunit.")] = "djw",
    as_json: Json = False,
) -> None:
    """Re-run a paper's experiment: test error +- standard deviation, at epsilons per user that mean something."""
    from nightfit_flows.reproduce import prestige as experiments

    if data is not None and not public:
        raise NightfitError(
            f"the experiment prints test errors of {data} in the clear, which no budget pays for: add --public if everyone may see "
            "the data, or use `nightfit refit` for data that must be protected"
        )
    if data is not None:
        sets = [experiments.parquet(data, target)]
    else:
        sizes = {} if rows is None else {"train": rows, "test": rows}
        sets = [experiments.adult_like(**sizes), experiments.digits_like(**sizes)]
    with err.status("starting") as status:
        cells = list(experiments.prestige(sets, repeats=repeats, sampler=sampler, show=status.update))
    if as_json:
        typer.echo(json.dumps([{**dataclasses.asdict(cell), "epsilon": _epsilon(cell.epsilon)} for cell in cells], indent=2))
        return
    for name in dict.fromkeys(cell.data for cell in cells):
        out.print(_table(name, [cell for cell in cells if cell.data == name], repeats))
    out.print("Epsilon is what one user pays in the whole fit, by one report; sgd is not private. None of this is a release.")


def _epsilon(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _table(name: str, cells: "list[Cell]", repeats: int) -> Table:
    epsilons = sorted({cell.epsilon for cell in cells if math.isfinite(cell.epsilon)})
    table = Table(title=f"{name}: test error +- sd of {repeats} repetitions", title_justify="left")
    for heading in ("loss", "batch", "method", "no privacy", *(f"epsilon {epsilon:g}" for epsilon in epsilons)):
        table.add_column(heading, justify="left" if heading in ("loss", "method") else "right")
    found = {(cell.loss, cell.batch, cell.method, cell.epsilon): f"{cell.error:.4f} +- {cell.deviation:.4f}" for cell in cells}
    for loss, batch, method in dict.fromkeys((cell.loss, cell.batch, cell.method) for cell in cells):
        row = [found.get((loss, batch, method, epsilon), "") for epsilon in (math.inf, *epsilons)]
        table.add_row(loss, str(batch), method, *row)
    return table
