"""Guards and tolerances."""

from typing import Final

POSITIVE: Final = 1e-300
"""Taken for a divisor that may be zero. Unit: any. Reason (numerical): far below every number that occurs, with a finite inverse."""

SMALLEST_BIN: Final = 1e-12
"""A bin's share, by which a quantile is interpolated, is taken for no less. Unit: share of records. Reason (numerical): rounding of a
sum."""

CONSUMED: Final = -1e6
"""Stands in a histogram for a bin that was read already. Unit: noise standard deviations. Reason (numerical): no window with it stands
out."""

ROUNDING: Final = 1e-12
"""A released weight below this much of the largest is zero. Unit: ratio. Reason (numerical): what rotating there and back leaves of a
zero."""

PROX_STEPS: Final = 2_000
"""Most steps of the accelerated proximal method. Unit: steps. Reason (numerical): an upper limit; it ends at PROX_TOLERANCE."""

PROX_TOLERANCE: Final = 1e-10
"""It ends when weights change by less. Unit: ratio. Reason (numerical): far below any noise."""
