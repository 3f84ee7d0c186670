"""A release: coefficients, plan, events, guarantee and receipt, as one JSON file. Imports the ledger's receipts and below."""

import json
import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nightfit.ledger import Claim, Receipt
from nightfit.methods.intervals import Intervals
from nightfit.plugins import member
from nightfit.problem import links
from nightfit.problem.links import Link
from nightfit.problem.links.softmax import Softmax as ClassLink
from nightfit.records.preprocessing import Preprocessing
from nightfit.release.assumptions import Assumption
from nightfit.release.validation import FORMAT, check_content, parse
from nightfit.types import Array, NightfitError, person_of

NOT_PRIVATE = "NOT PRIVATE: made with seeded or no noise, for tests only. It must not leave the place where the data are."
FLOATING_POINT = (
    " The noise that follows the data is made of floating-point numbers and rounded to a public grid: unlike all other noise it has its "
    "distribution up to rounding errors."
)


class ReleaseError(NightfitError):
    """The file is not a release that this version can read."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Release:
    """A released model. Everything in it is public: post-processing of paid answers, or public facts.

    Parameters
    ----------
    content
        The JSON document. Its keys are read by other versions: they change only with its format number.
    """

    content: dict[str, Any]

    @property
    def name(self) -> str:
        """Of the model."""
        return str(self.content["model"])

    @property
    def run_id(self) -> str:
        """Of the run that made it."""
        return str(self.content["run"])

    @property
    def private(self) -> bool:
        """Whether it claims privacy."""
        return bool(self.content["private"])

    @cached_property
    def preprocessing(self) -> Preprocessing:
        """How rows become scaled columns."""
        return Preprocessing.from_dict(self.content["preprocessing"])

    @property
    def link(self) -> Link:
        """What turns a margin into a prediction."""
        if self.classes:
            return ClassLink()
        kind: Any = member(links, self.content.get("link", implied_link(self.content["plan"]["loss"]["kind"])))
        made: Link = kind(**dict(zip(("low", "high"), self.content.get("range", ()), strict=False)))
        return made

    @property
    def of_columns(self) -> bool:
        """Whether it holds means of columns and nothing to predict with."""
        return self.content.get("kind") == "mean"

    @property
    def classes(self) -> tuple[str, ...]:
        """The labels of several classes, each of which has coefficients of its own; empty for every other model."""
        return tuple(self.content.get("classes", ()))

    @property
    def paid_clamps(self) -> dict[str, tuple[float, float]]:
        """Where features without public bounds were clamped, by paid answers: beyond, a coefficient does not go on."""
        now, public = (content["preprocessing"]["columns"] for content in (self.content, self.content["plan"]))
        return {
            name: tuple(column["clamp"]) for name, column in now.items() if column["clamp"] and column["clamp"] != public[name]["clamp"]
        }

    @property
    def terms(self) -> list[tuple[str, float, float | None]]:
        """The name of each column and its mean, or of each feature (of each class) and its coefficient, in the user's units; and the
        noise's sd.

        The standard deviation is an upper bound; None where the data decided it.
        """
        shape, noise = self.preprocessing, self.content["coefficient_noise"]
        if self.classes:
            return [
                (f"{label}: {name}", float(self.content["coef"][label][name]), None) for label in self.classes for name in shape.features
            ]
        values = self.content["mean"] if self.of_columns else self.content["coef"]
        unit = [scale if self.of_columns else shape.target_scale / scale for scale in shape.scale]
        return [
            (name, float(values[name]), None if noise is None else float(noise) * scale)
            for name, scale in zip(shape.features, unit, strict=True)
        ]

    @property
    def assumptions(self) -> list[tuple[str, str]]:
        """Name and sentence of everything that the guarantee takes for granted; none in older releases."""
        known = {str(assumption): assumption.sentence for assumption in Assumption}
        return [(name, known.get(name, "")) for name in (self.content["guarantee"] or {}).get("assumptions", [])]

    @property
    def intervals(self) -> Intervals | None:
        """Ranges for the coefficients and the intercept, where the method knows them; those of several classes are `class_intervals`."""
        stored = self.content.get("intervals")
        return None if stored is None else Intervals.from_dict(stored)

    @property
    def class_intervals(self) -> dict[str, Intervals]:
        """The same for each of several classes, where the method knows them."""
        return {label: Intervals.from_dict(stored) for label, stored in self.content.get("class_intervals", {}).items()}

    @property
    def weights(self) -> Array:
        """Of the scaled columns; a matrix with a column for each class where there are several."""
        return np.array(self.content["scaled_weights"]).T

    @property
    def claim(self) -> Claim:
        """What it says of itself, to be compared with the ledger's entries."""
        return Claim.of(self.content)

    @property
    def receipt(self) -> Receipt | None:
        """Where it was paid for."""
        return Receipt.of(self.content)

    def paid(self, receipt: Receipt) -> "Release":
        """The release with its receipt."""
        return Release(content={**self.content, "receipt": receipt.as_dict()})

    def tampering(self) -> str | None:
        """What is suspicious about it without a ledger at hand, in words that follow its name; None if nothing is.

        A release that agrees with its own receipt may still be forged: `nightfit ledger verify --releases` compares it with the ledger.
        """
        claim = self.claim
        if claim.receipt is None:
            return "has no receipt: no ledger paid for it"
        if claim.receipt.content is None:
            return "has a receipt that does not cover its content (it is older than ledgers of format 3): it may have been edited"
        return (
            None if claim.receipt.content == claim.binding.content else "was edited after it was released: its receipt covers other content"
        )

    def __repr__(self) -> str:
        told = {"model": self.name, "run": self.run_id, "private": self.private}
        guarantee = {name: self.content["guarantee"][name] for name in ("epsilon", "delta")} if self.private else {}
        return f"Release({', '.join(f'{name}={value!r}' for name, value in {**told, **guarantee}.items())})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the report without its mechanics."""
        from nightfit.release.report import notebook

        return notebook(self)

    def statement(self) -> str:
        """The guarantee in words."""
        if not self.private:
            return NOT_PRIVATE
        return self._central_statement() if self.content["plan"].get("local") is None else self._local_statement()

    def _local_statement(self) -> str:
        guarantee, unit = self.content["guarantee"], self.content["guarantee"]["unit"]
        pure = math.fsum(event["reports"] * event["epsilon"] for event in self.content["events"])
        return (
            f"{pure:.4g}-locally differentially private for one {unit} ({guarantee['epsilon']:.4g} at delta {guarantee['delta']:g}): "
            f"this file is made of randomised reports alone, each drawn where the record is. "
            f"Protected is {self.content['plan']['local']['protects']}. "
            f"Whatever is in this file is at most e^{pure:.3g} = {math.exp(pure):.3g} times as likely as with another {unit}."
        )

    def _central_statement(self) -> str:
        guarantee = self.content["guarantee"]
        epsilon, delta, person = guarantee["epsilon"], guarantee["delta"], person_of(guarantee["unit"])
        whose, protected = ("person", f"{person}, a person with all their rows,") if person else (guarantee["unit"], guarantee["unit"])
        smooth = any(event["mechanism"] in ("smooth_sensitivity", "smooth_gaussian") for event in self.content["events"])
        return (
            f"({epsilon:.4g}, {delta:g})-differentially private for one {protected} under {guarantee['adjacency']}: "
            f"whatever an outsider could conclude from this file with the {whose}'s data, "
            f"they could conclude almost as surely without it "
            f"(probabilities change by a factor of at most e^{epsilon:.3g} = {math.exp(epsilon):.3g}, but for a chance of {delta:g})."
            + (FLOATING_POINT if smooth else "")
        )

    def save(self, folder: Path) -> Path:
        """Write release.json into a folder.

        Parameters
        ----------
        folder
            Is made if it does not exist.

        Returns
        -------
        Path
            Of the file, which has its name only when it is complete and on disk.
        """
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "release.json"
        write_atomically(path, json.dumps(self.content, indent=2, allow_nan=False) + "\n")
        return path

    @classmethod
    def load(cls, path: str | Path) -> "Release":
        """Read a release.json, and check all of it.

        Raises
        ------
        ReleaseError
            If there is none, this version cannot read it, or it is damaged; the message says where.
        """
        place = Path(path)
        return cls._checked(place, _parsed(place, _text(place)))

    @classmethod
    def _checked(cls, path: Path, content: Any) -> "Release":
        if not isinstance(content, dict) or content.get("nightfit_release") != FORMAT:
            raise ReleaseError(f"{path} is not a release.json that nightfit {version('nightfit')} reads")
        try:
            check_content(content)
        except ValueError as error:
            raise ReleaseError(
                f"{path} is damaged: {error}; restore it from a copy, or run its refit again: nothing is paid twice"
            ) from None
        return cls(content=content)


