"""The calibration of level and scale."""

import math
from typing import Final

# where residuals and predictions are clipped

PREDICTION_CLIP: Final = 2.0
"""Predictions are clipped here in the calibration. Unit: standard deviations of predictions. Reason (experiment): "Width of predictions in
the calibration" compares it with wider clips."""

WIDEST_PREDICTION_CLIP: Final = 8.0
"""The same where the level has grown. Unit: standard deviations of predictions. Reason (experiment): "Width of predictions in the
calibration"; other limits were not recorded."""

SCALE_PRECISION: Final = 0.1
"""The clip is widened while the noise of the scale stays below this much of its expected growth. Unit: ratio. Reason (unsupported): noise
of a tenth of a change hardly counts beside it."""

NEARLY_ALL_QUANTILE: Final = 0.98
"""Residuals beyond FAR_OUT times this quantile of an earlier histogram are far out. Unit: probability. Reason (experiment): "Tails that are
noise" compares the check with none; other quantiles were not recorded."""

FAR_OUT: Final = 4.0
"""See NEARLY_ALL_QUANTILE. Unit: ratio. Reason (experiment): as NEARLY_ALL_QUANTILE."""

LEVEL_MARGIN: Final = 3.0
"""A level found with a clip that is far out is believed if it is this far from zero. Unit: noise standard deviations. Reason (experiment):
as NEARLY_ALL_QUANTILE."""

# what the answer says

NULL_MARGIN: Final = 3.0
"""The share of records that are not null is taken for one unless it is this far below. Unit: noise standard deviations. Reason
(unsupported): null records are rare, and noise would move the level."""

VARIANCE_SPREAD: Final = 0.4
"""Prior standard deviation of the variance of predictions about what the second moment says. Unit: ratio. Reason (unsupported): the second
moment was paid before and is known within that."""

LEAST_VARIANCE: Final = 0.05
"""That variance is at least this much of it. Unit: ratio. Reason (unsupported): it divides the change of scale."""

# what of it is believed

SCALE_SPREAD: Final = math.log(2)
"""Prior standard deviation of the logarithm of the scale. Unit: log ratio. Reason (unsupported): a fit that is four times too small or too
large is rare, at two standard deviations."""

PRIOR_NOISE: Final = 0.1
"""Prior probability that the slopes are noise, so that their scale should be zero. Unit: probability. Reason (unsupported): shrinkage keeps
some noise."""

MOST_GROWTH: Final = 32.0
"""Most that the level grows, for the prior of the scale. Unit: ratio. Reason (unsupported): an intercept near zero would make any
growth."""

SKEWNESS: Final = 0.2
"""Residuals are skewed if their mean is at least this much of their mean magnitude. Unit: ratio. Reason (experiment): "Width of predictions
in the calibration": without it the intercept's noise counted as growth; other ratios were not recorded."""

GROWTH_MARGIN: Final = 2.0
"""Growth of the level counts beyond this. Unit: noise standard deviations. Reason (unsupported): the usual two standard deviations."""

PRIOR_RANGE: Final = 5.0
"""The prior is integrated this far. Unit: SCALE_SPREAD. Reason (numerical): a normal tail beyond five standard deviations is below 1e-6."""

PRIOR_NODES: Final = 20_000
"""Nodes of that integral. Unit: nodes. Reason (numerical): more than the noise of any calibration needs."""

LEAST_LOG_GROWTH: Final = 1e-6
"""A growth below this is none. Unit: SCALE_SPREAD. Reason (numerical): differences of the normal distribution function would cancel."""
