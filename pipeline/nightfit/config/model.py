"""The configuration of a refit, as one frozen object. Imports pydantic and packages below."""

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import Field, field_validator, model_validator

from nightfit.config import specifications
from nightfit.config.outcomes import check_target
from nightfit.config.sections import (
    LOCAL_SOLVERS,
    Card,
    ClusterChoice,
    Data,
    EvaluateChoice,
    EvaluateSection,
    LocalCluster,
    LocalMethodSection,
    MethodChoice,
    Mlflow,
    Model,
    Name,
    NamedCluster,
    Notify,
    Place,
    Privacy,
    Promote,
    RemoteCluster,
    SearchSection,
    Section,
    Security,
    Sign,
    TargetSection,
    Unsafe,
)
from nightfit.config.sections.columns import UNTOLD
from nightfit.ledger import LedgerError, Policy
from nightfit.ledger.database import check_url
from nightfit.ledger.policy import buckets_of
from nightfit.methods.local.fit import LocalMethod
from nightfit.planning.specification import AUTO, Specification, method_named
from nightfit.privacy.accounting import Currency
from nightfit.privacy.noise import Noise, NoNoise, OperatingSystemNoise, SeededNoise
from nightfit.problem.losses import Loss
from nightfit.shards.certificates import Certificates
from nightfit.shards.cluster import Auto, Cluster, Local, Named, Remote, Synchronous
from nightfit.shards.manifest import Manifest
from nightfit.shards.source import Source


