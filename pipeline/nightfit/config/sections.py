"""The sections of refit.yaml, each validated by itself. Imports pydantic and rooms below."""

import difflib
import math
import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from nightfit.ledger.policy import Period, check_blocks
from nightfit.ledger.windows import window_of
from nightfit.methods.loop import gradient_estimators as means
from nightfit.methods.loop import solvers
from nightfit.planning.specification import penalty_of
from nightfit.plugins import member
from nightfit.privacy.accounting import Currency, check_budget, epsilon_for
from nightfit.privacy.local import randomisers as local
from nightfit.problem import losses
from nightfit.problem.losses import Loss
from nightfit.problem.losses.columns import Columns
from nightfit.problem.penalties import Penalty
from nightfit.records.preprocessing import Precision
from nightfit.types import RECORD, Adjacency, NightfitError, person_of

MOST_ROWS_PER_UNIT = 2**16
NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, numbers are numbers, nothing can be changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Bounds = Annotated[tuple[float, float], BeforeValidator(_pair)]


class Data(Section):
    path: str = Field(description="file, glob, folder (hive or flat) or fsspec URL of Parquet shards; relative to this file")
    target: str | None = Field(None, description="the column to be predicted; none for model.kind mean")
    name: str | None = Field(None, pattern=NAME, description="the data set's name in the ledger (default: the folder's name)")
    features: list[str] | None = Field(None, min_length=1, description="the columns to predict from (default: all others but `exclude`)")
    exclude: list[str] = Field([], description="columns that are no features")
    unit: str = Field(
        RECORD,
        min_length=1,
        description="the privacy unit: record, a column that identifies a person such as patient_id, or (curriculum label_only) label",
    )
    rows_per_unit: int = Field(100, ge=1, le=MOST_ROWS_PER_UNIT, description="how many rows of a person are used at most")
    bounds: dict[str, Bounds] = Field(
        {}, description="public facts [low, high] per column: centre, scale and clamp it; the target too if named"
    )
    default_bounds: Bounds | None = Field(None, description="[low, high] for the columns not named in `bounds`")
    row_id: str | None = Field(None, description="a column that identifies a record; never a feature")
    window: str | list[str | int] | None = Field(
        None, description="`last 30 blocks`, `rotate 4`, a list of blocks, or (if all is one block) a name for what is read"
    )
    blocks: str | None = Field(None, description="how the ledger divides the data set: all, a hive key such as day, or hash:64")
    exhausted: Literal["skip", "refuse"] = Field("refuse", description="what to do with blocks whose budget is used up")
    precision: Precision = Field("double", description="of decoded features: single halves what a step reads; sums are exact either way")
    units: int | None = Field(None, ge=1, description="the public number of persons, or under add_remove of records")

    @model_validator(mode="after")
    def _identified(self) -> "Data":
        if self.person is None:
            if "rows_per_unit" in self.model_fields_set:
                raise ValueError(
                    f"data.rows_per_unit is for persons, and the unit is a {self.unit}: remove it, or name a column in data.unit"
                )
        elif self.person in (self.target, self.row_id, *(self.features or ())):
            raise ValueError(f"data.unit {self.person!r} identifies a person: it cannot be a feature, the target or data.row_id as well")
        elif self.units is None:
            raise ValueError(
                f"data.units is missing: with data.unit {self.person!r} state how many persons there are, from what is public (it divides "
                "every mean); the number is never counted in the data, because a count would tell about a person"
            )
        return self

    @property
    def person(self) -> str | None:
        """The column that identifies persons, if they are the unit."""
        return person_of(self.unit)

    @field_validator("window")
    @classmethod
    def _understood(cls, value: Any) -> Any:
        window_of(value)
        return value

    @model_validator(mode="after")
    def _divided(self) -> "Data":
        if self.blocks is not None:
            check_blocks(self.blocks, self.unit)
        return self

    @field_validator("bounds", "default_bounds")
    @classmethod
    def _ordered(cls, value: Any) -> Any:
        pairs = value.items() if isinstance(value, dict) else [("default", value)] if value else []
        for name, (low, high) in pairs:
            if not (abs(low) < 1e300 and abs(high) < 1e300 and low < high):
                raise ValueError(f"the bounds of {name} must be two finite numbers, low < high")
        return value


