"""From the averaged steps to the outcome: calibration, penalty, clamps, intervals. Imports descent, uncertainty and below."""

import numpy as np

from nightfit.methods.auto.constants.level import FAR_OUT, NEARLY_ALL_QUANTILE
from nightfit.methods.auto.descent import StepsTaken
from nightfit.methods.auto.distributions import SignedDistribution
from nightfit.methods.auto.level_and_scale import Calibrated
from nightfit.methods.auto.query_plan import QueryPlan
from nightfit.methods.auto.residuals import KnownResiduals, ResidualQueries
from nightfit.methods.auto.uncertainty import estimate_of_labels, intervals, seen_in, visible_directions
from nightfit.methods.procedure import Outcome
from nightfit.problem.losses import Estimand
from nightfit.queries.calibration import clamped
from nightfit.types import Array


def finish(plan: QueryPlan, taken: StepsTaken) -> Outcome:
    """The outcome of a fit after its last step."""
    coordinates, maps, queries = taken.descent.coordinates, taken.descent.maps, taken.descent.queries
    v, known, calibrated = _one_step_on(plan, taken), taken.known, None
    if plan.calibrates:
        known, calibrated = _calibrated(queries, taken)
        v = calibrated.at
    weights, used = maps.penalised(v, taken.slope), maps
    if calibrated:
        used = used.with_rows(clamped(coordinates.rows, maps.unbounded, calibrated.change.times))
    shape, to_columns = used.preprocessing(), used.mapped(coordinates.rotation.A.T)
    return Outcome(
        weights=used.in_columns(weights),
        path=[used.released(at) for at in taken.path],
        preprocessing=shape,
        intervals=intervals(plan, coordinates, taken.averaged, known, calibrated, to_columns, shape),
        loss=taken.descent.loss if plan.log_mean else None,
        used=coordinates.used_share,
        labels=taken.mean.label_share(plan.loss, taken.descent.start, coordinates) if taken.mean else (),
    )


def _one_step_on(plan: QueryPlan, taken: StepsTaken) -> Array:
    """The weights of a logistic model one step on, shrunk by its covariance; for other losses, and where noise hides that, as they are.

    Steps of labels divide by a curvature that is a little too large, so that they do not go too far, and they only approach. One more step
    with the curvature and the bias of clipped logistic gradients, from the same paid answers, is the estimate that intervals are of.
    Where columns are collinear it is taken in the directions whose variance noise does not hide; predictions hardly have others.
    """
    at, known = taken.descent.coordinates, taken.known
    if plan.loss.estimand is not Estimand.LOG_ODDS or not plan.tuning.shrinks or known is None or plan.hopeless:
        return taken.v
    U = visible_directions(at)
    if U is None:
        return taken.v
    found = estimate_of_labels(plan, *seen_in(U, at, taken.averaged, known))
    if found is None:
        return taken.v
    inverse, others = at.curvature.inverse, np.eye(len(U)) - U @ U.T
    rest = taken.descent.averaged(taken.averaged)[1] ** 2 * others @ inverse @ inverse @ others
    v = taken.descent.shrunk_by(U @ found.weights + others @ taken.v, U @ found.covariance @ U.T + rest)
    return taken.descent.with_label_share(v, taken.mean.residual) if taken.mean else v


def _calibrated(queries: ResidualQueries, taken: StepsTaken) -> tuple[KnownResiduals | None, Calibrated]:
    """The last residuals that are known, and the calibration with a clip from them."""
    last, known = queries.plan.residual_queries, taken.known
    signed = queries.signed(last, taken.v)
    far_out = FAR_OUT * known.residuals.quantile(NEARLY_ALL_QUANTILE) if known else 0.0
    if signed:
        known = queries.known(signed.magnitudes, f"signed residuals {last}", taken.v)
    residuals = signed or (SignedDistribution.symmetric(known.residuals) if known else None)
    return known, taken.descent.calibrate(taken.v, residuals, far_out, taken.mean)
