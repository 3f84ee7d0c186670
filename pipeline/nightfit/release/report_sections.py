"""The sections of a report, each as HTML. Imports the document, balance, words and html."""

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any

from nightfit.methods.intervals import INTERCEPT, Intervals
from nightfit.planning.outcome_words import outcome_in_words
from nightfit.release.balance import Balance
from nightfit.release.document import Release
from nightfit.release.html import table
from nightfit.release.used import used_in_words
from nightfit.release.words import WHY_NOT_ALONE, in_words, noise_in_words, range_in_words, shown_names

PAYMENTS = {
    "all": "Every setting was fitted, scored and charged.",
    "repetition": "Settings were drawn by lot and fitted a random number of times; nothing is released of any but the best.",
}


def means(release: Release) -> str:
    """Means of columns."""
    rows = [(name, f"{mean:.5g}", noise_in_words(noise)) for name, mean, noise in release.terms]
    whom = "person without complete rows" if release.preprocessing.unit else "record with a missing value"
    return f"<p>In the units of the data; a {whom} counts as the centre of its bounds.</p>{table(('column', 'mean', 'noise (sd)'), rows)}"


def coefficients(release: Release) -> str:
    """What is predicted, and the coefficients with their intervals, or with their noise."""
    predicted = f"<p>Predicted: {escape(outcome_in_words(release.preprocessing, release.content['plan']['loss']))}.</p>"
    predicted += "".join(f"<p>{escape(sentence)}</p>" for sentence in used_in_words(release))
    if release.classes:
        return predicted + "".join(_of_class(release, label) for label in release.classes)
    rows = _with_noise(release) if release.intervals is None else _with_intervals(release, release.intervals)
    return f"{predicted}<p>In the units of the data, per unit of a feature within its bounds:</p>{rows}"


def _of_class(release: Release, label: str) -> str:
    """The table of one of several classes. Scores of all classes sum to zero, so a coefficient compares a class with the mean of all."""
    content, found = release.content, release.class_intervals.get(label)
    values = [*content["coef"][label].items(), (INTERCEPT, content["intercept"][label])]
    if found is None:
        shown = table(("feature", "coefficient"), [(name, f"{value:.5g}") for name, value in values])
    else:
        ranges = zip(values, found.estimate, found.at(0.95), found.deviation, strict=False)
        rows = [(name, f"{value:.5g}", f"{before:.5g}", range_in_words(wide), f"{sd:.2g}") for (name, value), before, wide, sd in ranges]
        shown = table(("feature", "coefficient", "before shrinkage and penalty", "95% interval", "standard error"), rows)
    return f"<h3>{escape(label)}</h3><p>Log-odds of {escape(label)} against the mean of all classes, per unit of a feature:</p>{shown}"


def _with_noise(release: Release) -> str:
    called = shown_names(release.preprocessing)
    rows = [(called[name], f"{coef:.5g}", noise_in_words(sd), f"{abs(coef) / sd:.1f}" if sd else "") for name, coef, sd in release.terms]
    rows.append(("intercept", f"{release.content['intercept']:.5g}", "", ""))
    return _with_clamps(release, ("feature", "coefficient", "noise (sd, at most)", "times noise"), rows)


def _with_intervals(release: Release, intervals: Intervals) -> str:
    called = shown_names(release.preprocessing)
    coefs = [(called[name], coef) for name, coef, _ in release.terms]
    if release.preprocessing.intercept:
        coefs.append((INTERCEPT, release.content["intercept"]))
    ranges = zip(coefs, intervals.estimate, intervals.at(0.95), intervals.deviation, strict=True)
    rows = [
        (name, f"{coef:.4g}", range_in_words(wide), "" if math.isnan(before) else f"{before:.4g}", _difference(coef, before, sd))
        for (name, coef), before, wide, sd in ranges
    ]
    numbers = ("coefficient", "95% interval", "before shrinkage and penalty")
    why = "" if intervals.known.all() else f"<p>{escape(WHY_NOT_ALONE)}</p>"
    return _with_clamps(release, ("feature", *numbers, "why they differ"), rows) + why


def _difference(value: float, before: float, deviation: float) -> str:
    """Why a coefficient is not its unshrunk estimate; empty where it is."""
    if math.isclose(value, before, rel_tol=1e-3):
        return ""
    if math.isnan(before):
        return ""
    away = f"its estimate lies {abs(before) / deviation:.1f} standard errors from zero" if deviation else "by the penalty"
    if value * before < 0 or abs(value) > abs(before):
        return f"it moved because others were shrunk; {away}"
    if value == 0:
        return f"set to zero: {away}"
    return f"shrunk by {1 - value / before:.0%}: {away}"


