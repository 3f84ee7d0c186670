"""Which theorem covers which method. Imports the papers' files.

An estimator or solver that is not listed has no theorem: the plan says so and chooses as with the schedule auto.
"""

from collections.abc import Callable

from nightfit.methods.loop.theory import Problem, TheorySchedule, asi2024, hu2021, kamath2021, tao2022, wang2020, xie2023

Theorem = Callable[[Problem], TheorySchedule]

OF_SOLVER: dict[str, Theorem] = {"phased": asi2024.phased}
OF_ESTIMATOR: dict[str, Theorem] = {
    "ball": kamath2021.ball,
    "clipped": kamath2021.ball,
    "coordinate": kamath2021.axis_aligned,
    "hard_thresholding": tao2022.hard_thresholding,
    "median_of_means": tao2022.median_of_means,
    "private_lasso": hu2021.private_lasso,
    "range": kamath2021.buckets,
    "range_ball": kamath2021.ball,
    "robust_gradient": wang2020.robust_gradient,
    "sample_aggregate": wang2020.sample_aggregate,
    "smoothed": wang2020.smoothed,
    "soft": wang2020.soft,
    "threshold": tao2022.threshold,
    "trimmed": wang2020.trimmed,
    "vertex": hu2021.frank_wolfe,
}
OF_SAMPLES: dict[str, Theorem] = {
    "clipped": xie2023.clipped,
    "median_of_means": xie2023.median_of_means,
    "smoothed": xie2023.smoothed,
    "soft": xie2023.soft,
}


def theorem_of(estimator: str, solver: str, sampled: bool) -> Theorem | None:
    """The solver's theorem if it has one, else the estimator's, on Poisson samples if `sampled`."""
    return OF_SOLVER.get(solver) or (OF_SAMPLES.get(estimator) if sampled else None) or OF_ESTIMATOR.get(estimator)
