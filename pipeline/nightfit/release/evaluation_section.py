"""How good a release is, for its report, its summary and the command's table. Imports metrics, html and below."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nightfit.release.document import Release
from nightfit.release.html import table
from nightfit.release.metrics import Evaluation, Range, evaluation_of, metric_name
from nightfit.release.plots import FAINT, LINE, Axis, Curve, Marks, plot

LONGEST = 10.0
"""How far down a bar is drawn on a logarithmic scale, in shares of its point."""

NOTHING = "Nothing was asked about how good this fit is: with `evaluate: {share: 0.2}` a part of the units is set aside and asked."


def rows_of(evaluation: Evaluation) -> list[tuple[str, str, str, str]]:
    """Metric, number with interval, the constant's, and the earlier release's, in words; the main metric first."""
    before = {} if evaluation.previous is None else evaluation.previous.metrics
    return [
        (metric_name(name), found.words(), _words(evaluation.constant.get(name)), _words(before.get(name)))
        for name, found in evaluation.metrics.items()
    ]


def headers(evaluation: Evaluation) -> tuple[str, str, str, str]:
    """Of the columns of `rows_of`."""
    compared = "" if evaluation.previous is None else evaluation.previous.run
    return "metric", f"this fit ({evaluation.level:.0%} interval)", "best constant", compared


def scale_in_words(scale: str) -> str:
    """Of what errors are, where the target was transformed."""
    return f"Errors are those of {scale}; a prediction is within 10% of the target itself."


def in_sentences(evaluation: Evaluation) -> list[str]:
    """On whom it was asked, and whether the fit is better than the earlier one."""
    sentences = [
        f"Asked of the {evaluation.share:.0%} of the units that are never fitted on. Intervals count privacy noise and sampling in; "
        "an interval is no promise for units of another kind."
    ]
    if evaluation.scale:
        sentences.append(scale_in_words(evaluation.scale))
    if "note" in evaluation.stored:
        sentences.append(str(evaluation.stored["note"]))
    if evaluation.previous is not None:
        words = {True: "Better than", False: "Worse than", None: "No difference beyond the interval from"}[evaluation.previous.better]
        change = f"{metric_name(evaluation.main)} {evaluation.previous.change.words('+')}"
        sentences.append(f"{words} {evaluation.previous.run} on the same units: {change}.")
    return sentences


def section(release: Release) -> str:
    """The first section of a report: metrics in a table, then the curves."""
    evaluation = evaluation_of(release)
    if evaluation is None:
        return "" if release.of_columns or not release.private else f"<p class=faint>{escape(NOTHING)}</p>"
    titles, found = headers(evaluation), rows_of(evaluation)
    if not titles[-1]:
        titles, found = titles[:-1], [row[:-1] for row in found]  # type: ignore[assignment, misc]
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in in_sentences(evaluation))
    curves = evaluation.stored.get("curves") or {}
    plots = _calibration(curves.get("calibration")) + _means(curves.get("means")) + _roc(curves.get("roc"))
    drawn = f'<div class="plots">{plots}</div>' if plots else ""
    return said + table(titles, found) + drawn + _confusion(curves.get("confusion")) + _groups(evaluation) + _checks(evaluation)


def _plot(drawn: Sequence[Curve | Marks], across: Axis, up: Axis, words: str) -> str:
    return f"<figure>{plot(drawn, across, up, width=400, height=260)}<figcaption class=faint>{words}</figcaption></figure>"


def _diagonal(first: float, last: float) -> Curve:
    """Where predictions hold."""
    return Curve(points=[(first, first), (last, last)], colour=LINE, width=1.2)


def _with_interval(at: float, low: float, high: float) -> Curve:
    return Curve(points=[(at, low), (at, high)], colour=FAINT, width=1.6)


def _calibration(points: Sequence[Mapping[str, Any]] | None) -> str:
    """Observed shares with their intervals against mean predictions."""
    if not points:
        return ""
    return _plot(
        [
            _diagonal(0.0, 1.0),
            *(_with_interval(point["predicted"], point["low"], point["high"]) for point in points),
            Marks(points=[(point["predicted"], point["value"]) for point in points]),
        ],
        Axis(label="predicted probability"),
        Axis(label="observed share"),
        "Calibration, by tenths of the held-out units: on the line, predictions hold.",
    )


def _means(points: Sequence[Mapping[str, Any]] | None) -> str:
    """Mean targets with their intervals against mean predictions, both in a logarithmic scale."""
    shown = [point for point in points or [] if point["predicted"] > 0 and point["value"] > 0]
    if not shown:
        return ""
    return _plot(
        [
            _diagonal(shown[0]["predicted"], shown[-1]["predicted"]),
            *(_with_interval(point["predicted"], max(point["low"], point["value"] / LONGEST), point["high"]) for point in shown),
            Marks(points=[(point["predicted"], point["value"]) for point in shown]),
        ],
        Axis(label="predicted mean", logarithmic=True),
        Axis(label="observed mean", logarithmic=True),
        "Calibration, by tenths of held-out units: on the line, predicted means hold. A target counts up to eight times its prediction.",
    )


def _confusion(found: Mapping[str, Any] | None) -> str:
    """Shares of all units by true and by predicted class."""
    if not found:
        return ""
    names, shares = found["classes"], found["shares"]
    rows = [(name, *(f"{share:.1%}" for share in row)) for name, row in zip(names, shares, strict=True)]
    return (
        table(("true class", *(f"taken for {name}" for name in names)), rows)
        + f"<p class=faint>Of all held-out units; the noise of each share has a standard deviation of {float(found['deviation']):.2g}.</p>"
    )


def _groups(evaluation: Evaluation) -> str:
    """The metrics of each group."""
    told = evaluation.groups()
    if not told:
        return ""
    names = list(dict.fromkeys(name for metrics in told.values() for name in metrics))
    rows = [(group, *(_words(metrics.get(name)) for name in names)) for group, metrics in told.items()]
    column = str(evaluation.stored["by"]["column"])
    return table((column, *(metric_name(name) for name in names)), rows) + (
        f"<p class=faint>By {escape(column)}: of units with few others in their group noise hides more.</p>"
    )


def _checks(evaluation: Evaluation) -> str:
    """Gaps, unknown levels, values at their bounds and drift, folded away."""
    found = evaluation.checks()
    if not found:
        return ""
    rows = [(name, check.words()) for name, check in found.items()]
    return (
        "<details><summary>The data of the held-out units</summary>"
        + table(("check", f"share ({evaluation.level:.0%} interval)"), rows)
        + "<p class=faint>Drift is the chance that the release compared with predicts more for a unit of this night than for one of its "
        "own night: one half is none.</p></details>"
    )


def _roc(points: Sequence[Sequence[float]] | None) -> str:
    """The share of positives found against that of negatives taken for positive."""
    if not points:
        return ""
    return _plot(
        [_diagonal(0.0, 1.0), Curve(points=[(point[0], point[1]) for point in points])],
        Axis(label="negatives taken for positive"),
        Axis(label="positives found"),
        "ROC curve of the held-out units, from noisy counts.",
    )


def _words(found: Range | None) -> str:
    if found is None:
        return ""
    return f"{found.value:.3g}" if found.low == found.high else found.words()
