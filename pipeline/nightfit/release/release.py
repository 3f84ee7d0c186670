"""What a refit releases: coefficients, plan, events, guarantee and receipt, as one JSON file. Imports numpy and rooms below."""

import json
import math
import os
import platform
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from nightfit.ledger import Receipt
from nightfit.methods.intervals import Intervals
from nightfit.planning.plan import Plan
from nightfit.plugins import member
from nightfit.problem import links
from nightfit.problem.links import Link
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Array, NightfitError, person_of

FORMAT = 1
LARGEST_PATH = 20_000
FLOATING = (
    " The noise that follows the data is made of floating-point numbers and rounded to a public grid: unlike all other noise it has its "
    "distribution up to rounding errors."
)


class ReleaseError(NightfitError):
    """The file is not a release that this version can read."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A released model. Everything in it is public: post-processing of paid answers, or public facts."""

    content: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.content["model"])

    @property
    def run_id(self) -> str:
        return str(self.content["run"])

    @property
    def private(self) -> bool:
        return bool(self.content["private"])

    @property
    def preprocessing(self) -> Preprocessing:
        return Preprocessing.from_dict(self.content["preprocessing"])

    @property
    def link(self) -> Link:
        """What turns a margin into a prediction."""
        made: Link = member(links, self.content.get("link", _implied_link(self.content["plan"]["loss"]["kind"])))()
        return made

    @property
    def of_columns(self) -> bool:
        """Whether it holds means of columns and nothing to predict with."""
        return self.content.get("kind") == "mean"

    @property
    def terms(self) -> list[tuple[str, float, float | None]]:
        """Each column's mean, or each feature's coefficient, in the user's units, with the standard deviation of the noise in it (at
        most; None where the data decided it).
        """
        shape, noise = self.preprocessing, self.content["coefficient_noise"]
        values = self.content["mean"] if self.of_columns else self.content["coef"]
        unit = [scale if self.of_columns else shape.target_scale / scale for scale in shape.scale]
        return [
            (name, float(values[name]), None if noise is None else float(noise) * scale)
            for name, scale in zip(shape.features, unit, strict=True)
        ]

    @property
    def intervals(self) -> Intervals | None:
        """Ranges for the coefficients and the intercept, where the method knows them."""
        stored = self.content.get("intervals")
        return None if stored is None else Intervals.from_dict(stored)

    @property
    def weights(self) -> Array:
        return np.array(self.content["scaled_weights"])

    @property
    def receipt(self) -> Receipt | None:
        stored = self.content.get("receipt")
        return Receipt(**stored) if stored else None

    def statement(self) -> str:
        """The guarantee in words."""
        if not self.private:
            return "NOT PRIVATE: made with seeded or no noise, for tests only. It must not leave the place where the data are."
        said = self.content["guarantee"]
        person = person_of(said["unit"])
        whose, protected = ("person", f"{person}, a person with all their rows,") if person else (said["unit"], said["unit"])
        reports = self.content["plan"].get("local")
        if reports is not None:
            pure = math.fsum(event["reports"] * event["epsilon"] for event in self.content["events"])
            return (
                f"{pure:.4g}-locally differentially private for one {said['unit']} ({said['epsilon']:.4g} at delta {said['delta']:g}): "
                f"this file is made of randomised reports alone, each drawn where the record is. Protected is {reports['protects']}. "
                f"Whatever is in this file is at most e^{pure:.3g} = {math.exp(pure):.3g} times as likely as with another {said['unit']}."
            )
        return (
            f"({said['epsilon']:.4g}, {said['delta']:g})-differentially private for one {protected} under {said['adjacency']}: "
            f"whatever an outsider could conclude from this file with the {whose}'s data, "
            f"they could conclude almost as surely without it "
            f"(probabilities change by a factor of at most e^{said['epsilon']:.3g} = {math.exp(said['epsilon']):.3g}, "
            f"but for a chance of {said['delta']:g})."
            + (FLOATING if any(event["mechanism"] in ("smooth_sensitivity", "smooth_gaussian") for event in self.content["events"]) else "")
        )

    def save(self, folder: Path) -> Path:
        """Write release.json under its final name only when it is whole and on disk."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "release.json"
        write_whole(path, json.dumps(self.content, indent=2, allow_nan=False) + "\n")
        return path

    @classmethod
    def load(cls, path: Path) -> "Release":
        try:
            content = json.loads(path.read_text())
        except FileNotFoundError:
            raise ReleaseError(f"there is no release at {path}: give the path of a release.json") from None
        except (OSError, ValueError):
            raise ReleaseError(f"{path} is not a release.json of nightfit") from None
        if not isinstance(content, dict) or content.get("nightfit_release") != FORMAT:
            raise ReleaseError(f"{path} is not a release.json that nightfit {version('nightfit')} reads")
        return cls(content=content)


def build(
    plan: Plan,
    weights: Array,
    path: list[Array],
    preprocessing: Preprocessing,
    *,
    run: str,
    manifest: str,
    started: str,
    private: bool,
    receipt: Receipt,
    intervals: Intervals | None = None,
) -> Release:
    """The release of fitted weights; `path` are the solver's iterates, all post-processing of paid answers, and so are the intervals and
    the bounds in `preprocessing` that were not public.
    """
    budget, spent, described = plan.specification.budget, plan.cost, plan.as_dict()
    features, loss = plan.specification.preprocessing.features, plan.specification.loss
    link = loss.link.name
    content = {
        "nightfit_release": FORMAT,
        "model": plan.specification.name,
        "run": run,
        "manifest": manifest,
        "time": started,
        "private": private,
        "guarantee": {
            "epsilon": plan.epsilon,
            "delta": budget.delta,
            "currency": str(budget.currency),
            "adjacency": str(budget.adjacency),
            "unit": budget.unit,
            **({"trust": "local", "protects": described["local"]["protects"]} if "local" in described else {}),
        }
        if private
        else None,
        "features": list(features),
        **_in_original_units(plan, weights, preprocessing),
        "scaled_weights": weights.tolist(),
        "intervals": None if intervals is None else intervals.as_dict(features),
        "coefficient_noise": plan.procedure.coefficient_noise(),
        "preprocessing": preprocessing.as_dict(),
        **({} if link == _implied_link(loss.name) else {"link": link}),
        "plan": described,
        "plan_digest": plan.digest(),
        "events": [event.as_dict() for event in plan.events],
        "cost": {"amount": str(spent.amount), "mass": str(spent.mass), "unit": "2^-200", "currency": str(budget.currency)},
        "path": [step.tolist() for step in path] if len(path) * len(weights) <= LARGEST_PATH else [],
        "receipt": receipt.as_dict(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("nightfit", "numpy", "opendp", "dp-accounting")},
        },
    }
    return Release(content=content)


def _implied_link(loss: str) -> str:
    """The link of a release that names none."""
    return "logit" if loss == "logistic" else "identity"


def _in_original_units(plan: Plan, weights: Array, shape: Preprocessing) -> dict[str, Any]:
    if plan.specification.of_columns:
        return {"kind": "mean", "mean": dict(zip(shape.features, shape.means_in_original_units(weights).tolist(), strict=True))}
    coef, intercept = shape.in_original_units(weights)
    return {"kind": "linear", "coef": dict(zip(shape.features, coef.tolist(), strict=True)), "intercept": intercept}


def releases_in(folder: Path) -> list[tuple[str, Release]]:
    """Every release below a folder, by its path there."""
    return [(str(path.relative_to(folder)), Release.load(path)) for path in sorted(folder.glob("**/release.json"))]


def write_whole(path: Path, text: str) -> None:
    """Replace a file by text that has reached the disk, or leave it as it was."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
