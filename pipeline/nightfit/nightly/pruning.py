"""Remove the answers of runs that have ended, while their releases are kept. Imports release and the ledger."""

from collections.abc import Sequence
from pathlib import Path

from nightfit.ledger import Ledger, LedgerError, Run
from nightfit.nightly.job import Job
from nightfit.release import Release
from nightfit.release.discovered import claims_in


def prune(ledger: Ledger, folder: Path, runs: Sequence[str]) -> int:
    """Remove the answers of these runs from the ledger; how many were removed.

    Parameters
    ----------
    ledger : Ledger
        An open ledger.
    folder : Path
        Where releases lie: without answers, that of a finished run cannot be made anew.
    runs : sequence of str
        Finished or abandoned runs.

    Raises
    ------
    LedgerError
        If a run is not known or unfinished, or the release of a finished one is not in the folder. Nothing is removed then.
    """
    kept = {claim.run for _, claim in claims_in(folder) if ledger.check_release(claim).problem is None}
    for run in runs:
        state = ledger.run_record(run).state
        if state == "reserved":
            raise LedgerError(f"run {run} is unfinished and is resumed from its answers: finish it, or `nightfit ledger abandon {run}`")
        taking = ledger.taking_from(run)
        waiting = next((one.run for one in taking if one.state == "reserved"), None)
        if waiting is not None:
            raise LedgerError(
                f"run {waiting} is unfinished and takes answers of run {run}: finish it, or `nightfit ledger abandon {waiting}`"
            )
        remade = {one.run for one in taking if one.state == "finished"} or ({run} if state == "finished" else set())
        if not remade <= kept:
            raise LedgerError(
                f"the release of run {min(remade - kept)} is not in {folder}: without these answers it could not be made anew; run its "
                "refit once more, which writes it again and pays nothing, or name the folder where it lies by --releases"
            )
    return sum(ledger.prune(run) for run in runs)


def kept_release(job: Job, ledger: Ledger, run: Run) -> Release:
    """The release of a pruned run, as it lies in the output folder.

    Raises
    ------
    LedgerError
        If it is not there any more, or is not the one that the run closed.
    """
    path = job.config.output_folder / run.run_id / "release.json"
    if not path.exists():
        raise LedgerError(
            f"the release of run {run.run_id} is lost: {path} is not there, and the run's answers were pruned, so it cannot be made anew; "
            "restore the file from a backup, or pay for a new release with --again"
        )
    release = Release.load(path)
    problem = ledger.check_release(release.claim).problem
    if problem is not None or release.run_id != run.run_id:
        raise LedgerError(f"{path} {problem or 'is of another run'}, and the answers of run {run.run_id} were pruned: restore the file")
    return release
