"""What a release.json must hold before anything is computed from it: names, types, lengths and finite numbers. Imports privacy and below.

`check_content` is the one place: what it accepts, `predict`, the report, `start: previous` and `verify` can read to the end. Keys that it
does not name are kept as they are, because later versions of the same format add some; numbers in them are finite all the same.
"""

import json
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from nightfit.methods.intervals import INTERCEPT
from nightfit.plugins import member
from nightfit.privacy.accounting import Currency
from nightfit.privacy.events import event_from_dict
from nightfit.problem import links
from nightfit.records.outcomes import UNTRANSFORMED, Outcome
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency

FORMAT = 1

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Whole = Annotated[str, StringConstraints(pattern=r"^\d{1,200}$")]  # of 2^-200: a cost is far below 10^140
Positive = Annotated[float, Field(gt=0)]
Name = Annotated[str, StringConstraints(min_length=1)]
Pair = Annotated[list[float], Field(min_length=2, max_length=2)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, frozen=True)


class _Column(_Part):
    centre: float
    scale: Positive
    clamp: Pair | None


class _Exposure(_Part):
    column: Name
    clamp: Pair


class _Target(_Part):
    name: Name | None
    centre: float
    scale: Positive
    clamp: Pair | None
    domain: str | None = None
    labels: list[str] = []
    rest: bool = False
    transform: str = UNTRANSFORMED
    exposure: _Exposure | None = None


class _Preprocessing(_Part):
    columns: dict[Name, _Column] = Field(min_length=1)
    target: _Target
    intercept: bool
    classification: bool
    precision: Literal["double", "single"] = "double"
    unit: Name | None = None
    rows_per_unit: int = Field(default=1, ge=1)


class _Guarantee(_Part):
    epsilon: Positive
    delta: float = Field(ge=0, lt=1)
    currency: Literal[tuple(map(str, Currency))]  # type: ignore[valid-type]
    adjacency: Literal[tuple(map(str, Adjacency))]  # type: ignore[valid-type]
    unit: Name
    earlier_rows: int | None = Field(None, ge=1)
    assumptions: list[Name] = []


class _Term(_Part):
    estimate: float
    deviation: float = Field(ge=0)
    bias: float = Field(ge=0)


class _Intervals(_Part):
    of: str
    assumed: list[str]
    terms: dict[Name, _Term] = Field(min_length=1)


class _Receipt(_Part):
    ledger_id: Name
    seq: int = Field(ge=1)
    digest: Digest
    content: Digest | None = None


class _Signature(_Part):
    ed25519: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{128}$")]


class _Loss(_Part):
    kind: Name


class _Local(_Part):
    protects: Name


class _Plan(_Part):
    data_set: Name
    loss: _Loss
    preprocessing: _Preprocessing
    local: _Local | None = None


class _Cost(_Part):
    amount: Whole
    mass: Whole
    currency: Literal[tuple(map(str, Currency))]  # type: ignore[valid-type]


class _Content(_Part):
    """A release of format 1, but for what depends on names: `_check_names`."""

    nightfit_release: Literal[FORMAT]  # type: ignore[valid-type]
    model: Name
    run: Name
    manifest: Name
    time: Name
    private: bool
    guarantee: _Guarantee | None
    features: list[Name] = Field(min_length=1)
    kind: Literal["linear", "mean", "multinomial"] = "linear"
    classes: list[Name] | None = Field(default=None, min_length=2)
    mean: dict[str, float] | None = None
    coef: dict[str, float] | dict[str, dict[str, float]] | None = None
    intercept: float | dict[str, float] | None = None
    scaled_weights: list[float] | list[list[float]]
    path: list[list[float]]
    intervals: _Intervals | None = None
    class_intervals: dict[str, _Intervals] = {}
    coefficient_noise: float | None = Field(ge=0)
    preprocessing: _Preprocessing
    link: Name | None = None
    plan: _Plan
    plan_digest: Digest
    events: list[dict[str, Any]]
    cost: _Cost
    versions: dict[str, str]
    receipt: _Receipt | None = None
    signature: _Signature | None = None

    @model_validator(mode="after")
    def _names(self) -> "_Content":
        _check_names(self)
        return self


