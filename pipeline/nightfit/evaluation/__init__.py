"""How good a fit is, asked of units that were never fitted on. Imports methods and packages below.

- `held_out`: `HeldOut`, the part set aside, its queries and what they cost
- `budget`: which queries are asked, and the share of the budget that each has
- `asking`: how they are asked once a model is fitted, and what is stored
- `foretold`: what a plan says of the main metric's interval, from public facts
- `judging`: by which loss a fit is judged, and what its metrics are called
- `models`: what is judged, and what it is compared with
- `axes`: means from noisy histograms on logarithmic nodes
- `estimates`: numbers with standard deviations, and their intervals
- `errors`: metrics of numbers, counts and amounts from a noisy error histogram
- `scores`: metrics of labels from a noisy histogram of scores by outcome
- `classes`: metrics of several classes from noisy one-versus-rest histograms and a table of classes
- `calibration`: mean predictions and mean targets of counts and amounts, by tenths
- `checks`: gaps, unknown levels, values at their bounds, and drift

The metrics are pure functions of noisy answers: nothing here reads a record.
"""

from nightfit.evaluation.held_out import HeldOut
from nightfit.evaluation.judging import judge_of
from nightfit.evaluation.models import Earlier, Fitted

__all__ = ["Earlier", "Fitted", "HeldOut", "judge_of"]
