"""One refit, step by step: the functions that the command, the Prefect flow and `nightfit.refit` call in this order.

1. `prepare` (`preparation`, with `selection` of blocks): from a configuration, footers and the ledger to a `Job`; reads no row
2. `open_ledger`, `reserve` (`reservation`): reserve the plan's whole cost, or find the run that reserved it before
3. `run_fit` (`execution`): ask the plan's queries on the configured cluster and return a release
4. `publish` (`publication`): write release and report, decide about `promotion`, and compute the balance

`run` (`steps`) is 2 to 4 as one call; `prepare_together` (`groups`) and `run_together` (`together`, whose models ask `in_step`) are 1
to 4 of several models, `run_files` (`several`) those of files and folders.

- `night`: `Night`, what came out of it, in one line
- `alerts`: what is told about a night, and to whom
- `registry`: private releases in MLflow
- `journal`: what became of every night, for people
- `job`: `Job`, what passes from step to step, and `Purpose`, refit or search
- `fit`: from a plan, records and a reserved run to a release; the estimators use it too
- `discovery`: levels of categories as a paid question; `told_levels`: refits use them
- `migration`: a policy from records to persons, or to other blocks
- `pruning`: answers of finished runs are removed on request
- `search`: a grid of settings, of which the best fit is released
- `audit`: an attack on a configuration, on data that are made up

Imports every package below.
"""

from nightfit.nightly.alerts.schedules import tell_missed, tell_overlap
from nightfit.nightly.alerts.watch import readable, tell_completion, tell_crash, tell_failure, watched
from nightfit.nightly.discovery import discover, prepare_discovery
from nightfit.nightly.execution import run_fit
from nightfit.nightly.groups import Failed, Group, prepare_together
from nightfit.nightly.job import Job
from nightfit.nightly.night import Night, night_name
from nightfit.nightly.preparation import ledger_and_policy, prepare, prepare_search
from nightfit.nightly.pruning import prune
from nightfit.nightly.publication import Published, as_dict, balance_of, publish
from nightfit.nightly.reservation import check_reservable, check_together, open_ledger, reserve
from nightfit.nightly.several import Comparison, compared, prepare_files, result_as_dict, run_files
from nightfit.nightly.steps import run
from nightfit.nightly.together import Result, run_together

__all__ = [
    "Comparison",
    "Failed",
    "Group",
    "Job",
    "Night",
    "Published",
    "Result",
    "as_dict",
    "balance_of",
    "check_reservable",
    "check_together",
    "compared",
    "discover",
    "ledger_and_policy",
    "night_name",
    "open_ledger",
    "prepare",
    "prepare_discovery",
    "prepare_files",
    "prepare_search",
    "prepare_together",
    "prune",
    "publish",
    "readable",
    "reserve",
    "result_as_dict",
    "run",
    "run_files",
    "run_fit",
    "run_together",
    "tell_completion",
    "tell_crash",
    "tell_failure",
    "tell_missed",
    "tell_overlap",
    "watched",
]
