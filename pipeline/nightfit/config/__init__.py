"""refit.yaml: every choice of a refit, validated before anything is read. Imports pydantic, yaml and rooms below."""

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from nightfit.config.faults import ConfigError, nearest, told
from nightfit.config.sections import (
    LOCAL_SOLVERS,
    NAME,
    ClusterChoice,
    Data,
    LocalCluster,
    LocalMethodSection,
    MethodChoice,
    Model,
    NamedCluster,
    Privacy,
    RemoteCluster,
    SearchSection,
    Section,
    Security,
    Unsafe,
)
from nightfit.ledger import Policy
from nightfit.methods.local.fit import LocalMethod
from nightfit.methods.loop.theory import Moment
from nightfit.planning.defaults import MOST_ROWS
from nightfit.planning.specification import AUTO, Budget, Method, Specification, method_named
from nightfit.plugins import members
from nightfit.privacy.accounting import UNIT, Currency, epsilon_for, limit
from nightfit.privacy.noise import Noise, NoNoise, OperatingSystemNoise, SeededNoise
from nightfit.problem import losses
from nightfit.problem.losses import Loss
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import ANYWHERE, Target, Treatment, treatment
from nightfit.shards.cluster import Certificates, Cluster, Local, Named, Remote, Synchronous
from nightfit.shards.manifest import DataError, Manifest, check_columns, check_identifies
from nightfit.types import Adjacency

__all__ = ["Config", "ConfigError", "folder_name", "load", "parse", "resolved", "schema"]