def _with_clamps(release: Release, headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """The table, and where a feature was clamped by a paid answer: beyond, its coefficient does not go on."""
    called = shown_names(release.preprocessing)
    clamps = {called[name]: clamp for name, clamp in release.paid_clamps.items()}
    if not clamps:
        return table(headings, rows)
    wider = [(*row, range_in_words(clamps[row[0]]) if row[0] in clamps else "") for row in rows]
    return table((*headings, "clamped to"), wider) + "<p>A value beyond its clamp counts as the clamp's end.</p>"


def budget(balance: Balance) -> str:
    """A bar of what is left, on the scale of the ledger, and the balance in words."""
    return f'<div class="bar"><div style="width: {100 * balance.share_left:.2f}%"></div></div><p>{escape(balance.describe())}</p>'


def search(content: dict[str, Any]) -> str:
    """What a search tried; empty where there was none."""
    found = content.get("search")
    if found is None:
        return ""
    chosen = escape(in_words(found["chosen"]))
    rows = [(in_words(tried["setting"]), f"{tried['score']:.5g}", f"{found['score_noise']:.2g}") for tried in found["scores"]]
    return (
        f"<p>{escape(PAYMENTS[found['payment']])} Released is the fit with {chosen}; its guarantee is that of the whole search.</p>"
        + table(("setting", "mean loss, cut and noisy", "noise (sd)"), rows)
    )


def queries(content: dict[str, Any]) -> str:
    """What was asked, with what noise; queries that differ in label and draw only stand in one row."""
    plan, events = content["plan"], content["events"]
    of = "columns" if content.get("kind") == "mean" else f"gradients of the {_kind(plan['loss'], ' loss')}"
    how = f" for the {_kind(plan['mean'], ' mean')} of {plan['units']:,} {of}" if "mean" in plan else ""
    drives = f"; the answers drive {_kind(plan['solver'])}, with the penalty {_kind(plan['penalty'])}" if "solver" in plan else ""
    count = f"{len(events):,} {'query' if len(events) == 1 else 'queries'}"
    alike = groupby(events, key=lambda event: {name: value for name, value in event.items() if name not in ("label", "draw")})
    rows = [_query_row(list(group)) for _, group in alike]
    return (
        f"<p>{escape(f'{count}{how}{drives}. Everything was fixed before any record was read.')}</p>"
        f"{table(('queries', 'number', 'mechanism', 'each'), rows)}"
        "<p class=faint>Sizes are in steps of the grid on which exact sums are noised.</p>"
    )


def _query_row(events: list[dict[str, Any]]) -> tuple[str, str, str, str]:
    first, last = events[0], events[-1]
    label = first["label"] if len(events) == 1 else f"{first['label']} to {last['label']}"
    numbers = {name: value for name, value in first.items() if name not in ("label", "draw", "mechanism", "adjacency")}
    shown = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in numbers.items()}
    mu = {"mu": f"{first['sensitivity'] / first['sigma']:.4g}"} if "sigma" in first else {}
    each = ", ".join(f"{name} {value}" for name, value in {**shown, **mu}.items())
    return label, f"{len(events):,}", str(first["mechanism"]).replace("_", " "), each


def preprocessing(release: Release) -> str:
    """Centre, scale and clamp of every column."""
    stored = release.content["preprocessing"]
    target = stored["target"]
    targets = {} if stored["classification"] or release.classes or target["name"] is None else {f"{target['name']} (target)": target}
    rows = []
    for name, column in [*stored["columns"].items(), *targets.items()]:
        clamp = "none" if column["clamp"] is None else f"{column['clamp'][0]:.6g} to {column['clamp'][1]:.6g}"
        rows.append((name, f"{column['centre']:.6g}", f"{column['scale']:.6g}", clamp))
    who = (
        f"at most {stored['rows_per_unit']:,} rows of one {stored['unit']} are used, without those that miss a value"
        if stored.get("unit")
        else "a record with a missing value counts as zeros"
    )
    return f"<p>By public bounds; {escape(who)}.</p>{table(('column', 'centre', 'scale', 'clamp'), rows)}"


def guarantee(release: Release) -> str:
    """The guarantee in words, and what it takes for granted, where the release lists that."""
    bad = "" if release.private else " bad"
    items = "".join(f"<li>{escape(sentence)} <span class=faint>{escape(name)}</span></li>" for name, sentence in release.assumptions)
    assumed = f"<details><summary>What the guarantee assumes</summary><ul>{items}</ul></details>" if items else ""
    return f'<p class="statement{bad}">{escape(release.statement())}</p>{assumed}'


def origin(content: dict[str, Any]) -> str:
    """Run, receipt, plan and versions."""
    receipt = content.get("receipt") or {}
    paid = f"entry {receipt['seq']} of ledger {receipt['ledger_id']}, {receipt['digest']}" if receipt else "none: it was not paid for"
    facts = {
        "run": content["run"],
        "receipt": paid,
        "plan": content["plan_digest"],
        "manifest": content["manifest"],
        "versions": ", ".join(f"{name} {number}" for name, number in content["versions"].items()),
    }
    rows = "".join(f"<tr><th scope=row>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
    return f'<table class="facts">{rows}</table>'


def _kind(described: dict[str, Any], noun: str = "") -> str:
    """A loss, penalty, gradient estimator or solver with its parameters."""
    numbers = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in described.items() if name != "kind"}
    parameters = ", ".join(f"{name} {value}" for name, value in numbers.items())
    return (str(described["kind"]) + noun + (f" ({parameters})" if parameters else "")).replace("_", " ")
