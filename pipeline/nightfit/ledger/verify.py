"""Whether a ledger is whole: the chain unbroken, the other tables as the chain records them, every release paid for. Imports sqlalchemy."""

import json
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import answers, chain, releases, tables
from nightfit.ledger.database import durable
from nightfit.ledger.policy import Policy
from nightfit.ledger.policy_migration import read_costs, starting_balances, starting_blocks, totals
from nightfit.ledger.receipt import Claim, events_digest
from nightfit.ledger.runs import ERASED
from nightfit.ledger.store import Ledger
from nightfit.privacy.accounting import Cost

BEFORE_FORMAT_2 = "0" * 64  # what the first entry of a ledger of format 1 follows


def verify(ledger: Ledger, claims: Iterable[tuple[str, Claim]] = ()) -> list[str]:
    """Check a ledger, and releases against it.

    Parameters
    ----------
    ledger
        To be checked.
    claims
        The name of each release and what it says of itself.

    Returns
    -------
    list of str
        Everything that is wrong, in words; empty if nothing is.

    Notes
    -----
    Guarantee: an edited, inserted or removed entry breaks a digest or the sequence; a removed tail or an older copy is found
    against releases only; against a forger who rewrites the whole database nothing but releases kept elsewhere helps.
    Identity, balances, policies, runs and files are compared with a whole chain only. Broken by the tests under "verify" in
    tests/ledger/test_ledger.py.
    """
    named = list(claims)

    def read(connection: sa.Connection) -> list[str]:
        broken = _broken_chain(connection)
        checks = [(name, releases.check(connection, ledger.ledger_id, claim)) for name, claim in named]
        unpaid = [f"{name} {check.problem}" for name, check in checks if check.problem is not None]
        return [*broken, *([] if broken else _differences(connection)), *unpaid]

    return durable(ledger.engine, read)


def unbound(ledger: Ledger, claims: Iterable[tuple[str, Claim]]) -> list[str]:
    """The names of releases that were closed before format 3: the ledger has no digest of their content to compare."""
    named = list(claims)

    def read(connection: sa.Connection) -> list[str]:
        checks = [(name, releases.check(connection, ledger.ledger_id, claim)) for name, claim in named]
        return [name for name, check in checks if check.problem is None and not check.bound]

    return durable(ledger.engine, read)


def _broken_chain(connection: sa.Connection) -> list[str]:
    problems: list[str] = []
    previous: str | None = None
    gone: dict[tuple[object, ...], int] = {}
    for number, row in enumerate(connection.execute(answers.with_packed.order_by(tables.entry.c.seq)), start=1):
        if row.seq != number or (previous is not None and row.previous != previous):
            return [*problems, f"entry {number} was removed or reordered: entry {row.seq} does not follow it"]
        text = _text(row)
        if text is None:
            gone[row.data_set, row.run, row.seq, row.label, row.digest] = row.seq
        elif chain.digest_of(row.seq, row.kind, row.data_set, row.run, row.label, text, row.previous) != row.digest:
            problems.append(f"entry {row.seq} ({row.kind}) was edited")
        elif row.kind == answers.KIND:
            for kept in json.loads(text)["answers"]:
                gone.pop((row.data_set, row.run, *kept), None)
        previous = row.digest
    return [
        *problems,
        *(f"entry {seq} (answered) lacks its answer, or was edited: nothing says that it was pruned" for seq in gone.values()),
    ]


def _text(row: sa.Row[Any]) -> str | None:
    """An entry's text; of an answer that cannot be unpacked, one that no digest fits."""
    try:
        return answers.body_of(row)
    except (zlib.error, ValueError, TypeError):
        return ""


