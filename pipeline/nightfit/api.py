"""The steps of the `nightfit` command as plain functions, without Prefect. Imports every package below.

`import nightfit` offers them: `nightfit.plan`, `nightfit.refit`, `nightfit.predict`, `nightfit.load_config`.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from nightfit import nightly
from nightfit.config import Config, load
from nightfit.methods.procedure import Progress
from nightfit.planning.plan import Plan
from nightfit.release import Release
from nightfit.release.current import load_current
from nightfit.shards import predict as scoring
from nightfit.shards.cluster import Living
from nightfit.types import NightfitError

AnyPath = str | PathLike[str]


def load_config(path: AnyPath) -> Config:
    """Read and validate a configuration.

    Parameters
    ----------
    path : path-like
        A `refit.yaml`; `nightfit init` writes one. Relative paths in it are relative to its folder.

    Returns
    -------
    Config
        The configuration, which cannot be changed.

    Raises
    ------
    nightfit.config.ConfigError
        If it is not valid; the message names every fault and what to change.

    Examples
    --------
    >>> from nightfit import load_config
    >>> config = load_config("refit.yaml")
    >>> config.name, config.data_set
    ('visits', 'clinic')
    """
    return load(Path(path))


def plan(config: Config | AnyPath) -> Plan:
    """Plan a refit: every query, its noise and its cost. Reads footers only: no row is read and nothing is charged.

    Parameters
    ----------
    config : Config or path-like
        A configuration, or the path of one.

    Returns
    -------
    Plan
        `explain()` describes it in words; `epsilon` is its cost at the budget's delta.

    Raises
    ------
    nightfit.types.NightfitError
        If configuration, data and policy do not fit together.

    Examples
    --------
    >>> from nightfit import plan
    >>> planned = plan("refit.yaml")
    >>> planned.epsilon <= 1.0
    True
    >>> print(planned.explain().splitlines()[0])
    Model visits: squared loss, 2 features and an intercept, no penalty, on the data set clinic.
    """
    job = nightly.prepare(_loaded(config))
    nightly.check_reservable(job)
    return job.plan


def refit(
    config: Config | AnyPath,
    *,
    again: bool = False,
    resume: str | None = None,
    unsafe: bool = False,
    client: Any = None,
    show: Callable[[Progress], None] = lambda _: None,
) -> Release:
    """Refit privately: plan, reserve the cost, ask the queries, and write release and report into the output folder.

    An interrupted refit is resumed from its stored answers. A finished one is returned and not paid twice.

    Parameters
    ----------
    config : Config or path-like
        A configuration, or the path of one. Its ledger must exist: `Ledger.create` or `nightfit ledger init` makes one.
    again : bool
        Refit a finished window once more; this spends again.
    resume : str, optional
        The run to resume, on the blocks that it reserved.
    unsafe : bool
        Allow the configuration's `unsafe` section; the release is then stamped private: false.
    client : distributed.Client, optional
        A connected Dask client, whose cluster is used in place of the configuration's; neither is closed.
    show : callable
        Called with a `Progress` after each step: released or public numbers only.

    Returns
    -------
    Release
        The released model. Its file is `release.json` in the folder `run_id` of the configuration's output folder.

    Raises
    ------
    nightfit.ledger.BudgetExceeded
        If a block of the data set cannot pay; nothing was read.
    nightfit.types.NightfitError
        For any other fault, with what to change.

    Examples
    --------
    >>> from nightfit import Ledger, load_config, refit
    >>> config = load_config("refit.yaml")
    >>> ledger = Ledger.create(config.ledger_url)  # once for a data set
    >>> release = refit(config)
    >>> release.private, sorted(release.content["coef"])
    (True, ['age', 'visits_before'])
    >>> refit(config).run_id == release.run_id  # the same data again: returned, not paid twice
    True
    """
    if again and resume is not None:
        raise NightfitError("`resume` continues a run, `again` starts a new one: give one of them")
    job = nightly.prepare(_loaded(config), again=again, resume=resume)
    if client is not None:
        job = replace(job, cluster=Living(client=client))
    return nightly.run(job, again=again, unsafe=unsafe, show=show).release


def predict(
    release: Release | AnyPath, data: AnyPath, output: AnyPath, *, keep: Sequence[str] | None = None, overwrite: bool = False
) -> int:
    """Score records with a released model, out of core. Uses the release alone: no ledger, no budget.

    Parameters
    ----------
    release : Release or path-like
        A release, the path of a `release.json`, or a folder of releases, of which the current one is used.
    data : path-like
        File, glob, folder or URL of the Parquet records to score.
    output : path-like
        Where to write the records with their predictions: one file if it ends in `.parquet`, else a folder with a part per source file.
        It holds the records: it is as sensitive as its source.
    keep : sequence of str, optional
        Columns of the source to write; all by default.
    overwrite : bool
        Replace the output file if it exists.

    Returns
    -------
    int
        Number of records scored.

    Warns
    -----
    UserWarning
        If the release was edited, or may have been.

    Raises
    ------
    nightfit.shards.manifest.DataError
        If the records cannot be read or the output cannot be written.
    nightfit.types.NightfitError
        If the release holds means of columns.

    Examples
    --------
    >>> from nightfit import Ledger, load_config, predict, refit
    >>> config = load_config("refit.yaml")
    >>> ledger = Ledger.create(config.ledger_url)
    >>> predict(refit(config), "clinic", "scored.parquet")
    2000
    """
    model = release if isinstance(release, Release) else load_current(Path(release))
    suspicion = model.tampering()
    if suspicion is not None:
        warnings.warn(f"the release of run {model.run_id} {suspicion}", stacklevel=2)
    return write_predictions(model, data, output, keep=keep, overwrite=overwrite)


def write_predictions(model: Release, data: AnyPath, output: AnyPath, *, keep: Sequence[str] | None = None, overwrite: bool = False) -> int:
    """Like `predict`, without a warning about a release that was edited."""
    if model.of_columns:
        raise NightfitError(
            f"the release of run {model.run_id} holds means of columns: there is nothing to predict with; refit a model of kind linear"
        )
    return scoring.predict(model.preprocessing, model.weights, model.link, str(data), Path(output), keep=keep, overwrite=overwrite)


def _loaded(config: Config | AnyPath) -> Config:
    return config if isinstance(config, Config) else load_config(config)