class Lifetime(Section):
    epsilon: float = Field(description="all refits of this data set together, for ever")
    delta: float = Field(description="at which epsilon holds; of all refits together")
    currency: Currency = Field(
        Currency.GAUSSIAN, strict=False, description="gaussian (exact for this release), zcdp or (local reports) pure"
    )
    per: Period = Field("life", description="life, or year: a budget that is renewed every year, and protects per year only")

    @model_validator(mode="after")
    def _budget(self) -> "Lifetime":
        check_budget(self.epsilon, self.delta)
        return self


class Privacy(Section):
    epsilon: float | None = Field(None, description="what this refit may cost; there is no default")
    rho: float | None = Field(None, description="the same as zero-concentrated privacy, instead of epsilon")
    pace: int | None = Field(None, ge=1, description="instead of epsilon: a refit costs the lifetime budget divided by this number")
    delta: float = Field(description="below 1 / (number of units); there is no default")
    adjacency: Adjacency = Field(Adjacency.REPLACE_ONE, strict=False, description="replace_one, zero_out or add_remove")
    trust: Literal["central", "local"] = Field(
        "central", description="central: noise is added to sums; local: every record is randomised before anything is collected"
    )
    lifetime: Lifetime | None = Field(None, description="the data set's whole budget, if the ledger has no policy for it yet")

    @model_validator(mode="after")
    def _budget(self) -> "Privacy":
        stated = [name for name in ("epsilon", "rho", "pace") if getattr(self, name) is not None]
        if not stated:
            raise ValueError(
                "privacy.epsilon is missing: what this refit may cost (or privacy.rho, zero-concentrated, or privacy.pace, of how many "
                "refits the lifetime budget is); there is no default"
            )
        if len(stated) > 1:
            raise ValueError(f"give {' or '.join(stated)}, not both: each says what this refit may cost")
        for currency in (Currency.GAUSSIAN, Currency.ZCDP):
            check_budget(1.0 if self.pace is not None else self.epsilon_in(currency), self.delta)
        return self

    def epsilon_in(self, currency: Currency) -> float:
        """What this refit may cost, at delta: as stated, or the epsilon of a budget that holds rho in this currency."""
        if self.epsilon is not None:
            return self.epsilon
        assert self.rho is not None
        if currency is Currency.PURE:
            raise NightfitError("privacy.rho is for the currencies gaussian and zcdp: state epsilon for local reports")
        return epsilon_for(self.rho, self.delta, currency)


class Model(Section):
    kind: Literal["linear", "mean"] = Field("linear", description="linear in the features, or the mean of each column")
    columns: list[str] | None = Field(None, min_length=1, description="for kind mean: whose means (default: data.features, or all)")
    loss: str | dict[str, dict[str, float]] = Field(
        "squared", description="squared, huber, logistic (labels), hinge (labels) or another; {huber: {delta: 2.0}} sets its parameter"
    )
    penalty: dict[str, Any] = Field(
        {}, description="{l1: 0.01}, {l2: ...}, {elastic_net: {l1: ..., l2: ...}}, {l1_ball: ...}, {l2_ball: ...}, {box: [low, high]} or {}"
    )
    intercept: bool = Field(True, description="whether a constant is fitted; it is not penalised")
    start: Literal["zero", "previous"] = Field(
        "zero", description="where the fit starts: at zero, or at this model's previous private release (free: it was paid for)"
    )

    def loss_of(self) -> Loss:
        if self.kind == "mean":
            return Columns()
        name, parameters = (self.loss, {}) if isinstance(self.loss, str) else next(iter(self.loss.items()))
        made: Loss = member(losses, name)(**parameters)
        return made

    def penalty_of(self) -> Penalty:
        return penalty_of(self.penalty)

    @model_validator(mode="after")
    def _known(self) -> "Model":
        if self.kind == "mean" and (self.penalty or self.model_fields_set & {"loss", "intercept", "start"}):
            raise ValueError("a mean has no loss, penalty, intercept or start: remove them")
        if self.kind == "linear" and self.columns is not None:
            raise ValueError("columns are for kind mean; name the columns to predict from in data.features")
        try:
            self.loss_of()
            self.penalty_of()
        except TypeError:
            raise ValueError("a loss or penalty has parameters that it does not know: `nightfit init` writes an example of each") from None
        return self


