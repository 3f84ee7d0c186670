"""The table of a refit's coefficients or means. Imports rich."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from nightfit.cli.console import plain
from nightfit.release.words import NOT_ALONE, WHY_NOT_ALONE

SHOWN = 20  # coefficients in the table: a screen

ESTIMATES = "Intervals count the privacy noise in and are for coefficients before shrinkage and penalty, if {}."
OUTSIDE = "A value outside of its interval was moved there by shrinkage or by the penalty."

CLAMPED = "A coefficient holds inside of the clamp of its column: a value beyond counts as the clamp's end, here as in `nightfit predict`."


def coefficient_table(title: str, result: Mapping[str, Any]) -> tuple[Table, list[str]]:
    """The largest coefficients with intervals and paid clamps, or the means, and what must be said about them."""
    table = Table(title=title, title_justify="left")
    kind, values = ("mean", result["mean"]) if "mean" in result else ("coefficient", result["coef"])
    intervals, clamps = result.get("intervals") or {"terms": {}}, result.get("clamps") or {}
    table.add_column(kind)
    for heading in ("value", *(("95% interval", "before shrinkage") if intervals["terms"] else ()), *(("clamped to",) if clamps else ())):
        table.add_column(heading, justify="right")
    largest = sorted(values, key=lambda name: -abs(values[name]))[:SHOWN]
    if len(values) > SHOWN:
        largest = [name for name in largest if values[name]]
    shown = {name: value for name, value in values.items() if name in largest}
    for name, value in {**shown, **({"(intercept)": result["intercept"]} if "intercept" in result else {})}.items():
        table.add_row(plain(name), f"{value:.4g}", *_interval(intervals["terms"], name), *_clamp(clamps, name))
    said = [ESTIMATES.format(plain(" and ".join(intervals["assumed"])))] if intervals["terms"] else []
    said += [OUTSIDE] if any(_outside(values | {"(intercept)": result.get("intercept")}, intervals["terms"])) else []
    said += [WHY_NOT_ALONE] if None in intervals["terms"].values() else []
    said += [CLAMPED] if clamps else []
    if len(largest) < len(values):
        others = "all are in the release" if len(largest) == SHOWN else "the others are zero"
        said.append(f"The {len(largest)} largest of {len(values)} {kind}s; {others}.")
    return table, said


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
    return ["{:.4g} to {:.4g}".format(*terms[name]["95%"]), f"{terms[name]['estimate']:.4g}"] if name in terms else ["", ""]


def _clamp(clamps: Mapping[str, Any], name: str) -> list[str]:
    """The clamp of a feature, which all classes share; nothing for the intercept."""
    if not clamps:
        return []
    clamp = clamps.get(name) or next((clamps[feature] for feature in clamps if name.endswith(f": {feature}")), None)
    return ["{:.4g} to {:.4g}".format(*clamp) if clamp else ""]
