"""Copies of releases in a store: `output` may be a URL that fsspec opens. Imports config, release and shards.

Releases are always written to a folder of this machine first, where every later night finds them; the store has copies. What opens it
comes from its own environment variables or files.
"""

import secrets
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nightfit.config import Config, ConfigError
from nightfit.release.current import FILE as CURRENT
from nightfit.shards.listing import opened

AT_ONCE = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")  # stores whose objects appear whole; elsewhere a file gets its name when it is
COPIED = ("report.html", "levels.json", "release.json")  # the release last: where it is, the rest is


def check_store(url: str) -> None:
    """Write something to the store and remove it.

    Raises
    ------
    ConfigError
        If that fails; it names the kind of the failure, because its text may show what opens the store.
    """
    try:
        filesystem, root = opened(url, {})
        probe = f"{root}/.nightfit-{secrets.token_hex(8)}"
        _put(filesystem, probe, b"")
        filesystem.rm_file(probe)
    except Exception as error:
        raise ConfigError(
            f"output: {url} cannot be written ({type(error).__name__}): check the bucket, the package of the store and its environment "
            "variables; nothing was reserved"
        ) from None


def copy_releases(config: Config, run: str | None = None) -> None:
    """Copy to the store a run's files, those of runs that it lacks, and what is in use.

    A failure is a warning: the next night copies them.
    """
    if config.output_url is None:
        return
    folder = config.output_folder
    try:
        filesystem, root = opened(config.output_url, {})
        filesystem.invalidate_cache()
        there = {str(path).removeprefix(f"{root}/") for path in filesystem.find(root)} if filesystem.exists(root) else set()
        for path in _lacking(folder, there, run):
            _put(filesystem, f"{root}/{path.relative_to(folder).as_posix()}", path.read_bytes())
    except Exception as error:
        warnings.warn(
            f"{config.output_url} could not be written ({type(error).__name__}): the release is in {folder}, and the next refit copies it",
            stacklevel=2,
        )


def _lacking(folder: Path, there: set[str], run: str | None) -> Iterable[Path]:
    """The files of runs to copy, each release after what belongs to it, and last the file that says what is in use."""
    for made in sorted(path.parent for name in COPIED[1:] for path in folder.glob(f"*/{name}")):
        whole = {f"{made.name}/{name}" for name in COPIED if (made / name).exists()}
        if made.name == run or not whole <= there:
            yield from (made / name for name in COPIED if (made / name).exists())
    if (folder / CURRENT).exists():
        yield folder / CURRENT


def _put(filesystem: Any, path: str, content: bytes) -> None:
    """Write a file that is whole wherever it can be seen."""
    kinds = filesystem.protocol if isinstance(filesystem.protocol, tuple) else (filesystem.protocol,)
    if set(kinds) & set(AT_ONCE):
        filesystem.pipe_file(path, content)
        return
    filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    partial = f"{path}.{secrets.token_hex(8)}.partial"
    filesystem.pipe_file(partial, content)
    filesystem.mv(partial, path)
