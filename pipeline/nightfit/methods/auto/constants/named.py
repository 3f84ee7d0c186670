"""What named methods pay for before and between their own steps."""

from typing import Final

NORM_QUANTILE: Final = 0.9
"""The usual norm of a scaled row, and the cap of the second moment: this quantile of the norms. Unit: quantile. Reason (unsupported): one
row in ten is shortened, so that few long rows do not set the noise of all."""

RESIDUAL_SHARE: Final = 0.015
"""What each histogram of residuals costs. Unit: share of mu^2. Reason (unsupported): three of them and the signed one leave nine tenths to
the steps."""

MOMENT_SHARE: Final = 0.03
"""What the second moment costs, of which the largest eigenvalue is the curvature. Unit: share of mu^2. Reason (unsupported): one number of
a whole matrix is wanted, and noise makes it larger, which shortens steps."""
