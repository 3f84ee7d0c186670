"""How good a fit is, asked of units that were never fitted on. Imports methods and packages below.

- `held_out`: `HeldOut`, the part set aside, its queries, what they cost, and how they are asked
- `judging`: by which loss a fit is judged, and what its metrics are called
- `estimates`: numbers with standard deviations, and their intervals
- `errors`: metrics of numbers, counts and amounts from a noisy error histogram
- `scores`: metrics of labels from a noisy histogram of scores by outcome

The metrics are pure functions of noisy answers: nothing here reads a record.
"""

from nightfit.evaluation.held_out import Earlier, HeldOut
from nightfit.evaluation.judging import judge_of

__all__ = ["Earlier", "HeldOut", "judge_of"]
