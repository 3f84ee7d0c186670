"""What differs for means behind a log link and for quantiles."""

from typing import Final

# log links

STEPS_OF_LOG_MEANS: Final = 6
"""Steps of a fit of counts or amounts. Unit: steps. Reason (unsupported): one more than numbers have, because the curvature changes with
the mean."""

BURNED_OF_LOG_MEANS: Final = 2
"""First steps of such a fit that are not averaged. Unit: steps. Reason (unsupported): they start from a constant mean."""

LEAST_MEAN: Final = 2.0**-10
"""The least mean inside the paid range of means, over the mean of all targets. Unit: ratio. Reason (unsupported): a smaller mean is a
thousand times below the level; nobody could tell it from zero."""

WIDEST_MEAN: Final = 64.0
"""The largest mean inside the paid range of means is at least this many times the mean of all targets. Unit: ratio. Reason (unsupported):
noise may hide the tail of targets, and a range that is too wide costs nothing."""

BEYOND_MEANS: Final = 1e-3
"""A share of targets beyond which no mean lies. Unit: share of records. Reason (unsupported): a mean is smaller than the largest
targets."""

LARGEST_TILT: Final = 1.0
"""The standard deviation of margins that the curvature of a log mean is computed with is at most this. Unit: logarithm of the mean. Reason
(unsupported): margins are not exactly normal, and their far tail would decide beyond it."""

SCALE_SPREAD_OF_RATIOS: Final = 0.05
"""Standard deviation, a priori, of the calibration's change of scale where residuals are relative. Unit: ratio. Reason (derived): a clip of
relative residuals changes slopes only if the shape of amounts about their mean depends on the features."""

MOST_LEVEL_CHANGE: Final = 0.75
"""The calibration changes the level of log means by at most this share of it. Unit: ratio. Reason (unsupported): a fit with larger mean
residuals has failed."""

EXPECTED_LOG_MEAN_CLIP: Final = 2.0
"""The clip of relative residuals that a plan expects of counts and amounts. Unit: the mean. Reason (unsupported): residuals have about the
size of the mean."""

# quantiles

STEPS_OF_QUANTILES: Final = 6
"""Steps of a fit of a quantile. Unit: steps. Reason (unsupported): as STEPS_OF_LOG_MEANS."""

QUANTILE_WIDTH: Final = 1.0
"""The interval that a quantile loss is smoothed over holds this many times the smaller of the shares above and below the quantile. Unit:
ratio. Reason (unsupported): a wide interval has a curvature that can be told from noise, a narrow one biases the quantile less."""

MOST_QUANTILE_WIDTH: Final = 0.5
"""Largest share of residuals inside that interval. Unit: share of records. Reason (unsupported): as QUANTILE_WIDTH."""

LAST_QUANTILE_WIDTH: Final = 0.25
"""The share of residuals inside the interval of the calibration, over that of the steps. Unit: ratio. Reason (unsupported): two numbers
bear more noise than all slopes."""
