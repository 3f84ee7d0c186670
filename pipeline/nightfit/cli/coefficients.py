"""The table of a refit's coefficients or means."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nightfit.cli.console import plain
from nightfit.cli.tables import Column, columns_of
from nightfit.release.words import NOT_ALONE, WHY_NOT_ALONE

SHOWN = 20  # coefficients in the table: a screen

INTERVAL, UNSHRUNK, CLAMP = "95% interval", "before shrinkage", "clamped to"
SPARE = (UNSHRUNK, CLAMP)  # the report has them too

MOST_DIGITS = 6

ESTIMATES = "Intervals count the privacy noise in and are for coefficients before shrinkage and penalty, if {}."
OUTSIDE = "A value outside of its interval was moved there by shrinkage or by the penalty."

CLAMPED = "A coefficient holds inside of the clamp of its column: a value beyond counts as the clamp's end, here as in `nightfit predict`."


def coefficient_columns(result: Mapping[str, Any]) -> tuple[list[Column], list[str]]:
    """The largest coefficients with intervals and paid clamps, or the means, and what must be said about them."""
    kind, values = ("mean", result["mean"]) if "mean" in result else ("coefficient", result["coef"])
    intervals, clamps = result.get("intervals") or {"terms": {}}, result.get("clamps") or {}
    headings = (kind, "value", *((INTERVAL, UNSHRUNK) if intervals["terms"] else ()), *((CLAMP,) if clamps else ()))
    largest = sorted(values, key=lambda name: -abs(values[name]))[:SHOWN]
    if len(values) > SHOWN:
        largest = [name for name in largest if values[name]]
    shown = {name: value for name, value in values.items() if name in largest}
    rows = [
        (name, f"{value:.4g}", *_interval(intervals["terms"], name), *_clamp(clamps, name))
        for name, value in {**shown, **({"(intercept)": result["intercept"]} if "intercept" in result else {})}.items()
    ]
    said = [ESTIMATES.format(plain(" and ".join(intervals["assumed"])))] if intervals["terms"] else []
    said += [OUTSIDE] if any(_outside(values | {"(intercept)": result.get("intercept")}, intervals["terms"])) else []
    said += [WHY_NOT_ALONE] if None in intervals["terms"].values() else []
    said += [CLAMPED] if clamps else []
    if len(largest) < len(values):
        others = "all are in the release" if len(largest) == SHOWN else "the others are zero"
        said.append(f"The {len(largest)} largest of {len(values)} {kind}s; {others}.")
    columns = [replace(column, spare=column.heading in SPARE) for column in columns_of(headings, rows)]
    return columns, said


def _outside(values: Mapping[str, Any], terms: Mapping[str, Any]) -> Iterator[bool]:
    """Whether each value lies outside of its interval."""
    for name, term in ((name, term) for name, term in terms.items() if term is not None):
        value, (low, high) = values.get(name), term["95%"]
        yield value is not None and not low <= value <= high


def _interval(terms: Mapping[str, Any], name: str) -> list[str]:
    if not terms:
        return []
    if name in terms and terms[name] is None:
        return [NOT_ALONE, ""]
    return [ends(*terms[name]["95%"]), f"{terms[name]['estimate']:.4g}"] if name in terms else ["", ""]


def ends(low: float, high: float) -> str:
    """An interval in words, with as many digits as show its width to two."""
    width, largest = high - low, max(abs(low), abs(high))
    if not 0 < width < math.inf:
        return f"{low:.4g} to {high:.4g}"
    whole = math.floor(math.log10(largest)) + 1  # digits before the point
    digits = max(whole - math.floor(math.log10(width)) + 1, whole, 2)
    return " to ".join(f"{end:.{min(digits, MOST_DIGITS)}g}" for end in (low, high))


def _clamp(clamps: Mapping[str, Any], name: str) -> list[str]:
    """The clamp of a feature, which all classes share; nothing for the intercept."""
    if not clamps:
        return []
    clamp = clamps.get(name) or next((clamps[feature] for feature in clamps if name.endswith(f": {feature}")), None)
    return ["{:.3g} to {:.3g}".format(*clamp) if clamp else ""]
