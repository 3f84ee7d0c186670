"""A ledger's id and secret key. Imports the standard library only."""

import hashlib
import hmac
import json
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a ledger from all others: a random id, and the key of its HMACs, which never leaves it."""

    ledger_id: str
    key: bytes = field(repr=False)

    def keyed(self, *parts: str) -> str:
        """HMAC-SHA256 of the parts: file names, windows and manifests are functions of the data, so only this is stored of them."""
        return hmac.new(self.key, json.dumps(parts).encode(), hashlib.sha256).hexdigest()
