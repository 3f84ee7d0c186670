"""From the described columns and a manifest to the encoding of a refit's features: names and types. Imports packages below."""

from collections import Counter
from typing import TYPE_CHECKING

from nightfit.config.faults import ConfigError, nearest
from nightfit.config.sections.columns import DISCOVERY, UNTOLD
from nightfit.records.columns import Column, Levels, textual
from nightfit.records.encoding import Encoding
from nightfit.shards.manifest import DataError, Manifest
from nightfit.shards.schema import check_id_column, check_kinds, check_levels, check_target, proposed

if TYPE_CHECKING:
    from nightfit.config.model import Config


def encoding_of(config: "Config", manifest: Manifest) -> Encoding:
    """The features of the described columns, all of which exist and have a type that their kind can read."""
    data = config.data
    for name in data.to_discover:
        raise ConfigError(f"data.columns.{name}: its levels are still to be discovered: {DISCOVERY}")
    described, default = data.described(config.folder), data.default_column
    columns = described
    _check_exists(config, manifest)
    if default is not None:
        others = default.made(config.folder)
        out = {data.target_column, *data.outcome.columns, data.row_id, data.person, *data.exclude}
        columns = {name: described.get(name, others) for name in manifest.types if name not in out}
        columns |= {name: column for name, column in described.items() if name not in columns}
        _check_default(manifest, [name for name in columns if name not in described])
    if not columns:
        raise ConfigError("no column is left to be a feature: shorten data.exclude, or describe columns in data.columns")
    _check_excluded(config, manifest, columns)
    if config.model.columns is not None:
        columns = _chosen(config.model.columns, columns)
    try:
        encoding = Encoding.in_order(columns)
    except ValueError as error:
        raise ConfigError(f"data.columns: {error}") from None
    check_kinds(manifest, encoding)
    for name, reading in encoding.readings.items():
        if isinstance(reading, Levels) and reading.levels != UNTOLD:
            check_levels(manifest, name, reading.levels)
    _check_roles(config, manifest)
    return encoding


def _check_default(manifest: Manifest, names: list[str]) -> None:
    """Refuse text among the columns that only `data.default` describes: whether it holds numbers is for the user to say."""
    text = next((name for name in names if textual(manifest.types[name])), None)
    if text is not None:
        raise DataError(
            f"column {text!r} in {manifest.shards[0].name} has type {manifest.types[text]}, and data.columns does not say what it is: "
            f"describe it there by {proposed(manifest.types[text])}, or list it under data.exclude"
        )


def _chosen(names: list[str], columns: dict[str, Column]) -> dict[str, Column]:
    """The columns whose means are wanted."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"column {twice!r} is named twice in model.columns")
    unknown = next((name for name in names if name not in columns), None)
    if unknown is not None:
        raise ConfigError(f"model.columns names {unknown!r}, which data.columns does not describe{nearest(unknown, columns)}")
    return {name: columns[name] for name in names}


def _check_roles(config: "Config", manifest: Manifest) -> None:
    """The columns that are no features exist, and have the right types."""
    data = config.data
    if data.target_column is not None:
        check_role_of_target(config, manifest)
    if data.row_id is not None and data.row_id not in manifest.types:
        raise DataError(f"column {data.row_id!r}, data.row_id, is missing in {manifest.shards[0].name}")
    if data.person is not None:
        check_id_column(manifest, data.person)


def check_role_of_target(config: "Config", manifest: Manifest) -> None:
    """Refuse a target that cannot be read as it is described, and a label that YAML read as a boolean where it is text: yes is true."""
    target, name = config.data.target, config.data.target_column or ""
    check_target(manifest, name, config.data.outcome)
    labels = [] if target is None or isinstance(target, str) else [target.positive, *(target.classes or [])]
    label = next((one for one in labels if isinstance(one, bool)), None)
    if label is not None and textual(manifest.types[name]):
        raise ConfigError(
            f"data.target: YAML reads a label as {label}, and {name!r} has type {manifest.types[name]}: write the label in quotes, as 'yes'"
        )


def _check_exists(config: "Config", manifest: Manifest) -> None:
    """Refuse a name in `data.exclude` that is no column: a typo would leave a column in."""
    unknown = next((name for name in config.data.exclude if name not in manifest.types), None)
    if unknown is not None:
        raise ConfigError(f"data.exclude names {unknown!r}, and there is no such column{nearest(unknown, manifest.types)}")


def _check_excluded(config: "Config", manifest: Manifest, columns: dict[str, Column]) -> None:
    """Refuse a name in `data.exclude` that is written twice or has a role."""
    data = config.data
    roles: dict[str | None, str] = dict.fromkeys(columns, "a feature")
    roles |= {data.target_column: "the target", data.outcome.exposure: "the exposure"}
    for name, times in Counter(data.exclude).items():
        if times > 1:
            raise ConfigError(f"data.exclude names {name!r} twice: remove one")
        if name in roles:
            raise ConfigError(f"data.exclude names {name!r}, which is {roles[name]}: remove it there or here")
