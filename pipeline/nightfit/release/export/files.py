"""Write a release in a format. Imports formats by their names."""

from pathlib import Path
from typing import Any

from nightfit.plugins import member
from nightfit.release import export
from nightfit.release.document import Release, write_atomically
from nightfit.release.export import Format, Formula
from nightfit.types import NightfitError


def write(release: Release, name: str, output: Path | None = None, **options: Any) -> Path:
    """Write a released model for another system.

    Parameters
    ----------
    release : Release
        A model that predicts.
    name : str
        Of the format: onnx, sklearn, pmml, sql, json, or that of a plug-in.
    output : Path, optional
        The file, by default the model's name with the format's ending in the working directory.
    **options
        Of the format: `dialect` and `table` of sql.

    Returns
    -------
    Path
        Of the file, which has its name only when it is complete and on disk.

    Raises
    ------
    NightfitError
        If the format cannot hold the model, has no such option, or lacks a package.
    """
    formula = Formula.of(release)
    try:
        form: Format = member(export, name)(**options)
    except (TypeError, ValueError) as error:
        words = f"the format {name} has no option {' or '.join(options)}" if isinstance(error, TypeError) else str(error)
        raise NightfitError(words) from None
    path = Path(f"{release.name}{form.suffix}") if output is None else output
    if path.is_dir():
        raise NightfitError(f"{path} is a folder: name the file to write")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, form.written(formula))
    return path
