"""What passes between the steps of a refit: a planned job. Imports every package below."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nightfit.config import Config
from nightfit.ledger import Policy, Run, RunRecord
from nightfit.ledger.policy import ALL
from nightfit.ledger.windows import window_of
from nightfit.methods.procedure import Progress
from nightfit.methods.warm_start import Previous
from nightfit.planning.plan import Plan
from nightfit.privacy.accounting import Currency
from nightfit.privacy.gate import Records
from nightfit.privacy.noise import Noise
from nightfit.release import Release
from nightfit.shards.cluster import Cluster
from nightfit.shards.manifest import Manifest

Show = Callable[[Progress], None]


class Planner(Protocol):
    """Makes a plan for the rows of a manifest."""

    def __call__(
        self, config: Config, manifest: Manifest, units: int, currency: Currency, policy: Policy | None, start: Previous | None
    ) -> Plan: ...


class Fitter(Protocol):
    """Asks a plan's queries and returns a release."""

    def __call__(self, plan: Plan, records: Records, run: Run, noise: Noise, show: Show) -> Release: ...


@dataclass(frozen=True, kw_only=True)
class Purpose:
    """What a job is for, a refit, a search or a discovery of levels: how it is planned and how its answers become a release of a model;
    None for a discovery, which fits none.
    """

    plan: Planner
    fit: Fitter | None = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A planned refit or search, made from the configuration, the footers and the ledger; no row was read.

    Attributes
    ----------
    config : Config
        The configuration.
    manifest : Manifest
        The files that it reads.
    plan : Plan
        What it asks and what that costs.
    purpose : Purpose
        Refit or search.
    division : str
        How the policy divides the data set into blocks.
    blocks : tuple of str
        The blocks that it reads and charges.
    window : str
        What identifies its run among runs of the same model.
    nights : int, optional
        How many more such runs the budget allows; None without a ledger.
    resume : str, optional
        The run that must be resumed.
    begun : RunRecord, optional
        The run of the window that is resumed or returned, if there is one.
    began : float
        When it was planned, in seconds since 1970.
    cluster : Cluster, optional
        Where it is read, if that is not the configuration's cluster.
    """

    config: Config
    manifest: Manifest
    plan: Plan
    purpose: Purpose
    division: str = ALL
    blocks: tuple[str, ...] = (ALL,)
    window: str = ""
    nights: int | None = None
    resume: str | None = None
    begun: RunRecord | None = None
    began: float = field(default_factory=time.time, compare=False)
    cluster: Cluster | None = None

    @property
    def read_on(self) -> Cluster:
        """The cluster to connect to."""
        return self.cluster or self.config.cluster_of()

    def explain(self) -> str:
        """The plan, the blocks that it reads and the nights left, in words."""
        lines = [self.plan.explain()]
        if self.division != ALL:
            lines.append(f"Window: {_listed(self.blocks)}; each is charged, and has a budget of its own.")
        if self.nights is not None:
            lines.append(window_of(self.config.data.window).describe_nights(self.nights))
        return "\n".join(lines)


def _listed(blocks: Sequence[str]) -> str:
    few = ", ".join(blocks) if len(blocks) <= 4 else f"{blocks[0]}, {blocks[1]} ... {blocks[-1]}"
    return f"{len(blocks)} block{'' if len(blocks) == 1 else 's'} ({few})"
