"""The newest entry of each ledger that this user has paid with, kept apart from the ledger. Imports ledger and release.

An older copy of a ledger forgets charges. A release names the entry that paid for it, so models notice by the releases in their own output
folder; this file lets every model notice, whichever of them made the charge, and also a charge whose run never ended.
"""

import contextlib
import json
import os
from pathlib import Path

from nightfit.ledger import Ledger, LedgerError
from nightfit.release.document import write_atomically


def place_of(ledger: Ledger) -> Path:
    """The file that remembers a ledger: below `XDG_STATE_HOME`, else below ~/.local/state."""
    chosen = Path(os.environ.get("XDG_STATE_HOME", ""))
    base = chosen if chosen.is_absolute() else Path.home() / ".local" / "state"
    return base / "nightfit" / "ledgers" / f"{ledger.ledger_id}.json"


def remember(ledger: Ledger) -> bool:
    """Note the ledger's newest entry, unless a later one is noted; whether it could be noted."""
    place, (seq, digest) = place_of(ledger), ledger.newest()
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        known = _known(place)
        if known is None or known[0] < seq:
            write_atomically(place, json.dumps({"seq": seq, "digest": digest}) + "\n")
        return True
    return False


def check_not_older(ledger: Ledger) -> None:
    """Refuse a ledger that lacks the newest entry that was noted.

    Raises
    ------
    LedgerError
        If it does.
    """
    place = place_of(ledger)
    known = _known(place)
    if known is not None and known[0] and not ledger.holds(*known):
        raise LedgerError(
            f"this ledger lacks its entry {known[0]}, which this user paid by before: it is an older copy, and spending on would forget "
            f"that charge; restore the newest copy. If that is lost for good, tighten the policy first, and then remove {place}"
        )


def _known(place: Path) -> tuple[int, str] | None:
    try:
        found = json.loads(place.read_text())
        return int(found["seq"]), str(found["digest"])
    except OSError:
        return None
    except (ValueError, KeyError, TypeError):
        raise LedgerError(f"{place} cannot be read: run `nightfit ledger verify`, and remove it if the ledger is the newest") from None
