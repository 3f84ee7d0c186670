"""Scales, centres, whitening and curvature."""

from typing import Final

from nightfit.methods.auto.constants.steps import LOWEST_CLIP_QUANTILE

# scales and centres

SCALE_QUANTILE: Final = 0.9
"""The quantile of a column's non-zero magnitudes that is its scale. Unit: probability. Reason (unsupported): it is hardly moved by outliers
and not zero for skewed columns."""

SUSPICION_MARGIN: Final = 0.5
"""A scale is taken from a column's own histogram if a window exceeds the noise level by this. Unit: noise standard deviations. Reason
(experiment): "Second query for hidden scales"."""

PUBLIC_REACH: Final = 2.0
"""The clamp of columns with public bounds, and of all columns when means are asked. Unit: scales. Reason (derived): a column in [-1, 1]
about a centre in [-1, 1] moves by at most 2, so it clips nothing."""

MEANS_CAP: Final = 0.7
"""The cap on rows when means are asked, over sqrt(columns). Unit: scales. Reason (unsupported): the root mean square of a column whose 0.9
quantile is its scale is about 0.6 if it is normal."""

LEAST_MEAN_WEIGHT: Final = 0.5
"""Means are divided by the mean weight of rows, and by no less than this. Unit: weight. Reason (unsupported): a smaller weight is noise, or
most rows lie beyond the cap and their mean is not known."""

LEAST_PRESENT_WEIGHT: Final = 0.05
"""The mean of a column with missing values is divided by the mean weight of rows that have one, and by no less than this. Unit: weight.
Reason (unsupported): where so few rows have a value, hardly any prediction depends on what the others count as."""

MEAN_SIGNIFICANCE: Final = 3.0
"""A mean is believed if it is this far from zero. Unit: noise standard deviations. Reason (unsupported): a column that is centred by noise
loses nothing, one that is not centred is centred again by the second moment."""

LARGEST_MEAN: Final = 2.0
"""A mean is at most this many scales (one for public bounds). Unit: scales. Reason (derived): PUBLIC_REACH is the clamp of the values
averaged."""

NARROW_SPREAD: Final = 0.5
"""A column is scaled by its spread about the mean if that is below this many times the mean. Unit: ratio. Reason (experiment): "Centring"
compares it with no centring; other ratios were not recorded."""

SPREAD_BINS: Final = 12
"""The bins up to a column's largest visible deviation that must hold SPREAD_COVERAGE. Unit: half octaves. Reason (unsupported): six
octaves."""

SPREAD_COVERAGE: Final = 0.8
"""The share of records that must lie within a spread that is believed. Unit: share of records. Reason (unsupported): a discrete column may
have most records at its mean, where noise hides the others, which are its spread."""

LEAST_RELATIVE_SPREAD: Final = 2.0**-30
"""A spread is at least this many times the column's scale. Unit: ratio. Reason (numerical): doubles hold 2^-52 of a value."""

# whitening

SHARED_EIGENVALUE_EDGE: Final = 1.1
"""An off-diagonal eigenvalue is signal if it exceeds the noise's edge by this factor. Unit: ratio. Reason (unsupported): the largest
eigenvalue of noise fluctuates by about d^(-2/3) of the edge, 8% for 40 columns."""

EIGENVALUE_FLOOR: Final = 0.5
"""Eigenvalues of the second moment are at least this many times the error that noise leaves. Unit: ratio. Reason (unsupported): a direction
that is noise is not scaled up without limit."""

SMALLEST_EIGENVALUE: Final = 1e-12
"""Floor of eigenvalues where there is no noise. Unit: squared scales. Reason (numerical): constant and copied columns stay invertible."""

# curvature

MOST_CURVATURE_NOISE: Final = 3.0
"""A curvature that noise hides is taken as the mean of the level and of the noise, of which at most this many levels count. Unit: ratio.
Reason (unsupported): beyond that steps would hardly move, and a step that goes too far is taken back."""

LEAST_CURVATURE: Final = 0.1
"""Least eigenvalue of the curvature of whitened rows. Unit: whitened curvature, near one. Reason (unsupported): steps are at most ten times
as long as the gradient says."""

COUPLING_MARGIN: Final = 3.0
"""The intercept is coupled to a direction if that stands out from the largest coupling that noise makes by this. Unit: noise standard
deviations. Reason (experiment): "Coupling of the intercept" compares it with no couplings and with all that noise may have made."""

MOST_EXPLAINED: Final = 0.9
"""Slopes explain at most this share of the intercept's curvature. Unit: share. Reason (unsupported): it keeps the coupled matrix positive
definite."""

INTERCEPT_CURVATURE: Final = (LOWEST_CLIP_QUANTILE, 1.0)
"""Bounds of the intercept's curvature. Unit: mean squared weight of a row. Reason (derived): the cap on rows is at least their
LOWEST_CLIP_QUANTILE, so at least that share has the weight one, and none has more."""
