"""Where the bundled data sets lie, in a wheel and in a checkout. Imports the standard library only."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def bundled(name: str) -> Path:
    """The folder of the bundled data set `name` (such as "randhie"): nightfit/_data/ of a wheel, else data/ of a checkout."""
    homes = (_PACKAGE / "_data", _PACKAGE.parents[1] / "data")
    for home in homes:
        if name and (home / name).is_dir():
            return home / name
    looked = " and ".join(map(str, homes))
    raise FileNotFoundError(f"no bundled data set {name!r} in {looked}; check the name, or run `python data/rebuild.py` in a checkout")
