"""What binds a release to the entry that paid for it. Imports the chain's digests."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nightfit.ledger.chain import canonical, sha256

UNBOUND = ("receipt", "signature")


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where in which ledger a release was paid for.

    Parameters
    ----------
    ledger_id
        Of the ledger.
    seq, digest
        Number and digest of the run's `finished` entry; a ledger that lacks it is not the one that paid.
    content
        Digest of the release's content. None in receipts of format 2 and older, which bound nothing.
    """

    ledger_id: str
    seq: int
    digest: str
    content: str | None = None

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Receipt | None":
        """The receipt that a release carries, if it has one."""
        stored = content.get("receipt")
        return cls(**stored) if stored else None

    def as_dict(self) -> dict[str, Any]:
        """The stored form."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """What a run's `finished` entry records of its release, so that the release cannot be edited unseen.

    Parameters
    ----------
    content
        SHA-256 of the release's canonical JSON without its receipt and its signature, which are made afterwards.
    private
        Whether the release claims privacy.
    plan
        Digest of its plan.
    events
        SHA-256 of its events' canonical JSON.
    """

    content: str
    private: bool
    plan: str
    events: str

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Binding":
        """The binding of a release's content, as it is about to be written or as it was read."""
        return cls(
            content=sha256(canonical({name: value for name, value in content.items() if name not in UNBOUND})),
            private=bool(content.get("private")),
            plan=str(content.get("plan_digest")),
            events=events_digest(content.get("events")),
        )

    def as_dict(self) -> dict[str, Any]:
        """The body of the `finished` entry."""
        return asdict(self)


def events_digest(events: Any) -> str:
    """SHA-256 of a list of stored events."""
    return sha256(canonical(events))


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What a release says of itself: its run, its receipt if it has one, and what its content comes to."""

    run: str
    receipt: Receipt | None
    binding: Binding

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> "Claim":
        """The claim of a release's content."""
        return cls(run=str(content.get("run")), receipt=Receipt.of(content), binding=Binding.of(content))