class MomentSection(Section):
    order: float = Field(gt=1, description="of the assumed moment E |g_j|^order of a gradient's coordinates")
    bound: float = Field(gt=0, description="of that moment, for scaled features")


class MethodSection(Section):
    solver: str | None = Field(
        None, description="accelerated_gradient, proximal_gradient, proximal_sgd, phased, assignment or frank_wolfe (default: by the mean)"
    )
    mean: str | None = Field(
        None,
        description="clipped (l2 norm), coordinate, soft (Catoni), smoothed, threshold, median_of_means, ball, range_ball or trimmed; "
        "hard_thresholding, vertex or private_lasso choose by noisy scores; sample_aggregate fits at once",
    )
    schedule: Literal["auto", "theory"] = Field("auto", description="who chooses what is left out: rules of thumb, or the method's theorem")
    moment: MomentSection | None = Field(None, description="what a theorem may assume: {order: .., bound: ..}; it only sets bounds")
    diameter: float | None = Field(None, gt=0, description="of the set of weights that a theorem may assume")
    failure: float = Field(0.05, gt=0, lt=1, description="the probability with which a theorem's promise may fail")
    bound: float | None = Field(None, gt=0, description="the bound of a gradient, of scaled features")
    steps: int | None = Field(None, ge=1, le=10_000, description="of the solver; each is paid for")
    step_size: float | None = Field(None, gt=0, description="of the solver, for scaled features")
    averaged: int | None = Field(None, ge=1, description="the result is the mean of this many last iterates")
    batch: Literal["full", "splits"] | int | None = Field(
        None, description="what a step reads: full, splits (a disjoint part each) or the expected size of a Poisson sample"
    )
    groups: int | None = Field(None, ge=2, description="of a median of means; an even number")
    smoothing: float | None = Field(None, ge=0.5, le=50, description="of a smoothed mean: one over the variance of its noise factor")
    noise: Literal["laplace_log_normal", "arsinh_normal"] | None = Field(None, description="of a trimmed mean")
    blocks: int | None = Field(None, ge=3, description="of sample_aggregate")

    @field_validator("mean", "solver")
    @classmethod
    def _known(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            member(means if info.field_name == "mean" else solvers, value)
        return value


LOCAL_SOLVERS = ("djw", "prestige")


class LocalMethodSection(Section):
    """For `privacy: {trust: local}`."""

    solver: Literal["djw", "prestige"] = Field(description="djw (private sampling) or prestige (with a private curriculum)")
    curriculum: Literal["masked", "label_only"] = Field(
        "masked", description="of prestige: masked (the whole record is protected) or label_only (only its label is)"
    )
    sampler: str = Field("djw", description="djw (a half sphere) or privunit (a cap: shorter reports for epsilon above 1)")
    batch: int = Field(10, ge=1, description="the mean of so many reports makes a step")
    epochs: int = Field(1, ge=1, le=1000, description="passes of the curriculum")
    cohorts: bool = Field(True, description="each record reports in one epoch only, and with the whole epsilon")
    bound: float | None = Field(None, gt=0, description="of one record's gradient, of scaled features")
    radius: float | None = Field(None, gt=0, description="of the ball of weights")
    steps: Literal["convex", "strongly_convex"] = Field("convex", description="step sizes: ~ 1 / sqrt(t), or 1 / (l2 t)")
    iterate: Literal["average", "last"] = Field("average", description="which weights are released: the mean of all, or the last")
    start: float = Field(1.5, description="of prestige: the margin that the first epoch asks for")
    drop: float = Field(1.0, ge=0, description="of prestige: after epoch k it falls by drop sqrt(k)")

    @field_validator("sampler")
    @classmethod
    def _known(cls, value: str) -> str:
        member(local, value)
        return value


class LocalCluster(Section):
    kind: Literal["local", "synchronous"] = Field(
        "local", description="worker processes of this machine, or none: all work in this process"
    )
    workers: int = Field(2, ge=1, description="how many processes")
    memory: str = Field("1GiB", pattern=r"^[0-9.]+ ?[KMGT]?i?B$", description="of each worker")
    threads: int = Field(1, ge=1, description="of each worker")
    directory: str | None = Field(None, description="where workers keep decoded rows that do not fit in memory; relative to this file")


class Security(Section):
    """TLS of the cluster's connections; plain ones are refused. Paths are relative to this file."""

    ca_file: str = Field(description="certificate of the authority that signed all others")
    client_cert: str = Field(description="this side's certificate")
    client_key: str = Field(description="its key")


class RemoteCluster(Section):
    address: str = Field(pattern=r"^(tcp|tls|ucx|ws|wss)://[^/\s]+$", description="of a running dask scheduler")
    security: Security | None = Field(None, description="certificates of the connections; without it, those of Dask's own settings")


class NamedCluster(Section):
    class_: str = Field(
        alias="class", pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$", description="import path of a Dask cluster class, made for the run"
    )
    arguments: dict[str, Any] = Field({}, description="its keyword arguments")
    workers: int = Field(1, ge=1, description="the run starts when so many have come")
    timeout: float = Field(300.0, gt=0, description="seconds to wait for them")
    security: Security | None = Field(None, description="certificates of the connections; without it, those of Dask's own settings")


def _is_section(value: Any) -> str:
    if isinstance(value, LocalMethodSection) or (isinstance(value, dict) and value.get("solver") in LOCAL_SOLVERS):
        return "<reports>"
    return "<section>" if isinstance(value, (dict, MethodSection)) else "<name>"


def _where(value: Any) -> str:
    keys = list(value) if isinstance(value, dict) else []
    if isinstance(value, NamedCluster) or "class" in keys:
        return "<named>"
    remote = isinstance(value, RemoteCluster) or any(difflib.get_close_matches(key, ["address"], cutoff=0.7) for key in keys)
    return "<remote>" if remote else "<local>"


MethodChoice = Annotated[
    Annotated[str, Tag("<name>")] | Annotated[MethodSection, Tag("<section>")] | Annotated[LocalMethodSection, Tag("<reports>")],
    Discriminator(_is_section),
]
ClusterChoice = Annotated[
    Annotated[LocalCluster, Tag("<local>")] | Annotated[RemoteCluster, Tag("<remote>")] | Annotated[NamedCluster, Tag("<named>")],
    Discriminator(_where),
]


class Unsafe(Section):
    """For tests: a release made with this is stamped private: false, and the run needs --unsafe."""

    noise: Literal["seeded", "none"] = Field(description="noise that can be repeated, or none")
    seed: int = Field(0, description="of seeded noise")


MOST_SETTINGS = 64
VARIED = r"model\.(loss|penalty)|method(\.[a-z_]+)?"


class SearchSection(Section):
    """For `nightfit search`: settings to try, each at the cost of one refit (privacy.epsilon) and a little more for its score."""

    epsilon: float = Field(description="the most that the whole search may cost, at privacy.delta; there is no default")
    grid: dict[str, list[Any]] = Field(
        min_length=1, description="which fields take which values: {model.penalty: [{l1: 0.1}, {l1: 0.01}], method.steps: [20, 50]}"
    )
    score: float = Field(0.1, gt=0, le=1, description="what a score costs, as a share of the fit's cost; it comes on top")
    bound: float | None = Field(
        None, gt=0, description="the largest residual that counts in a score, in units of the target (classification: in the margin)"
    )
    payment: Literal["cheaper", "all", "repetition"] = Field(
        "cheaper", description="all: every setting is fitted and charged; repetition: the best of a random number of fits, in zcdp only"
    )
    repetitions: int | None = Field(None, ge=2, le=10_000, description="of a repetition, on average (default: twice the settings)")

    @field_validator("grid")
    @classmethod
    def _small(cls, value: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name, values in value.items():
            if not re.fullmatch(VARIED, name):
                raise ValueError(f"{name} cannot be searched: use model.loss, model.penalty, method or fields of it such as method.steps")
            if not values or any(one in values[:place] for place, one in enumerate(values)):
                raise ValueError(f"{name} needs a list of different values")
        if "method" in value and any(name.startswith("method.") for name in value):
            raise ValueError("vary method as a whole, or fields of it, not both")
        count = math.prod(map(len, value.values()))
        if not 2 <= count <= MOST_SETTINGS:
            raise ValueError(f"a search has from 2 to {MOST_SETTINGS} settings, and this grid has {count}: every one of them costs")
        return value

    @model_validator(mode="after")
    def _budget(self) -> "SearchSection":
        check_budget(self.epsilon, 1e-6)
        return self