@dataclass
class _Recorded:
    """What a whole chain records of everything that is kept beside it."""

    balances: defaultdict[tuple[str, str], Cost] = field(default_factory=lambda: defaultdict(Cost))
    policies: dict[str, Any] = field(default_factory=dict)
    states: dict[str | None, str] = field(default_factory=dict)
    rows: dict[str | None, str] = field(default_factory=dict)
    secrets: dict[str | None, str] = field(default_factory=dict)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    first: str | None = None
    identity: str | None = None
    released: set[str | None] = field(default_factory=set)
    paying: dict[str | None, tuple[str, str]] = field(default_factory=dict)
    charging: defaultdict[str, list[chain.Entry]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[chain.Entry]) -> "_Recorded":
        recorded = cls()
        for entry in entries:
            recorded.first = recorded.first or entry.previous
            recorded._add(entry)
        return recorded

    def _add(self, entry: chain.Entry) -> None:
        body = entry.body
        if entry.kind == "reserved":
            self._add_files(entry)
        if entry.kind in ("reserved", "abandoned"):
            for account in chain.accounts_of(body):
                self.balances[entry.data_set, account] += chain.charge_of(entry)
        if entry.kind == "reserved":
            if "shared" in body and self.paying.get(body["shared"]["run"]) != (entry.data_set, events_digest(body["shared"]["events"])):
                self.wrong.append(f"run {entry.run} takes answers of run {body['shared']['run']}, which did not pay for them before")
            self.paying[entry.run] = (entry.data_set, events_digest(body["events"]))
            if "row" in body:
                self.rows[entry.run] = body["row"]
                self.secrets[entry.run] = body["secret"]
        elif entry.kind == "policy":
            self.policies[entry.data_set] = {"per": "life"} | {name: value for name, value in body.items() if name != "override"}
        elif entry.kind == "checkpoint":
            self._check(entry)
        elif entry.kind == "migrated":
            self._migrate(entry)
        elif entry.kind == "upgraded" and body["to"] == 2:
            self.identity = body["identity"]
            self.files |= {name: (data_set, "") for name, data_set in body["files"]}
            self.rows |= body["rows"]
        elif entry.kind == "finished" and body.get("private"):
            self.released.add(entry.run)
        elif entry.kind == "promotion" and body["current"] not in {None, *self.released}:
            self.wrong.append(f"entry {entry.seq} promotes run {body['current']}, which has released nothing private before")
        if entry.kind in ("reserved", "abandoned", "migrated"):
            self.charging[entry.data_set].append(entry)
        if entry.kind in ("reserved", "finished", "abandoned"):
            self.states[entry.run] = entry.kind
        if entry.kind in ("finished", "abandoned") and entry.run in self.secrets:
            self.secrets[entry.run] = chain.digest_of_secret(ERASED)

    def _add_files(self, reserved: chain.Entry) -> None:
        """A file leaves its data set and block only if nothing was spent there: it must not have two budgets."""
        found = {name: (reserved.data_set, block) for name, block in reserved.body.get("files", [])}
        left = {self.files[name][0] for name in found.keys() & self.files.keys()}
        spent = sorted(left & {data_set for (data_set, _), cost in self.balances.items() if cost != Cost()})
        self.wrong += [f"entry {reserved.seq} reads files of {data_set}, which was charged for them already" for data_set in spent]
        self.files |= found

    def _check(self, checkpoint: chain.Entry) -> None:
        stored = {account: Cost(*map(int, cost)) for account, cost in checkpoint.body["balances"].items()}
        if stored != {account: cost for (data_set, account), cost in self.balances.items() if data_set == checkpoint.data_set}:
            wrong = f"the checkpoint of {checkpoint.data_set} (entry {checkpoint.seq}) is not what its entries add to"
            self.wrong.append(wrong)

    def _migrate(self, entry: chain.Entry) -> None:
        """Every account starts with what all runs cost, and no file has another home than the entry says."""
        data_set, body = entry.data_set, entry.body
        started, before = read_costs(body["balances"]), Policy.from_dict(body["before"])
        blocks = starting_blocks(Policy.from_dict(body["after"]).blocks, body["existing"])
        expected = totals(self.charging[data_set], before, body["rows"])
        if self.policies.get(data_set) != body["before"] or read_costs(body["totals"]) != expected:
            self.wrong.append(f"the migration of {data_set} (entry {entry.seq}) does not count what its runs cost")
        if started != starting_balances(blocks, expected):
            self.wrong.append(f"the migration of {data_set} (entry {entry.seq}) lets blocks begin with less or more than its runs cost")
        for key in [key for key in self.balances if key[0] == data_set]:
            del self.balances[key]
        self.balances.update({(data_set, account): cost for account, cost in started.items()})
        homes = dict(body["files"])
        self.files |= {name: (data_set, homes.get(name, "")) for name, (owner, _) in self.files.items() if owner == data_set}


def _differences(connection: sa.Connection) -> list[str]:
    recorded = _Recorded.of(chain.each(connection, tables.entry.c.kind != "answered"))
    return [
        *recorded.wrong,
        *_identity(connection, recorded),
        *_differing(
            recorded.balances,
            {(row.data_set, row.block): Cost(row.amount, row.mass) for row in connection.execute(sa.select(tables.balance))},
            lambda at: f"the balance of {at[0]} (block {at[1]}) is not what its entries add to",
            Cost(),
        ),
        *_differing(
            recorded.policies,
            {row.data_set: _policy(row.body) for row in connection.execute(sa.select(tables.policy))},
            lambda name: f"the policy of {name} is not the one recorded",
        ),
        *_runs(connection, recorded),
        *_differing(
            recorded.files,
            {row.fingerprint: (row.data_set, row.block) for row in connection.execute(sa.select(tables.file))},
            lambda name: f"the file {name[:8]}... is not recorded as it is listed: it was added, removed or moved by hand",
        ),
    ]


def _differing(expected: dict[Any, Any], found: dict[Any, Any], message: Callable[[Any], str], absent: Any = None) -> list[str]:
    keys = sorted(expected.keys() | found.keys())
    return [message(key) for key in keys if expected.get(key, absent) != found.get(key, absent)]


def _identity(connection: sa.Connection, recorded: _Recorded) -> list[str]:
    """The first entry follows the identity; a ledger that began in format 1 recorded it when it was upgraded."""
    rows = connection.execute(sa.select(tables.identity)).all()
    found = [chain.genesis(row.ledger_id, row.key) for row in rows]
    expected = recorded.identity if recorded.identity is not None and recorded.first == BEFORE_FORMAT_2 else recorded.first
    return [] if len(found) == 1 and expected in (None, found[0]) else ["the identity of the ledger is not the one recorded"]


def _runs(connection: sa.Connection, recorded: _Recorded) -> list[str]:
    rows = {row.run: dict(row._mapping) for row in connection.execute(sa.select(tables.run))}
    problems = []
    for name in sorted(rows.keys() | recorded.states.keys(), key=str):
        if (rows[name]["state"] if name in rows else None) != recorded.states.get(name):
            problems.append(f"run {name} is not in the state recorded")
        elif chain.digest_of_row(rows[name]) != recorded.rows.get(name) or _other_secret(rows[name], recorded):
            problems.append(f"run {name} is not the one recorded")
    return problems


def _other_secret(row: dict[str, Any], recorded: _Recorded) -> bool:
    """Whether a run's secret is not the one that it was given, or not erased at its end; of runs before format 2 nothing is known."""
    expected = recorded.secrets.get(row["run"])
    return expected is not None and expected != chain.digest_of_secret(row["secret"])


def _policy(text: str) -> object:
    try:
        stored = json.loads(text)
    except ValueError:
        return None
    return {"per": "life"} | stored if isinstance(stored, dict) else None
