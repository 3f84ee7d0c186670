"""The constants of the recipe. Imports nothing of the package."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """The constants of the recipe, each a public number; docs/recipe.md tells what each is for.

    Shares are of mu^2; gradients get what the others leave. A share of zero leaves a question out. `cap_quantile` and `signal` at zero,
    `whitens`, `ridge`, `mixture`, `shrinks` and `calibrates` switch parts off, for ablations: a cap at zero is chosen from the norms, a
    signal of zero keeps every direction.
    """

    least_scales: float = 0.03
    scales: float = 0.05
    most_scales: float = 0.08
    hidden_scales: float = 0.03
    means: float = 0.02
    spreads: float = 0.01
    norms: float = 0.02
    moment: float = 0.05
    whitened_moment: float = 0.05
    least_residuals: float = 0.03
    residuals: float = 0.1
    most_residuals: float = 0.2
    least_target: float = 0.01
    most_target: float = 0.4
    mean_within: float = 0.03
    least_calibration: float = 0.08
    most_calibration: float = 0.17
    calibrated_within: float = 0.03
    tails: float = 0.2
    reach: float = 8.0
    least_reach: float = 4.0
    reach_if_hidden: float = 2.0
    moment_quantile: float = 0.75
    cap_quantile: float = 0.0
    signal: float = 0.15
    growth: float = 1.25
    whitens: bool = True
    ridge: bool = True
    mixture: bool = True
    shrinks: bool = True
    calibrates: bool = True
