"""The ledger itself: policies, reservations, balances. Imports sqlalchemy."""

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pipeline.privacy.accounting import Cost, CurrencyError, epsilon_of
from pipeline.privacy.events import Event, event_from_dict
from pipeline.privacy.ledger import chain, tables
from pipeline.privacy.ledger.errors import BudgetExceeded, LedgerError
from pipeline.privacy.ledger.lock import database_lock, file_lock
from pipeline.privacy.ledger.policy import Policy
from pipeline.privacy.ledger.run import ERASED, Run


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What a plan asks the ledger to set aside.

    `window` names what the run reads and `manifest` what that is now: both are secret functions of the data, so the ledger keeps
    only their HMAC. `files` are the fingerprints of the data set's files.
    """

    model: str
    data_set: str
    unit: str
    plan: str
    events: tuple[Event, ...]
    window: str
    manifest: str
    files: tuple[str, ...]
    private: bool = True
    blocks: tuple[str, ...] = ("all",)


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
        values = {"ledger_id": secrets.token_hex(8), "version": tables.VERSION, "key": secrets.token_hex(32)}
        try:
            with tables.transaction(engine) as connection:
                if sa.inspect(connection).has_table("identity"):
                    raise LedgerError("this database holds a ledger already: use it, or name another database")
                tables.metadata.create_all(connection)
                connection.execute(tables.identity.insert().values(**values))
        except LedgerError:
            engine.dispose()
            if path is not None:
                path.unlink(missing_ok=True)
            raise
        return cls(url, engine, str(values["ledger_id"]), bytes.fromhex(str(values["key"])))

    @classmethod
    def open(cls, url: str) -> "Ledger":
        """An existing ledger; a missing one is never made, because a lost ledger must not become a fresh budget."""
        path = tables.path_of(url)
        if path is not None and not path.exists():
            raise LedgerError(
                f"there is no ledger at {path}; if this is a new data set make one with "
                f"`nightfit ledger init --ledger {tables.shown(url)}`; if one was there before, restore it: "
                "a new ledger would forget what was spent"
            )
        if path is not None and not os.access(path, os.W_OK):
            raise LedgerError(f"the ledger {path} is read-only: make its file and folder writable for this user")
        engine = tables.connect(url)
        with tables.transaction(engine) as connection:
            if not sa.inspect(connection).has_table("identity"):
                raise LedgerError(
                    f"{tables.shown(url)} is not a nightfit ledger: check the URL, or make one with "
                    f"`nightfit ledger init --ledger {tables.shown(url)}`"
                )
            row = connection.execute(sa.select(tables.identity)).one()
        if row.version != tables.VERSION:
            raise LedgerError(
                f"the ledger has format {row.version}, this nightfit reads format {tables.VERSION}: use the matching nightfit version"
            )
        return cls(url, engine, row.ledger_id, bytes.fromhex(row.key))

    @property
    def place(self) -> str:
        """Its URL, without a password."""
        return tables.shown(self.url)

    def keyed(self, *parts: str) -> str:
        """HMAC of the parts under the ledger's secret key."""
        return hmac.new(self._key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def policies(self) -> dict[str, Policy]:
        with tables.transaction(self.engine) as connection:
            rows = connection.execute(sa.select(tables.policy).order_by(tables.policy.c.data_set))
            return {row.data_set: Policy.from_dict(json.loads(row.body)) for row in rows}

    def set_policy(self, policy: Policy, override: str | None = None) -> None:
        """Fix a data set's lifetime budget. An existing one can be tightened; loosening needs a recorded reason."""
        policy.limit()
        with tables.transaction(self.engine) as connection:
            earlier = self._policy(connection, policy.data_set)
            if earlier == policy:
                return
            if earlier is not None and policy.kind != earlier.kind and self._any_spent(connection, policy.data_set):
                raise LedgerError(
                    f"{policy.data_set} was spent on under {_said(earlier)}, and what was spent means nothing under {_said(policy)}: "
                    "only epsilon and delta of it can change"
                )
            if earlier is not None and self._any_sampled(connection, policy.data_set):
                raise LedgerError(
                    f"{policy.data_set} was spent on by Poisson samples, which were priced at the Renyi order of {_said(earlier)}: "
                    "this policy cannot be changed any more"
                )
            if earlier is not None and policy.loosens(earlier) and not override:
                raise LedgerError(
                    f"{policy.data_set} has the policy {_said(earlier)}; {_said(policy)} would loosen it: "
                    "a promise once made is kept; a recorded override (--override REASON) is the only way"
                )
            body = {**policy.as_dict(), **({"override": override} if override else {})}
            chain.append(connection, "policy", policy.data_set, body)
            connection.execute(tables.policy.delete().where(tables.policy.c.data_set == policy.data_set))
            connection.execute(tables.policy.insert().values(data_set=policy.data_set, body=json.dumps(policy.as_dict())))

    def spent(self, data_set: str, block: str = "all") -> Cost:
        with tables.transaction(self.engine) as connection:
            return self._spent(connection, data_set, block)

    def reserve(self, order: Order, *, again: bool = False) -> Run:
        """Set the whole cost of a plan aside in one transaction, or resume or return the run that did so before.

        Guarantee: a block's balance never exceeds its policy, because it is compared and raised while the write lock is held.
        Broken by test_processes_racing_for_the_last_budget_never_overspend.
        """
        with tables.transaction(self.engine) as connection:
            policy = self._policy(connection, order.data_set)
            if policy is None:
                raise LedgerError(
                    f"the ledger has no lifetime budget for {order.data_set!r}: add `privacy: lifetime:` to the configuration, "
                    f"or set one with "
                    f"`nightfit ledger policy set {order.data_set} --epsilon 8 --delta 1e-5 --adjacency {order.events[0].adjacency}`"
                )
            self._check_fits_policy(order, policy)
            self._check_files(connection, order)
            latest = self._latest(connection, order)
            if latest is not None and latest.state != "abandoned":
                resumed = self._resumed(latest, order, again)
                if resumed is not None:
                    return resumed
            counter = latest.counter + 1 if latest else 0
            return self._new_run(connection, order, policy, counter)

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
        """Give up an unfinished run; what is returned is the cost of questions that were never asked, and no more."""
        if run_id not in {run["run"] for run in self.runs()}:
            raise LedgerError(f"the ledger knows no run {run_id!r}: `nightfit ledger show` lists them")
        with self.hold(run_id), tables.transaction(self.engine) as connection:
            row = connection.execute(sa.select(tables.run).where(tables.run.c.run == run_id)).one()
            if row.state != "reserved":
                raise LedgerError(f"run {run_id} is {row.state}: only an unfinished run can be abandoned")
            reserved = chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "reserved")[0].body
            asked = {entry.label for entry in chain.read(connection, tables.entry.c.run == run_id, tables.entry.c.kind == "asked")}
            used = [event for stored in reserved["events"] if (event := event_from_dict(stored)).label in asked]
            policy = self._policy(connection, row.data_set)
            refund = Cost(*map(int, reserved["cost"])) - policy.cost(used) if policy else Cost()
            for block in reserved["blocks"]:
                self._charge(connection, row.data_set, block, Cost() - refund)
            body = {"refund": [str(refund.amount), str(refund.mass)], "blocks": reserved["blocks"]}
            chain.append(connection, "abandoned", row.data_set, body, run=run_id)
            connection.execute(tables.run.update().where(tables.run.c.run == run_id).values(state="abandoned", secret=ERASED))
            return refund

    def runs(self) -> list[dict[str, Any]]:
        with tables.transaction(self.engine) as connection:
            rows = connection.execute(sa.select(tables.run).order_by(tables.run.c.seq))
            return [dict(row._mapping) for row in rows]

    def holds(self, seq: int, digest: str) -> bool:
        """Whether the chain has this entry: a receipt that is not held was issued by another ledger or a later copy of this one."""
        with tables.transaction(self.engine) as connection:
            return bool(chain.read(connection, tables.entry.c.seq == seq, tables.entry.c.digest == digest))

    def _policy(self, connection: sa.Connection, data_set: str) -> Policy | None:
        body = connection.execute(sa.select(tables.policy.c.body).where(tables.policy.c.data_set == data_set)).scalar()
        return Policy.from_dict(json.loads(body)) if body else None

    def _spent(self, connection: sa.Connection, data_set: str, block: str) -> Cost:
        at = (tables.balance.c.data_set == data_set) & (tables.balance.c.block == block)
        row = connection.execute(sa.select(tables.balance.c.amount, tables.balance.c.mass).where(at).with_for_update()).first()
        return Cost(row.amount, row.mass) if row else Cost()

    def _any_spent(self, connection: sa.Connection, data_set: str) -> bool:
        rows = connection.execute(sa.select(tables.balance.c.amount, tables.balance.c.mass).where(tables.balance.c.data_set == data_set))
        return any(row.amount or row.mass for row in rows)

    def _any_sampled(self, connection: sa.Connection, data_set: str) -> bool:
        reserved = chain.read(connection, tables.entry.c.data_set == data_set, tables.entry.c.kind == "reserved")
        return any("rate" in event.get("draw", {}) for entry in reserved for event in entry.body["events"])

    def sampled(self, data_set: str) -> bool:
        """Whether Poisson samples were charged: their price holds at the policy's one Renyi order only."""
        with tables.transaction(self.engine) as connection:
            return self._any_sampled(connection, data_set)

    def _charge(self, connection: sa.Connection, data_set: str, block: str, charged: Cost) -> None:
        total = self._spent(connection, data_set, block) + charged
        at = (tables.balance.c.data_set == data_set) & (tables.balance.c.block == block)
        connection.execute(tables.balance.delete().where(at))
        connection.execute(tables.balance.insert().values(data_set=data_set, block=block, amount=total.amount, mass=total.mass))

    def _latest(self, connection: sa.Connection, order: Order) -> sa.Row[Any] | None:
        key = self.keyed("run", order.model, order.data_set, order.window)
        return connection.execute(
            sa.select(tables.run).where(tables.run.c.key == key).order_by(tables.run.c.counter.desc()).limit(1)
        ).first()

    def _check_fits_policy(self, order: Order, policy: Policy) -> None:
        adjacencies = sorted({str(event.adjacency) for event in order.events})
        if order.unit != policy.unit or adjacencies != [policy.adjacency]:
            raise LedgerError(
                f"{order.data_set}: the policy protects one {policy.unit} under {policy.adjacency}, the plan one {order.unit} under "
                f"{' and '.join(adjacencies)}: guarantees of different kinds do not add; use the policy's"
            )
        if not order.blocks or (policy.blocks == "all") != (order.blocks == ("all",)):
            charged = ", ".join(order.blocks) or "no block"
            raise LedgerError(f"{order.data_set}: the policy divides the data set by {policy.blocks}, the plan charges {charged}")

    def _check_files(self, connection: sa.Connection, order: Order) -> None:
        for fingerprint in order.files:
            keyed = self.keyed("file", fingerprint)
            known = connection.execute(sa.select(tables.file.c.data_set).where(tables.file.c.fingerprint == keyed)).scalar()
            if known is None:
                connection.execute(tables.file.insert().values(fingerprint=keyed, data_set=order.data_set))
            elif known != order.data_set:
                raise LedgerError(
                    f"a file of {order.data_set!r} is charged under the data set {known!r} already: "
                    f"the same records must not have two budgets; set `data: name: {known}`"
                )

    def _resumed(self, row: sa.Row[Any], order: Order, again: bool) -> Run | None:
        same_data = row.manifest == self.keyed("manifest", order.manifest)
        same = row.plan == order.plan and same_data and row.private == order.private
        if row.state == "finished" and again:
            return None
        if row.state == "finished" and not same:
            changed = "plan" if same_data else "data"
            raise LedgerError(
                f"run {row.run} of this window is finished and the {changed} changed since: to spend on it once more use --again"
            )
        if not same:
            changed = "plan" if same_data else "data"
            raise LedgerError(
                f"run {row.run} of this window is unfinished and the {changed} changed since: restore what it had to resume it, "
                f"or give it up with `nightfit ledger abandon {row.run}` (refunds only questions never asked)"
            )
        return self._run(row.run, order, row.secret, row.manifest_id, row.started)

    def _new_run(self, connection: sa.Connection, order: Order, policy: Policy, counter: int) -> Run:
        needed = self._price(order, policy)
        for block in order.blocks:
            spent = self._spent(connection, order.data_set, block)
            if not (spent + needed).fits(policy.limit()):
                raise BudgetExceeded(_refusal(order, policy, block, spent, needed))
        run_id, secret = f"{order.model}-{secrets.token_hex(4)}", secrets.token_hex(32)
        manifest_id, started = secrets.token_hex(8), datetime.now(UTC).isoformat(timespec="seconds")
        for block in order.blocks:
            self._charge(connection, order.data_set, block, needed)
        body = {
            "cost": [str(needed.amount), str(needed.mass)],
            "currency": str(policy.currency),
            "blocks": list(order.blocks),
            "plan": order.plan,
            "private": order.private,
            "started": started,
            "events": [event.as_dict() for event in order.events],
        }
        reserved = chain.append(connection, "reserved", order.data_set, body, run=run_id)
        connection.execute(
            tables.run.insert().values(
                run=run_id,
                seq=reserved.seq,
                key=self.keyed("run", order.model, order.data_set, order.window),
                counter=counter,
                secret=secret,
                model=order.model,
                data_set=order.data_set,
                plan=order.plan,
                manifest=self.keyed("manifest", order.manifest),
                manifest_id=manifest_id,
                private=order.private,
                state="reserved",
                started=started,
            )
        )
        return self._run(run_id, order, secret, manifest_id, started)

    def _price(self, order: Order, policy: Policy) -> Cost:
        try:
            return policy.cost(order.events)
        except CurrencyError as error:
            raise LedgerError(f"{order.data_set}: {error}") from None

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


def _said(policy: Policy) -> str:
    return f"(epsilon {policy.epsilon:g}, delta {policy.delta:g}, {policy.adjacency}, unit {policy.unit}, {policy.currency})"


def _refusal(order: Order, policy: Policy, block: str, spent: Cost, needed: Cost) -> str:
    left = policy.limit() - spent
    fraction = max(0.0, min(left.amount / needed.amount, left.mass / needed.mass if needed.mass else 1.0))
    used = epsilon_of(spent, policy.delta, policy.currency)
    alone = epsilon_of(needed, policy.delta, policy.currency)
    return (
        f"{order.model}: this refit does not fit the lifetime budget of {order.data_set!r} (block {block}): "
        f"epsilon {used:.4g} of {policy.epsilon:g} is spent at delta {policy.delta:g}, and the plan alone would cost {alone:.4g}; "
        f"what is left would pay {fraction:.0%} of it. Nothing was read or charged. Lower epsilon, wait for new data, or widen the policy"
    )
