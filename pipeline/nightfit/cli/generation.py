"""The commands generate shards and generate hospital. Imports shards, lazily."""

from datetime import date, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from nightfit.cli.console import here, say
from nightfit.types import NightfitError

app = typer.Typer(help="Synthetic data: heavy-tailed shards, or a hospital's export.", no_args_is_help=True)


@app.command()
def shards(
    folder: Annotated[Path, typer.Argument(parser=here, metavar="<path>", help="Where to write the shards.")] = Path("shards"),
    rows: Annotated[int, typer.Option(help="Rows in all.")] = 100_000,
    columns: Annotated[int, typer.Option(help="Feature columns x0, x1, ...; the target is y.")] = 10,
    shards: Annotated[int, typer.Option(help="Files.")] = 8,
    task: Annotated[
        Literal["linear", "logistic", "sign"], typer.Option(help="linear, logistic, or sign: labels that say whether x . w + noise > 0.")
    ] = "linear",
    noise: Annotated[
        Literal["normal", "student", "lognormal", "loglogistic", "pareto"],
        typer.Option(help="normal, student, lognormal, loglogistic or pareto."),
    ] = "student",
    noise_tail: Annotated[float, typer.Option(help="Degrees of freedom, scale of the logarithm, or Pareto index.")] = 3.0,
    noise_scale: Annotated[float, typer.Option(help="What noise is multiplied by.")] = 1.0,
    features: Annotated[Literal["gaussian", "student"], typer.Option(help="gaussian or student.")] = "gaussian",
    feature_tail: Annotated[float, typer.Option(help="Degrees of freedom of student features.")] = 5.0,
    nonzeros: Annotated[int | None, typer.Option(help="How many slopes are not zero (default: all).")] = None,
    seed: Annotated[int, typer.Option(help="The same seed writes the same shards.")] = 0,
) -> None:
    """Write heavy-tailed shards of numbers, of any size, one at a time."""
    from nightfit.shards.synthetic import Synthetic

    try:
        made = Synthetic(
            rows=rows,
            columns=columns,
            shards=shards,
            task=task,
            noise=noise,
            noise_tail=noise_tail,
            noise_scale=noise_scale,
            features=features,
            feature_tail=feature_tail,
            nonzeros=nonzeros,
            seed=seed,
        )
        written = made.write(folder)
    except (ValueError, FileExistsError) as error:
        raise NightfitError(str(error)) from None
    say(f"Wrote {len(written)} shards, {rows:,} rows, to {folder}.")


@app.command()
def hospital(
    folder: Annotated[Path, typer.Argument(parser=here, metavar="<path>", help="Where to write the folders of the days.")] = Path(
        "hospital"
    ),
    rows: Annotated[int, typer.Option(help="Admissions in all; patients come four times on average.")] = 20_000,
    days: Annotated[int, typer.Option(help="Days, a hive folder day=YYYY-MM-DD each.")] = 30,
    start: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="The first day.")] = datetime(2026, 1, 1),
    drift: Annotated[float, typer.Option(help="How far the log odds of a readmission rise over all days.")] = 0.0,
    seed: Annotated[int, typer.Option(help="The same seed writes the same admissions.")] = 0,
) -> None:
    """Write a simulated hospital's export: patients who return over days, categories, dates, missing values, three outcomes."""
    from nightfit.shards.hospital import Hospital

    try:
        made = Hospital(rows=rows, days=days, start=date(start.year, start.month, start.day), drift=drift, seed=seed)
        written = made.write(folder)
    except (ValueError, FileExistsError) as error:
        raise NightfitError(str(error)) from None
    say(f"Wrote {len(written)} days, {rows:,} admissions of {made.patients:,} patients, to {folder}.")
