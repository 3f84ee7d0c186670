"""How good a fit is, asked of units that were never fitted on. Imports methods and packages below.

- `held_out`: `HeldOut`, the part set aside, its queries, what they cost, and how they are asked
- `judging`: by which loss a fit is judged, and what its metrics are called
- `models`: what is judged, and what it is compared with
- `axes`: means from noisy histograms on logarithmic nodes
- `estimates`: numbers with standard deviations, and their intervals
- `errors`: metrics of numbers, counts and amounts from a noisy error histogram
- `scores`: metrics of labels from a noisy histogram of scores by outcome

The metrics are pure functions of noisy answers: nothing here reads a record.
"""

from nightfit.evaluation.held_out import HeldOut
from nightfit.evaluation.judging import judge_of
from nightfit.evaluation.models import Earlier, Fitted

__all__ = ["Earlier", "Fitted", "HeldOut", "judge_of"]