class Config(Section):
    """One refit."""

    name: str = Field(pattern=NAME, description="the model's name")
    data: Data = Field(description="which records, and what is publicly known of them")
    privacy: Privacy = Field(description="what this refit may cost, and all refits together")
    model: Model = Field(Model(), description="what is fitted")
    method: MethodChoice = Field("auto", description="how it is fitted: auto, the name of a solver or gradient estimator, or a section")
    ledger: str = Field("sqlite:///ledger.db", description="SQLAlchemy URL; a relative file is relative to this one")
    cluster: ClusterChoice = Field(LocalCluster(), description="where the records are read")
    output: str = Field("releases", description="folder of the releases; relative to this file")
    search: SearchSection | None = Field(None, description="settings that `nightfit search` tries; a refit does not look at them")
    unsafe: Unsafe | None = Field(None, description="for tests: seeded or no noise; the release is stamped private: false")
    folder: Path = Field(Path("."), exclude=True, description="where this file lies; set by `load`")

    @field_validator("method")
    @classmethod
    def _preset(cls, value: MethodChoice) -> MethodChoice:
        if isinstance(value, str) and value not in LOCAL_SOLVERS:
            method_named(value)
        return value

    @model_validator(mode="after")
    def _target(self) -> "Config":
        if self.model.kind == "mean" and self.data.target is not None:
            raise ValueError("data.target is the column to be predicted, and model.kind mean predicts none: remove it")
        if self.model.kind != "mean" and self.data.target is None:
            raise ValueError("data.target is missing: name the column to be predicted (only model.kind mean has none)")
        return self

    @model_validator(mode="after")
    def _trusted(self) -> "Config":
        if (self.local_method() is not None) != (self.privacy.trust == "local"):
            raise ValueError(
                "privacy.trust local goes with the method djw or prestige, and with no other: `privacy: {trust: local}` and "
                "`method: {solver: djw}`, or remove both"
            )
        return self

    def local_method(self) -> LocalMethod | None:
        """The method, if it is one of local reports."""
        if isinstance(self.method, LocalMethodSection):
            return LocalMethod(**self.method.model_dump())
        return LocalMethod(solver=cast(Any, self.method)) if self.method in LOCAL_SOLVERS else None

    @property
    def data_set(self) -> str:
        return self.data.name or folder_name(self.data.path)

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
        if self.unsafe is None:
            return OperatingSystemNoise()
        return NoNoise() if self.unsafe.noise == "none" else SeededNoise(np.random.default_rng(self.unsafe.seed))

    def cluster_of(self) -> Cluster:
        said = self.cluster
        if isinstance(said, RemoteCluster):
            return Remote(address=said.address, certificates=self._certificates(said.security))
        if isinstance(said, NamedCluster):
            return Named(
                path=said.class_,
                arguments=said.arguments,
                workers=said.workers,
                timeout=said.timeout,
                certificates=self._certificates(said.security),
            )
        if said.kind == "synchronous":
            return Synchronous()
        directory = str(self.folder / said.directory) if said.directory else None
        return Local(workers=said.workers, memory=said.memory, threads=said.threads, directory=directory)

    def _certificates(self, said: Security | None) -> Certificates | None:
        if said is None:
            return None
        return Certificates(**{name: str(self.folder / path) for name, path in said.model_dump().items()})

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
            blocks=self.data.blocks or "all",
            per=lifetime.per,
        )

    def epsilon(self, currency: Currency, policy: Policy | None) -> float:
        """What this refit may cost: as stated, or the largest epsilon of which `pace` refits fit the lifetime budget."""
        if self.privacy.pace is None:
            return self.privacy.epsilon_in(currency)
        if policy is None:
            raise ConfigError("privacy.pace divides a lifetime budget, and there is none: add `privacy: lifetime:`, or set a policy")
        share = policy.limit().amount // self.privacy.pace
        try:
            return largest_epsilon(share, self.privacy.delta, policy.currency)
        except ValueError:
            raise ConfigError(f"privacy.pace {self.privacy.pace} leaves less than epsilon 0.001 for a refit: use a smaller pace") from None

    def units(self, manifest: Manifest, chosen: tuple[int, int] = (1, 1)) -> int:
        """The public number of units: the footers' row count, or data.units where that is not public, as of persons. Of K of N
        buckets, `chosen`, it is that number K / N rounded down: a constant, whatever ids the records have.
        """
        counted = self.privacy.adjacency is not Adjacency.ADD_REMOVE and self.data.person is None
        if counted and self.data.units is not None:
            raise ConfigError(
                f"data.units is for persons and for add_remove; under {self.privacy.adjacency} the number of rows is public and counted: "
                "remove it"
            )
        if not counted and self.data.units is None:
            raise ConfigError("under add_remove the number of records is private: state a public one in data.units (it divides every mean)")
        if manifest.rows >= MOST_ROWS:
            raise DataError(
                f"{self.data.path} has {MOST_ROWS:,} rows or more: sums would not fit in 64 bits; read parts of it, each a data set"
            )
        return (manifest.rows if self.data.units is None else self.data.units) * chosen[0] // chosen[1]

    def specification(self, manifest: Manifest, currency: Currency, policy: Policy | None = None) -> Specification:
        """The refit in words of the plan, for the columns of these shards; the currency is that of the data set's policy, of which
        `privacy.pace` takes its share.
        """
        data, columns = self.data, self.model.columns or self.data.features
        features = tuple(columns) if columns is not None else self._other_columns(manifest)
        twice = {name for name, times in Counter(features).items() if times > 1} | ({data.target, data.person} & set(features))
        if twice:
            raise ConfigError(f"column {min(map(str, twice))!r} is named twice among data.features, data.target and data.unit")
        check_columns(manifest, [*features, *([data.target] if data.target else [])])
        if data.row_id is not None and data.row_id not in manifest.types:
            raise DataError(f"column {data.row_id!r}, data.row_id, is missing in {manifest.shards[0].name}")
        if data.person is not None:
            check_identifies(manifest, data.person)
        self._check_named(features)
        bounds = [data.bounds.get(name, data.default_bounds) for name in features]
        automatic = self.method == AUTO and self.model.kind == "linear"
        if None in bounds and not automatic:
            raise ConfigError(
                f"column {features[bounds.index(None)]!r} has no public bounds: name it in data.bounds, or set data.default_bounds"
            )
        loss, named = self.model.loss_of(), data.bounds.get(data.target or "")
        method = self._method()
        unknown = named is None and data.default_bounds is None and method.bound is None and not math.isfinite(loss.lipschitz)
        if unknown and not (automatic and loss.estimand):
            raise ConfigError(
                f"nothing says how large a residual may be: name the target {data.target!r} in data.bounds, or set data.default_bounds "
                "or method.bound"
            )
        return Specification(
            name=self.name,
            data_set=self.data_set,
            preprocessing=Preprocessing(
                features=features,
                target=data.target,
                centre=tuple(_centre(pair or UNKNOWN) for pair in bounds),
                scale=tuple(_half(pair or UNKNOWN) for pair in bounds),
                reach=tuple(1.0 if pair else math.inf for pair in bounds) if None in bounds else (),
                intercept=self.model.intercept and self.model.kind == "linear",
                row_id=data.row_id,
                unit=data.person,
                rows_per_unit=data.rows_per_unit if data.person is not None else 1,
                precision=data.precision,
                target_domain=loss.target,
                **self._treatment(loss, named),
            ),
            budget=Budget(
                epsilon=self.epsilon(currency, policy),
                delta=self.privacy.delta,
                adjacency=self.privacy.adjacency,
                unit=data.unit,
                currency=currency,
            ),
            loss=loss,
            penalty=self.model.penalty_of(),
            method=method,
            local=self.local_method(),
            residual=self._residual(loss, named),
        )

    def _treatment(self, loss: Loss, named: tuple[float, float] | None) -> Treatment:
        """What the target's public bounds do to it, as the loss allows."""
        treated = treatment(loss.target, loss.scalable, named)
        if not loss.target.clamps(*treated.get("target_reach", ANYWHERE)):
            raise ConfigError(
                f"the loss {loss.name} is for {loss.target}: the bounds of {self.data.target!r} in data.bounds must be {loss.target} too"
            )
        return treated

    def _residual(self, loss: Loss, named: tuple[float, float] | None) -> float:
        """The public size of a residual, in units of the (scaled) target: half the width of its bounds; one for labels and columns."""
        if loss.target is Target.LABELS or self.data.target is None:
            return 1.0
        if named is not None:
            return 1.0 if loss.scalable else _half(named)
        return _half(self.data.default_bounds or UNKNOWN)

    def largest_loss(self, said: Specification) -> float:
        """The loss beyond which a record counts no more in a search's score: at the margin 0, that of a target which exceeds the
        prediction by `search.bound`, or by half the width of its public bounds; of a label, at the margin -search.bound, or -2.
        """
        bound = self.search.bound if self.search is not None else None
        shape = said.preprocessing
        if shape.classification:
            y, z = 1.0, -(bound or 2.0)
        elif bound is None and self.data.default_bounds is None and (self.data.target or "") not in self.data.bounds:
            raise ConfigError(f"nothing says how large a residual may be: set search.bound, or name {self.data.target!r} in data.bounds")
        else:
            residual = said.residual if bound is None else bound / shape.target_scale
            y, z = float(said.loss.link.inverse(np.zeros(1))[0]) + residual, 0.0
        return float(said.loss.value(np.array([y]), np.array([z]))[0])

    def _method(self) -> Method:
        if self.local_method() is not None or isinstance(self.method, LocalMethodSection):
            return Method()
        if isinstance(self.method, str):
            return method_named(self.method)
        moment = self.method.moment
        said = self.method.model_dump(exclude={"moment"})
        return Method(**said, moment=None if moment is None else Moment(order=moment.order, bound=moment.bound))

    def _other_columns(self, manifest: Manifest) -> tuple[str, ...]:
        out = {self.data.target, self.data.row_id, self.data.person, *self.data.exclude}
        features = tuple(name for name in manifest.types if name not in out)
        if not features:
            raise ConfigError("no column is left to be a feature: shorten data.exclude or name data.features")
        return features

    def _check_named(self, features: tuple[str, ...]) -> None:
        known = {*features, *([self.data.target] if self.data.target else [])}
        for name in self.data.bounds:
            if name not in known:
                raise ConfigError(f"data.bounds names {name!r}, which is neither a feature nor the target{nearest(name, known)}")


