"""The scoring formula of a release: raw columns, features, terms, link. Imports the document, records and problem.

x'_j   = clip((feature_j - centre_j) / scale_j, low_j, high_j), or `absent_j` where the feature is missing
margin = intercept + sum_j weight_j x'_j, missing where a required feature is missing; of several classes one for each
prediction, probability: expressions of the margins, and of the record's own exposure
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from nightfit.records.columns import Clock, Levels, Numbers, Reading
from nightfit.records.expressions import Expression, Operand, clipped, of
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.document import Release, ReleaseError

FORMAT, WITH_CLASSES = 1, 2  # of formulas with one margin, and with one for each of several classes
MARGIN = of("margin")
LARGEST_DIFFERENCE = 600.0  # of margins: beyond it one probability is 0 to 1e-260, and no sum of exponentials overflows


@dataclass(frozen=True, kw_only=True, slots=True)
class Input:
    """A raw column: `kind` is number, text or instant. An instant is a time by the wall clock of `zone`."""

    name: str
    kind: str
    zone: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Term:
    """A feature in the margin. `clamp` bounds its scaled value, None where it has no bounds; where it is `required`, a record without
    it has no prediction, and else it counts as `absent`. Each margin has its weight.
    """

    feature: str
    value: Expression
    centre: float
    scale: float
    clamp: tuple[float, float] | None
    required: bool
    absent: float
    weights: tuple[float, ...]


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
    intercepts : tuple of float
        Of each margin.
    outputs : dict
        `prediction`, and `probability` of the label 1 where the link gives it, or `probability_LABEL` of each of several classes:
        expressions of the margins.
    labels : bool
        Whether predictions are labels and no numbers.
    classes : tuple of str
        The label of each class, in order; empty where labels are 0 and 1. A prediction is then a text.
    """

    model: str
    run: str
    target: str
    statement: str
    inputs: tuple[Input, ...]
    terms: tuple[Term, ...]
    intercepts: tuple[float, ...]
    outputs: dict[str, Expression]
    labels: bool
    classes: tuple[str, ...] = ()

    @classmethod
    def of(cls, release: Release) -> "Formula":
        """The formula of a release.

        Raises
        ------
        ReleaseError
            If it predicts nothing.
        """
        if release.of_columns:
            raise ReleaseError(f"run {release.run_id} released means of columns: there is nothing to predict with, so nothing to export")
        shape, weights = release.preprocessing, release.weights.reshape(len(release.weights), -1)
        exposure = _exposure(shape, weights.shape[1])
        inputs = [_input(name, reading) for name, reading in shape.encoded.readings.items()]
        if exposure is not None and shape.outcome.exposure not in shape.encoded.readings:
            inputs.append(Input(name=str(shape.outcome.exposure), kind="number"))
        return cls(
            model=release.name,
            run=release.run_id,
            target=str(shape.target),
            statement=release.statement(),
            inputs=tuple(inputs),
            terms=(*_terms(shape, weights.tolist()), *(() if exposure is None else (exposure,))),
            intercepts=tuple(weights[-1].tolist()) if shape.intercept else (0.0,) * weights.shape[1],
            outputs=_of_classes(release.classes) if release.classes else _outputs(release, shape, exposure),
            labels=shape.classification or bool(release.classes),
            classes=release.classes or shape.outcome.classes,
        )

    @property
    def margins(self) -> tuple[Expression, ...]:
        """Each margin, as an expression."""
        return (MARGIN,) if len(self.intercepts) == 1 else tuple(of("margin", str(k)) for k in range(len(self.intercepts)))

    def as_dict(self) -> dict[str, Any]:
        """As JSON has it; docs/guides/export.md says what each key means."""
        return {
            "nightfit_formula": FORMAT if len(self.intercepts) == 1 else WITH_CLASSES,
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
                    "weight": one_or_all(term.weights),
                }
                for term in self.terms
            ],
            "intercept": one_or_all(self.intercepts),
            "outputs": {name: value.as_list() for name, value in self.outputs.items()},
            "labels": self.labels,
            **({"classes": list(self.classes)} if self.classes else {}),
        }

    def scaled(self) -> Iterator[tuple[Term, Expression]]:
        """Each term with its x', as an expression of its feature."""
        for term in self.terms:
            scaled = (of("feature", term.feature) - term.centre) / term.scale
            if term.clamp is not None:
                scaled = clipped(scaled, *term.clamp)
            yield term, scaled if term.required else of("coalesce", scaled, term.absent)


def one_or_all(values: tuple[float, ...]) -> float | list[float]:
    """The number of a single margin, or those of all."""
    return values[0] if len(values) == 1 else list(values)


def _input(name: str, reading: Reading) -> Input:
    match reading:
        case Numbers():
            return Input(name=name, kind="number")
        case Levels():
            return Input(name=name, kind="text")
        case Clock(zone):
            return Input(name=name, kind="instant", zone=zone)


def _terms(shape: Preprocessing, weights: list[list[float]]) -> Iterator[Term]:
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
                weights=tuple(weights[j]),
            )


def _exposure(shape: Preprocessing, margins: int) -> Term | None:
    """The record's own exposure as a term that adds nothing to the margin: what is for one unit of exposure is multiplied by it."""
    outcome = shape.outcome
    if outcome.exposure is None:
        return None
    raw, name = of("number", outcome.exposure), f"exposure {outcome.exposure}"
    while name in shape.encoded.names:
        name += "'"
    value = of("when", of("lt", 0, raw), clipped(raw, *outcome.exposures))
    return Term(feature=name, value=value, centre=0.0, scale=1.0, clamp=None, required=True, absent=0.0, weights=(0.0,) * margins)


def _outputs(release: Release, shape: Preprocessing, exposure: Term | None) -> dict[str, Expression]:
    """What `Scorer.predict` and `predict_proba` compute of a single margin."""
    predicted = release.link.expression(MARGIN)
    if not shape.classification:
        number = shape.outcome.restored_expression(of("add", shape.target_centre, of("mul", shape.target_scale, predicted)))
        return {"prediction": number if exposure is None else number * of("feature", exposure.feature)}
    threshold = 0.5 if release.link.probability else 0.0
    low, high = shape.outcome.classes or (0, 1)
    label = of("when", of("eq", MARGIN, MARGIN), of("choose", of("lt", threshold, predicted), high, low))
    return {**({"probability": predicted} if release.link.probability else {}), "prediction": label}


def _of_classes(labels: tuple[str, ...]) -> dict[str, Expression]:
    """p_k = 1 / sum_j exp(s_j - s_k) for the margins s, and the label of the first of the largest."""
    margins = [of("margin", str(k)) for k in range(len(labels))]
    best = margins[0]
    label: Operand = labels[0]
    for margin, name in zip(margins[1:], labels[1:], strict=True):
        label = of("choose", of("lt", best, margin), name, label)
        best = of("max", margin, best)
    return {
        **{f"probability_{name}": of("div", 1.0, _odds(margins, k)) for k, name in enumerate(labels)},
        "prediction": of("when", of("eq", margins[0], margins[0]), label),
    }


def _odds(margins: list[Expression], k: int) -> Expression:
    """sum_j exp(s_j - s_k)."""
    away = [clipped(margin - margins[k], -LARGEST_DIFFERENCE, LARGEST_DIFFERENCE) for j, margin in enumerate(margins) if j != k]
    total: Expression = of("exp", away[0]) + 1.0
    for one in away[1:]:
        total = total + of("exp", one)
    return total
