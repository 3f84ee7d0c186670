"""Whether and how the fit of a specification is evaluated. Imports evaluation and specification."""

from collections.abc import Sequence

from nightfit.evaluation import HeldOut, judge_of
from nightfit.planning.specification import Specification
from nightfit.privacy.events import Event

NOTHING_KNOWN = 1.0
"""Half-width of the main metric's interval from which an evaluation tells nothing: R2 somewhere between nothing and everything."""


def held_out(spec: Specification, units: int, largest: int) -> HeldOut:
    """The evaluation of a specification's fit, for as much as the fit may cost.

    Raises
    ------
    ValueError
        If there is nothing to evaluate, with the cure.
    """
    assert spec.evaluate is not None
    reason = why_not_judged(spec)
    if reason is not None:
        raise ValueError(f"there is nothing to evaluate: {reason}; use `evaluate: none`")
    return HeldOut(
        share=spec.evaluate.share,
        loss=spec.loss,
        shape=spec.preprocessing,
        adjacency=spec.budget.adjacency,
        units=units,
        largest_units=largest,
        mu_squared=spec.budget.mu_squared(),
        earlier=spec.evaluate.earlier,
        by=spec.evaluate.by,
        checks=spec.evaluate.checks,
        classes=spec.class_names,
    )


def why_not_judged(spec: Specification) -> str | None:
    """Why no metric suits a fit; None if one does."""
    if spec.local is not None:
        return "local reports are of everybody, so that an evaluation of them needs labelled data of its own"
    return None if judge_of(spec.loss) else "means of columns, and scores that are no probabilities, have no metric"


def why_not_asked(spec: Specification, events: Sequence[Event]) -> str | None:
    """Why a fit, whose events of all units are these, cannot be evaluated; None if it can."""
    sampled = any(event.sampled for event in events)
    return why_not_judged(spec) or ("a Poisson sample of a part has no accountant here" if sampled else None)


def why_not_by_default(spec: Specification, units: int, events: Sequence[Event]) -> str | None:
    """Why a fit is not evaluated unless that is asked for, from public facts; None if it is.

    Parameters
    ----------
    spec : Specification
        With the evaluation that is the default.
    units : int
        Public number of units.
    events : sequence of Event
        Of the fit of all units.
    """
    reason = why_not_asked(spec, events)
    if reason is None and any(event.calibrated_alone for event in events) and not spec.budget.currency.adds_epsilons:
        return f"beside a query of the method the evaluation would cost more than the budget in the currency {spec.budget.currency}"
    if reason is None and held_out(spec, units, units).expected_half_width >= NOTHING_KNOWN:
        return "of so few units, or with so much noise, the metrics would not be known"
    return reason
