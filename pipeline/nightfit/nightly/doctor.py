"""Everything that a night needs, checked one by one, with a cure for what is missing. Reserves and reads nothing. Imports below.

A check returns what it found; none ends the others. What a check cannot look at is said, not passed over.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from packaging.requirements import Requirement

from nightfit.config import Config
from nightfit.ledger import Ledger
from nightfit.nightly.copies import check_store
from nightfit.nightly.job import Job
from nightfit.nightly.preparation import prepare
from nightfit.nightly.readiness import check_output
from nightfit.nightly.witness import check_not_older, place_of, remember
from nightfit.release.signing import load_key
from nightfit.shards.certificates import Certificates, certificate_end
from nightfit.shards.cluster import Remote, connected
from nightfit.shards.watchdog import workers_of
from nightfit.types import NightfitError

NETWORK_DISKS = ("nfs", "cifs", "smb", "9p", "afs", "ceph", "gluster", "lustre", "fuse.sshfs", "fuse.s3fs")  # SQLite's locks fail on them
BACKUP_AGE = timedelta(days=2)  # two nights: the last one and one that failed
CLOCK_SLACK = timedelta(minutes=5)  # between machines whose clocks are set by the network
CERTIFICATE_LEFT = timedelta(days=14)  # time to renew one by hand

State = Literal["ok", "look", "wrong"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One check: what was looked at, whether it is in order, what was found, and what to do about it."""

    name: str
    state: State
    found: str
    cure: str = ""


def examine(config: Config, *, nights: int = 1, backup: Path | None = None) -> Iterator[Finding]:
    """Check all that a night of this configuration needs.

    Parameters
    ----------
    config : Config
        The configuration.
    nights : int
        For how many nights the budget should be enough.
    backup : Path, optional
        The newest backup of the ledger.

    Yields
    ------
    Finding
    """
    yield of_versions()
    yield from _told("ledger", lambda: _of_ledger(config))
    yield from _told("backup", lambda: _of_backup(config, backup))
    yield from _told("data and plan", lambda: _of_plan(prepare(config), nights))
    yield from _told("output", lambda: _of_output(config))
    yield from _told("signing key", lambda: _of_key(config))
    yield from _told("cluster", lambda: _of_cluster(config))


