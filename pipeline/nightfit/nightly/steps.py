"""Steps 2 to 4 of a planned refit as one call: what the Prefect flow does task by task. Imports modules of this package."""

from nightfit.nightly.execution import run_fit
from nightfit.nightly.job import Job, Show
from nightfit.nightly.publication import Published, publish
from nightfit.nightly.reservation import open_ledger, reserve


def run(job: Job, *, again: bool = False, unsafe: bool = False, show: Show = lambda _: None) -> Published:
    """Reserve, fit and publish.

    Parameters
    ----------
    job : Job
        A planned refit or search.
    again : bool
        Reserve a finished window once more.
    unsafe : bool
        Allow the configuration's `unsafe` section.
    show : callable
        Called with a `Progress` after each step.

    Returns
    -------
    Published
    """
    ledger = open_ledger(job.config)
    reserved = reserve(job, ledger, again=again, unsafe=unsafe)
    return publish(job, ledger, run_fit(job, ledger, reserved, show))
