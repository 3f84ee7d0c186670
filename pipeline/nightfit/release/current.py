"""`current`: a small JSON file in the folder of releases that says which release of a model is in use. Imports the document."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from nightfit.release.document import Release, ReleaseError, write_atomically

FILE = "current"
FORMAT = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointer:
    """The release of a model that is in use.

    Parameters
    ----------
    run
        Of the release.
    release
        Its file, relative to the folder.
    entry
        Number of the ledger's entry that decided it.
    time, reason
        Of the decision.
    """

    run: str
    release: str
    entry: int
    time: str
    reason: str


def write_pointers(folder: Path, pointers: dict[str, Pointer]) -> None:
    """Replace the file at once, with a pointer for each model."""
    content = {"nightfit_current": FORMAT, "models": {model: asdict(one) for model, one in sorted(pointers.items())}}
    write_atomically(folder / FILE, json.dumps(content, indent=2) + "\n")


def read_pointers(folder: Path) -> dict[str, Pointer]:
    """The pointer of each model; none where nothing was promoted.

    Raises
    ------
    ReleaseError
        If the file is not one that this version reads.
    """
    try:
        content = json.loads((folder / FILE).read_text())
        if content["nightfit_current"] != FORMAT:
            raise ValueError
        return {model: Pointer(**one) for model, one in content["models"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError):
        raise ReleaseError(f"{folder / FILE} is not one that this version reads: `nightfit promote RUN` writes it anew") from None


def load_current(path: Path, model: str | None = None) -> Release:
    """The release at a path: a `release.json`, or a folder of releases, of which the current one is meant.

    Parameters
    ----------
    path
        File or folder.
    model
        Whose current release, where the folder holds several models'.

    Raises
    ------
    ReleaseError
        If there is none, or it is not clear which.
    """
    if not path.is_dir():
        return Release.load(path)
    pointers = read_pointers(path)
    if not pointers:
        raise ReleaseError(f"no release in {path} was promoted: `nightfit promote RUN` does, or name a release.json")
    if model is None and len(pointers) > 1:
        raise ReleaseError(f"{path} holds current releases of {', '.join(pointers)}: name one by --model")
    name = next(iter(pointers)) if model is None else model
    if name not in pointers:
        raise ReleaseError(f"no release of {name} in {path} was promoted; there are {', '.join(pointers)}")
    found = Release.load(path / pointers[name].release)
    if found.run_id != pointers[name].run:
        raise ReleaseError(
            f"{path / pointers[name].release} is of run {found.run_id}, and {pointers[name].run} is current: restore the file"
        )
    return found
