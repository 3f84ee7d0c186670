"""How good a release is, for its report, its summary and the command's table. Imports metrics, html and below."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from nightfit.release.document import Release
from nightfit.release.html import ACCENT, FAINT, LINE, blank, svg, table
from nightfit.release.metrics import Evaluation, Range, evaluation_of, metric_name

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


def in_sentences(evaluation: Evaluation) -> list[str]:
    """On whom it was asked, and whether the fit is better than the earlier one."""
    sentences = [
        f"Asked of the {evaluation.share:.0%} of the units that are never fitted on. Intervals count privacy noise and sampling in; "
        "an interval is no promise for units of another kind."
    ]
    if evaluation.scale:
        sentences.append(f"Errors are those of {evaluation.scale}; a prediction is within 10% of the target itself.")
    if "note" in evaluation.stored:
        sentences.append(str(evaluation.stored["note"]))
    if evaluation.previous is not None:
        words = {True: "Better than", False: "Worse than", None: "No difference beyond the interval from"}[evaluation.previous.better]
        sentences.append(f"{words} {evaluation.previous.run} on the same units: {evaluation.change_words()}.")
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


def _plot(figure: Any, axes: Any, words: str) -> str:
    return f"<figure>{svg(figure, axes)}<figcaption class=faint>{words}</figcaption></figure>"


def _calibration(points: Sequence[Mapping[str, Any]] | None) -> str:
    """Observed shares with their intervals against mean predictions."""
    if not points:
        return ""
    figure, axes = blank(5, 3.4)
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1.2)
    for point in points:
        axes.vlines(point["predicted"], point["low"], point["high"], color=FAINT, linewidth=1.6)
        axes.plot(point["predicted"], point["value"], "o", color=ACCENT)
    axes.set_xlabel("predicted probability")
    axes.set_ylabel("observed share")
    return _plot(figure, axes, "Calibration, by tenths of the held-out units: on the line, predictions hold.")


def _means(points: Sequence[Mapping[str, Any]] | None) -> str:
    """Mean targets with their intervals against mean predictions, both in a logarithmic scale."""
    shown = [point for point in points or [] if point["predicted"] > 0 and point["value"] > 0]
    if not shown:
        return ""
    figure, axes = blank(5, 3.4)
    ends = [shown[0]["predicted"], shown[-1]["predicted"]]
    axes.plot(ends, ends, color=LINE, linewidth=1.2)
    for point in shown:
        axes.vlines(point["predicted"], max(point["low"], point["value"] / LONGEST), point["high"], color=FAINT, linewidth=1.6)
        axes.plot(point["predicted"], point["value"], "o", color=ACCENT)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("predicted mean")
    axes.set_ylabel("observed mean")
    return _plot(
        figure,
        axes,
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
    figure, axes = blank(5, 3.4)
    axes.plot([0, 1], [0, 1], color=LINE, linewidth=1.2)
    axes.plot([point[0] for point in points], [point[1] for point in points], color=ACCENT)
    axes.set_xlabel("negatives taken for positive")
    axes.set_ylabel("positives found")
    return _plot(figure, axes, "ROC curve of the held-out units, from noisy counts.")


def _words(found: Range | None) -> str:
    if found is None:
        return ""
    return f"{found.value:.3g}" if found.low == found.high else found.words()
