"""The settings of a search: one whole configuration for every point of its grid. Imports its own package only."""

import copy
import itertools
from typing import Any

from nightfit.config import Config, ConfigError, parse


def settings(config: Config) -> list[tuple[dict[str, Any], Config]]:
    """For each point of the grid the values that it sets, by key, and the configuration with them; the last key changes fastest."""
    if config.search is None:
        raise ConfigError(
            "the configuration has no `search` section: name fields and values, for example "
            "`search: {epsilon: 4, grid: {model.penalty: [{l1: 0.1}, {l1: 0.01}]}}`"
        )
    written = config.model_dump(by_alias=True, exclude_unset=True, exclude={"search", "folder"})
    grid = config.search.grid
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return [(point, parse(_with(written, point), config.folder, f"the setting {point} of search.grid")) for point in points]


def _with(written: dict[str, Any], point: dict[str, Any]) -> dict[str, Any]:
    content = copy.deepcopy(written)
    for name, value in point.items():
        section, _, key = name.partition(".")
        if not key:
            content[section] = value
            continue
        if isinstance(content.setdefault(section, {}), str):
            raise ConfigError(f"search.grid varies {name}, and {section} is the name {content[section]!r}: write {section} as a section")
        content[section][key] = value
    return content
