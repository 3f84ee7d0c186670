"""Which columns are fitted where there are too many."""

from typing import Final

MANY_COLUMNS: Final = 200
"""From this number on, columns are chosen first if noise hides most slopes. Unit: columns. Reason (unsupported): with fewer, shrinkage of
many sizes finds the strong ones."""

MOST_WHITENED: Final = 2_000
"""Most columns that are whitened, with the intercept. Unit: columns. Reason (derived): eigenvectors of a 2,000 x 2,000 matrix take some ten
seconds on two cores, a fit needs about ten of them, and time grows with the cube."""

SCREENING_SHARE: Final = 0.75
"""The screening's share of the budget where few columns are kept. Unit: share of mu^2. Reason (unsupported): a quarter is left for the
fit."""

FEWEST_KEPT: Final = 8
"""Fewest columns that are kept. Unit: columns. Reason (unsupported): noise of so few is small at any budget that shows a column."""

KEPT_NOISE: Final = 0.05
"""As many columns are kept as make the k of the fit this. Unit: k. Reason (unsupported): noise is small there."""

KEPT_NOISE_OF_LABELS: Final = 0.16
"""The same for labels. Unit: k. Reason (experiment): "Screening": with 0.04, correlated columns lost most of their signal; labels bear more
noise."""

LAST_ROUND: Final = 1.5
"""A round that would leave fewer columns than this many times the number wanted leaves that number. Unit: ratio. Reason (derived): no round
is spent on leaving out a third."""

SCREENING_CAP_QUANTILE: Final = 0.5
"""The quantile of row norms at which rows are capped. Unit: probability. Reason (unsupported): the median is moved by no outlier."""

LOGIT_PER_SHARE: Final = 4.0
"""The intercept of labels per mean residual. Unit: log-odds. Reason (derived): 1 / LOGISTIC_CURVATURE."""

COARSE_SCALE_SHARE: Final = 0.25
"""What `coarse scales` gets of the share of scales. Unit: ratio. Reason (experiment): "Scales of a screening in windows"; other shares were
not tried."""
