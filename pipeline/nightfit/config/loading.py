"""Read refit.yaml, and its JSON schema. Imports pydantic and yaml."""

import re
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from nightfit.config.faults import ConfigError, describe
from nightfit.config.model import Config
from nightfit.plugins import members
from nightfit.problem import losses


class _Loader(yaml.SafeLoader):
    """YAML whose floats are those of version 1.2: 1e-6 is a number."""


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+0123456789."))


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
    try:
        content = yaml.load(path.read_text(), Loader=_Loader)
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration at {path}: write one with `nightfit init {path}`") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} is empty: write one with `nightfit init {path}`")
    return parse(content, path.resolve().parent, str(path))


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
