"""Packages that come with an extra, because only some commands need them. Imports types."""

from importlib.util import find_spec

from nightfit.types import NightfitError

NIGHTLY = ("prefect",)  # of the extra `nightly`, for flows; its matplotlib draws the pages of papers alone


class MissingExtra(NightfitError):
    """A package that is not installed, and the extra that brings it."""


def needs(what: str, *packages: str, extra: str = "nightly") -> None:
    """Refuse what cannot be done without packages that are not installed.

    Parameters
    ----------
    what : str
        What is asked for.
    *packages : str
        The names by which they are imported.
    extra : str
        The extra of nightfit that brings them.

    Raises
    ------
    MissingExtra
        If one is not installed.

    Examples
    --------
    >>> needs("a plot", "no_such_package")
    Traceback (most recent call last):
    nightfit.extras.MissingExtra: a plot needs no_such_package, which is not installed: pip install 'nightfit[nightly]'
    """
    missing = [name for name in packages if not _installed(name)]
    if missing:
        told = f"{', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not installed"
        raise MissingExtra(f"{what} needs {told}: pip install 'nightfit[{extra}]'")


def _installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False
