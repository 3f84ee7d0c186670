"""Step 4: write release and report, decide about promotion, and compute what is left. Imports release, ledger and below."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightfit.config import Config
from nightfit.ledger import Ledger, Policy
from nightfit.ledger.policy import ALL
from nightfit.ledger.windows import times, window_of
from nightfit.nightly.alerts import prometheus, tell
from nightfit.nightly.alerts.occasions import of_night
from nightfit.nightly.copies import copy_releases
from nightfit.nightly.job import Job
from nightfit.nightly.journal import Note, append, now
from nightfit.nightly.night import Night, nights_left
from nightfit.nightly.promotion import changes_since_current, settle
from nightfit.nightly.registry import log_release
from nightfit.nightly.witness import remember
from nightfit.privacy.accounting import Cost, epsilon_of
from nightfit.privacy.events import Event
from nightfit.release import Release, report, write_atomically
from nightfit.release.balance import Balance, share_left
from nightfit.release.evaluation_section import headers, in_sentences, rows_of
from nightfit.release.metrics import Evaluation
from nightfit.release.signing import load_key, signed
from nightfit.release.used import used_in_words


@dataclass(frozen=True, kw_only=True)
class Published:
    """A night that ended with a release, its configuration, and where the report lies."""

    config: Config
    night: Night
    report_path: Path

    @property
    def model(self) -> str:
        """Its name."""
        return self.night.model

    @property
    def release(self) -> Release:
        """What was released."""
        return self.night.release

    @property
    def release_path(self) -> Path:
        """Where it lies."""
        return self.night.path

    @property
    def balance(self) -> Balance:
        """What is left of the budget."""
        return self.night.balance


def publish(job: Job, ledger: Ledger, release: Release) -> Published:
    """Write `release.json`, signed if the configuration names a key, and `report.html`; decide about promotion; compute the balance.

    Parameters
    ----------
    job : Job
        The planned refit.
    ledger : Ledger
        The ledger that paid for it.
    release : Release
        Its release.

    Returns
    -------
    Published
    """
    folder, key = job.config.output_folder / release.run_id, job.config.signing_key
    new = not (folder / "release.json").exists()
    if key is not None:
        release = signed(release, load_key(key))
    path = release.save(folder)
    balance = balance_of(ledger, job.config.data_set, job.plan.events, job.blocks)
    page = report.page(release, balance)
    write_atomically(folder / "report.html", page)
    nights, changes = nights_left(job, ledger), changes_since_current(job.config, ledger, release)
    promotion = settle(job.config, ledger, release, changes)
    remember(ledger)
    night = Night(
        model=job.config.name,
        new=new,
        release=release,
        path=path,
        balance=balance,
        nights_left=nights,
        goes_on=window_of(job.config.data.window).goes_on(nights),
        promotion=promotion if new else "",
        shifted=changes if new else (),
    )
    copy_releases(job.config, release.run_id)
    append(job.config.output_folder, Note(time=now(), model=night.model, state="new" if new else "unchanged", run=release.run_id))
    tell(job.config, of_night(job.config, night))
    try:
        prometheus.write(job, ledger, night)
    except OSError as error:
        warnings.warn(f"notify.prometheus cannot be written ({error.strerror}): it tells of an earlier night", stacklevel=2)
    log_release(job.config, ledger, night, page)
    return Published(config=job.config, night=night, report_path=folder / "report.html")


def balance_of(ledger: Ledger, data_set: str, events: tuple[Event, ...] = (), blocks: Sequence[str] = ()) -> Balance:
    """The balance of a data set's most used block.

    Parameters
    ----------
    ledger : Ledger
        An open ledger.
    data_set : str
        A data set with a policy.
    events : tuple of Event
        The events of one run; the balance then says how many more such runs fit.
    blocks : sequence of str
        The blocks to look at; all that were ever charged by default.

    Returns
    -------
    Balance
        Spent and left in epsilon at the policy's delta.
    """
    policy: Policy = ledger.policies()[data_set]
    accounts = ledger.spent_by_block(data_set, blocks) if blocks else (ledger.accounts(data_set) or {ALL: Cost()})
    block = max(accounts, key=lambda name: (accounts[name].amount, accounts[name].mass))
    spent, limit = accounts[block], policy.limit()
    left = limit - spent
    one = policy.cost(events)
    return Balance(
        data_set=data_set,
        epsilon_spent=epsilon_of(spent, policy.delta, policy.currency, policy.renyi_order if ledger.single_order(data_set) else None),
        epsilon_lifetime=policy.epsilon,
        delta=policy.delta,
        epsilon_left=epsilon_of(Cost(left.amount, 0), policy.delta, policy.currency),
        share_left=share_left(spent, limit),
        runs=sum(1 for run in ledger.runs() if run["data_set"] == data_set),
        runs_left=times(spent, one, limit) if one.amount else None,
        share_of_run=1 - share_left(one, limit) if one.amount else None,
        block="" if policy.blocks == ALL else block,
        blocks=len(accounts),
        per_year=policy.per == "year",
    )


def _evaluation(found: Evaluation | None) -> dict[str, Any]:
    """The paid evaluation for machines and, in rows, for people."""
    if found is None:
        return {}
    shown = {"headers": list(headers(found)), "rows": [list(row) for row in rows_of(found)], "sentences": in_sentences(found)}
    return {"evaluation": {**found.stored, **shown}}


def as_dict(published: Published) -> dict[str, Any]:
    """A published refit as plain data: where the results are, what was released, what is left."""
    content, balance = published.release.content, published.balance
    return {
        "run": published.release.run_id,
        "private": published.release.private,
        "release": str(published.release_path),
        "report": str(published.report_path),
        "guarantee": content["guarantee"],
        **({"search": content["search"]} if "search" in content else {}),
        **_evaluation(published.night.evaluation),
        "used": used_in_words(published.release),
        **{name: content[name] for name in ("mean", "classes", "coef", "intercept", "intervals", "class_intervals") if name in content},
        "clamps": {name: list(clamp) for name, clamp in published.release.paid_clamps.items()},
        "balance": {
            "data_set": balance.data_set,
            "epsilon_spent": balance.epsilon_spent,
            "epsilon_lifetime": balance.epsilon_lifetime,
            "delta": balance.delta,
            "epsilon_left": balance.epsilon_left,
            "share_left": balance.share_left,
            "runs_left": balance.runs_left,
            "scope": balance.scope(),
        },
        "night": published.night.as_dict(),
    }
