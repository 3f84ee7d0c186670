"""Which blocks of a data set a refit reads and charges, from names, footers and balances. Imports ledger, config and shards."""

import json
from dataclasses import dataclass, replace

from nightfit.config import Config, ConfigError
from nightfit.ledger import Ledger, LedgerError, Policy, RunRecord
from nightfit.ledger.policy import ALL, buckets_of
from nightfit.ledger.windows import bucket_names, window_of
from nightfit.privacy.accounting import Cost
from nightfit.shards.manifest import Manifest, hive_blocks, scan
from nightfit.types import RECORD


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The blocks that a window asks for, or that an unfinished or finished run has reserved already.

    Attributes
    ----------
    division : str
        How the data set is divided: `all`, a hive key, or `hash:N`.
    existing : tuple of str
        Every block of the data set.
    spent : dict
        What each existing block has spent.
    manifest : Manifest
        The files of the chosen blocks; all files where blocks are not folders.
    blocks : tuple of str
        The chosen blocks.
    window : str
        What identifies the run in the ledger.
    earlier : RunRecord, optional
        The run to resume or return.
    """

    division: str
    existing: tuple[str, ...]
    spent: dict[str, Cost]
    manifest: Manifest
    blocks: tuple[str, ...]
    window: str
    earlier: RunRecord | None

    def manifest_of(self, blocks: tuple[str, ...]) -> Manifest:
        """The files of some of the blocks; all files where blocks are not folders."""
        return self.manifest.only(blocks) if is_hive_key(self.division) else self.manifest

    def share_of_buckets(self, blocks: tuple[str, ...]) -> tuple[int, int]:
        """How many of how many hash buckets these are; (1, 1) where blocks are not buckets."""
        count = buckets_of(self.division)
        return (len(blocks), count) if count else (1, 1)


def select(config: Config, ledger: Ledger | None, policy: Policy | None, *, again: bool, resume: str | None) -> Selection:
    """Choose the blocks of a run: those of the run to resume or return, else those that the window asks for."""
    division = config.data.blocks or (policy.blocks if policy else ALL)
    window = window_of(config.data.window)
    window.check_suits(division)
    check_division(config, policy, division)
    existing = existing_blocks(config, division)
    spent = ledger.spent_by_block(config.data_set, existing) if ledger and policy else dict.fromkeys(existing, Cost())
    hive = is_hive_key(division)
    manifest = scan(config.source, window.candidates(division, existing, spent) if hive else ())
    asked_for = manifest.blocks or window.candidates(division, existing, spent)
    key = _window_key(config, division, asked_for, manifest)
    earlier = _earlier(ledger, config, key, again, resume)
    if earlier is not None and hive:
        manifest = scan(config.source, earlier.blocks)
    return Selection(
        division=division,
        existing=existing,
        spent=spent,
        manifest=manifest,
        blocks=asked_for if earlier is None else earlier.blocks,
        window=key,
        earlier=earlier,
    )


def is_hive_key(division: str) -> bool:
    """Whether blocks are hive folders: neither `all` nor hash buckets."""
    return division != ALL and buckets_of(division) is None


def check_division(config: Config, policy: Policy | None, division: str) -> None:
    """Refuse a privacy unit that the policy does not protect, another division than the policy's, and hash buckets without an id."""
    if policy is not None and policy.blocks != division:
        raise ConfigError(
            f"the policy of {config.data_set!r} divides it by {policy.blocks}, and data.blocks is {division}: a unit would be read in one "
            f"block and charged in another; remove data.blocks, or set it to {policy.blocks}"
        )
    if policy is not None and policy.unit != config.data.unit:
        migrate = f", take the data set there (`nightfit ledger policy migrate {config.data_set}`)" if policy.unit == RECORD else ""
        raise ConfigError(
            f"the policy of {config.data_set!r} protects one {policy.unit}, and data.unit is {config.data.unit}: a budget of one does not "
            f"pay for the other; set data.unit to {policy.unit}{migrate}, or use a data set with a policy of its own"
        )
    if buckets_of(division) is not None and config.data.row_id is None and config.data.person is None:
        raise ConfigError(
            f"blocks are {division}: name the column that identifies a record in data.row_id; without it a record would change its bucket "
            "when files are rewritten, and have two budgets"
        )


def check_stated_policy(config: Config, kept: Policy | None) -> None:
    """Refuse a lifetime budget that is not the one that the ledger keeps."""
    stated = config.policy()
    if stated is None or kept is None or kept == replace(stated, earlier_rows=kept.earlier_rows):
        return
    raise LedgerError(
        f"privacy.lifetime differs from the policy that the ledger keeps for {config.data_set!r} {kept.describe()}: state the same, "
        "remove it, tighten the policy with `nightfit ledger policy set`, or change unit or blocks with `nightfit ledger policy migrate`"
    )


def existing_blocks(config: Config, division: str) -> tuple[str, ...]:
    """Names of all blocks of the data set."""
    if division == ALL:
        return (ALL,)
    count = buckets_of(division)
    return hive_blocks(config.source, division) if count is None else bucket_names(count)


def _window_key(config: Config, division: str, asked_for: tuple[str, ...], manifest: Manifest) -> str:
    """What identifies a run of a model: the hive blocks that the window asks for, else the window's name or the files' identity."""
    if is_hive_key(division):
        return json.dumps(["blocks", *asked_for])
    if division == ALL:
        return str(config.data.window or manifest.window)
    return json.dumps([division, str(config.data.window), manifest.window])


def _earlier(ledger: Ledger | None, config: Config, key: str, again: bool, resume: str | None) -> RunRecord | None:
    """The run to resume or return, whose blocks are reserved already."""
    if ledger is None:
        return None
    if resume is not None:
        return ledger.run_record(resume)
    found = ledger.latest_run(config.name, config.data_set, key)
    return found if found is not None and (found.state == "reserved" or not again) else None
