"""The section `cluster`: where the work runs. Imports pydantic."""

import difflib
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Discriminator, Field, Tag, field_validator, model_validator

from nightfit.config.sections.base import Place, Section
from nightfit.shards.cluster import IN_PROCESS_BYTES


class _Reported(Section):
    performance_report: Place | None = Field(
        None, description="file of Dask's performance report, written anew by each refit; relative to this file; needs the extra dashboard"
    )


class LocalCluster(_Reported):
    kind: Literal["auto", "local", "synchronous"] = Field(
        "auto",
        description="worker processes of this machine (local), none (synchronous: all work in this process), or auto: none if the decoded "
        f"rows have at most {IN_PROCESS_BYTES // 2**20} MiB",
    )
    workers: int = Field(2, ge=1, description="how many processes")
    memory: str = Field(
        "1GiB", pattern=r"^[0-9]*[1-9][0-9]*(\.[0-9]+)? ?[KMGT]?i?B$|^0\.[0-9]*[1-9][0-9]* ?[KMGT]i?B$", description="of each worker"
    )
    threads: int = Field(1, ge=1, description="of each worker")
    directory: Place | None = Field(None, description="where workers keep decoded rows that do not fit in memory; relative to this file")
    dashboard: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="port of this machine's loopback for Dask's dashboard while a refit runs; needs the extra dashboard",
    )

    @model_validator(mode="after")
    def _has_workers_to_tell_of(self) -> "LocalCluster":
        for name in ("performance_report", "dashboard"):
            if self.kind != "local" and name in self.model_fields_set:
                raise ValueError(f"cluster.{name} tells of workers, and cluster.kind {self.kind} may have none: say `kind: local`")
        return self


class Security(Section):
    """TLS of the cluster's connections; plain ones are refused. Paths are relative to this file."""

    ca_file: Place = Field(description="certificate of the authority that signed all others")
    client_cert: Place = Field(description="this side's certificate")
    client_key: Place = Field(description="its key")


class RemoteCluster(_Reported):
    address: str = Field(pattern=r"^(tcp|tls|ucx|ws|wss)://[^/\s]+$", description="of a running dask scheduler")
    security: Security | None = Field(None, description="certificates of the connections; without it, those of Dask's own settings")

    @field_validator("address")
    @classmethod
    def _has_host_and_port(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            whole = parts.hostname is not None and parts.port is not None and parts.port > 0
        except ValueError:
            whole = False
        if not whole:
            raise ValueError("an address is written tcp://host:8786, with a port from 1 to 65535")
        return value


class Adapt(Section):
    minimum: int = Field(ge=0, description="of workers")
    maximum: int = Field(ge=1, description="of workers")


class NamedCluster(_Reported):
    class_: str = Field(
        alias="class",
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)+$",
        description="import path of a Dask cluster class, or of a function that returns a cluster or a client; made for the run",
    )
    arguments: dict[str, Any] = Field({}, description="its keyword arguments")
    workers: int = Field(1, ge=1, description="the run starts when so many have come")
    scale: int | None = Field(None, ge=1, description="ask the cluster for so many workers")
    adapt: Adapt | None = Field(None, description="let the cluster have as many as it needs, between two numbers")
    timeout: float = Field(300.0, gt=0, description="seconds to wait for them")
    security: Security | None = Field(None, description="certificates of the connections; without it, those of Dask's own settings")

    @model_validator(mode="after")
    def _scaled_one_way(self) -> "NamedCluster":
        if self.scale is not None and self.adapt is not None:
            raise ValueError("cluster.scale asks for a number of workers and cluster.adapt for a range: give one of them")
        most = self.scale if self.adapt is None else self.adapt.maximum
        if most is not None and most < self.workers:
            raise ValueError(f"cluster.workers waits for {self.workers} workers, and at most {most} are asked for: it would wait in vain")
        return self


def _section(value: Any) -> Any:
    """A word instead of a section: a kind, or the address of a scheduler."""
    if isinstance(value, str):
        return {"address": value} if "://" in value else {"kind": value}
    return value


def _kind(value: Any) -> str:
    keys = list(value) if isinstance(value, dict) else []
    if isinstance(value, NamedCluster) or "class" in keys:
        return "<named>"
    remote = isinstance(value, RemoteCluster) or any(difflib.get_close_matches(str(key), ["address"], cutoff=0.7) for key in keys)
    return "<remote>" if remote else "<local>"


ClusterChoice = Annotated[
    Annotated[LocalCluster, Tag("<local>")] | Annotated[RemoteCluster, Tag("<remote>")] | Annotated[NamedCluster, Tag("<named>")],
    Discriminator(_kind),
    BeforeValidator(_section),
]