def _told(name: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """The findings of a check; a message of ours is a finding too, which names its cure."""
    try:
        yield from check()
    except NightfitError as error:
        yield Finding(name=name, state="wrong", found=str(error))


def of_versions() -> Finding:
    """Whether the installed packages, those of the extra `nightly` too, are those that this version of nightfit allows."""
    wrong = []
    for text in metadata.requires("nightfit") or ():
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": "nightly"}):
            try:
                installed = metadata.version(needed.name)
            except metadata.PackageNotFoundError:
                installed = "not installed"
            if installed == "not installed" or not needed.specifier.contains(installed, prereleases=True):
                wrong.append(f"{needed.name} {installed} (needs {needed.specifier})")
    if wrong:
        return Finding(name="versions", state="wrong", found="; ".join(wrong), cure="pip install -c constraints.txt 'nightfit[nightly]'")
    return Finding(name="versions", state="ok", found=f"nightfit {metadata.version('nightfit')} and all that it needs")


def _of_ledger(config: Config) -> Iterator[Finding]:
    ledger = Ledger.open(config.ledger_url)
    try:
        weak = ledger.durability()
        disk = _disk_of(ledger.path)
        runs = ledger.runs()
        check_not_older(ledger)
        remembered = remember(ledger)
    finally:
        ledger.engine.dispose()
    if not remembered:
        yield Finding(
            name="older copies",
            state="look",
            found=f"{place_of(ledger)} cannot be written: that a copy of the ledger is an older one is seen by its own releases alone",
            cure="name a folder that this user may write to in XDG_STATE_HOME",
        )
    if weak:
        yield Finding(
            name="ledger", state="wrong", found=f"a committed charge may be lost: {weak}", cure="set fsync and synchronous_commit on"
        )
    elif disk.startswith(NETWORK_DISKS):
        yield Finding(
            name="ledger",
            state="wrong",
            found=f"it lies on a network disk ({disk}), whose locks SQLite cannot trust",
            cure="move it to a local disk, or to PostgreSQL",
        )
    else:
        yield Finding(name="ledger", state="ok", found=f"{ledger.place}, {len(runs)} runs, commits reach the disk")
    ahead = max((datetime.fromisoformat(run["started"]) for run in runs), default=datetime.now(UTC)) - datetime.now(UTC)
    if ahead > CLOCK_SLACK:
        yield Finding(
            name="clock",
            state="wrong",
            found=f"the ledger's last run started {ahead} after what is now here",
            cure="set this machine's clock by the network (timedatectl set-ntp true)",
        )
    else:
        yield Finding(name="clock", state="ok", found=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, after the ledger's last run")


def _disk_of(path: Path | None) -> str:
    """The kind of the file system that a file lies on; empty if there is no file, or Linux does not tell."""
    mounts = Path("/proc/self/mounts")
    if path is None or not mounts.exists():
        return ""
    places = [line.split()[1:3] for line in mounts.read_text().splitlines()]
    inside = [(len(place), kind) for place, kind in places if path.resolve().is_relative_to(place)]
    return max(inside)[1] if inside else ""


def _of_backup(config: Config, backup: Path | None) -> Iterator[Finding]:
    cure = "back the ledger up after every night (docs/guides/backup.md)"
    if backup is None:
        yield Finding(name="backup", state="look", found="not looked at: name the newest copy with --backup", cure=cure)
        return
    ledger, copy = Ledger.open(config.ledger_url), Ledger.open(f"sqlite:///{backup.resolve()}")
    same = ledger.ledger_id == copy.ledger_id
    missing = len(ledger.runs()) - len(copy.runs())
    for opened in (ledger, copy):
        opened.engine.dispose()
    age = datetime.now(UTC) - datetime.fromtimestamp(backup.stat().st_mtime, UTC)
    if not same:
        yield Finding(name="backup", state="wrong", found=f"{backup} is a copy of another ledger", cure=cure)
    elif missing or age > BACKUP_AGE:
        yield Finding(name="backup", state="wrong", found=f"{backup} lacks {missing} runs and is {age.days} days old", cure=cure)
    else:
        yield Finding(name="backup", state="ok", found=f"{backup} has every run")


def _of_plan(job: Job, nights: int) -> Iterator[Finding]:
    found = f"{len(job.manifest.shards)} files, epsilon {job.plan.epsilon:.3g} a night"
    yield Finding(name="data and plan", state="ok", found=found)
    if job.nights is None:
        yield Finding(name="budget", state="wrong", found="no ledger keeps one", cure="nightfit ledger init --config refit.yaml")
    elif job.nights < nights:
        yield Finding(
            name="budget",
            state="wrong",
            found=f"{job.nights} nights are left, {nights} are asked for",
            cure="lower privacy.epsilon, or let more nights share the budget (data.window: rotate)",
        )
    else:
        yield Finding(name="budget", state="ok", found=f"{job.nights} nights are left")


def _of_output(config: Config) -> Iterator[Finding]:
    check_output(config.output_folder)
    yield Finding(name="output", state="ok", found=f"{config.output_folder} can be written")
    if config.output_url is not None:
        check_store(config.output_url)
        yield Finding(name="output", state="ok", found=f"{config.output_url} can be written")


def _of_key(config: Config) -> Iterator[Finding]:
    if config.signing_key is not None:
        load_key(config.signing_key)
        yield Finding(name="signing key", state="ok", found=f"{config.signing_key} can sign")


def _of_cluster(config: Config) -> Iterator[Finding]:
    cluster = config.cluster_of()
    if not isinstance(cluster, Remote):
        yield Finding(name="cluster", state="ok", found="made for each run; whether it can be made is seen then, before anything is asked")
        return
    yield from _of_connection(cluster)
    with connected(cluster) as client:
        yield Finding(name="cluster", state="ok", found=f"{len(workers_of(client))} workers of the same versions at {cluster.address}")


def _of_connection(cluster: Remote) -> Iterator[Finding]:
    host = urlsplit(cluster.address).hostname or ""
    if not cluster.address.startswith("tls://"):
        here = host in ("localhost", "::1") or host.startswith("127.")
        found = "plain TCP, on this machine alone" if here else "plain TCP: whoever reaches the port runs code beside the data"
        yield Finding(name="TLS", state="ok" if here else "wrong", found=found, cure="" if here else "use tls:// and cluster.security")
    elif cluster.certificates is not None:
        yield _of_certificate(cluster.certificates)


def _of_certificate(certificates: Certificates) -> Finding:
    left = certificate_end(certificates.client_cert) - datetime.now(UTC)
    state: State = "ok" if left > CERTIFICATE_LEFT else "look"
    name = os.path.basename(certificates.client_cert)
    return Finding(name="TLS", state=state, found=f"{name} is valid for {left.days} days", cure="" if state == "ok" else "renew it")
