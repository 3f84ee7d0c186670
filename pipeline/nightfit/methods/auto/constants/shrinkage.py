"""How much of an estimate is taken for noise."""

from typing import Final

import numpy as np

PRICE_OF_ONE_SIZE: Final = 2.0
"""What a prior with one variance pays. Unit: twice the log likelihood. Reason (experiment): "Odds of slopes"; it is Akaike's price of one
parameter."""

PRICE_OF_MANY_SIZES: Final = 6.0
"""What a mixture of variances pays. Unit: twice the log likelihood. Reason (experiment): "Slopes of many sizes"; it must be clearly
likelier than one size; other prices were not recorded."""

VARIANCE_EXPONENTS: Final = np.linspace(-12, 30, 169)
"""Candidates of the one variance: powers of two times the median noise variance. Unit: octaves. Reason (numerical): quarter octaves from
far below to far above the noise."""

MIXTURE_VARIANCES: Final = np.exp2(np.arange(-13.0, 1.5, 1.5))
"""Variances of the mixture. Unit: the largest squared estimate. Reason (numerical): M. Stephens (2017) takes a factor of two in variance;
one and a half octaves are coarse enough to be fast, and the shares interpolate."""

MIXTURE_SWEEPS: Final = 100
"""Most sweeps over the columns. Unit: sweeps. Reason (numerical): MIXTURE_TOLERANCE is reached in 20 to 50 as a rule."""

MIXTURE_TOLERANCE: Final = 1e-4
"""Sweeps end when means change by less. Unit: squared noise standard deviations. Reason (numerical): a hundredth of one."""

LEAST_MIXTURE_SHARE: Final = 1e-6
"""Least share of a variance. Unit: share of columns. Reason (numerical): its logarithm is finite."""

LEAST_RELATIVE_PRECISION: Final = 1e-4
"""Columns with less precision than this do not set the largest squared estimate. Unit: the largest precision. Reason (numerical): such a
column's estimate is noise a hundred times as large as another's."""
