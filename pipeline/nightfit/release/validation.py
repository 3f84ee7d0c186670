"""What a release.json must hold before anything is computed from it: names, types, lengths and finite numbers. Imports privacy and below.

`check_content` is the one place: what it accepts, `predict`, the report, `start: previous` and `verify` can read to the end. Keys that it
does not name are kept as they are, because later versions of the same format add some; numbers in them are finite all the same.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

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
    terms: dict[Name, _Term | None] = Field(min_length=1)


class _Used(_Part):
    share: float
    deviation: float = Field(ge=0)


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


class _Common(_Part):
    """What every release of format 1 has."""

    nightfit_release: Literal[FORMAT]  # type: ignore[valid-type]
    model: Name
    run: Name
    manifest: Name
    time: Name
    private: bool
    guarantee: _Guarantee | None
    features: list[Name] = Field(min_length=1)
    coefficient_noise: float | None = Field(ge=0)
    preprocessing: _Preprocessing
    link: Name | None = None
    used: _Used | None = None
    labels: dict[str, _Used] = {}
    plan: _Plan
    plan_digest: Digest
    events: list[dict[str, Any]]
    cost: _Cost
    versions: dict[str, str]
    receipt: _Receipt | None = None
    signature: _Signature | None = None

    @property
    def terms(self) -> list[str]:
        """The features, and the intercept if there is one."""
        return [*self.features, *([INTERCEPT] if self.preprocessing.intercept else [])]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        _same("preprocessing.columns", list(self.preprocessing.columns), self.features)
        if self.private and self.guarantee is None:
            raise ValueError("private is true, and there is no guarantee")
        return self


class _Content(_Common):
    """A release of one margin, or of means."""

    kind: Literal["linear", "mean"] = "linear"
    classes: None = None
    mean: dict[str, float] | None = None
    coef: dict[str, float] | None = None
    intercept: float | None = None
    scaled_weights: list[float]
    path: list[list[float]]
    intervals: _Intervals | None = None

    @model_validator(mode="after")
    def _names(self) -> Self:
        means = self.kind == "mean"
        _same("mean" if means else "coef", list((self.mean if means else self.coef) or {}), self.features)
        if not means and self.intercept is None:
            raise ValueError("intercept is missing")
        for name, vector in [("scaled_weights", self.scaled_weights), *(("path", step) for step in self.path)]:
            if len(vector) != len(self.terms):
                raise ValueError(f"{name} has {len(vector)} numbers, and the model has {len(self.terms)} terms")
        if self.intervals is not None:
            _same("intervals.terms", list(self.intervals.terms), self.terms)
        return self


class _ClassContent(_Common):
    """A release of several classes, each of which has its coefficients, its intercept, its weights and, if any has, its intervals."""

    kind: Literal["multinomial"]
    classes: list[Name] = Field(min_length=2)
    coef: dict[str, dict[str, float]]
    intercept: dict[str, float]
    scaled_weights: list[list[float]]
    path: list[list[float]] = Field(max_length=0)
    intervals: None = None
    class_intervals: dict[str, _Intervals] = {}

    @model_validator(mode="after")
    def _names(self) -> Self:
        found = self.class_intervals or self.coef
        named: dict[str, Mapping[str, object]] = {"coef": self.coef, "intercept": self.intercept, "class_intervals": found}
        wrong = next((name for name, by_class in named.items() if list(by_class) != self.classes), None)
        if wrong is not None or not len(set(self.classes)) == len(self.classes) == len(self.scaled_weights):
            raise ValueError(f"{wrong or 'scaled_weights'} does not name the classes in their order, each once")
        for label in self.classes:
            _same(f"coef.{label}", list(self.coef[label]), self.features)
        for label, intervals in self.class_intervals.items():
            _same(f"class_intervals.{label}", list(intervals.terms), self.terms)
        if any(len(weights) != len(self.terms) for weights in self.scaled_weights):
            raise ValueError(f"scaled_weights must have {len(self.terms)} numbers for each class")
        return self


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
        checked = (_ClassContent if content.get("kind") == "multinomial" else _Content).model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"].removeprefix("Value error, ")) from None
    _check_parts(checked, content)


def _check_parts(checked: _Common, content: dict[str, Any]) -> None:
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
