"""One self-contained page per refit, from the release and the ledger's balance alone: never data. Imports release, sheet.

The page loads nothing and runs nothing: its style and its plots are inside, and its policy forbids the rest. The same release and
balance give the same bytes.
"""

import json
import math
import re
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any

import numpy as np

from nightfit.methods.intervals import INTERCEPT
from nightfit.problem.links.identity import Identity
from nightfit.release.html import ACCENT, FAINT, LINE, blank, document, short, svg, table
from nightfit.release.release import Release

SHOWN = 30
PALETTE = (
    "#2f7ed8",
    "#e0672b",
    "#2ca05a",
    "#c93a4b",
    "#8f63c9",
    "#9a6b4f",
    "#d765ad",
    "#7d8590",
    "#a89a1f",
    "#14a3b8",
    "#5c6bc0",
    "#6f9e2f",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Balance:
    """What a data set's lifetime budget holds: `epsilon_left` is what one more release may cost, `runs_left` how many such runs fit.
    Where it has several blocks, of the most used one, `block`; where it is renewed, in this year.
    """

    data_set: str
    epsilon_spent: float
    epsilon_lifetime: float
    delta: float
    epsilon_left: float
    runs: int
    runs_left: int | None = None
    block: str = ""
    blocks: int = 1
    per_year: bool = False

    def scope(self) -> str:
        """Which budget this is, in words that follow a delta."""
        block = f" in {self.block}, the most used of {self.blocks:,} blocks" if self.block else ""
        return block + (", per year" if self.per_year else "")

    def said(self) -> str:
        """In words."""
        more = "" if self.runs_left is None else f" Refits like this one that still fit: {self.runs_left:,}."
        return (
            f"Epsilon {self.epsilon_spent:.4g} of {self.epsilon_lifetime:g} is spent at delta {self.delta:g}{self.scope()}, "
            f"by {self.runs:,} run{'' if self.runs == 1 else 's'}. "
            f"One more release may cost up to epsilon {self.epsilon_left:.4g} by itself "
            f"(epsilons do not simply add).{more}"
        )


def page(release: Release, balance: Balance) -> str:
    """The page, as HTML."""
    content, bad = release.content, "" if release.private else " bad"
    sections = [
        ("Means", _means(release)) if release.of_columns else ("Coefficients", _coefficients(release)),
        ("Path of the released iterates", "" if release.of_columns else _path(release)),
        ("Search", _search(content)),
        (f"Budget of {balance.data_set}", _budget(balance)),
        ("What was asked", _asked(content)),
        ("Preprocessing", _preprocessing(release)),
        ("Where this comes from", _origin(content)),
    ]
    body = "".join(f"<section><h2>{escape(title)}</h2>{inner}</section>\n" for title, inner in sections if inner)
    name, run, data_set, time = (escape(str(text)) for text in (release.name, release.run_id, balance.data_set, content["time"]))
    return document(
        f"{name}: refit {run}",
        f'<header><h1>{name}</h1><span class="badge{bad}">{_badge(release)}</span></header>\n'
        f'<p class="faint">Refit of {time} on the data set {data_set}, run {run}</p>\n'
        f'<p class="statement{bad}">{escape(release.statement())}</p>\n{body}',
    )


def summary(release: Release, balance: Balance) -> str:
    """The page's gist, as Markdown."""
    ranges = [None] * len(release.terms) if release.intervals is None else [_range(pair) for pair in release.intervals.at(0.95)]
    terms = zip(release.terms, ranges, strict=False)
    rows = [f"| {_plain(name)} | {value:.4g} | {said or _error(noise)} |" for (name, value, noise), said in terms][:SHOWN]
    hidden = len(release.terms) - len(rows)
    more = [f"\nand {hidden} more in the release.\n"] if hidden > 0 else []
    return "\n".join(
        [
            f"# {_plain(release.name)}: {_badge(release)}\n",
            f"{_plain(release.statement())}\n",
            f"{_plain(balance.data_set)}: {balance.said()}\n",
            f"| term | {'mean' if release.of_columns else 'coefficient'} | {'95% interval' if release.intervals else 'noise'} |"
            "\n| --- | ---: | ---: |",
            *rows,
            *more,
            *([] if release.of_columns else [f"\nIntercept {release.content['intercept']:.4g}."]),
            f"\nRun {_plain(release.run_id)}.\n",
        ]
    )


def _badge(release: Release) -> str:
    return "private" if release.private else "NOT PRIVATE"


def _plain(text: str) -> str:
    """Text that Markdown and HTML show as it is."""
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escape(" ".join(text.split()), quote=False))


