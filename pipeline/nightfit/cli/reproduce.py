"""The command `reproduce`: experiments of papers, re-run with true budgets. Imports flows, lazily."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from nightfit.cli.console import Json, err, here, plain, say
from nightfit.cli.tables import columns_of, show
from nightfit.extras import needs
from nightfit.types import NightfitError

if TYPE_CHECKING:
    pass

Paper = Literal["wang2020", "han2018", "tao2022", "kamath2021", "xie2023"]


def reproduce(
    paper: Annotated[Paper, typer.Argument(help="wang2020, han2018 (PRESTIGE), tao2022, kamath2021 or xie2023.")],
    fast: Annotated[bool, typer.Option("--fast", help="Fewer records, repetitions and values: minutes instead of many.")] = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder with the paper's real data: adult.parquet, mnist_3v8.parquet or blogfeedback.parquet."),
    ] = None,
    public: Annotated[
        bool, typer.Option("--public", help="The data may be shown: test errors and fits without privacy are computed in the clear.")
    ] = False,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", parser=here, metavar="<path>", help="The folder of the page PAPER.html and its numbers PAPER.json."),
    ] = Path("papers"),
    as_json: Json = False,
) -> None:
    """Re-run a paper's experiments at epsilons that mean something, and judge its claims one by one."""
    import json

    needs("nightfit reproduce", "matplotlib")
    from nightfit_flows.reproduce import page, reproduce

    if data is not None and not public:
        raise NightfitError(
            f"the experiment prints test errors of {data} in the clear, which no budget pays for: add --public if everyone may see "
            "the data, or use `nightfit refit` for data that must be protected"
        )
    if data is not None and not data.is_dir():
        raise NightfitError(f"{data} is no folder: give the one that holds adult.parquet, mnist_3v8.parquet or blogfeedback.parquet")
    with err.status("starting") as status:
        found = reproduce(paper, fast=fast, data=data, show=status.update)
    html, _ = page.write(found, output)
    if as_json:
        typer.echo(json.dumps(page.as_dict(found), indent=2))
        return
    rows = [(verdict.claim, verdict.answer, verdict.why) for verdict in found.verdicts]
    show(found.citation, columns_of(("claim", "here", "why"), rows, left=3), lines=True)
    say(plain(f"{html} has the plots, and the numbers stand beside it. None of this is a release."))
