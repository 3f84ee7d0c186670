"""The scoring formula of a release: raw columns, features, terms, link. Imports the document, records and problem.

x'_j   = clip((feature_j - centre_j) / scale_j, low_j, high_j), or `absent_j` where the feature is missing
margin = intercept + sum_j weight_j x'_j, missing where a required feature is missing
prediction, probability: expressions of the margin
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nightfit.records.columns import Clock, Levels, Numbers, Reading
from nightfit.records.expressions import Expression, clipped, of
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.document import Release, ReleaseError

FORMAT = 1
MARGIN = of("margin")


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """A raw column: `kind` is number, text or instant. An instant is a time by the wall clock of `zone`."""

    name: str
    kind: str
    zone: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """A feature in the margin. `clamp` bounds its scaled value, None where it has no bounds; where it is `required`, a record without
    it has no prediction, and else it counts as `absent`.
    """

    feature: str
    value: Expression
    centre: float
    scale: float
    clamp: tuple[float, float] | None
    required: bool
    absent: float
    weight: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Formula:
    """A release as a formula of raw columns.

    Attributes
    ----------
    model, run, target : str
        Of the release.
    statement : str
        Its guarantee in words: it goes wherever the model goes.
    inputs : tuple of Input
        The raw columns.
    terms : tuple of Term
        The features in order; a feature is made of raw columns and of features before it.
    intercept : float
        Of the margin.
    outputs : dict
        `prediction`, and `probability` of the label 1 where the link gives it: expressions of the margin.
    labels : bool
        Whether predictions are the labels 0 and 1.
    """

    model: str
    run: str
    target: str
    statement: str
    inputs: tuple[Input, ...]
    terms: tuple[Term, ...]
    intercept: float
    outputs: dict[str, Expression]
    labels: bool

    @classmethod
    def of(cls, release: Release) -> "Formula":
        """The formula of a release.

        Raises
        ------
        ReleaseError
            If it predicts nothing, or more than one margin says.
        """
        if release.of_columns:
            raise ReleaseError(f"run {release.run_id} released means of columns: there is nothing to predict with, so nothing to export")
        shape = release.preprocessing
        if release.classes or shape.outcome.exposure is not None:
            what = (
                "a score for each of several classes" if release.classes else f"predictions for the record's own {shape.outcome.exposure}"
            )
            raise ReleaseError(f"run {release.run_id} has {what}, and an export has one margin: use `nightfit predict`")
        return cls(
            model=release.name,
            run=release.run_id,
            target=str(shape.target),
            statement=release.statement(),
            inputs=tuple(_input(name, reading) for name, reading in shape.encoded.readings.items()),
            terms=tuple(_terms(shape, release.weights.tolist())),
            intercept=float(release.weights[-1]) if shape.intercept else 0.0,
            outputs=_outputs(release, shape),
            labels=shape.classification,
        )

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it; docs/guides/export.md says what each key means."""
        return {
            "nightfit_formula": FORMAT,
            "model": self.model,
            "run": self.run,
            "target": self.target,
            "statement": self.statement,
            "inputs": [{"name": one.name, "kind": one.kind, **({"zone": one.zone} if one.zone else {})} for one in self.inputs],
            "terms": [
                {
                    "feature": term.feature,
                    "value": term.value.as_list(),
                    "centre": term.centre,
                    "scale": term.scale,
                    "clamp": term.clamp,
                    "required": term.required,
                    "absent": term.absent,
                    "weight": term.weight,
                }
                for term in self.terms
            ],
            "intercept": self.intercept,
            "outputs": {name: value.as_list() for name, value in self.outputs.items()},
            "labels": self.labels,
        }

    def scaled(self) -> Iterator[tuple[Term, Expression]]:
        """Each term with its x', as an expression of its feature."""
        for term in self.terms:
            scaled = (of("feature", term.feature) - term.centre) / term.scale
            if term.clamp is not None:
                scaled = clipped(scaled, *term.clamp)
            yield term, scaled if term.required else of("coalesce", scaled, term.absent)


def _input(name: str, reading: Reading) -> Input:
    match reading:
        case Numbers():
            return Input(name=name, kind="number")
        case Levels():
            return Input(name=name, kind="text")
        case Clock(zone):
            return Input(name=name, kind="instant", zone=zone)


def _terms(shape: Preprocessing, weights: list[float]) -> Iterator[Term]:
    """A record is left out where it misses a feature of a column that drops it; if no feature may be missing, where it misses any. A
    product that overflows is missing.
    """
    encoding = shape.encoded
    places = {feature.name: place for place, feature in enumerate(encoding.features)}
    for name, column in encoding.columns:
        values = column.expressions(name, *(encoding.made[part] for part in column.of))
        for feature, value in zip(encoding.made[name], values, strict=True):
            j = places[feature.name]
            reach = shape.reach[j] if shape.reach else 1.0
            yield Term(
                feature=feature.name,
                value=of("finite", value) if column.of else value,
                centre=shape.centre[j],
                scale=shape.scale[j],
                clamp=None if math.isinf(reach) else (-reach, reach),
                required=bool(encoding.drops[j]) or not shape.may_be_missing,
                absent=shape.absent[j] if shape.absent else 0.0,
                weight=weights[j],
            )


def _outputs(release: Release, shape: Preprocessing) -> dict[str, Expression]:
    """What `Scorer.predict` and `predict_proba` compute."""
    predicted = release.link.expression(MARGIN)
    if not shape.classification:
        number = of("add", shape.target_centre, of("mul", shape.target_scale, predicted))
        return {"prediction": shape.outcome.restored_expression(number)}
    threshold = 0.5 if release.link.probability else 0.0
    label = of("when", of("eq", MARGIN, MARGIN), of("choose", of("lt", threshold, predicted), 1, 0))
    return {**({"probability": predicted} if release.link.probability else {}), "prediction": label}
