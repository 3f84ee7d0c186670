"""The constants of the recipe. Imports nothing of the package."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """The constants of the recipe, each a public number; docs/recipe.md tells what each is for.

    Shares are of mu^2; gradients get what the others leave. A share of zero leaves a question out.
    """

    scales: float = 0.03
    means: float = 0.01
    spreads: float = 0.01
    norms: float = 0.02
    moment: float = 0.05
    whitened_moment: float = 0.03
    target: float = 0.03
    residuals: float = 0.06
    reach: float = 8.0
    reach_of_labels: float = 4.0
    moment_quantile: float = 0.5
    cap_quantile: float = 0.0
    signal: float = 0.15
    clip_in_deviations: float = 1.5
    fewest_steps: int = 3
    prior: int = 2
    mean_within: float = 0.05
    growth: float = 1.25
    shrinks: bool = True
    intercept_power: float = 0.25
