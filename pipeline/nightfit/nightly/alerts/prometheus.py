"""A night's public numbers as a text file for Prometheus' node exporter. Imports the night and the release.

Everything in it is public or paid for, but for one thing: how long a night took, which is rounded up to minutes (privacy.md lists it as a
known side channel).
"""

import math
import time
from collections.abc import Iterator
from datetime import datetime

from nightfit.ledger import Ledger
from nightfit.nightly.job import Job
from nightfit.nightly.night import Night
from nightfit.release import write_atomically
from nightfit.release.balance import share_left

Sample = tuple[str, dict[str, str], float]
HELP = {
    "budget_left_ratio": "share of a block's budget that is left, in the amount in which the ledger adds",
    "nights_left": "nights like this one that the budget allows",
    "last_success_timestamp_seconds": "when the newest release was begun",
    "metric": "paid metric of the newest release, with its interval",
    "units": "units that a refit reads, as the configuration states them",
    "rows": "rows that a refit reads, where their number is public",
    "duration_minutes": "how long the newest night took, rounded up",
}
ESCAPED = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def write(job: Job, ledger: Ledger, night: Night) -> None:
    """Replace the configured file, if there is one; a place that cannot be written is warned of by the caller."""
    if job.config.notify is not None and job.config.notify.prometheus is not None:
        path = job.config.folder / job.config.notify.prometheus
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text(_samples(job, ledger, night)))
        path.chmod(0o644)  # another user's exporter reads it; everything in it is public


def text(samples: Iterator[Sample]) -> str:
    """Samples in Prometheus' text format, each family with its help."""
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        inner = ",".join(f'{key}="{value.translate(ESCAPED)}"' for key, value in labels.items())
        number = "+Inf" if math.isinf(value) else repr(float(value))
        families.setdefault(name, []).append(f"nightfit_{name}{{{inner}}} {number}\n")
    return "".join(
        f"# HELP nightfit_{name} {HELP[name]}\n# TYPE nightfit_{name} gauge\n{''.join(lines)}" for name, lines in families.items()
    )


def _samples(job: Job, ledger: Ledger, night: Night) -> Iterator[Sample]:
    config, specification = job.config, job.plan.specification
    model = {"model": config.name, "data_set": config.data_set}
    limit = ledger.policies()[config.data_set].limit()
    for block, spent in ledger.accounts(config.data_set).items():
        yield "budget_left_ratio", {"data_set": config.data_set, "block": block}, share_left(spent, limit)
    yield "nights_left", model, math.inf if night.goes_on else night.nights_left
    if night.release.private:
        yield "last_success_timestamp_seconds", model, datetime.fromisoformat(night.release.content["time"]).timestamp()
    for name, found in (night.evaluation.metrics if night.evaluation is not None else {}).items():
        for bound in ("value", "low", "high"):
            yield "metric", {**model, "metric": name, "bound": bound}, {"value": found.value, "low": found.low, "high": found.high}[bound]
    yield "units", model, job.plan.units
    if specification.counted:
        yield "rows", model, job.manifest.rows
    yield "duration_minutes", model, math.ceil(max(0.0, time.time() - job.began) / 60)