UNKNOWN = (-1.0, 1.0)  # centre 0 and scale 1 of a column whose bounds will be paid for


def largest_epsilon(amount: int, delta: float, currency: Currency) -> float:
    """The largest epsilon, to 1e-6 of it, whose limit at delta is at most this amount; ValueError if it is below 0.001."""
    sum_of = float(amount * UNIT)  # of epsilons, of mu^2 = 2 rho, or of rho
    rho = sum_of / 2 if currency is Currency.GAUSSIAN else sum_of
    epsilon = min(30.0, sum_of if currency is Currency.PURE else epsilon_for(rho, delta, currency))
    while limit(epsilon, delta, currency).amount > amount:
        epsilon *= 1 - 1e-7
    return epsilon


def _centre(pair: tuple[float, float]) -> float:
    return pair[0] + (pair[1] - pair[0]) / 2


def _half(pair: tuple[float, float]) -> float:
    return (pair[1] - pair[0]) / 2


def folder_name(path: str) -> str:
    """What a data set is called if nobody says: as its folder or file, in letters that a name may have."""
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
        raise ConfigError(
            f"{where} is not valid:\n" + "\n".join(sorted({f"  {told(fault, Config)}" for fault in error.errors()}))
        ) from None


def schema() -> dict[str, Any]:
    """The JSON schema of refit.yaml, for editors."""
    described = Config.model_json_schema()
    described["properties"].pop("folder", None)
    described["$defs"]["Model"]["properties"]["loss"]["examples"] = sorted(members(losses))
    return described
