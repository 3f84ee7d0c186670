"""Whether a release is what its run paid for. Imports sqlalchemy."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nightfit.ledger import chain, sharing, tables
from nightfit.ledger.receipt import Binding, Claim, events_digest


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseCheck:
    """What a ledger knows of a release.

    Parameters
    ----------
    problem
        What is wrong, in words that follow the release's name; None if nothing is.
    bound
        Whether the ledger recorded a digest of the content. Releases of format 2 and older are unbound: their private flag, plan and
        events are compared with the reservation, the rest of them with nothing.
    """

    problem: str | None
    bound: bool

    @property
    def trusted(self) -> bool:
        """Whether the release is what its run paid for, to the last digit."""
        return self.problem is None and self.bound


def check(connection: sa.Connection, ledger_id: str, claim: Claim) -> ReleaseCheck:
    """Compare a release with the entries of its run.

    Guarantee: if `trusted`, the content is the one that was closed under the receipt's entry: its digest is in the entry, and the entry's
    digest in the receipt and in every later entry. Broken by test_an_edited_release_is_refused.
    """
    receipt = claim.receipt
    if receipt is None:
        return ReleaseCheck(problem="has no receipt: it was not paid for", bound=False)
    if receipt.ledger_id != ledger_id:
        return ReleaseCheck(problem=f"was paid in another ledger ({receipt.ledger_id})", bound=False)
    entry = _entry(connection, receipt.seq, receipt.digest)
    if entry is None:
        missing = f"was paid by entry {receipt.seq}, which this ledger does not have: it is an older copy or was edited"
        return ReleaseCheck(problem=missing, bound=False)
    if entry.kind != "finished" or entry.run != claim.run:
        return ReleaseCheck(problem=f"has the receipt of entry {receipt.seq}, which did not close run {claim.run}", bound=False)
    bound = "content" in entry.body
    changed = _changed(claim.binding, entry.body) if bound else _overclaimed(claim.binding, _reserved(connection, claim.run))
    problem = f"is not the release that entry {receipt.seq} closed: {changed} changed since"
    return ReleaseCheck(problem=problem if changed else None, bound=bound)


def overclaims(connection: sa.Connection, run: str, binding: Binding) -> str | None:
    """What of a release goes beyond the reservation of its run: its private flag, plan or events; None if nothing does."""
    return _overclaimed(binding, _reserved(connection, run))


def _changed(binding: Binding, recorded: dict[str, Any]) -> str | None:
    now = binding.as_dict()
    names = {"private": "the private flag", "plan": "the plan", "events": "the events", "content": "the content"}
    return next((words for name, words in names.items() if now[name] != recorded[name]), None)


def _overclaimed(binding: Binding, reserved: dict[str, Any]) -> str | None:
    if binding.private and not reserved["private"]:
        return "the private flag"
    if binding.plan != reserved["plan"]:
        return "the plan"
    return None if binding.events == events_digest(sharing.all_events(reserved)) else "the events"


def _entry(connection: sa.Connection, seq: int, digest: str) -> chain.Entry | None:
    found = chain.read(connection, tables.entry.c.seq == seq, tables.entry.c.digest == digest)
    return found[0] if found else None


def _reserved(connection: sa.Connection, run: str) -> dict[str, Any]:
    return chain.read(connection, tables.entry.c.run == run, tables.entry.c.kind == "reserved")[0].body
