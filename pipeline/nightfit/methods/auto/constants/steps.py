"""Clips of residuals, how far a step goes, and how steps are averaged."""

from typing import Final

from nightfit.queries.magnitudes import RESIDUAL_GRID

# clips

LOWEST_CLIP_QUANTILE: Final = 0.35
"""A clip of residuals, and a cap on rows, is at least this quantile of them. Unit: probability. Reason (unsupported): a clip below a third
of all residuals makes the absolute loss, whose curvature the steps do not know."""

LEAST_INSIDE: Final = 0.3
"""The share of residuals inside the clip, by which a step divides, is taken for no less. Unit: share of records. Reason (unsupported): it
is below LOWEST_CLIP_QUANTILE only by the histogram's noise."""

LEAST_HUBER_SLOPE: Final = 1e-3
"""The same inside the risk of a Huber clip. Unit: share of records. Reason (numerical): candidates hold LOWEST_CLIP_QUANTILE of the
residuals."""

DIRECTION_LOSS: Final = 0.1
"""How much of what a clip takes from slopes counts where a calibration restores their scale. Unit: ratio. Reason (experiment): "Narrow
clips keep directions": a clip shortens slopes and hardly turns them; other ratios were not recorded."""

SCALE_LOSS: Final = 0.3
"""How much of what a clip takes from the scale counts in the calibration. Unit: ratio. Reason (unsupported): all of it is lost only if
residuals grow in proportion to predictions."""

TAIL_DOUBT: Final = 0.25
"""How much of the squared mass beyond each end of the calibration's clip counts, even where the ends cancel. Unit: ratio. Reason
(unsupported): tails are known badly."""

MOST_CLIP_GROWTH: Final = 2.0
"""A clip is at most this many times the smallest clip before it. Unit: ratio. Reason (unsupported): residuals shrink from step to step; a
larger one is noise."""

HIDDEN_CLIP: Final = float(RESIDUAL_GRID.edges[0])
"""The clip of residuals whose magnitude noise hides. Unit: the target's. Reason (derived): the smallest that is counted, so that the noise
of what is asked is next to nothing; any other would be noise of its size."""

# signal

UNKNOWN_SIGNAL: Final = 0.1
"""The variance that slopes explain, before the first step. Unit: variances of the residuals. Reason (unsupported): about the
share that features of persons explain."""

LEAST_SIGNAL: Final = 0.05
"""The variance that slopes explain is taken for no less after it. Unit: variances of the residuals. Reason (unsupported): a fit that was
shrunk to zero must be able to leave it."""

SIGNAL_QUANTILE: Final = 0.95
"""The variance of residuals is computed with those above this quantile clipped there. Unit: probability. Reason (unsupported): a tail that
noise may have made does not count."""

# steps

GROWTH_OF_RESIDUALS: Final = 2.0
"""A step is taken back if the mean square of clipped residuals grew by more. Unit: ratio. Reason (unsupported): more than histogram noise
does; the curvature was then more than twice too small."""

SLOWDOWN: Final = 4.0
"""Steps are so many times shorter after one was taken back. Unit: ratio. Reason (unsupported): a curvature that is up to eight times too
small then converges."""

CURVATURE_ERROR: Final = 0.1
"""The relative error of a step's curvature: so much of its length counts as error when steps are averaged. Unit: ratio. Reason
(unsupported): with little noise the first steps, which go far, hardly count."""
