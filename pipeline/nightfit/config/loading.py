"""Read refit.yaml, and its JSON schema. Imports pydantic."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from nightfit.config.faults import ConfigError, describe, shown
from nightfit.config.model import Config
from nightfit.config.text import TextError, plain_data
from nightfit.plugins import members
from nightfit.problem import losses


def load(path: Path) -> Config:
    """The configuration in a file.

    Parameters
    ----------
    path : Path
        A `refit.yaml`; relative paths in it are relative to its folder.

    Returns
    -------
    Config

    Raises
    ------
    ConfigError
        If it is not valid; the message names every fault and what to change.
    """
    return parse(content_of(path), path.resolve().parent, str(path))


def configurations(paths: Sequence[Path]) -> list[Path]:
    """The files of configurations: a folder stands for its `.yaml` and `.yml` files, by name.

    Raises
    ------
    ConfigError
        If a folder has none.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(one for one in path.iterdir() if one.suffix in (".yaml", ".yml")) if path.is_dir() else [path]
        if not inside:
            raise ConfigError(f"there is no .yaml file in {path}: write one with `nightfit init {path / 'refit.yaml'}`")
        found += inside
    return found


def content_of(path: Path) -> dict[str, Any]:
    """The plain data in a file, before it is validated; a ConfigError if there are none."""
    try:
        content = plain_data(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration at {path}: write one with `nightfit init {path}`") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text: save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(f"{shown(str(path))} cannot be read: {error.strerror}") from None
    except ValueError:
        raise ConfigError(f"{shown(str(path))} cannot be read: its name has a NUL byte") from None
    except TextError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is empty: write one with `nightfit init {path}`")
    return content


def parse(content: dict[str, Any], folder: Path, where: str = "configuration") -> Config:
    """A configuration from plain data; relative paths are relative to `folder`."""
    if "folder" in content:
        raise ConfigError(f"{where}: unknown key 'folder'")
    try:
        return Config.model_validate({**content, "folder": folder})
    except ValidationError as error:
        raise ConfigError(
            f"{where} is not valid:\n" + "\n".join(sorted({f"  {describe(fault, Config)}" for fault in error.errors()}))
        ) from None


def schema() -> dict[str, Any]:
    """The JSON schema of refit.yaml, for editors."""
    described = Config.model_json_schema()
    described["properties"].pop("folder", None)
    described["$defs"]["Model"]["properties"]["loss"]["examples"] = sorted(members(losses))
    return described
