"""The command check. Imports config and shards, lazily."""

from pathlib import Path
from typing import TYPE_CHECKING

from nightfit.cli.console import ConfigPath, plain, say, warn
from nightfit.cli.tables import columns_of, show
from nightfit.types import NightfitError

if TYPE_CHECKING:
    from nightfit.config import Config
    from nightfit.shards.manifest import Manifest

EXACTLY = (
    "Labels and levels are matched exactly, with case and spaces. A misspelt one is no error, because no value may be: after the fit the "
    "report says which labels no record surely has."
)


def check(config: ConfigPath) -> None:
    """Say what a configuration still leaves open, column by column, and what each column becomes. Reads footers only: no row, no charge."""
    from nightfit.config.completeness import filled, still_open
    from nightfit.config.loading import content_of, parse

    content = content_of(config)
    missing = still_open(content)
    faults = [f"{place.place}: {place.cure}" for place in missing]
    try:
        made = parse(filled(content), config.resolve().parent, str(config))
    except NightfitError as error:
        faults += [line.strip() for line in str(error).splitlines()[1:] or [str(error)]]
    else:
        faults += _of_columns(made, {place.place.removeprefix("data.columns.").split(".")[0] for place in missing})
    for fault in faults:
        warn(plain(f"- {fault}"))
    if faults:
        raise NightfitError(f"{config}: {len(faults)} places are to be filled in or corrected")
    if made.data.outcome.labels or any(column.kind == "category" for column in made.data.columns.values()):
        say(EXACTLY)
    say(f"{config} is complete. Next: `nightfit plan {config}`.")


def _of_columns(config: "Config", unfilled: set[str]) -> list[str]:
    """Show every column of the files, and return what is wrong with those that are described."""
    from nightfit.shards.manifest import scan

    manifest = scan(config.source)
    faults, rows = [], []
    for name, kind in manifest.types.items():
        what, features, fault = _column(config, manifest, name, name in unfilled)
        rows.append((name, kind, what, features))
        faults += [fault] if fault else []
    headings = ("column", "type in the files", "what it is", "features")
    show(f"Columns of {config.data.path} ({manifest.rows:,} rows)", columns_of(headings, rows, left=4))
    try:
        absent = [name for name, column in config.data.columns.items() if column.kind != "product" and name not in manifest.types]
        return [*faults, *(f"data.columns.{name}: there is no such column in the files" for name in absent), *_roles(config, manifest)]
    except NightfitError as error:
        return [*faults, str(error)]


def _roles(config: "Config", manifest: "Manifest") -> list[str]:
    """What is wrong with the columns that are no features."""
    from nightfit.config.completeness import PLACEHOLDER
    from nightfit.config.encodings import check_role_of_target
    from nightfit.shards.schema import check_id_column, check_there

    data, faults = config.data, []
    known = PLACEHOLDER not in data.outcome.labels
    for name, test in (
        (data.target_column, (lambda manifest, name: check_role_of_target(config, manifest)) if known else check_there),
        (data.row_id, check_there),
        (data.person, check_id_column),
    ):
        try:
            if name is not None:
                test(manifest, name)
        except NightfitError as error:
            faults.append(str(error))
    return faults


def _column(config: "Config", manifest: "Manifest", name: str, unfilled: bool) -> tuple[str, str, str | None]:
    """What a column of the files is in the model, how many features it makes, and what is wrong with it."""
    from nightfit.config.sections.columns import UNTOLD
    from nightfit.records.columns import Levels
    from nightfit.records.encoding import Encoding
    from nightfit.shards.schema import check_kinds, check_levels

    data = config.data
    roles: dict[str | None, str] = dict.fromkeys(data.exclude, "excluded")
    roles |= {data.row_id: "identifies a record", data.person: "identifies a person", data.target_column: "the target"}
    default = data.default_column
    described = data.with_levels(dict.fromkeys(data.to_discover, UNTOLD)).described(Path(config.folder))
    column = described.get(name) or (None if default is None or name in roles else default.made(config.folder))
    if column is None or column.of:
        return roles.get(name, "not used"), "", None
    try:
        encoding = Encoding.in_order({name: column})
        check_kinds(manifest, encoding)
        if isinstance(column.reading, Levels) and not unfilled and name not in data.to_discover:
            check_levels(manifest, name, column.reading.levels)
    except (NightfitError, ValueError) as error:
        return f"kind {column.name}", "", str(error)
    if unfilled:
        return f"kind {column.name}, to be filled in", "", None
    to_discover = data.to_discover.get(name)
    many = len(encoding.features) if to_discover is None else f"up to {to_discover.at_most} levels and other"
    return f"kind {column.name}", str(many), None
