"""Confidence intervals, and the noise that a plan expects."""

from typing import Final

# intervals

LEAST_INSIDE_CLIP: Final = 0.05
"""The share of residuals inside a clip, by which an estimate is divided, is taken for no less. Unit: share of records. Reason (numerical):
clips hold LOWEST_CLIP_QUANTILE of them when they are chosen."""

LEAST_VARIANCE_LEFT: Final = 0.25
"""Steps after the last histogram are taken to leave at least this much of the residuals' variance. Unit: ratio. Reason (unsupported): few
steps explain more than three quarters."""

HIDDEN_TAIL_INDEX: Final = 2.0
"""The tail that noise may hide falls by two to minus this with each octave when it bounds the bias of the intercept. Unit: exponent. Reason
(derived): that of t(2), as TAIL_DECAY = 2^-2."""

INTERVAL_ROUNDS: Final = 3
"""Rounds in which estimate, residual variance and covariance are made consistent. Unit: rounds. Reason (numerical): after three, widths are
within 3% of their limit (24 generated fits of 4,000 to 20,000 records)."""

NORMAL_KURTOSIS: Final = 3.12
"""E r^4 / (E r^2)^2 of a normal residual in bins of half octaves. Unit: ratio. Reason (numerical): 3 without bins."""

MOST_HIDDEN_VARIANCE: Final = 0.1
"""The last step of labels leaves out directions that noise hides if it hides at most this much variance. Unit: mean variance of whitened
directions. Reason (experiment): "Last step of collinear labels" compares it with any."""

MOST_HIDDEN_BESIDE_INTERVALS: Final = 0.3
"""Intervals are made in the directions that are seen if noise hides at most this much variance in each of the others. Unit: mean
variance of whitened directions. Reason (experiment): "Intervals beside copies"."""

LEAST_GAP: Final = 2.0
"""Directions that noise hides are taken for copies if each of the others has this many times the variance that noise may make. Unit: ratio.
Reason (experiment): "Intervals beside copies"."""

MOST_HIDDEN_SHARE: Final = 0.01
"""A coefficient has an interval if at most this share of it lies in directions that noise hides. Unit: squared length. Reason (experiment):
"Intervals beside copies"."""

# expected noise

EXPECTED_SQUARED_CLIP: Final = 6.0
"""The clip of a least-squares fit. Unit: residual standard deviations. Reason (experiment): "Expected noise": fitted on nine settings."""

EXPECTED_HUBER_CLIP: Final = 2.0
"""The clip of a Huber fit. Unit: residual standard deviations. Reason (experiment): "Expected noise"."""

EXPECTED_LABEL_CURVATURE: Final = 0.15
"""E p (1 - p) of labels. Unit: per squared margin. Reason (experiment): "Expected noise"."""

LARGE_NOISE: Final = 0.7
"""Expected noise beyond this is large. Unit: residual standard deviations, or log-odds. Reason (derived): features must then explain a
third of the variance, 0.49 / 1.49, to be as large."""

LARGEST_REMEDY: Final = 1e4
"""Remedies are looked for up to this factor. Unit: ratio. Reason (derived): ten thousand times the rows, or epsilon, is no remedy."""

REMEDY_PRECISION: Final = 1.01
"""Remedies are computed to this factor. Unit: ratio. Reason (numerical): two digits are printed."""
