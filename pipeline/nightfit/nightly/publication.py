"""Step 4: write release and report, and compute what is left of the budget. Imports release, ledger and below."""

from collections.abc import Sequence
from typing import Any

from nightfit.ledger import Ledger, Policy
from nightfit.ledger.policy import ALL
from nightfit.ledger.windows import times
from nightfit.nightly.job import Job, Published
from nightfit.privacy.accounting import Cost, epsilon_of
from nightfit.privacy.events import Event
from nightfit.release import Release, report, write_atomically
from nightfit.release.balance import Balance
from nightfit.release.signing import load_key, signed


def publish(job: Job, ledger: Ledger, release: Release) -> Published:
    """Write `release.json`, signed if the configuration names a key, and `report.html` into the output folder; compute the balance.

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
    if key is not None:
        release = signed(release, load_key(key))
    path = release.save(folder)
    balance = balance_of(ledger, job.config.data_set, job.plan.events, job.blocks)
    write_atomically(folder / "report.html", report.page(release, balance))
    return Published(release=release, release_path=path, report_path=folder / "report.html", balance=balance)


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
        runs=sum(1 for run in ledger.runs() if run["data_set"] == data_set),
        runs_left=times(spent, one, limit) if one.amount else None,
        block="" if policy.blocks == ALL else block,
        blocks=len(accounts),
        per_year=policy.per == "year",
    )


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
        **{name: content[name] for name in ("mean", "coef", "intercept", "intervals") if name in content},
        "balance": {
            "data_set": balance.data_set,
            "epsilon_spent": balance.epsilon_spent,
            "epsilon_lifetime": balance.epsilon_lifetime,
            "delta": balance.delta,
            "epsilon_left": balance.epsilon_left,
            "runs_left": balance.runs_left,
            "scope": balance.scope(),
        },
    }
