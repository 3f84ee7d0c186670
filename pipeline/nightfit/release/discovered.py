"""The release of a discovery: the levels that were told, as one JSON file. Imports the ledger's receipts and below."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from nightfit.ledger import Claim, Receipt
from nightfit.release.document import ReleaseError, releases_in, write_atomically
from nightfit.release.validation import Digest, Name, parse

FILE = "levels.json"
FORMAT = 1


class _Content(BaseModel):
    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False, frozen=True)

    nightfit_levels: Literal[FORMAT]  # type: ignore[valid-type]
    model: Name
    run: Name
    data_set: Name
    private: bool
    levels: dict[Name, list[Name]] = Field(min_length=1)
    plan_digest: Digest
    events: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Discovered:
    """Levels that a discovery told, with what it cost. Everything in it is public.

    Parameters
    ----------
    content
        The JSON document. Its keys are read by other versions: they change only with its format number.
    """

    content: dict[str, Any]

    @property
    def run_id(self) -> str:
        """Of the run that made it."""
        return str(self.content["run"])

    @property
    def levels(self) -> dict[str, tuple[str, ...]]:
        """The levels of each column."""
        return {column: tuple(levels) for column, levels in self.content["levels"].items()}

    @property
    def claim(self) -> Claim:
        """What it says of itself, to be compared with the ledger's entries."""
        return Claim.of(self.content)

    def paid(self, receipt: Receipt) -> "Discovered":
        """The same with its receipt."""
        return Discovered(content={**self.content, "receipt": receipt.as_dict()})

    def save(self, folder: Path) -> Path:
        """Write it to a folder, which is made if it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / FILE, json.dumps(self.content, indent=2, ensure_ascii=False) + "\n")
        return folder / FILE

    @classmethod
    def load(cls, path: Path) -> "Discovered":
        """Read one; a ReleaseError if it is not whole."""
        try:
            content = parse(path.read_text(encoding="utf-8"))
            _Content.model_validate(content)
        except (OSError, UnicodeDecodeError):
            raise ReleaseError(f"{path} cannot be read") from None
        except (ValidationError, ValueError) as error:
            first = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise ReleaseError(
                f"{path} is damaged: {first}; restore it from a copy, or run `nightfit discover` again: nothing is paid twice"
            ) from None
        return cls(content=content)


def discovered_in(folder: Path) -> Iterator[tuple[str, Discovered]]:
    """Every release of a discovery below a folder, by its path there; a ReleaseError at the first that is not whole."""
    for path in sorted(folder.glob(f"**/{FILE}")):
        yield str(path.relative_to(folder)), Discovered.load(path)


def claims_in(folder: Path) -> list[tuple[str, Claim]]:
    """What every whole release below a folder says of itself, those of discoveries too, by its path there."""
    return [
        *((name, release.claim) for name, release in releases_in(folder)),
        *((name, told.claim) for name, told in discovered_in(folder)),
    ]