class Config(Section):
    """One refit: the content of a `refit.yaml`. `nightfit.load_config` reads one."""

    name: Name = Field(description="the model's name")
    data: Data = Field(description="which records, and what is publicly known of them")
    privacy: Privacy = Field(description="what this refit may cost, and all refits together")
    model: Model = Field(Model(), description="what is fitted")
    method: MethodChoice = Field("auto", description="how it is fitted: auto, the name of a solver or gradient estimator, or a section")
    ledger: Place = Field("sqlite:///ledger.db", description="SQLAlchemy URL; a relative file is relative to this one")
    cluster: ClusterChoice = Field(LocalCluster(), description="where the records are read")
    output: Place = Field(
        "releases",
        description="folder of the releases, relative to this file; or the URL of a store for copies of those in `releases`",
    )
    evaluate: EvaluateChoice | None = Field(
        None,
        description="how good the fit is, asked of units that are set aside; none fits on all units. Without this key: {share: 0.2} "
        "wherever a fit can be evaluated, and the plan says where not",
    )
    promote: Promote = Field(
        "when better", description="when a release comes into use: when better than the current one, always, or by hand"
    )
    card: Card | None = Field(None, description="what the model card says of use, limits and contact")
    notify: Notify | None = Field(None, description="who is told of a failure, a refusal, few nights left, a worse metric, a missed night")
    mlflow: Mlflow | None = Field(None, description="a tracking server that private releases are logged to")
    sign: Sign | None = Field(None, description="releases are signed, so that others can check whose they are")
    search: SearchSection | None = Field(None, description="settings that `nightfit search` tries; a refit does not look at them")
    unsafe: Unsafe | None = Field(None, description="for tests: seeded or no noise; the release is stamped private: false")
    folder: Path = Field(Path("."), exclude=True, description="where this file lies; set by `load`")

    @field_validator("method")
    @classmethod
    def _method_exists(cls, value: MethodChoice) -> MethodChoice:
        if isinstance(value, str) and value not in LOCAL_SOLVERS:
            method_named(value)
        return value

    @field_validator("output")
    @classmethod
    def _is_a_folder_or_a_store(cls, value: str) -> str:
        if "://" in value and not re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/\s?:]+(/[^\s?]*)?", value):  # user:password@ has a colon
            raise ValueError(
                "a URL is written s3://bucket/folder, without what opens the store: that comes from its own environment variables"
            )
        return value.rstrip("/") if "://" in value else value

    @field_validator("ledger")
    @classmethod
    def _is_a_database(cls, value: str) -> str:
        try:
            check_url(value)
        except LedgerError as error:
            raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _target_suits_the_model(self) -> "Config":
        if self.model.kind == "mean" and self.data.target is not None:
            raise ValueError("data.target is the column to be predicted, and model.kind mean predicts none: remove it")
        if self.model.kind != "mean" and self.data.target is None:
            raise ValueError("data.target is missing: name the column to be predicted (only model.kind mean has none)")
        if self.model.kind == "multinomial" and self.method != AUTO:
            raise ValueError("several classes are fitted by `auto` alone: use `method: auto`, or kind logistic for each label")
        if self.data.target is not None:
            target = self.data.target
            check_target(self.model, target if isinstance(target, TargetSection) else TargetSection(column=target))
        return self

    @model_validator(mode="after")
    def _method_suits_the_trust(self) -> "Config":
        if (self.local_method() is not None) != (self.privacy.trust == "local"):
            raise ValueError(
                "privacy.trust local goes with the method djw or prestige, and with no other: `privacy: {trust: local}` and "
                "`method: {solver: djw}`, or remove both"
            )
        return self

    @model_validator(mode="after")
    def _columns_are_described(self) -> "Config":
        self.data.with_levels(dict.fromkeys(self.data.to_discover, UNTOLD)).described(self.folder)
        return self

    @property
    def data_set(self) -> str:
        """The data set's name in the ledger."""
        return self.data.name or folder_name(self.data.path)

    @property
    def output_folder(self) -> Path:
        """The folder of releases."""
        return self.folder / ("releases" if self.output_url is not None else self.output)

    @property
    def output_url(self) -> str | None:
        """Where copies of releases go, if they go to a store."""
        return self.output if "://" in self.output else None

    @property
    def signing_key(self) -> Path | None:
        """The file of the key that signs releases, if they are signed."""
        return None if self.sign is None else self.folder / self.sign.key

    @property
    def performance_report(self) -> Path | None:
        """The file of Dask's performance report, if one is asked for."""
        named = self.cluster.performance_report
        return None if named is None else self.folder / named

    @property
    def data_path(self) -> str:
        """Path or URL of the shards."""
        return self.data.path if "://" in self.data.path else str(self.folder / self.data.path)

    @property
    def source(self) -> Source:
        """Where the shards are."""
        data = self.data
        return Source(path=self.data_path, options=data.storage_options, format=data.format, version=data.version)

    @property
    def ledger_url(self) -> str:
        """SQLAlchemy URL of the ledger, with an absolute path."""
        return resolved(self.ledger, self.folder)

    @property
    def evaluation(self) -> EvaluateSection | None:
        """How the fit is evaluated: as stated, or by default where a plan can be; None for `evaluate: none`."""
        if self.evaluate is None:
            return EvaluateSection()
        return None if self.evaluate == "none" else self.evaluate

    @property
    def must_evaluate(self) -> bool:
        """Whether a fit that cannot be evaluated is refused: evaluation was asked for, and is no default."""
        return self.evaluate is not None

    def loss_of(self) -> Loss:
        """The loss of the model's kind, for this target."""
        return self.model.loss_of(self.data.target_bounds, max(2, len(self.data.outcome.classes)))

    def local_method(self) -> LocalMethod | None:
        """The method, if it is a local protocol."""
        if isinstance(self.method, LocalMethodSection):
            return LocalMethod(**self.method.model_dump())
        return LocalMethod(solver=cast(Any, self.method)) if self.method in LOCAL_SOLVERS else None

    def noise(self) -> Noise:
        """The source of noise: the operating system's, unless the `unsafe` section says otherwise."""
        if self.unsafe is None:
            return OperatingSystemNoise()
        return NoNoise() if self.unsafe.noise == "none" else SeededNoise(np.random.default_rng(self.unsafe.seed))

    def cluster_of(self) -> Cluster:
        """The cluster to connect to; paths are absolute."""
        section = self.cluster
        if isinstance(section, RemoteCluster):
            return Remote(address=section.address, certificates=self._certificates(section.security))
        if isinstance(section, NamedCluster):
            return Named(
                path=section.class_,
                arguments=section.arguments,
                workers=section.workers,
                scale=section.scale,
                adapt=None if section.adapt is None else (section.adapt.minimum, section.adapt.maximum),
                timeout=section.timeout,
                certificates=self._certificates(section.security),
            )
        if section.kind == "synchronous":
            return Synchronous()
        directory = str(self.folder / section.directory) if section.directory else None
        local = Local(
            workers=section.workers, memory=section.memory, threads=section.threads, directory=directory, dashboard=section.dashboard
        )
        return Auto(local=local) if section.kind == "auto" else local

    def _certificates(self, section: Security | None) -> Certificates | None:
        if section is None:
            return None
        return Certificates(**{name: str(self.folder / path) for name, path in section.model_dump().items()})

    def policy(self) -> Policy | None:
        """The lifetime budget that the configuration states, if any, as a ledger would make it."""
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
            row_id=self.data.row_id if buckets_of(self.data.blocks or "all") is not None and self.data.person is None else None,
        ).made()

    def units(self, manifest: Manifest, chosen: tuple[int, int] = (1, 1)) -> int:
        """The public number of units in a manifest; see `specifications.unit_count`."""
        return specifications.unit_count(self, manifest, chosen)

    def specification(self, manifest: Manifest, currency: Currency, policy: Policy | None = None) -> Specification:
        """The specification of a refit of these shards; see `specifications.specification_of`."""
        return specifications.specification_of(self, manifest, currency, policy)

    def largest_loss(self, specification: Specification) -> float:
        """The loss to which a record's loss is clipped in a search's score; see `specifications.largest_loss`."""
        return specifications.largest_loss(self, specification)


def folder_name(path: str) -> str:
    """The default name of a data set: that of its folder or file, with `_` for letters that a name may not have."""
    stem = re.split(r"[*?\[]", path)[0].rstrip("/").rsplit("/", 1)[-1]
    return re.sub(r"[^A-Za-z0-9_.-]", "_", stem.removesuffix(".parquet")) or "data"


def resolved(url: str, folder: Path) -> str:
    """An SQLite URL with its relative path made absolute, from a folder; other URLs unchanged."""
    match = re.fullmatch(r"sqlite:///(?!/)(.+)", url)
    return f"sqlite:///{(folder / match[1]).resolve()}" if match else url