def _error(noise: float | None) -> str:
    return "follows the data" if noise is None else f"{noise:.2g}"


def _means(release: Release) -> str:
    means = table(("column", "mean", "noise (sd)"), [(name, f"{mean:.5g}", _error(noise)) for name, mean, noise in release.terms])
    whom = "person without complete rows" if release.preprocessing.unit else "record with a missing value"
    return f"<p>In the units of the data; a {whom} counts as the centre of its bounds.</p>{means}"


def _coefficients(release: Release) -> str:
    shape = release.preprocessing
    unit = f"{shape.target}" if release.link == Identity() and not shape.classification else "the margin"
    effects = release.weights[: len(shape.features)] * shape.target_scale
    largest = np.argsort(-np.abs(effects), kind="stable")[:SHOWN]
    low, high = _bars(release, effects)
    figure, axes = blank(9, 0.7 + 0.3 * len(largest))
    axes.axvline(0, color=LINE, linewidth=1.2)
    axes.hlines(range(len(largest)), low[largest], high[largest], color=FAINT, linewidth=1.6)
    axes.plot(effects[largest], range(len(largest)), "o", color=ACCENT)
    axes.set_yticks(range(len(largest)), [short(shape.features[j]) for j in largest], parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(short(f"effect on {unit} of moving a feature from its centre to its upper bound", 110), parse_math=False)
    only = f" The {SHOWN} largest of {len(effects)} are drawn." if len(effects) > SHOWN else ""
    numbers = _of_intervals(release) if release.intervals else _of_noise(release)
    return (
        f"{svg(figure, axes)}<p class=faint>{escape(_meaning(release))}{only}</p>"
        f"<p>In the units of the data, per unit of a feature within its bounds:</p>{numbers}"
    )


def _bars(release: Release, effects: Any) -> tuple[Any, Any]:
    """Where each feature's bar begins and ends: its 95% interval, or two deviations of the noise."""
    if release.intervals is not None:
        ranges = release.intervals.at(0.95)[: len(effects)] * np.array(release.preprocessing.scale)[:, None]
        return ranges[:, 0], ranges[:, 1]
    noise = 2 * float(release.content["coefficient_noise"] or 0.0) * release.preprocessing.target_scale
    return effects - noise, effects + noise


def _meaning(release: Release) -> str:
    """What the bars are."""
    if release.intervals is not None:
        return (
            f"Bars: 95% intervals, the noise that privacy needs counted in, of {release.intervals.of}. They hold if "
            f"{' and '.join(release.intervals.assumed)}. A coefficient that looks like noise is shrunk, so it may lie at an edge."
        )
    if release.content["coefficient_noise"] is None:
        return "No bars: the noise that privacy needs follows the data, and telling its size would cost more budget."
    return "Bars: two standard deviations, at most, of the noise that privacy needs; sampling error comes on top."


def _of_noise(release: Release) -> str:
    rows = [(name, f"{coef:.5g}", _error(error), f"{abs(coef) / error:.1f}" if error else "") for name, coef, error in release.terms]
    rows.append(("intercept", f"{release.content['intercept']:.5g}", "", ""))
    return table(("feature", "coefficient", "noise (sd, at most)", "times noise"), rows)


def _of_intervals(release: Release) -> str:
    assert release.intervals is not None
    coefs = [(name, coef) for name, coef, _ in release.terms]
    if release.preprocessing.intercept:
        coefs.append((INTERCEPT, release.content["intercept"]))
    ranges = zip(coefs, release.intervals.at(0.9), release.intervals.at(0.95), release.intervals.deviation, strict=True)
    rows = [(name, f"{coef:.5g}", _range(narrow), _range(wide), f"{sd:.2g}") for (name, coef), narrow, wide, sd in ranges]
    return table(("feature", "coefficient", "90% interval", "95% interval", "standard error"), rows)


def _range(pair: Any) -> str:
    return f"{pair[0]:.4g} to {pair[1]:.4g}"


def _path(release: Release) -> str:
    path = np.array(release.content["path"])
    if not path.size:
        return ""
    names = [*release.preprocessing.features, *(["intercept"] if release.preprocessing.intercept else [])]
    largest = np.argsort(-np.abs(release.weights), kind="stable")
    figure, axes = blank(9, 3.4)
    for j in reversed(largest[len(PALETTE) :]):
        axes.plot(path[:, j], color=LINE, linewidth=0.8)
    drawn = list(zip(largest, PALETTE, strict=False))
    for j, colour in reversed(drawn):
        axes.plot(path[:, j], color=colour, linewidth=1.5)
    axes.margins(x=0.01)
    axes.set_xlabel("question")
    axes.set_ylabel("scaled coefficient")
    items = "".join(f'<li><i style="background: {colour}"></i>{escape(short(names[j]))}</li>' for j, colour in drawn)
    grey = len(names) - len(drawn)
    others = f'<li class="faint">{grey} others in grey</li>' if grey else ""
    return f'{svg(figure, axes)}<ul class="legend">{items}{others}</ul>'


def _budget(balance: Balance) -> str:
    share = balance.epsilon_spent / balance.epsilon_lifetime
    share = min(max(share, 0.0), 1.0) if math.isfinite(share) else 1.0
    return f'<div class="bar"><div style="width: {100 * share:.2f}%"></div></div><p>{escape(balance.said())}</p>'


def _search(content: dict[str, Any]) -> str:
    said = content.get("search")
    if said is None:
        return ""
    told = {
        "all": "Every setting was fitted, scored and charged.",
        "repetition": "Settings were drawn by lot and fitted a random number of times; of all but the best nothing is told.",
    }[said["payment"]]
    rows = [(in_words(tried["setting"]), f"{tried['score']:.5g}", f"{said['score_noise']:.2g}") for tried in said["scores"]]
    return (
        f"<p>{escape(told)} Released is the fit with {escape(in_words(said['chosen']))}; its guarantee is that of the whole search.</p>"
        + table(("setting", "mean loss, cut and noisy", "noise (sd)"), rows)
    )


def _asked(content: dict[str, Any]) -> str:
    plan, events = content["plan"], content["events"]
    of = "columns" if content.get("kind") == "mean" else f"gradients of the {_kind(plan['loss'], ' loss')}"
    how = f" for the {_kind(plan['mean'], ' mean')} of {plan['units']:,} {of}" if "mean" in plan else ""
    drives = f"; the answers drive {_kind(plan['solver'])}, with the penalty {_kind(plan['penalty'])}" if "solver" in plan else ""
    words = f"{len(events):,} question{'' if len(events) == 1 else 's'}{how}{drives}. Everything was fixed before any record was read."
    rows = []
    for _, group in groupby(events, key=lambda event: {name: value for name, value in event.items() if name not in ("label", "draw")}):
        together = list(group)
        first, last = together[0], together[-1]
        asked = first["label"] if len(together) == 1 else f"{first['label']} to {last['label']}"
        facts = {name: value for name, value in first.items() if name not in ("label", "draw", "mechanism", "adjacency")}
        mu = {"mu": f"{first['sensitivity'] / first['sigma']:.4g}"} if "sigma" in first else {}
        sizes = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in facts.items()}
        said = ", ".join(f"{name} {value}" for name, value in {**sizes, **mu}.items())
        rows.append((asked, f"{len(together):,}", str(first["mechanism"]).replace("_", " "), said))
    header = ("questions", "number", "mechanism", "each")
    return f"<p>{escape(words)}</p>{table(header, rows)}<p class=faint>Sizes are in steps of the grid on which exact sums are noised.</p>"


