"""Whether predictions go on in proportion where columns are far out. Imports rows, losses and below.

Slopes are those of most rows. A truth that levels off does so beyond them, one that does not goes on: which of the two hardly matters for
the fit of slopes, and much for where columns are clamped when they are used.
"""

from nightfit.queries.tail_gains import FARTHER, NEARER
from nightfit.types import Array

SURELY = 2.0


def farthest(answer: Array, deviation: float) -> float:
    """At how many times their reach columns are clamped from now on: farther if squared residuals surely fall by that (two deviations of
    the answer's noise), or if they surely fell from half the reach to it and seem to go on; else nearer if they surely rise from there to
    the reach, else where they are.
    """
    surely = SURELY * deviation
    if answer[1] > surely or (answer[0] > surely and answer[1] > 0):
        return FARTHER
    return NEARER if answer[0] < -surely else 1.0