def _text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text()
    except FileNotFoundError:
        raise ReleaseError(f"there is no release at {path}: give the path of a release.json") from None
    except OSError:
        raise ReleaseError(f"{path} cannot be read: give the path of a release.json") from None
    except ValueError as error:
        raise ReleaseError(f"{path} is not a release.json of nightfit: {error}") from None


def _parsed(path: Path, text: str) -> Any:
    """What a file's text says, unchecked."""
    try:
        return parse(text)
    except ValueError as error:
        raise ReleaseError(f"{path} is not a release.json of nightfit: {error}") from None


def implied_link(loss: str) -> str:
    """The link of a release that names none."""
    return {"logistic": "logit", "softmax": "softmax", "poisson": "log", "gamma": "log"}.get(loss, "identity")


def releases_in(folder: Path, model: str | None = None) -> list[tuple[str, Release]]:
    """Every release below a folder that is whole, by its path there; with a model those of its name, and no other is checked."""
    return [(name, found) for name, found in found_in(folder, model) if isinstance(found, Release)]


def damaged_in(folder: Path) -> list[str]:
    """What is wrong with every other release.json below a folder, in words."""
    return [str(found) for _, found in found_in(folder) if isinstance(found, ReleaseError)]


def found_in(folder: Path, model: str | None = None) -> Iterator[tuple[str, Release | ReleaseError]]:
    """Every release.json below a folder: the release, or what is wrong with it."""
    for path in sorted(folder.glob("**/release.json")):
        try:
            text = _text(path)
            if model is not None and json.dumps(model) not in text:  # parsing a release takes a hundred times as long
                continue
            content = _parsed(path, text)
            if model is None or (isinstance(content, dict) and content.get("model") == model):
                yield str(path.relative_to(folder)), Release._checked(path, content)
        except ReleaseError as error:
            yield str(path.relative_to(folder)), error


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file by content that has reached the disk, or leave it as it was."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(content.encode() if isinstance(content, str) else content)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
