"""What became of every night, one line of JSON each, in `nights.jsonl` beside the releases. Imports the standard library and config.

The ledger knows nights that reserved something. This file also knows those that were refused, failed before, found nothing new, or were
missed. It is for people: nothing is decided by it, and a night whose line cannot be written goes on.
"""

import json
import os
import warnings
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

FILE = "nights.jsonl"
LONGEST = 2000  # characters of a reason: a whole line stays below 4,096 bytes, which one call appends whole
State = Literal["new", "unchanged", "failed", "refused", "missed", "overlapped"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Note:
    """What became of one night.

    Parameters
    ----------
    time
        When it was noted; of a missed or overlapped night, when it was due.
    model
        Its name.
    state
        In a word.
    run
        The run in the ledger, if there is one.
    reason
        Of a failure, in words that hold no value of a record.
    """

    time: str
    model: str
    state: State
    run: str | None = None
    reason: str = ""


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append(folder: Path, note: Note) -> None:
    """Add a line; a folder that cannot be written is warned of, because it must not fail the night."""
    line = json.dumps({**asdict(note), "reason": note.reason[:LONGEST]}) + "\n"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        warnings.warn(f"{folder / FILE} cannot be written ({error.strerror}): the history lacks a night", stacklevel=2)


def read(folder: Path, model: str) -> list[Note]:
    """The notes about a model, oldest first; a line that a full disk or a kill left half written is passed over."""
    try:
        lines = (folder / FILE).read_text().splitlines()
    except FileNotFoundError:
        return []
    notes = [note for line in lines if (note := _parsed(line)) is not None]
    return sorted((note for note in notes if note.model == model), key=lambda note: note.time)


def _parsed(line: str) -> Note | None:
    try:
        return Note(**json.loads(line))
    except (ValueError, TypeError):
        return None
