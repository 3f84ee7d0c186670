"""One self-contained page per refit, from the release and the ledger's balance alone: never data. Imports its sections and figures.

The page loads nothing and runs nothing: its style and its plots are inside, and its policy forbids the rest. The same release and
balance give the same bytes.
"""

from html import escape

from nightfit.release import evaluation_section, figures
from nightfit.release import report_sections as sections
from nightfit.release.balance import Balance
from nightfit.release.document import Release
from nightfit.release.html import html_page
from nightfit.release.metrics import evaluation_of
from nightfit.release.used import used_in_words
from nightfit.release.words import badge, noise_in_words, plain, range_in_words


def page(release: Release, balance: Balance) -> str:
    """The report as HTML.

    Parameters
    ----------
    release
        What was released.
    balance
        Of its data set, after the refit.
    """
    content, bad = release.content, "" if release.private else " bad"
    shown = [
        ("How good it is", evaluation_section.section(release)),
        ("For whom it is private", sections.guarantee(release)),
        (f"Budget of {balance.data_set}", sections.budget(release, balance)),
        ("Means", sections.means(release))
        if release.of_columns
        else ("Coefficients", ("" if release.classes else figures.effects(release)) + sections.coefficients(release)),
        ("Search", sections.search(content)),
    ]
    folded = [
        ("Path of the released iterates", "" if release.of_columns else figures.path(release)),
        ("What was asked", sections.queries(content)),
        ("Preprocessing", sections.preprocessing(release)),
        ("Where this comes from", sections.origin(content)),
    ]
    body = "".join(f"<section><h2>{escape(title)}</h2>{inner}</section>\n" for title, inner in shown if inner)
    body += "".join(f"<details><summary>{escape(title)}</summary>{inner}</details>\n" for title, inner in folded if inner)
    time = str(content["time"])[:16].replace("T", " ")  # in UTC
    name, run, data_set, time = map(escape, (release.name, release.run_id, balance.data_set, time))
    return html_page(
        f"{name}: refit {run}",
        f'<header><h1>{name}</h1><span class="badge{bad}">{badge(release)}</span></header>\n'
        f'<p class="faint">Refit of {time} (UTC) on the data set {data_set}, run {run}</p>\n'
        f"{body}",
    )


def notebook(release: Release) -> str:
    """What a notebook shows of a release: name, guarantee and coefficients, as a piece of a page."""
    shown = sections.means(release) if release.of_columns else sections.coefficients(release)
    told = evaluation_of(release)
    good = "" if told is None else f"<p>{escape(told.words())}</p>"
    head = f"<b>{escape(release.name)}</b>, run {escape(release.run_id)}: {badge(release)}"
    return f"<div><p>{head}</p>{good}<p>{escape(release.statement())}</p>{shown}</div>"


def _intercepts(found: float | dict[str, float]) -> str:
    """The intercept, or that of each class."""
    if isinstance(found, dict):
        return f"Intercepts: {', '.join(f'{plain(label)} {value:.4g}' for label, value in found.items())}."
    return f"Intercept {found:.4g}."


def summary(release: Release, balance: Balance) -> str:
    """The report's gist as Markdown.

    Parameters
    ----------
    release
        What was released.
    balance
        Of its data set, after the refit.
    """
    ranges = [None] * len(release.terms) if release.intervals is None else [range_in_words(pair) for pair in release.intervals.at(0.95)]
    terms = zip(release.terms, ranges, strict=False)
    rows = [f"| {plain(name)} | {value:.4g} | {interval or noise_in_words(sd)} |" for (name, value, sd), interval in terms][: figures.SHOWN]
    hidden, evaluation = len(release.terms) - len(rows), evaluation_of(release)
    more = [f"\nand {hidden} more in the release.\n"] if hidden > 0 else []
    return "\n".join(
        [
            f"# {plain(release.name)}: {badge(release)}\n",
            *([] if evaluation is None else [f"{plain(evaluation.words())}\n"]),
            f"{plain(release.statement())}\n",
            *(f"{plain(sentence)}\n" for sentence in used_in_words(release)),
            f"{plain(balance.data_set)}: {balance.describe()}\n",
            f"| term | {'mean' if release.of_columns else 'coefficient'} | {'95% interval' if release.intervals else 'noise'} |"
            "\n| --- | ---: | ---: |",
            *rows,
            *more,
            *([] if release.of_columns else [f"\n{_intercepts(release.content['intercept'])}"]),
            f"\nRun {plain(release.run_id)}.\n",
        ]
    )
