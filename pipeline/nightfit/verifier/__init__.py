"""Whether a release is what it says, for a stranger: two short modules that import nothing of nightfit.

- `epsilon`: what the release's events cost, by two routes that share nothing: dp_accounting, and formulas with scipy
- `document`: the release against itself, its receipt, its signature, and the entries of a ledger's chain

`nightfit verify RELEASE.json` calls `verify`. The folder also runs where nightfit is not installed: copy it, install scipy and
dp-accounting, and say `python -m verifier RELEASE.json [CHAIN.jsonl]` beside it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from .document import Content, Entry, check_chain, check_document, check_epsilon, check_signature

__all__ = ["TRUSTED", "Verdict", "verify"]

TRUSTED = (
    "that each query moves no further than its event says, and that its noise was drawn: this is code, which "
    "docs/explanation/privacy.md lists and `nightfit audit` attacks",
    "that the same records were not read through another ledger, another name of the data set or other software",
    "that whoever keeps the ledger did not rewrite all of it, and its receipts with it: a signature or a receipt kept elsewhere tells",
)
NEEDED = ("run", "private", "guarantee", "events", "plan_digest")
NO_CHAIN = "that a ledger paid for it: give --ledger or --export to check"


@dataclass(frozen=True)
class Verdict:
    """What was found, what is wrong, and what remains trusted, in sentences."""

    found: tuple[str, ...]
    wrong: tuple[str, ...]
    trusted: tuple[str, ...]


def verify(content: Content, entries: Iterable[Entry] | None = None, public_key: bytes | None = None) -> Verdict:
    """Check a release.

    Parameters
    ----------
    content
        What release.json holds.
    entries
        The chain of its ledger, if it is at hand.
    public_key
        Of whom must have signed it, in PEM.
    """
    lacks = [name for name in NEEDED if name not in content] if isinstance(content, dict) else list(NEEDED)
    if lacks:
        return Verdict(found=(), wrong=(f"it is no release: it has no {', '.join(lacks)}",), trusted=TRUSTED)
    checks = [check_epsilon(content), check_document(content), check_signature(content, public_key)]
    if entries is not None:
        checks.append(check_chain(content, list(entries)))
    assumed = (content.get("guarantee") or {}).get("assumptions", [])
    return Verdict(
        found=tuple(line for found, _ in checks for line in found),
        wrong=tuple(line for _, wrong in checks for line in wrong),
        trusted=(*TRUSTED, *([NO_CHAIN] if entries is None else []), *(f"its assumption {name}" for name in assumed)),
    )
