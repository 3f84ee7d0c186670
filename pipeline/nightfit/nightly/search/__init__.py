"""A search over a small grid of settings. Every fit of it is paid for.

- `settings`: `Setting`, a point of the grid with its plan; `Score`, the noisy mean loss of its fit
- `payments`: `AllCharged`, every fit is charged and may be released; `Repetition`, only the best of a random number of fits is
- `procedure`: `Search`, the procedure of a search's plan
- `planning`: `make`, the plan of the cheaper payment
- `fitting`: `fit`, from a search's plan to the release of its best fit

A score is computed on the records that the setting was fitted to.
"""

from nightfit.nightly.search.fitting import fit
from nightfit.nightly.search.payments import AllCharged, Repetition
from nightfit.nightly.search.planning import make
from nightfit.nightly.search.procedure import Search
from nightfit.nightly.search.settings import Score, Setting

__all__ = ["AllCharged", "Repetition", "Score", "Search", "Setting", "fit", "make"]
