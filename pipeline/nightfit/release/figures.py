"""The plots of a report. Imports the document, plots and numpy."""

import math
from html import escape

import numpy as np

from nightfit.records.outcomes import UNTRANSFORMED
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.document import Release
from nightfit.release.html import short
from nightfit.release.plots import FAINT, LINE, Axis, Curve, Marks, plot
from nightfit.release.words import WHY_NOT_ALONE, shown_names
from nightfit.types import Array

SHOWN = 30  # coefficients in a plot: as many as fit on a page at a readable size
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


def effects(release: Release) -> str:
    """What a feature does to the target, each for a stated number of the feature's own units; with the intervals of unshrunk estimates."""
    shape = release.preprocessing
    unit = _unit(release)
    steps = _steps(shape)
    values = release.weights[: len(shape.features)] * shape.target_scale / np.array(shape.scale) * steps
    largest = np.argsort(-np.abs(values), kind="stable")[:SHOWN]
    low, high = _bars(release, values, steps)
    called = shown_names(shape)
    names = [short(called[shape.features[j]]) + ("" if steps[j] == 1 else f", per {steps[j]:g}") for j in largest]
    estimates = values * np.nan if release.intervals is None else release.intervals.estimate[: len(values)] * steps
    drawn = plot(
        [
            Curve(points=[(0.0, -0.5), (0.0, len(largest) - 0.5)], colour=LINE, width=1.2),
            *(Curve(points=[(low[j], k), (high[j], k)], colour=FAINT, width=1.6) for k, j in enumerate(largest)),
            Marks(points=[(estimates[j], k) for k, j in enumerate(largest) if not np.isnan(estimates[j])], colour=FAINT, shape="stroke"),
            Marks(points=[(values[j], k) for k, j in enumerate(largest)]),
        ],
        Axis(label=short(f"effect on {unit} of one unit of a feature, or of as many as its name says", 110)),
        Axis(names=tuple(names)),
    )
    only = f" The {SHOWN} largest of {len(values)} are drawn." if len(values) > SHOWN else ""
    return f"{drawn}<p class=faint>{escape(_meaning(release))}{only}</p>"


def _unit(release: Release) -> str:
    """What coefficients add to."""
    shape, link = release.preprocessing, release.link.name
    if shape.classification or link == "logit":
        return "the log-odds" if link == "logit" else "the margin"
    target = shape.target if shape.outcome.transform == UNTRANSFORMED else f"{shape.outcome.transform}({shape.target})"
    return {"identity": f"{target}", "log": f"the logarithm of {target}"}.get(link, "the margin")


def _steps(shape: Preprocessing) -> Array:
    """By how many of its own units each feature is moved: one for an indicator, else the power of ten below a typical distance.

    That is a quarter of the way between public bounds, and a tenth of a learned scale, which clamps far out.
    """
    typical = [
        1.0 if one.indicator else scale / 10 if one.low is None or one.high is None else (one.high - one.low) / 4
        for one, scale in zip(shape.encoded.features, shape.scale, strict=True)
    ]
    return np.array([10.0 ** math.floor(math.log10(distance)) for distance in typical])


def _bars(release: Release, values: Array, steps: Array) -> tuple[Array, Array]:
    """Where each feature's bar begins and ends: its 95% interval, or two deviations of the noise."""
    if release.intervals is not None:
        ranges = release.intervals.at(0.95)[: len(values)] * steps[:, None]
        unknown = np.isnan(ranges[:, 0])
        return np.where(unknown, values, ranges[:, 0]), np.where(unknown, values, ranges[:, 1])
    shape = release.preprocessing
    noise = 2 * float(release.content["coefficient_noise"] or 0.0) * shape.target_scale / np.array(shape.scale) * steps
    return values - noise, values + noise


def _meaning(release: Release) -> str:
    """What the bars are."""
    if release.intervals is not None:
        return (
            f"Bars: 95% intervals, the noise that privacy needs counted in, of {release.intervals.of}. They hold if "
            f"{' and '.join(release.intervals.assumed)}. Upright strokes are estimates before shrinkage; a coefficient that looks like "
            "noise is shrunk, so it may lie at an edge." + ("" if release.intervals.known.all() else f" {WHY_NOT_ALONE}")
        )
    if release.content["coefficient_noise"] is None:
        return "No bars: the noise that privacy needs follows the data, and telling its size would cost more budget."
    return "Bars: two standard deviations, at most, of the noise that privacy needs; sampling error comes on top."


def path(release: Release) -> str:
    """The released iterates; empty where they were not released."""
    steps = np.array(release.content["path"])
    if not steps.size:
        return ""
    names = [*release.preprocessing.features, *(["intercept"] if release.preprocessing.intercept else [])]
    largest = np.argsort(-np.abs(release.weights), kind="stable")
    drawn = list(zip(largest, PALETTE, strict=False))
    grey = [Curve(points=list(enumerate(steps[:, j])), colour=LINE, width=0.8) for j in reversed(largest[len(PALETTE) :])]
    coloured = [Curve(points=list(enumerate(steps[:, j])), colour=colour) for j, colour in reversed(drawn)]
    shown = plot([*grey, *coloured], Axis(label="query"), Axis(label="scaled coefficient"))
    items = "".join(f'<li><i style="background: {colour}"></i>{escape(short(names[j]))}</li>' for j, colour in drawn)
    others = f'<li class="faint">{len(grey)} others in grey</li>' if grey else ""
    return f'{shown}<ul class="legend">{items}{others}</ul>'
