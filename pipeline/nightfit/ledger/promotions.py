"""Which release of a model is in use: decisions and their reasons, as entries of the chain. Imports sqlalchemy."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa

from nightfit.ledger import chain, releases, runs, tables
from nightfit.ledger.database import durable
from nightfit.ledger.errors import LedgerError
from nightfit.ledger.receipt import Claim
from nightfit.ledger.store import Ledger

KIND = "promotion"
Decision = Literal["promoted", "kept", "rolled back"]
Judge = Callable[[str | None], tuple[Decision, str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Promotion:
    """One decision about a model.

    Parameters
    ----------
    seq
        Of its entry.
    run
        The run that was decided about; of a rollback, the one that was given up.
    model, data_set
        Of the run.
    decision
        `promoted`, `kept` (another release stays in use) or `rolled back`.
    current
        The run in use afterwards; None if there is none.
    rule
        By which it was decided: the configuration's `promote`, or `by hand`.
    reason
        In words; the numbers in it are paid.
    time
        When.
    """

    seq: int
    run: str
    model: str
    data_set: str
    decision: Decision
    current: str | None
    rule: str
    reason: str
    time: str


def promotions(ledger: Ledger) -> list[Promotion]:
    """Every decision, oldest first."""
    return durable(ledger.engine, _read)


def current(ledger: Ledger, model: str, data_set: str) -> str | None:
    """The run of a model that is in use."""
    return durable(ledger.engine, lambda connection: _current(_about(_read(connection), model, data_set)))


def decide(ledger: Ledger, claim: Claim, judge: Judge, *, rule: str, time: str, token: str) -> Promotion:
    """Decide about a release in one transaction, and record the decision.

    Parameters
    ----------
    ledger
        That paid for it.
    claim
        What the release says of itself.
    judge
        From the run in use to a decision and its reason.
    rule, time
        Of the decision.
    token
        Identifies it: the same token finds the decision that was made before.

    Raises
    ------
    LedgerError
        If the release claims no privacy, or is not, to the last digit, what its run paid for.

    Notes
    -----
    Guarantee: only a private release that the chain binds comes into use. Broken by test_only_a_bound_private_release_is_promoted.
    """

    def change(connection: sa.Connection) -> Promotion:
        made = _made(connection, token)
        if made is not None:
            return made
        _check(releases.check(connection, ledger.ledger_id, claim), claim)
        row = runs.read(connection, claim.run)
        before = _current(_about(_read(connection), row.model, row.data_set))
        decision, reason = judge(before)
        after = row.run if decision == "promoted" else before
        return _append(connection, row, decision, after, {"rule": rule, "reason": reason, "time": time, "token": token})

    return durable(ledger.engine, change)


def roll_back(ledger: Ledger, model: str, data_set: str, *, reason: str, time: str, token: str) -> Promotion:
    """Put the release in use that was before the current one.

    Raises
    ------
    LedgerError
        If there was none.
    """

    def change(connection: sa.Connection) -> Promotion:
        made = _made(connection, token)
        if made is not None:
            return made
        stack = _stack(_about(_read(connection), model, data_set))
        if len(stack) < 2:
            raise LedgerError(
                f"there is no release of {model!r} to go back to: "
                + (f"{stack[0]} is the first that was promoted" if stack else "none was promoted; `nightfit promote RUN` does")
            )
        row = runs.read(connection, stack[-1])
        return _append(connection, row, "rolled back", stack[-2], {"rule": "by hand", "reason": reason, "time": time, "token": token})

    return durable(ledger.engine, change)


def with_current(ledger: Ledger, write: Callable[[dict[tuple[str, str], Promotion]], None]) -> None:
    """Hand the last promotion of every model and data set to `write`, while no other process can promote."""

    def read(connection: sa.Connection) -> None:
        found: defaultdict[tuple[str, str], list[Promotion]] = defaultdict(list)
        for one in _read(connection):
            found[one.model, one.data_set].append(one)
        write({key: moves[-1] for key, every in found.items() if (moves := [one for one in every if one.decision != "kept"])})

    durable(ledger.engine, read)


def _check(check: releases.ReleaseCheck, claim: Claim) -> None:
    if check.problem is not None:
        raise LedgerError(f"run {claim.run} cannot be promoted: its release {check.problem}")
    if not check.bound:
        raise LedgerError(f"run {claim.run} cannot be promoted: it was finished before format 3, so that the ledger cannot vouch for it")
    if not claim.binding.private:
        raise LedgerError(f"run {claim.run} cannot be promoted: its release is not private")


def _append(connection: sa.Connection, row: runs.RunRow, decision: Decision, after: str | None, more: dict[str, Any]) -> Promotion:
    body = {"model": row.model, "decision": decision, "current": after, **more}
    return _promotion(chain.append(connection, KIND, row.data_set, body, row.run))


def _read(connection: sa.Connection) -> list[Promotion]:
    return [_promotion(entry) for entry in chain.each(connection, tables.entry.c.kind == KIND)]


def _made(connection: sa.Connection, token: str) -> Promotion | None:
    """The decision of this token; a retried transaction, or the same night once more, finds it."""
    found = (entry for entry in chain.each(connection, tables.entry.c.kind == KIND) if entry.body["token"] == token)
    return next((_promotion(entry) for entry in found), None)


def _promotion(entry: chain.Entry) -> Promotion:
    body = {name: value for name, value in entry.body.items() if name != "token"}
    return Promotion(seq=entry.seq, run=str(entry.run), data_set=entry.data_set, **body)


def _about(every: Sequence[Promotion], model: str, data_set: str) -> list[Promotion]:
    return [one for one in every if (one.model, one.data_set) == (model, data_set)]


def _stack(every: Sequence[Promotion]) -> list[str]:
    """The runs that were promoted and not given up since, the current one last."""
    stack: list[str] = []
    for one in every:
        if one.decision == "promoted":
            stack.append(one.run)
        elif one.decision == "rolled back":
            stack.pop()
    return stack


def _current(every: Sequence[Promotion]) -> str | None:
    stack = _stack(every)
    return stack[-1] if stack else None
