"""Which queries are asked, their shares of the budget, and the number of steps."""

from typing import Final

MOST_COLUMNS: Final = 4_000
"""Most columns that `auto` takes. Unit: columns. Reason (derived): rows of up to 2^12 = 4,096 columns are exact (queries.rows), rounded
down, with the intercept."""

NOISE_BITS: Final = 57
"""The largest noise standard deviation is 2^57 steps. Unit: bits. Reason (derived): 60 standard deviations and a sum below 2^61 fit in
int64: 60 2^57 + 2^61 < 2^63."""

# scales

SCALE_VISIBILITY: Final = 4.6
"""A bin of a column's histogram counts as visible if it is this far above zero. Unit: noise standard deviations. Reason (derived): the
noise level sqrt(2 log m) + 0.5 of m = 4,350 bins, those of 30 columns."""

VISIBLE_SHARE: Final = 0.03
"""The share of the records that a bin must hold to be visible in as many histograms of residuals as possible. Unit: share of records.
Reason (unsupported): the ablation "shares that follow n" (RESULTS.md) finds no gain from this rule over fixed shares."""

SHOWN_AT_ONCE: Final = 0.05
"""The second query for scales is left out if the first makes a bin of this share visible in columns that are never zero. Unit: share of
records. Reason (experiment): "Second query for hidden scales" compares asking with not asking; other shares were not recorded."""

# residuals

RESIDUAL_VISIBILITY: Final = 3.6
"""A bin of a histogram of residuals counts as visible if it is this far above zero. Unit: noise standard deviations. Reason (derived): the
noise level sqrt(2 log m) + 0.5 of its m = 145 bins."""

FINE_RESIDUAL_SHARE: Final = 0.01
"""The share of the records that a bin must hold to be visible in two histograms of residuals, if `Tuning.residuals` pays for it. Unit:
share of records. Reason (unsupported): as VISIBLE_SHARE."""

COARSE_RESIDUAL_SHARE: Final = 0.05
"""The same where `Tuning.residuals` does not pay for it. Unit: share of records. Reason (unsupported): as VISIBLE_SHARE."""

LEAST_RESIDUAL_QUERIES: Final = 2
"""Fewest histograms of residuals; one more with a calibration. Unit: queries. Reason (derived): the first is taken about the start, where
residuals are as large as the target; clips of later steps need one after the target's mean was removed."""

MOST_RESIDUAL_QUERIES: Final = 5
"""Most histograms of residuals. Unit: queries. Reason (unsupported): one for each of the five steps."""

RESIDUAL_QUERIES_OF_LABELS: Final = 3
"""Histograms of residuals for labels. Unit: queries. Reason (experiment): "Intervals": the last one must be near the end of the steps;
more were not tried."""

LAST_HISTOGRAM_WEIGHT: Final = 4.0
"""The budget of the histogram before the calibration over that of each other histogram of residuals. Unit: ratio. Reason (unsupported): it
sets the clip that decides the level."""

GRID_VISIBILITY: Final = 5.0
"""Half octaves are fine enough before the calibration if a bin of FINE_GRID_SHARE is this far above zero. Unit: noise standard deviations.
Reason (derived): noise level plus SIGNIFICANCE_MARGIN of 145 bins, 5.15, rounded."""

FINE_GRID_SHARE: Final = 0.01
"""See GRID_VISIBILITY. Unit: share of records. Reason (experiment): "Wide bins before the calibration" compares wide bins with half
octaves; other shares were not recorded."""

# level

TARGET_CLIP: Final = 3.0
"""The clip of a target that the share of the level's queries is computed for. Unit: standard deviations of the target. Reason (derived): it
holds nearly all of a target that is near normal; labels lie between 0 and 1, about a half, and need a third of it."""

FIRST_TARGET_SHARE: Final = 0.1
"""What the target's mean gets at the start, of what it would get if no calibration asked for the level again. Unit: ratio. Reason
(unsupported): the first mean only has to bring residuals near zero."""

WEIGHT_OF_HIDDEN_SCALE: Final = 0.25
"""The weight of predictions in the calibration where noise hides most slopes; elsewhere 1. Unit: weight of the level. Reason (unsupported):
a wrong level costs more than a wrong scale of slopes that are shrunk to nearly zero."""

# slopes

EXPECTED_CLIP: Final = 2.0
"""The clip of residuals that the variance of the slopes' noise is computed for in advance: (2 k)^2 of the target's. Unit: standard
deviations of the target. Reason (derived): where noise is large, clips lie between one and two standard deviations."""

HOPELESS_NOISE: Final = 0.25
"""Above this k, noise hides most slopes. Unit: k. Reason (derived): (EXPECTED_CLIP k)^2 is then more than a quarter of the target's
variance, and few targets have more than a quarter explained."""

SLOPE_NOISE_CLIP: Final = 1.5
"""The clip of residuals for which the cap on rows is chosen. Unit: standard deviations of the target. Reason
(unsupported): between one and EXPECTED_CLIP."""

STEPS_OF_NUMBERS: Final = 5
"""Steps of a fit of numbers. Unit: steps. Reason (unsupported): the curvature is known, so the first reaches the neighbourhood and the
others average noise."""

LITTLE_MOMENT_NOISE: Final = 0.03
"""As many gradients bring the second moment of whitened rows along as make the largest eigenvalue of its noise this. Unit: variances of a
whitened column. Reason (experiment): "Second moment with some gradients"."""

# clamps

CLAMPS: Final = (0.375, 1.0, 2.0)
"""The clamps that a calibration compares: 1.5, 4 and 8 scales. Unit: reaches. Reason (experiment): "Reach of columns" compares two to five
clamps."""

LEAST_PRECISION: Final = 400.0
"""Clamps are compared where a mean is known this much better than its bound if the whole budget is spent on it. Unit: ratio. Reason
(experiment): "Reach of columns": at 160 noise chose, at 580 it hardly did; others were not recorded."""

TAIL_COST: Final = 3e-4
"""Comparing clamps may raise the variance of the slopes' noise by this much. Unit: variances of the target. Reason (experiment): "Reach of
columns"."""

# models that share queries about rows

PRESENT_SHARE: Final = 0.005
"""Share of `present`, which a model asks by itself where others pay for `norms` with it. Unit: share of mu^2. Reason (unsupported): one
number is read from it, for which half of the share of `norms` suffices."""
