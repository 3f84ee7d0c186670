"""Which bins of a noisy histogram are real, and what noise may hide."""

from typing import Final

NOISE_LEVEL_MARGIN: Final = 0.5
"""The noise level of m bins is sqrt(2 log m) plus this. Unit: noise standard deviations. Reason (derived): the largest of 145 normal
numbers exceeds sqrt(2 log 145) + 0.5 with probability 0.02."""

SIGNIFICANCE_MARGIN: Final = 1.5
"""A window of bins is real if it exceeds the noise level by this. Unit: noise standard deviations. Reason (derived): with windows of up to
40 bins, noise alone then passes in one of 8,000 histograms (test_noise_alone_shows_nothing_and_half_of_the_records_always_show)."""

LOWER_SIGNIFICANCE_MARGIN: Final = 0.5
"""The same where records are surely missing and the level is all there is to find. Unit: noise standard deviations. Reason (experiment):
"Wide bins before the calibration"; other margins were not recorded."""

WIDEST_WINDOW: Final = 40
"""Most bins of a window. Unit: bins. Reason (experiment): "Windows of bins" compares windows with single bins; 40 half octaves hold twenty
powers of two, more than a column spans."""

WINDOW_PRICE: Final = 0.5
"""What a window of w bins pays, times log w, when windows of norms and residuals are compared. Unit: noise standard deviations. Reason
(experiment): "Windows of bins" compares it with none; other prices were not recorded."""

REST_MARGIN: Final = 2.0
"""A window may hold what the other real bins leave of all records, and this much noise more. Unit: noise standard deviations. Reason
(experiment): "Windows of bins" compares the limit with none; the margin is the usual two standard deviations."""

MISSING_MARGIN: Final = 4.0
"""Records are surely missing from the real bins if this many are. Unit: noise standard deviations. Reason (experiment): "Wide bins before
the calibration"; other margins were not recorded."""

TAIL_DECAY: Final = 0.25
"""Records that noise hides above the real bins fall to this with each octave. Unit: ratio. Reason (derived): 2^-2, the tail of t(2), which
barely has no variance; a lighter tail missed the mean of skewed targets ("Hidden tails")."""

TAIL_EXCESS: Final = 3.0
"""The first hidden bin above holds at most this many times what TAIL_DECAY leaves of the last real bin. Unit: ratio. Reason (experiment):
"Hidden tails" compares it with no limit."""

BIN_PARTS: Final = 4
"""Bins of norms are divided into so many before the cap is chosen. Unit: parts. Reason (numerical): quarter octaves become sixteenths, 4%
apart, finer than the risk's minimum is sharp."""