def _preprocessing(release: Release) -> str:
    stored = release.content["preprocessing"]
    target = (
        {} if stored["classification"] or stored["target"]["name"] is None else {f"{stored['target']['name']} (target)": stored["target"]}
    )
    rows = []
    for name, column in [*stored["columns"].items(), *target.items()]:
        clamp = "none" if column["clamp"] is None else f"{column['clamp'][0]:.6g} to {column['clamp'][1]:.6g}"
        rows.append((name, f"{column['centre']:.6g}", f"{column['scale']:.6g}", clamp))
    who = (
        f"at most {stored['rows_per_unit']:,} rows of one {stored['unit']} are used, without those that miss a value"
        if stored.get("unit")
        else "a record with a missing value counts as zeros"
    )
    return f"<p>By public bounds; {escape(who)}.</p>{table(('column', 'centre', 'scale', 'clamp'), rows)}"


def _origin(content: dict[str, Any]) -> str:
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
    """A loss, penalty, mean or solver with its parameters."""
    numbers = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in described.items() if name != "kind"}
    said = ", ".join(f"{name} {value}" for name, value in numbers.items())
    return (str(described["kind"]) + noun + (f" ({said})" if said else "")).replace("_", " ")


def in_words(said: dict[str, Any]) -> str:
    """model.penalty {l1: 0.1}, method.steps 20."""
    return ", ".join(f"{name} {json.dumps(value)}".replace('"', "") for name, value in said.items())
