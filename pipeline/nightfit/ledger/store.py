"""The ledger itself: policies, reservations, balances. Imports sqlalchemy."""

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import balances, chain, files, migrate, tables
from nightfit.ledger.errors import BudgetExceeded, LedgerError
from nightfit.ledger.lock import database_lock, file_lock
from nightfit.ledger.policy import ALL, Policy, buckets_of
from nightfit.ledger.reservation import Order, check_fits_policy, price, refusal, repriced
from nightfit.ledger.run import ERASED, Run
from nightfit.privacy.accounting import Cost
from nightfit.privacy.events import event_from_dict


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """A run that the ledger knows, its plan's digest and the blocks that it was reserved on."""

    run: str
    model: str
    data_set: str
    state: str
    plan: str
    blocks: tuple[str, ...]


class Ledger:
    """An opened ledger; see Ledger.create and Ledger.open."""

    def __init__(self, url: str, engine: sa.Engine, ledger_id: str, key: bytes) -> None:
        self.url, self.engine, self.ledger_id, self._key = url, engine, ledger_id, key

    @classmethod
    def create(cls, url: str) -> "Ledger":
        """A new, empty ledger; refused where one exists."""
        path = tables.path_of(url)
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                raise LedgerError(f"{path} exists already: a ledger is never overwritten; use it, or name another file") from None
            except OSError as error:
                raise LedgerError(f"{path} cannot be made ({error.strerror}): choose a writable folder on a local disk") from None
        engine = tables.connect(url)
        made = {"ledger_id": secrets.token_hex(8), "version": tables.VERSION, "key": secrets.token_hex(32)}

        def make(connection: sa.Connection) -> None:
            if not sa.inspect(connection).has_table("identity"):
                migrate.to_newest(connection)
                connection.execute(tables.identity.insert().values(**made))
            elif connection.execute(sa.select(tables.identity.c.ledger_id)).scalar() != made["ledger_id"]:
                raise LedgerError("this database holds a ledger already: use it, or name another database")

        try:
            tables.durable(engine, make)
        except LedgerError:
            engine.dispose()
            if path is not None:
                path.unlink(missing_ok=True)
            raise
        return cls(url, engine, str(made["ledger_id"]), bytes.fromhex(str(made["key"])))

    @classmethod
    def open(cls, url: str) -> "Ledger":
        """An existing ledger; a missing one is never made, because a lost ledger must not become a fresh budget."""
        engine = _existing(url)
        try:
            row = tables.durable(engine, lambda connection: _identity(connection, url))
        except LedgerError:
            engine.dispose()
            raise
        if row.version != tables.VERSION:
            engine.dispose()
            older = row.version < tables.VERSION
            cure = (
                f"bring it up with `nightfit ledger upgrade --ledger {tables.shown(url)}`" if older else "use the matching nightfit version"
            )
            raise LedgerError(f"the ledger has format {row.version}, this nightfit reads format {tables.VERSION}: {cure}")
        return cls(url, engine, row.ledger_id, bytes.fromhex(row.key))

    @classmethod
    def upgrade(cls, url: str) -> tuple[int, int]:
        """Bring a ledger of an older format to the newest, in one transaction; the formats before and after."""
        engine = _existing(url)

        def change(connection: sa.Connection) -> int:
            version = int(_identity(connection, url).version)
            if version > tables.VERSION:
                raise LedgerError(f"the ledger has format {version}, this nightfit knows up to {tables.VERSION}: use a newer nightfit")
            if version < tables.VERSION:
                migrate.to_newest(connection)
            return version

        try:
            return tables.durable(engine, change), tables.VERSION
        finally:
            engine.dispose()

    @property
    def place(self) -> str:
        """Its URL, without a password."""
        return tables.shown(self.url)

    def keyed(self, *parts: str) -> str:
        """HMAC of the parts under the ledger's secret key."""
        return hmac.new(self._key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def bucket_key(self, data_set: str) -> bytes:
        """The key by which a data set's ids are hashed to buckets: one for life, because a unit must stay in its bucket."""
        return bytes.fromhex(self.keyed("buckets", data_set))[:16]

    def policies(self) -> dict[str, Policy]:
        def read(connection: sa.Connection) -> dict[str, Policy]:
            rows = connection.execute(sa.select(tables.policy).order_by(tables.policy.c.data_set))
            return {row.data_set: Policy.from_dict(json.loads(row.body)) for row in rows}

        return tables.durable(self.engine, read)

    def set_policy(self, policy: Policy, override: str | None = None) -> None:
        """Fix a data set's lifetime budget. An existing one can be tightened; loosening needs a recorded reason."""
        policy.check()

        def change(connection: sa.Connection) -> None:
            earlier = _policy(connection, policy.data_set)
            if earlier == policy:
                return
            if earlier is not None and policy.kind != earlier.kind and _any_spent(connection, policy.data_set):
                raise LedgerError(
                    f"{policy.data_set} was spent on under {earlier.said()}, and what was spent means nothing under {policy.said()}: "
                    "only epsilon and delta of it can change"
                )
            if earlier is not None and _any_sampled(connection, policy.data_set):
                raise LedgerError(
                    f"{policy.data_set} was spent on by Poisson samples or a repeated search, which were priced at the Renyi order of "
                    f"{earlier.said()}: this policy cannot be changed any more"
                )
            if earlier is not None and policy.loosens(earlier) and not override:
                raise LedgerError(
                    f"{policy.data_set} has the policy {earlier.said()}; {policy.said()} would loosen it: "
                    "a promise once made is kept; a recorded override (--override REASON) is the only way"
                )
            body = {**policy.as_dict(), **({"override": override} if override else {})}
            chain.append(connection, "policy", policy.data_set, body)
            connection.execute(tables.policy.delete().where(tables.policy.c.data_set == policy.data_set))
            connection.execute(tables.policy.insert().values(data_set=policy.data_set, body=json.dumps(policy.as_dict())))

        tables.durable(self.engine, change)

    def spent(self, data_set: str, block: str = ALL) -> Cost:
        return self.spent_by_block(data_set, [block])[block]

    def spent_by_block(self, data_set: str, blocks: Sequence[str]) -> dict[str, Cost]:
        """What each block has spent, in the current year if its policy is renewed."""

        def read(connection: sa.Connection) -> dict[str, Cost]:
            accounts = _accounts(connection, _policy(connection, data_set), data_set, blocks)
            held = balances.spent(connection, data_set, accounts)
            return {block: held.get(account, Cost()) for block, account in zip(blocks, accounts, strict=True)}

        return tables.durable(self.engine, read)

    def accounts(self, data_set: str) -> dict[str, Cost]:
        """Every account of a data set that was ever charged: its blocks, with the year if they are renewed."""
        return tables.durable(self.engine, lambda connection: balances.every(connection, data_set))

    def found(self, model: str, data_set: str, window: str) -> Found | None:
        """The latest run of a model on a window, unless it was abandoned."""

        def read(connection: sa.Connection) -> Found | None:
            row = self._latest(connection, model, data_set, window)
            return _found(connection, row) if row is not None and row.state != "abandoned" else None

        return tables.durable(self.engine, read)

    def run_of(self, run_id: str) -> Found:
        """The run of this id."""
        return tables.durable(self.engine, lambda connection: _found(connection, _row(connection, run_id)))

    def reserve(self, order: Order, *, again: bool = False, resume: str | None = None) -> Run:
        """Set the whole cost of a plan aside in one transaction over all its blocks, or resume or return the run that did so before:
        the latest of its window, or the one whose id is `resume`.

        Guarantee: a block's balance never exceeds its policy, because it is compared and raised while the write lock is held.
        Broken by test_processes_racing_for_the_last_budget_get_exactly_what_fits.
        """

        def change(connection: sa.Connection) -> Run:
            policy = _policy(connection, order.data_set)
            if policy is None:
                raise LedgerError(
                    f"the ledger has no lifetime budget for {order.data_set!r}: add `privacy: lifetime:` to the configuration, "
                    f"or set one with "
                    f"`nightfit ledger policy set {order.data_set} --epsilon 8 --delta 1e-5 --adjacency {order.events[0].adjacency}`"
                )
            check_fits_policy(order, policy)
            homes = self._homes(order, policy)
            new_files = files.unknown(connection, order.data_set, homes)
            if resume is not None:
                return self._resumed_by_id(connection, resume, order)
            latest = self._latest(connection, order.model, order.data_set, order.window)
            if latest is not None and latest.state != "abandoned":
                resumed = self._resumed(connection, latest, order, again)
                if resumed is not None:
                    return resumed
            files.record(connection, order.data_set, homes, new_files)
            recorded = [[fingerprint, homes[fingerprint]] for fingerprint in new_files]
            return self._new_run(connection, order, policy, latest.counter + 1 if latest else 0, recorded)

        return tables.durable(self.engine, change)

    @contextlib.contextmanager
    def hold(self, run_id: str) -> Iterator[None]:
        """Keep a second driver away from this run; released by the operating system or the database when the holder dies."""
        path = tables.path_of(self.url)
        if path is not None:
            with file_lock(Path(f"{path}.{run_id}.lock"), run_id):
                yield
        elif self.engine.dialect.name == "sqlite":
            yield
        else:
            with database_lock(self.engine, run_id):
                yield

    def abandon(self, run_id: str) -> Cost:
        """Give up an unfinished run; what is returned is what was reserved - cost(questions that were asked), and no more."""
        self.run_of(run_id)
        token = secrets.token_hex(8)

        def change(connection: sa.Connection) -> Cost:
            row = _row(connection, run_id)
            given_up = chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "abandoned")
            if given_up and given_up[0].body.get("token") == token:
                return Cost(*map(int, given_up[0].body["refund"]))  # by this call, before the connection was cut
            if row.state != "reserved":
                raise LedgerError(f"run {run_id} is {row.state}: only an unfinished run can be abandoned")
            reserved = _reserved(connection, run_id)
            asked = {entry.label for entry in chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "asked")}
            policy = _policy(connection, row.data_set)
            used = [event for stored in reserved["events"] if (event := event_from_dict(stored)).label in asked]
            refund = Cost(*map(int, reserved["cost"])) - policy.cost(used) if policy else Cost()
            accounts = chain.accounts_of(reserved)
            held = balances.spent(connection, row.data_set, accounts)
            balances.charge(connection, row.data_set, accounts, held, Cost() - refund)
            body = {"refund": [str(refund.amount), str(refund.mass)], "accounts": accounts, "token": token}
            chain.append(connection, "abandoned", row.data_set, body, run_id)
            connection.execute(tables.run.update().where(tables.run.c.run == run_id).values(state="abandoned", secret=ERASED))
            return refund

        with self.hold(run_id):
            return tables.durable(self.engine, change)

    def runs(self) -> list[dict[str, Any]]:
        def read(connection: sa.Connection) -> list[dict[str, Any]]:
            return [dict(row._mapping) for row in connection.execute(sa.select(tables.run).order_by(tables.run.c.seq))]

        return tables.durable(self.engine, read)

    def sampled(self, data_set: str) -> bool:
        """Whether Poisson samples or repeated attempts were charged: their price holds at the policy's one Renyi order only."""
        return tables.durable(self.engine, lambda connection: _any_sampled(connection, data_set))

    def holds(self, seq: int, digest: str) -> bool:
        """Whether the chain has this entry: a receipt that is not held was issued by another ledger or a later copy of this one."""
        entry = sa.select(tables.entry.c.seq).filter_by(seq=seq, digest=digest)
        return tables.durable(self.engine, lambda connection: connection.execute(entry).first() is not None)

    def _homes(self, order: Order, policy: Policy) -> dict[str, str]:
        """The hive block of each keyed fingerprint; nothing where blocks are not folders."""
        hive = policy.blocks != ALL and buckets_of(policy.blocks) is None
        homes = order.homes if hive and order.homes else ("",) * len(order.files)
        return {self.keyed("file", name): home for name, home in zip(order.files, homes, strict=True)}

    def _latest(self, connection: sa.Connection, model: str, data_set: str, window: str) -> sa.Row[Any] | None:
        key = self.keyed("run", model, data_set, window)
        return connection.execute(
            sa.select(tables.run).where(tables.run.c.key == key).order_by(tables.run.c.counter.desc()).limit(1)
        ).first()

    def _same(self, connection: sa.Connection, row: sa.Row[Any], order: Order) -> tuple[bool, str]:
        """Whether a run is that of the order, and else what changed."""
        same_data = row.manifest == self.keyed("manifest", order.manifest)
        same = row.plan == order.plan and same_data and row.private == order.private
        same_blocks = tuple(_reserved(connection, row.run)["blocks"]) == order.blocks
        return same and same_blocks, "plan" if same_data and same_blocks else "data"

    def _resumed_by_id(self, connection: sa.Connection, run_id: str, order: Order) -> Run:
        row = _row(connection, run_id)
        if (row.model, row.data_set) != (order.model, order.data_set):
            raise LedgerError(
                f"run {run_id} is of the model {row.model} on {row.data_set}, this configuration of {order.model} on {order.data_set}"
            )
        if row.state == "abandoned":
            raise LedgerError(f"run {run_id} is abandoned: it cannot be resumed; run the refit without --resume")
        return self._checked(connection, row, order)

    def _resumed(self, connection: sa.Connection, row: sa.Row[Any], order: Order, again: bool) -> Run | None:
        return None if row.state == "finished" and again else self._checked(connection, row, order)

    def _checked(self, connection: sa.Connection, row: sa.Row[Any], order: Order) -> Run:
        same, changed = self._same(connection, row, order)
        if not same and row.state == "finished":
            raise LedgerError(
                f"run {row.run} of this window is finished and the {changed} changed since: to spend on it once more use --again"
            )
        if not same:
            raise LedgerError(
                f"run {row.run} of this window is unfinished and the {changed} changed since: restore what it had to resume it, "
                f"or give it up with `nightfit ledger abandon {row.run}` (refunds only questions never asked)"
            )
        return self._run(row.run, order, row.secret, row.manifest_id, row.started)

    def _new_run(self, connection: sa.Connection, order: Order, policy: Policy, counter: int, recorded: Sequence[Sequence[str]]) -> Run:
        needed, limit = price(order, policy), policy.limit()
        accounts = _accounts(connection, policy, order.data_set, order.blocks)
        held = balances.spent(connection, order.data_set, accounts)
        for block, account in zip(order.blocks, accounts, strict=True):
            spent = held.get(account, Cost())
            if not (spent + needed).fits(limit):
                sampled = repriced(order.events) or _any_sampled(connection, order.data_set)
                raise BudgetExceeded(refusal(order, policy, block, spent, needed, policy.renyi_order if sampled else None))
        balances.charge(connection, order.data_set, accounts, held, needed)
        seq, previous = chain.end(connection)
        row = {
            "run": f"{order.model}-{secrets.token_hex(4)}",
            "seq": seq + 1,
            "key": self.keyed("run", order.model, order.data_set, order.window),
            "counter": counter,
            "secret": secrets.token_hex(32),
            "model": order.model,
            "data_set": order.data_set,
            "plan": order.plan,
            "manifest": self.keyed("manifest", order.manifest),
            "manifest_id": secrets.token_hex(8),
            "private": order.private,
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        body = {
            "cost": [str(needed.amount), str(needed.mass)],
            "currency": str(policy.currency),
            "blocks": list(order.blocks),
            "accounts": accounts,
            "plan": order.plan,
            "private": order.private,
            "started": row["started"],
            "events": [event.as_dict() for event in order.events],
            "files": recorded,
            "row": chain.digest_of_row(row),
            "secret": chain.digest_of_secret(str(row["secret"])),
        }
        chain.append(connection, "reserved", order.data_set, body, str(row["run"]), after=(seq, previous))
        connection.execute(tables.run.insert(), {**row, "state": "reserved"})
        return self._run(str(row["run"]), order, str(row["secret"]), str(row["manifest_id"]), str(row["started"]))

    def _run(self, run_id: str, order: Order, secret: str, manifest_id: str, started: str) -> Run:
        return Run(
            engine=self.engine,
            ledger_id=self.ledger_id,
            run_id=run_id,
            secret=bytes.fromhex(secret),
            data_set=order.data_set,
            manifest_id=manifest_id,
            started=started,
            events={event.label: event for event in order.events},
        )


def _existing(url: str) -> sa.Engine:
    path = tables.path_of(url)
    if path is not None and not path.exists():
        raise LedgerError(
            f"there is no ledger at {path}; if this is a new data set make one with "
            f"`nightfit ledger init --ledger {tables.shown(url)}`; if one was there before, restore it: "
            "a new ledger would forget what was spent"
        )
    if path is not None and not os.access(path, os.W_OK):
        raise LedgerError(f"the ledger {path} is read-only: make its file and folder writable for this user")
    return tables.connect(url)


def _identity(connection: sa.Connection, url: str) -> sa.Row[Any]:
    if not sa.inspect(connection).has_table("identity"):
        raise LedgerError(
            f"{tables.shown(url)} is not a nightfit ledger: check the URL, or make one with "
            f"`nightfit ledger init --ledger {tables.shown(url)}`"
        )
    return connection.execute(sa.select(tables.identity)).one()


def _policy(connection: sa.Connection, data_set: str) -> Policy | None:
    body = connection.execute(sa.select(tables.policy.c.body).where(tables.policy.c.data_set == data_set)).scalar()
    return Policy.from_dict(json.loads(body)) if body else None


def _any_spent(connection: sa.Connection, data_set: str) -> bool:
    return any(cost != Cost() for cost in balances.every(connection, data_set).values())


def _any_sampled(connection: sa.Connection, data_set: str) -> bool:
    reserved = chain.each(connection, tables.entry.c.data_set == data_set, tables.entry.c.kind == "reserved")
    return any(repriced(event_from_dict(event) for event in entry.body["events"]) for entry in reserved)


def _accounts(connection: sa.Connection, policy: Policy | None, data_set: str, blocks: Sequence[str]) -> list[str]:
    """The accounts of blocks: by themselves, or of this year; a clock set back does not reopen a year that has ended."""
    if policy is None or policy.per == "life":
        return list(blocks)
    years = [int(match[1]) for name in balances.every(connection, data_set) if (match := re.search(r" in (\d+)$", name))]
    year = max([datetime.now(UTC).year, *years])
    return [policy.account(block, year) for block in blocks]


def _row(connection: sa.Connection, run_id: str) -> sa.Row[Any]:
    row = connection.execute(sa.select(tables.run).where(tables.run.c.run == run_id)).first()
    if row is None:
        raise LedgerError(f"the ledger knows no run {run_id!r}: `nightfit ledger show` lists them")
    return row


def _reserved(connection: sa.Connection, run_id: str) -> dict[str, Any]:
    return chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "reserved")[0].body


def _found(connection: sa.Connection, row: sa.Row[Any]) -> Found:
    blocks = tuple(_reserved(connection, row.run)["blocks"])
    return Found(run=row.run, model=row.model, data_set=row.data_set, state=row.state, plan=row.plan, blocks=blocks)
