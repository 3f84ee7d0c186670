"""Confidence intervals, and the error that a plan predicts."""

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

# predicted error

EXPECTED_SQUARED_CLIP: Final = 6.0
"""The clip of a least-squares fit. Unit: residual standard deviations. Reason (experiment): "Expected error": fitted on nine settings."""

EXPECTED_HUBER_CLIP: Final = 2.0
"""The clip of a Huber fit. Unit: residual standard deviations. Reason (experiment): "Expected error"; the range holds with it."""

EXPECTED_LABEL_CURVATURE: Final = 0.15
"""E p (1 - p) of labels. Unit: per squared margin. Reason (experiment): "Expected error"; the range holds with it."""

LOW_ERROR: Final = 0.55
"""Lower end of the range in which 8 of 10 errors lie. Unit: the predicted error. Reason (experiment): "Expected error"."""

HIGH_ERROR: Final = 1.75
"""Upper end of that range. Unit: the predicted error. Reason (experiment): "Expected error"."""

USEFUL_ERROR: Final = 0.7
"""A fit is useful if its predicted error is at most this. Unit: residual standard deviations, or log-odds. Reason (derived): features must
then explain a third of the variance, 0.49 / 1.49, to be seen."""

LARGEST_REMEDY: Final = 1e4
"""Remedies are looked for up to this factor. Unit: ratio. Reason (derived): ten thousand times the rows, or epsilon, is no remedy."""

REMEDY_PRECISION: Final = 1.01
"""Remedies are computed to this factor. Unit: ratio. Reason (numerical): two digits are printed."""
