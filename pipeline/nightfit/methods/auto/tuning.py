"""The shares and switches of `auto` that an ablation may change. Imports nothing of the package.

The text below each field has the form that `nightfit.methods.auto.constants` explains. The names of the fields are stored in releases.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """Shares of the budget, bounds and switches. Public numbers, part of the plan and of every release.

    Shares are of mu^2. Gradients get what the other queries leave. A share of zero leaves a query out.
    """

    scales: float = 0.05
    """Share of the query `scales`. Unit: share of mu^2. Reason (experiment): "Share of scales" compares it with shares that follow n."""

    hidden_scales: float = 0.03
    """Share of the second query for scales, `hidden scales`. Unit: share of mu^2. Reason (experiment): "Second query for hidden scales"
    compares it with none; other shares were not recorded."""

    means: float = 0.02
    """Share of `means`. Unit: share of mu^2. Reason (experiment): "Centring" compares it, together with `spreads`, with none."""

    spreads: float = 0.01
    """Share of `spreads`. Unit: share of mu^2. Reason (experiment): "Centring" compares it, together with `means`, with none."""

    norms: float = 0.02
    """Share of `norms` and `whitened norms` together. Unit: share of mu^2. Reason (unsupported): two histograms with one value per row need
    little."""

    moment: float = 0.05
    """Share of `moment`. Unit: share of mu^2. Reason (unsupported): no record compares it with another share."""

    whitened_moment: float = 0.05
    """Share of `whitened moment`, which is not asked under `replace_one`. Unit: share of mu^2. Reason (unsupported): the same as
    `moment`."""

    least_residuals: float = 0.03
    """Least share of all histograms of residuals, and that of labels. Unit: share of mu^2. Reason (unsupported): no record
    compares it with another share."""

    residuals: float = 0.1
    """Share of these histograms up to which a bin of FINE_RESIDUAL_SHARE is made visible. Unit: share of mu^2. Reason
    (unsupported): no record compares it."""

    most_residuals: float = 0.2
    """Largest share of these histograms. Unit: share of mu^2. Reason (unsupported): no record compares it
    with another share."""

    least_target: float = 0.01
    """Least share of `target`. Unit: share of mu^2. Reason (experiment): "The target's mean" compares asking with not asking."""

    most_target: float = 0.4
    """Largest share of `target`. Unit: share of mu^2. Reason (unsupported): a fit that misses the level is worse than no fit."""

    mean_within: float = 0.03
    """The target's mean is to be known within this. Unit: standard deviations of the target. Reason (unsupported): a thousandth of the
    variance."""

    least_calibration: float = 0.08
    """Least share of `calibration`. Unit: share of mu^2. Reason (experiment): "Calibration" compares it with none; other shares were not
    recorded."""

    most_calibration: float = 0.17
    """Largest share of `calibration`. Unit: share of mu^2. Reason (experiment): "Share of the calibration" compares it with a quarter."""

    calibrated_within: float = 0.03
    """The level of predictions is to be known within this. Unit: standard deviations of the target. Reason (unsupported): as
    `mean_within`."""

    reach: float = 8.0
    """The clamp of a column without public bounds, for losses that compare no clamps. Unit: scales. Reason (experiment): "Reach of columns"
    compares clamps at 2 to 16; slopes hardly depend on it."""

    least_reach: float = 4.0
    """The same for labels, in a screening, where noise hides most slopes, and while slopes are fitted before clamps are compared. Unit:
    scales. Reason (experiment): "Clamp where noise is large", "Reach of columns"."""

    reach_if_hidden: float = 2.0
    """The clamp of a column whose scale noise hides, and of all columns for means if noise hides which clamp is better. Unit: scales.
    Reason (experiment): "Clamp of hidden columns" compares it with 8, "Reach of columns" with 3 and 4."""

    moment_quantile: float = 0.75
    """Rows beyond this quantile of their norms are scaled back for the second moment. Unit: probability. Reason (unsupported): noise is in
    proportion to the squared cap, and few rows are cut."""

    cap_quantile: float = 0.0
    """The quantile of whitened norms that caps rows; at zero the cap minimises the variance of a slope. Unit: probability. Reason
    (experiment): "Cap on rows" compares the minimum with the median."""

    growth: float = 1.25
    """Each gradient of a fit of numbers gets this many times the budget of the one before. Unit: ratio. Reason (unsupported): later steps
    start nearer."""

    whitens: bool = True
    """Whether rows are whitened, not only scaled. Unit: switch. Reason (experiment): "Whitening"."""

    ridge: bool = True
    """Whether slopes of one size in scaled columns are a candidate of shrinkage. Unit: switch. Reason (unsupported): the ablation
    (RESULTS.md) finds no gain, at most .004 on one family."""

    mixture: bool = True
    """Whether slopes of many sizes are a candidate of shrinkage. Unit: switch. Reason (experiment): "Slopes of many sizes"."""

    shrinks: bool = True
    """Whether slopes are shrunk. Unit: switch. Reason (experiment): "Shrinkage"."""

    calibrates: bool = True
    """Whether level and scale of a least-squares fit are asked for at the end. Unit: switch. Reason (experiment): "Calibration"."""

    compares: bool = True
    """Whether the calibration compares clamps of columns. Unit: switch. Reason (experiment): "Reach of columns"."""