def _check_names(content: _Content) -> None:
    features, terms = content.features, [*content.features, *([INTERCEPT] if content.preprocessing.intercept else [])]
    _same("preprocessing.columns", list(content.preprocessing.columns), features)
    if content.kind == "multinomial":
        _check_classes(content, terms)
        return
    means = content.kind == "mean"
    _check_one_margin(content)
    _same("mean" if means else "coef", list((content.mean if means else content.coef) or {}), features)
    if not means and content.intercept is None:
        raise ValueError("intercept is missing")
    for name, vector in [("scaled_weights", content.scaled_weights), *(("path", step) for step in content.path)]:
        if len(vector) != len(terms):
            raise ValueError(f"{name} has {len(vector)} numbers, and the model has {len(terms)} terms")
    if content.intervals is not None:
        _same("intervals.terms", list(content.intervals.terms), terms)
    if content.private and content.guarantee is None:
        raise ValueError("private is true, and there is no guarantee")


def _check_one_margin(content: _Content) -> None:
    """Refuse the parts of several classes in a model of one margin."""
    nested = [*(content.coef or {}).values(), *content.scaled_weights, content.intercept]
    if content.classes is not None or any(isinstance(value, (list, dict)) for value in nested):
        raise ValueError(f"the kind {content.kind} has no classes: coef, intercept and scaled_weights are numbers")


def _check_classes(content: _Content, terms: list[str]) -> None:
    """Every class has its coefficients, its intercept, its weights and, if any has, its intervals."""
    classes, coef, intercept = content.classes or [], content.coef or {}, content.intercept
    if len(set(classes)) != len(classes) or len(classes) != len(content.scaled_weights) or list(coef) != classes:
        raise ValueError("classes, coef and scaled_weights do not name the same classes")
    if not isinstance(intercept, dict) or list(intercept) != classes or content.path or content.intervals is not None:
        raise ValueError("a model of several classes has an intercept for each, class_intervals and no path")
    for label, weights in zip(classes, content.scaled_weights, strict=True):
        named = coef[label]
        if not isinstance(named, dict) or not isinstance(weights, list) or len(weights) != len(terms):
            raise ValueError(f"class {label!r} must have one coefficient for each feature, and {len(terms)} scaled weights")
        _same(f"coef.{label}", list(named), content.features)
    if content.class_intervals and list(content.class_intervals) != classes:
        raise ValueError("class_intervals does not name the classes in their order")
    for label, intervals in content.class_intervals.items():
        _same(f"class_intervals.{label}", list(intervals.terms), terms)
    if content.private and content.guarantee is None:
        raise ValueError("private is true, and there is no guarantee")


def _same(where: str, found: Sequence[str], expected: Sequence[str]) -> None:
    if list(found) != list(expected):
        raise ValueError(f"{where} does not name the features in their order")


def parse(text: str) -> Any:
    """JSON without the numbers NaN and Infinity, and without a key that is given twice.

    Raises
    ------
    ValueError
        Saying what is wrong.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_content(content: dict[str, Any]) -> None:
    """Refuse a release that is not whole.

    Parameters
    ----------
    content
        What `parse` returned.

    Raises
    ------
    ValueError
        Naming the first place that is wrong.

    Notes
    -----
    Guarantee: whatever is read of an accepted release exists and has its type and length; no prediction reads beyond the weights. Broken
    by test_a_release_damaged_at_any_leaf_is_refused_or_predicts_the_same.
    """
    try:
        checked = _Content.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"].removeprefix("Value error, ")) from None
    _check_parts(checked, content)


def _check_parts(checked: _Content, content: dict[str, Any]) -> None:
    """What only the parts themselves know: bounds, domains, links and events that this version can read."""
    for where, make in (
        ("preprocessing", lambda: Preprocessing.from_dict(content["preprocessing"])),
        ("preprocessing.target", lambda: _check_outcome(content)),
        ("link", lambda: None if checked.link is None else member(links, checked.link)),
        ("events", lambda: [event_from_dict(event) for event in content["events"]]),
    ):
        try:
            make()
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{where}: {error}") from None


def _check_outcome(content: dict[str, Any]) -> None:
    """The target is read as the plan says, and has the classes of the model."""
    fitted, planned = (Outcome.from_dict(part["preprocessing"]["target"]) for part in (content, content["plan"]))
    if fitted != planned:
        raise ValueError("the target is read in another way than the plan says")
    if content.get("classes") and fitted.labels and list(fitted.labels) != content["classes"]:
        raise ValueError("its labels are not the classes of the model")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError(f"the key {next(name for name, _ in pairs if [n for n, _ in pairs].count(name) > 1)!r} is given twice")
    return made
