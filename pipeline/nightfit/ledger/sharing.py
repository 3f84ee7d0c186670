"""Queries that one run pays for and others take the answers of. Imports sqlalchemy.

A model that is fitted beside others of the same records takes the answers about rows from one run, which paid for them once. They are
post-processing of paid answers to it, as a previous release is to `start: previous`.
"""

from typing import Any

import sqlalchemy as sa

from nightfit.ledger import runs
from nightfit.ledger.errors import LedgerError
from nightfit.ledger.identity import Identity
from nightfit.ledger.reservation import Reservation, Shared
from nightfit.privacy.events import event_from_dict


def check(connection: sa.Connection, identity: Identity, reservation: Reservation) -> None:
    """Refuse to take answers of a run that did not reserve them, was given up, or reads other records.

    Guarantee: what a release counts as paid by another run was charged there, once, to the blocks that the release's own run charges, for
    the same files, with noise of the same kind. Broken by test_a_run_takes_only_what_another_run_of_the_same_records_reserved.

    Raises
    ------
    LedgerError
        With the reason.
    """
    shared = reservation.shared
    if shared is None:
        return
    row, paid = runs.read(connection, shared.run), runs.reservation_of(connection, shared.run)
    if row.state == "abandoned":
        raise LedgerError(f"run {shared.run} was abandoned: its answers cannot be shared")
    same = (
        row.data_set == reservation.data_set,
        row.manifest == identity.keyed("manifest", reservation.manifest),
        tuple(paid["blocks"]) == reservation.blocks,
        row.private == reservation.private,
        "shared" not in paid,
    )
    if not all(same):
        raise LedgerError(f"{reservation.model}: run {shared.run} reads other records, or has other noise: its answers cannot be shared")
    if not shared.events or paid["events"] != [event.as_dict() for event in shared.events]:
        raise LedgerError(f"{reservation.model}: run {shared.run} did not reserve the queries that are to be shared")
    twice = {event.label for event in shared.events} & {event.label for event in reservation.events}
    if twice:
        raise LedgerError(f"{reservation.model}: {', '.join(sorted(twice))} would be asked and taken from run {shared.run}")


def as_dict(shared: Shared) -> dict[str, Any]:
    """As the `reserved` entry keeps it."""
    return {"run": shared.run, "events": [event.as_dict() for event in shared.events]}


def of_reservation(reserved: dict[str, Any]) -> Shared | None:
    """What the body of a `reserved` entry says."""
    stored = reserved.get("shared")
    return None if stored is None else Shared(run=stored["run"], events=tuple(event_from_dict(event) for event in stored["events"]))


def all_events(reserved: dict[str, Any]) -> list[dict[str, Any]]:
    """Every query that a release of the run lists: those of another run first, then its own."""
    return [*reserved.get("shared", {}).get("events", []), *reserved["events"]]
