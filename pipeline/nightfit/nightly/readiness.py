"""Check, before anything is reserved, what a night needs: an output folder that can be written, a key to sign with, and a cluster
that answers.

Imports config, release and shards.
"""

import shutil
import tempfile
from pathlib import Path

from nightfit.config import Config, ConfigError
from nightfit.nightly.copies import check_store
from nightfit.release.signing import load_key
from nightfit.shards.cluster import Cluster, Living, Remote, connected

SPARE_BYTES = 64 * 2**20  # a release and its report of 10,000 columns are a few MB; files of the same night come on top


def check_ready(config: Config, cluster: Cluster, *, answered: bool = False) -> None:
    """Refuse a night that could not end, while nothing is reserved.

    A running scheduler is asked for its workers and their versions. A cluster that is made for the run is not made twice: if it cannot be
    made, the reservation is given back (`nightfit.nightly.execution`).

    Parameters
    ----------
    config : Config
        The configuration.
    cluster : Cluster
        Where the records are read.
    answered : bool
        Whether all answers are stored, so that no cluster is needed.

    Raises
    ------
    ConfigError
        If the output folder or store cannot be written, or the disk is full.
    SigningError
        If the key that signs releases cannot be used.
    ClusterError
        If no scheduler answers, it has no workers, or their versions differ.
    """
    check_output(config.output_folder)
    if config.output_url is not None:
        check_store(config.output_url)
    if config.signing_key is not None:
        load_key(config.signing_key)
    if isinstance(cluster, Remote | Living) and not answered:
        with connected(cluster):
            pass


def check_output(folder: Path) -> None:
    """Write a file where the release will be, or where its folder will be made, and remove it: a refused night leaves nothing."""
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as probe:
            probe.write(bytes(4096))  # a block of most file systems: opening a file alone succeeds on a full disk
            probe.flush()
        free = shutil.disk_usage(there).free
    except OSError as error:
        raise ConfigError(
            f"output: {folder} cannot be written ({error.strerror}): make it a folder that this user may write to, or name another; "
            "nothing was reserved"
        ) from None
    if free < SPARE_BYTES:
        raise ConfigError(
            f"output: the disk of {folder} has {free / 2**20:.0f} MiB left, {SPARE_BYTES / 2**20:.0f} MiB are needed: free some space; "
            "nothing was reserved"
        )
