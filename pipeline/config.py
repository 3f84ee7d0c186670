"""refit.yaml: every choice of a refit, validated before anything is read. Imports pydantic, yaml and rooms below."""

import difflib
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pipeline import losses, means, solvers
from pipeline.discovery import member, members
from pipeline.losses import Loss
from pipeline.penalties import Penalty
from pipeline.plan import Budget, Method, Specification, penalty_of
from pipeline.preprocessing import Preprocessing
from pipeline.privacy.accounting import Currency, check_budget
from pipeline.privacy.ledger import Policy
from pipeline.privacy.noise import Noise, NoNoise, OperatingSystemNoise, SeededNoise
from pipeline.shards.cluster import Cluster, Local, Remote, Synchronous
from pipeline.shards.manifest import DataError, Manifest, check_columns
from pipeline.types import Adjacency, NightfitError

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class ConfigError(NightfitError):
    """The configuration is not valid; nothing was read or charged."""


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, numbers are numbers, nothing can be changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _pair(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


Bounds = Annotated[tuple[float, float], BeforeValidator(_pair)]


class Data(Section):
    path: str = Field(description="file, glob, folder (hive or flat) or fsspec URL of Parquet shards; relative to this file")
    target: str = Field(description="the column to be predicted")
    name: str | None = Field(None, pattern=NAME, description="the data set's name in the ledger (default: the folder's name)")
    features: list[str] | None = Field(None, min_length=1, description="the columns to predict from (default: all others but `exclude`)")
    exclude: list[str] = Field([], description="columns that are no features")
    unit: str = Field("record", description="the privacy unit: one record")
    bounds: dict[str, Bounds] = Field(
        {}, description="public facts [low, high] per column: centre, scale and clamp it; the target too if named"
    )
    default_bounds: Bounds | None = Field(None, description="[low, high] for the columns not named in `bounds`")
    row_id: str | None = Field(None, description="a column that identifies a record; never a feature")
    window: str | None = Field(None, description="a name for what is read; a run of the same model and window is resumed or returned")
    blocks: Literal["all"] = Field("all", description="how the ledger divides the data set: all of it is one block")
    units: int | None = Field(None, ge=1, description="the public number of units under add_remove")

    @field_validator("unit")
    @classmethod
    def _record_only(cls, value: str) -> str:
        if value != "record":
            raise ValueError(
                "this version protects one record: `unit: record`; for persons with several rows write one row per person first"
            )
        return value

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
    delta: float
    currency: Currency = Field(Currency.GAUSSIAN, strict=False, description="gaussian (exact for this release) or zcdp")

    @model_validator(mode="after")
    def _budget(self) -> "Lifetime":
        check_budget(self.epsilon, self.delta)
        return self


class Privacy(Section):
    epsilon: float = Field(description="what this refit may cost; there is no default")
    delta: float = Field(description="below 1 / (number of units); there is no default")
    adjacency: Adjacency = Field(Adjacency.REPLACE_ONE, strict=False, description="replace_one, zero_out or add_remove")
    lifetime: Lifetime | None = Field(None, description="the data set's whole budget, if the ledger has no policy for it yet")

    @model_validator(mode="after")
    def _budget(self) -> "Privacy":
        check_budget(self.epsilon, self.delta)
        return self


class Model(Section):
    kind: Literal["linear"] = Field("linear", description="linear in the features (logistic and hinge losses classify)")
    loss: str | dict[str, dict[str, float]] = Field(
        "squared", description="squared, huber, logistic or hinge; {huber: {delta: 2.0}} sets its parameter"
    )
    penalty: dict[str, Any] = Field(
        {}, description="{l1: 0.01}, {l2: ...}, {elastic_net: {l1: ..., l2: ...}}, {l1_ball: ...}, {l2_ball: ...}, {box: [low, high]} or {}"
    )
    intercept: bool = True

    def loss_of(self) -> Loss:
        name, parameters = (self.loss, {}) if isinstance(self.loss, str) else next(iter(self.loss.items()))
        made: Loss = member(losses, name)(**parameters)
        return made

    def penalty_of(self) -> Penalty:
        return penalty_of(self.penalty)

    @model_validator(mode="after")
    def _known(self) -> "Model":
        try:
            self.loss_of()
            self.penalty_of()
        except TypeError:
            raise ValueError("a loss or penalty has parameters that it does not know: `nightfit init` writes an example of each") from None
        return self


class MethodSection(Section):
    solver: str | None = Field(None, description="accelerated_gradient or proximal_gradient")
    mean: str = Field(
        "clipped",
        description="clipped (l2 norm), coordinate, soft (Catoni), smoothed, threshold or median_of_means",
    )
    schedule: Literal["auto"] = "auto"
    bound: float | None = Field(None, gt=0, description="the bound of a gradient, of scaled features")
    steps: int | None = Field(None, ge=1, le=10_000)
    step_size: float | None = Field(None, gt=0)
    averaged: int | None = Field(None, ge=1, description="the result is the mean of this many last iterates")
    groups: int | None = Field(None, ge=2, description="of a median of means; an even number")

    @field_validator("mean", "solver")
    @classmethod
    def _known(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None:
            member(means if info.field_name == "mean" else solvers, value)
        return value


class LocalCluster(Section):
    kind: Literal["local", "synchronous"] = "local"
    workers: int = Field(2, ge=1)
    memory: str = Field("1GiB", pattern=r"^[0-9.]+ ?[KMGT]?i?B$", description="of each worker")
    threads: int = Field(1, ge=1)


class RemoteCluster(Section):
    address: str = Field(pattern=r"^(tcp|tls|ucx|ws|wss)://", description="of a running dask scheduler")


def _is_section(value: Any) -> str:
    return "<section>" if isinstance(value, (dict, MethodSection)) else "<name>"


def _where(value: Any) -> str:
    keys = list(value) if isinstance(value, dict) else []
    remote = isinstance(value, RemoteCluster) or any(difflib.get_close_matches(key, ["address"], cutoff=0.7) for key in keys)
    return "<remote>" if remote else "<local>"


MethodChoice = Annotated[Annotated[str, Tag("<name>")] | Annotated[MethodSection, Tag("<section>")], Discriminator(_is_section)]
ClusterChoice = Annotated[Annotated[LocalCluster, Tag("<local>")] | Annotated[RemoteCluster, Tag("<remote>")], Discriminator(_where)]


class Unsafe(Section):
    """For tests: a release made with this is stamped private: false, and the run needs --unsafe."""

    noise: Literal["seeded", "none"]
    seed: int = 0


class Config(Section):
    """One refit."""

    name: str = Field(pattern=NAME, description="the model's name")
    data: Data
    privacy: Privacy
    model: Model = Model()
    method: MethodChoice = "auto"
    ledger: str = Field("sqlite:///ledger.db", description="SQLAlchemy URL; a relative file is relative to this one")
    cluster: ClusterChoice = LocalCluster()
    output: str = Field("releases", description="folder of the releases; relative to this file")
    unsafe: Unsafe | None = None
    folder: Path = Field(Path("."), exclude=True, description="where this file lies; set by `load`")

    @field_validator("method")
    @classmethod
    def _preset(cls, value: str | MethodSection) -> str | MethodSection:
        if isinstance(value, str) and value != "auto":
            member(means, value)
        return value

    @property
    def data_set(self) -> str:
        return self.data.name or _folder_name(self.data.path)

    @property
    def output_folder(self) -> Path:
        return self.folder / self.output

    @property
    def data_path(self) -> str:
        return self.data.path if "://" in self.data.path else str(self.folder / self.data.path)

    @property
    def ledger_url(self) -> str:
        return resolved(self.ledger, self.folder)

    def noise(self) -> Noise:
        import numpy as np

        if self.unsafe is None:
            return OperatingSystemNoise()
        return NoNoise() if self.unsafe.noise == "none" else SeededNoise(np.random.default_rng(self.unsafe.seed))

    def cluster_of(self) -> Cluster:
        if isinstance(self.cluster, RemoteCluster):
            return Remote(address=self.cluster.address)
        if self.cluster.kind == "synchronous":
            return Synchronous()
        return Local(workers=self.cluster.workers, memory=self.cluster.memory, threads=self.cluster.threads)

    def policy(self) -> Policy | None:
        """The lifetime budget that the configuration states, if any."""
        lifetime = self.privacy.lifetime
        if lifetime is None:
            return None
        return Policy(
            data_set=self.data_set,
            unit=self.data.unit,
            adjacency=self.privacy.adjacency,
            epsilon=lifetime.epsilon,
            delta=lifetime.delta,
            currency=lifetime.currency,
        )

    def units(self, manifest: Manifest) -> int:
        """The public number of units: the footers' row count, or data.units where the count is not public."""
        counted = self.privacy.adjacency is not Adjacency.ADD_REMOVE
        if counted and self.data.units is not None:
            raise ConfigError(
                f"data.units is for add_remove; under {self.privacy.adjacency} the number of rows is public and is counted: remove it"
            )
        if not counted and self.data.units is None:
            raise ConfigError("under add_remove the number of records is private: state a public one in data.units (it divides every mean)")
        return manifest.rows if self.data.units is None else self.data.units

    def specification(self, manifest: Manifest, currency: Currency) -> Specification:
        """The refit in words of the plan, for the columns of these shards; the currency is that of the data set's policy."""
        data = self.data
        features = tuple(data.features) if data.features is not None else self._other_columns(manifest)
        twice = {name for name in features if features.count(name) > 1} | ({data.target} & set(features))
        if twice:
            raise ConfigError(f"column {min(twice)!r} is named twice among data.features and data.target")
        check_columns(manifest, [*features, data.target])
        if data.row_id is not None and data.row_id not in manifest.types:
            raise DataError(f"column {data.row_id!r}, data.row_id, is missing in {manifest.shards[0].name}")
        self._check_named(features)
        bounds = [data.bounds.get(name, data.default_bounds) for name in features]
        if None in bounds:
            raise ConfigError(
                f"column {features[bounds.index(None)]!r} has no public bounds: name it in data.bounds, or set data.default_bounds"
            )
        loss, named = self.model.loss_of(), data.bounds.get(data.target)
        method = self._method()
        if named is None and data.default_bounds is None and method.bound is None and not math.isfinite(loss.lipschitz):
            raise ConfigError(
                f"nothing says how large a residual may be: name the target {data.target!r} in data.bounds, or set data.default_bounds "
                "or method.bound"
            )
        target = (
            {}
            if loss.classification or named is None
            else {"target_centre": _centre(named), "target_scale": _half(named), "target_clamped": True}
        )
        size = 1.0 if loss.classification or named is not None else _half(data.default_bounds or (-1.0, 1.0))
        return Specification(
            name=self.name,
            data_set=self.data_set,
            preprocessing=Preprocessing(
                features=features,
                target=data.target,
                centre=tuple(_centre(pair) for pair in bounds if pair),
                scale=tuple(_half(pair) for pair in bounds if pair),
                intercept=self.model.intercept,
                row_id=data.row_id,
                classification=loss.classification,
                **target,  # type: ignore[arg-type]
            ),
            budget=Budget(
                epsilon=self.privacy.epsilon, delta=self.privacy.delta, adjacency=self.privacy.adjacency, unit=data.unit, currency=currency
            ),
            loss=loss,
            penalty=self.model.penalty_of(),
            method=method,
            residual=size,
        )

    def _method(self) -> Method:
        if isinstance(self.method, str):
            return Method() if self.method == "auto" else Method(mean=self.method)
        return Method(**self.method.model_dump(exclude={"schedule"}))

    def _other_columns(self, manifest: Manifest) -> tuple[str, ...]:
        out = {self.data.target, self.data.row_id, *self.data.exclude}
        features = tuple(name for name in manifest.types if name not in out)
        if not features:
            raise ConfigError("no column is left to be a feature: shorten data.exclude or name data.features")
        return features

    def _check_named(self, features: tuple[str, ...]) -> None:
        known = {*features, self.data.target}
        for name in self.data.bounds:
            if name not in known:
                raise ConfigError(f"data.bounds names {name!r}, which is neither a feature nor the target{_nearest(name, known)}")


def _centre(pair: tuple[float, float]) -> float:
    return pair[0] + (pair[1] - pair[0]) / 2


def _half(pair: tuple[float, float]) -> float:
    return (pair[1] - pair[0]) / 2


def _folder_name(path: str) -> str:
    stem = re.split(r"[*?\[]", path)[0].rstrip("/").rsplit("/", 1)[-1]
    return re.sub(r"[^A-Za-z0-9_.-]", "_", stem.removesuffix(".parquet")) or "data"


def resolved(url: str, folder: Path) -> str:
    """An SQLite URL with its file made relative to a folder."""
    match = re.fullmatch(r"sqlite:///(?!/)(.+)", url)
    return f"sqlite:///{(folder / match[1]).resolve()}" if match else url


class _Loader(yaml.SafeLoader):
    """YAML whose floats are those of version 1.2: 1e-6 is a number."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789."))


def load(path: Path) -> Config:
    """The configuration in a file, or a ConfigError that names every fault and its cure."""
    try:
        content = yaml.load(path.read_text(), Loader=_Loader)
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration at {path}: write one with `nightfit init {path}`") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is empty: write one with `nightfit init {path}`")
    return parse(content, path.resolve().parent, str(path))


def parse(content: dict[str, Any], folder: Path, where: str = "configuration") -> Config:
    """A configuration from plain data; relative paths are relative to `folder`."""
    if "folder" in content:
        raise ConfigError(f"{where}: unknown key 'folder'")
    try:
        return Config.model_validate({**content, "folder": folder})
    except ValidationError as error:
        raise ConfigError(f"{where} is not valid:\n" + "\n".join(sorted({f"  {_fault(fault)}" for fault in error.errors()}))) from None


def _fault(fault: Any) -> str:
    place = [str(part) for part in fault["loc"] if not str(part).startswith(("<", "dict["))]
    if fault["type"] == "extra_forbidden":
        return f"unknown key {'.'.join(place)!r}{_nearest(place[-1], _keys(fault['loc'][:-1]))}"
    if fault["type"] == "missing":
        return f"{'.'.join(place)} is missing: {_purpose(place)}"
    message = fault["msg"].removeprefix("Value error, ")
    return f"{'.'.join(place)}: {message}" + (f" (got {fault['input']!r})" if isinstance(fault["input"], (int, float, str)) else "")


_SECTIONS: dict[str, type[BaseModel]] = {"<section>": MethodSection, "<local>": LocalCluster, "<remote>": RemoteCluster}


def _section(place: Iterable[Any]) -> type[BaseModel]:
    section: type[BaseModel] = Config
    for part in place:
        if part in _SECTIONS:
            section = _SECTIONS[part]
        elif part in section.model_fields:
            annotation = section.model_fields[part].annotation
            options = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type) and issubclass(kind, BaseModel)]
            section = options[0] if options else section
    return section


def _keys(place: Iterable[Any]) -> list[str]:
    return [name for name in _section(place).model_fields if name != "folder"]


def _purpose(place: list[str]) -> str:
    field = _section(place[:-1]).model_fields.get(place[-1])
    return (field.description if field else None) or "it has no default"


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(sorted(known))}"


def schema() -> dict[str, Any]:
    """The JSON schema of refit.yaml, for editors."""
    described = Config.model_json_schema()
    described["properties"].pop("folder", None)
    described["$defs"]["Model"]["properties"]["loss"]["examples"] = sorted(members(losses))
    return described
