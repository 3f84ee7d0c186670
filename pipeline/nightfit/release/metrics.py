"""The paid evaluation that a release carries: metrics with intervals, compared with a constant and with an earlier release. Imports the
document.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nightfit.records.outcomes import UNTRANSFORMED
from nightfit.release.document import Release, ReleaseError

WORDS = {
    "r2": "R2",
    "rmse": "RMSE",
    "mae": "MAE",
    "auc": "AUC",
    "macro_auc": "macro AUC",
    "brier": "Brier score",
    "within_10": "share within 10%",
    "at_bounds": "values at bounds",
    "unknown": "unknown levels",
    "missing": "missing values",
    "missing_values": "missing values, all columns",
    "unknown_levels": "unknown levels, all columns",
    "values_at_bounds": "values at bounds, all columns",
    "drift": "drift of predictions",
}


@dataclass(frozen=True, slots=True)
class Range:
    """A paid number and its interval, which counts the privacy noise and the sampling of units in."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Range":
        """The range that a release stores."""
        return cls(float(stored["value"]), float(stored["low"]), float(stored["high"]))

    def words(self, sign: str = "") -> str:
        """0.412 (0.38 to 0.44); `sign` is "+" for changes."""
        return f"{self.value:{sign}.3g} ({self.low:{sign}.3g} to {self.high:{sign}.3g})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """An earlier release on the same held-out units.

    Parameters
    ----------
    run
        Of the earlier release.
    metrics
        Of the earlier release, tonight.
    change
        Of the main metric, from the earlier release to this one.
    better
        Whether the change's interval says better (True) or worse (False); None where it holds no change.
    """

    run: str
    metrics: dict[str, Range]
    change: Range
    better: bool | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """How good a release is, as it was paid for.

    Parameters
    ----------
    share
        Of the units, set aside and never fitted on.
    level
        Of all intervals.
    main
        Name of the metric that decides.
    metrics, constant
        Of the release, and of a constant prediction.
    previous
        The comparison with an earlier release, if there was one.
    stored
        All that the release says, with curves, groups and checks.
    scale
        Of what errors are, where the target was transformed: log1p(cost).
    """

    share: float
    level: float
    main: str
    metrics: dict[str, Range]
    constant: dict[str, Range]
    previous: Comparison | None
    stored: Mapping[str, Any]
    scale: str = ""

    @property
    def headline(self) -> Range:
        """The main metric."""
        return self.metrics[self.main]

    def words(self, compared: bool = True) -> str:
        """R2 0.412 (0.38 to 0.44), R2 +0.02 (-0.01 to +0.05) against visits-01."""
        change = f", {self.change_words()}" if compared and self.previous is not None else ""
        return f"{metric_name(self.main)} {self.headline.words()}{change}"

    def checks(self) -> dict[str, Range]:
        """The paid checks that are a number with an interval, by name; those of a column as `check of column`."""
        found: dict[str, Range] = {}
        for name, stored in (self.stored.get("checks") or {}).items():
            named = metric_name(name)
            each = {named: stored} if _is_range(stored) else {f"{named} of {part}": one for part, one in _parts(stored)}
            found |= {key: Range.of(one) for key, one in each.items() if _is_range(one)}
        return found

    def groups(self) -> dict[str, dict[str, Range]]:
        """The metrics of each group that the evaluation was asked for, by the group's name."""
        by = self.stored.get("by") or {"groups": {}}
        return {name: _ranges(one["metrics"]) for name, one in by["groups"].items()}

    def change_words(self) -> str:
        """R2 +0.02 (-0.01 to +0.05) against visits-01; empty where nothing was compared."""
        return "" if self.previous is None else f"{metric_name(self.main)} {self.previous.change.words('+')} against {self.previous.run}"


def _is_range(stored: Any) -> bool:
    return isinstance(stored, Mapping) and {"value", "low", "high"} <= stored.keys()


def _parts(stored: Any) -> list[tuple[str, Any]]:
    return list(stored.items()) if isinstance(stored, Mapping) else []


def metric_name(name: str) -> str:
    """A metric's name for people."""
    return WORDS.get(name, name.replace("_", " "))


def evaluation_of(release: Release) -> Evaluation | None:
    """The paid evaluation of a private release; None where it has none.

    Numbers of a release that is not private never leave it: they would reach pages and messages unpaid. Broken by
    test_the_numbers_of_a_release_that_is_not_private_are_not_shown.

    Raises
    ------
    ReleaseError
        If what is stored is no evaluation.
    """
    stored = release.content.get("evaluation")
    if stored is None or not release.private:
        return None
    try:
        return Evaluation(
            share=float(stored["share"]),
            level=float(stored["level"]),
            main=str(stored["main"]),
            metrics=_ranges({stored["main"]: stored["metrics"][stored["main"]], **stored["metrics"]}),
            constant=_ranges(stored.get("constant") or {}),
            previous=_comparison(stored.get("previous")),
            stored=stored,
            scale=scale_of(release),
        )
    except (KeyError, TypeError, ValueError):
        raise ReleaseError(
            f"the evaluation in the release of run {release.run_id} is not one that this version reads: restore the file"
        ) from None


def scale_of(release: Release) -> str:
    """What errors are measured of, if that is not the target as its column has it."""
    shape = release.preprocessing
    how = shape.outcome.transform
    return "" if how == UNTRANSFORMED else f"{how}({shape.target})"


def _ranges(stored: Mapping[str, Any]) -> dict[str, Range]:
    return {name: Range.of(one) for name, one in stored.items()}


def _comparison(stored: Mapping[str, Any] | None) -> Comparison | None:
    if stored is None:
        return None
    better = stored["better"]
    return Comparison(
        run=str(stored["run"]),
        metrics=_ranges(stored["metrics"]),
        change=Range.of(stored["change"]),
        better=None if better is None else bool(better),
    )
