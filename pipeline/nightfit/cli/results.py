"""How commands show a plan, a running refit and its result. Imports rich, and nightly lazily."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nightfit.cli.coefficients import coefficient_columns
from nightfit.cli.console import err, plain, say
from nightfit.cli.tables import columns_of, show

if TYPE_CHECKING:
    from nightfit.nightly import Job


def show_plan(job: "Job", title: str = "Plan") -> None:
    """Print a plan in words."""
    say(f"[bold]{title}[/]")
    say(plain(job.explain()))


@contextlib.contextmanager
def progress(quiet: bool, rows: int, waiting: str) -> Iterator[Any]:
    """A bar of steps, with rows per second and the time left; every number on it is public or released."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
    from rich.table import Column
    from rich.text import Text

    class RowsPerSecond(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{rows * task.speed:,.0f} rows/s" if task.speed else "")

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        RowsPerSecond(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=quiet, transient=False) as bar, told_of_workers(quiet):
        task = bar.add_task(waiting, total=None)

        def show(at: Any) -> None:
            noise = "" if at.noise != at.noise else f", noise {at.noise:.3g}"
            bar.update(task, total=at.steps, completed=at.step, description=f"step norm {at.moved:.3g}{noise}")

        yield show


@contextlib.contextmanager
def told_of_workers(quiet: bool) -> Iterator[None]:
    """Print how many of a cluster's workers have come while they are waited for."""
    log, handler = logging.getLogger("nightfit.workers"), _Lines()
    if quiet:
        yield
        return
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Lines(logging.Handler):
    """Prints what is logged as a line of its own, above a bar of progress."""

    def emit(self, record: logging.LogRecord) -> None:
        err.print(plain(record.getMessage()))


def _show_evaluation(told: dict[str, Any] | None) -> None:
    """Print how good the fit is, first of all."""
    if told is None:
        return
    headings = [title for title in told["headers"] if title]
    columns = columns_of(headings, told["rows"], right=False)
    show("How good it is", [*columns[:3], *(replace(column, spare=True) for column in columns[3:])])  # a sentence compares too
    for sentence in told["sentences"]:
        say(plain(sentence))


def flattened(result: dict[str, Any]) -> dict[str, Any]:
    """The result with the terms of several classes side by side, each named `label: term`."""
    if "classes" not in result:
        return result
    coef = {f"{label}: {name}": value for label in result["classes"] for name, value in result["coef"][label].items()}
    coef |= {f"{label}: (intercept)": value for label, value in result["intercept"].items()}
    flat = {name: value for name, value in result.items() if name != "intercept"} | {"coef": coef}
    found = result.get("class_intervals")
    if found:
        terms = {f"{label}: {name}": term for label, one in found.items() for name, term in one["terms"].items()}
        flat["intervals"] = next(iter(found.values())) | {"terms": terms}
    return flat


def show_result(result: dict[str, Any]) -> None:
    """Print a published refit: coefficients, guarantee, balance, and where the files are."""
    guarantee, balance = result["guarantee"], result["balance"]
    _show_evaluation(result.get("evaluation"))
    result = flattened(result)
    columns, said = coefficient_columns(result)
    show(f"Run {result['run']}", columns)
    for sentence in said:
        say(sentence)
    for sentence in result["used"]:
        say(plain(sentence))
    if guarantee is None:
        say("[bold red]NOT PRIVATE[/]: made with seeded or no noise, for tests only.")
    else:
        say(
            f"Guarantee: ({guarantee['epsilon']:.4g}, {guarantee['delta']:g})-differential privacy for one {guarantee['unit']} "
            f"under {guarantee['adjacency']}."
        )
        if "protects" in guarantee:
            say(plain(f"Local reports: protected is {guarantee['protects']}."))
    left = f"; {balance['runs_left']} more such refits fit" if balance["runs_left"] is not None else ""
    say(
        f"Ledger: {balance['data_set']} has spent epsilon {balance['epsilon_spent']:.4g} of {balance['epsilon_lifetime']:g} "
        f"at delta {balance['delta']:g}{balance['scope']}{left}."
    )
    say(f"Release: {result['release']}\nReport:  {result['report']}")
    say(plain(f"Night:   {result['night']['line']}"))
