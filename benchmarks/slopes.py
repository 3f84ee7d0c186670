"""How errors fall with records, epsilon and fewer columns, on heavy-tailed data, beside the exponents that the theorems state.

Each method runs by its own theorem's schedule, through plan and gate, on y = x . w + e, x_j = +-1 and e ~ t(3) of variance one: the
risk is ||w - w*||^2 / 2 exactly, curvature and strong convexity are 1, weights lie in a ball of radius 1. A slope is fitted by
least squares to the logarithms of all runs' risks. A theorem bounds risk from above: it holds if the risk falls at least as
steeply, within two standard errors.
"""

import math
import statistics
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from nightfit.methods.loop import gradient_estimators as means
from nightfit.methods.loop import solvers
from nightfit.methods.loop.theory import Moment, Problem
from nightfit.methods.loop.theory.choice import theorem_of
from nightfit.numerics.prf import slots_of
from nightfit.planning.plan import make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.plugins import member, members
from nightfit.privacy.accounting import Currency
from nightfit.privacy.events import Event
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses.squared import Squared
from nightfit.queries.base import Query
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Array, Block, Integers

UNITS, EPSILONS, COLUMNS = (2000, 4000, 8000, 16_000), (0.125, 0.25, 0.5, 1.0), (2, 4, 8, 16)
USUAL = {"units": 2, "epsilon": 3, "columns": 1}  # the places in these that stay while another one changes
DELTA, REPEATS, SECOND = 1e-7, 5, 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """A theorem's bound on the excess risk, as powers of units, epsilon and 1 / columns (logarithms left out), where the gradient's
    bound R = sqrt(d). `scale` times as many records are used where the theorem asks for many more before it says anything, other
    `epsilons` where these would leave nothing but noise, and `repeats` times as many runs where they are short.
    """

    method: str
    theorem: str
    powers: tuple[float, float, float]
    mean: str
    solver: str = "proximal_gradient"
    strong: bool = False
    penalty: str = "l2_ball"
    batch: float | None = None
    scale: int = 1
    repeats: int = 1
    steps: int | None = None
    epsilons: tuple[float, ...] = EPSILONS
    columns: tuple[int, ...] = COLUMNS

    @property
    def known(self) -> bool:
        return self.mean in members(means) and self.solver in members(solvers)


CLAIMS = (
    Claim(method="soft", theorem="Wang 2020, thm 8", powers=(-1 / 3, -2 / 3, -2 / 3), mean="soft"),
    Claim(
        method="soft, strongly convex",
        theorem="Wang 2020, thm 7, s*",
        powers=(-1, -1, -3 / 2),
        mean="soft",
        strong=True,
        scale=4,
        repeats=3,
    ),
    Claim(method="smoothed", theorem="Wang 2020, thm 8", powers=(-1 / 3, -2 / 3, -2 / 3), mean="smoothed"),
    Claim(method="trimmed, strongly convex", theorem="Wang 2020, thm 5", powers=(-1, -2, -2), mean="trimmed", strong=True),
    # printed d^3 / (n epsilon^4), for blocks that overlap sqrt(m) times; with one block per record d^2 (d + ln(1 / delta)) /
    # (n epsilon g^2), where the exact shift g grows like epsilon^0.75 between epsilon 4 and 11
    Claim(
        method="sample_aggregate",
        theorem="Wang 2020, thm 2, s = 1",
        powers=(-1, -2.5, -2),
        mean="sample_aggregate",
        solver="assignment",
        strong=True,
        scale=16,
        epsilons=(4.0, 5.6, 8.0, 11.2),
        columns=(1, 2, 3, 4),
    ),
    Claim(method="threshold", theorem="Tao 2022, thm 6", powers=(-1 / 2, -1 / 2, -5 / 4), mean="threshold"),
    Claim(method="median_of_means", theorem="Tao 2022, thm 6", powers=(-1 / 2, -1 / 2, -5 / 4), mean="median_of_means"),
    Claim(
        method="median_of_means, strongly convex",
        theorem="Tao 2022, thm 7",
        powers=(-1, -1, -3 / 2),
        mean="median_of_means",
        strong=True,
        scale=64,
    ),
    Claim(method="clipped", theorem="Kamath 2021, thm 4.7", powers=(-1 / 2, -1 / 2, -1), mean="clipped"),
    Claim(
        method="clipped, strongly convex",
        theorem="Kamath 2021, thm 4.8",
        powers=(-1, -1, -1),
        mean="clipped",
        strong=True,
        scale=4,
        repeats=3,
    ),
    Claim(method="ball", theorem="Kamath 2021, thm 4.7", powers=(-1 / 2, -1 / 2, -1), mean="ball"),
    Claim(method="range_ball", theorem="Kamath 2021, thm 4.7", powers=(-1 / 2, -1 / 2, -1), mean="range_ball"),
    Claim(method="coordinate", theorem="Kamath 2021, app. B", powers=(-1 / 2, -1 / 2, -3 / 4), mean="coordinate"),
    Claim(
        method="proximal_sgd, clipped",
        theorem="Xie 2023, cor. 1",
        powers=(-1 / 2, -1 / 2, -7 / 4),
        mean="clipped",
        solver="proximal_sgd",
        batch=0.1,
    ),
    Claim(
        method="proximal_sgd, soft",
        theorem="Xie 2023, cor. 2",
        powers=(-1 / 2, -1 / 2, -1),
        mean="soft",
        solver="proximal_sgd",
        batch=0.1,
    ),
    Claim(
        method="proximal_sgd, median_of_means",
        theorem="Xie 2023, cor. 1",
        powers=(-1 / 2, -1 / 2, -7 / 4),
        mean="median_of_means",
        solver="proximal_sgd",
        batch=0.1,
    ),
    Claim(method="phased", theorem="Asi 2024", powers=(-1 / 2, -1 / 2, -3 / 4), mean="clipped", solver="phased", steps=200),
    Claim(
        method="hard_thresholding",
        theorem="Tao 2022, thm 10",
        powers=(-1, -1, 0),
        mean="hard_thresholding",
        solver="assignment",
        strong=True,
        scale=4,
        repeats=4,
        columns=(4, 8, 16, 32),
        penalty="sparsity",
    ),
    Claim(
        method="frank_wolfe",
        theorem="Hu 2021, alg. 1",
        powers=(-1 / 3, -1 / 3, 0),
        mean="vertex",
        solver="frank_wolfe",
        penalty="l1_ball",
        scale=16,
        repeats=8,
    ),
    Claim(
        method="private_lasso",
        theorem="Hu 2021, alg. 2",
        powers=(-2 / 5, -2 / 5, 0),
        mean="private_lasso",
        solver="frank_wolfe",
        penalty="l1_ball",
    ),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Slope:
    """Of log risk over the log of one quantity, beside the theorem's power."""

    method: str
    theorem: str
    over: str
    stated: float
    measured: float
    standard_error: float

    @property
    def holds(self) -> bool:
        """Whether the risk falls at least as steeply as stated, within two standard errors."""
        return self.measured <= self.stated + 2 * self.standard_error


class Memory:
    """Records in memory, and an account whose every question is paid for."""

    key = b"0123456789abcdef"

    def __init__(self, block: Block, events: tuple[Event, ...]) -> None:
        self.block, self.events = block, {event.label: event for event in events}

    def asked(self, event: Event) -> None:
        return None

    def answered(self, event: Event, answer: Integers) -> None:
        return None

    def aggregate(self, query: Query) -> Integers:
        return query.chunk(self.block)


def truth(columns: int, penalty: str, rng: np.random.Generator) -> Array:
    """Inside the constraint: of norm 0.7, sparse where the constraint is; not the same in all runs where a walk between vertices could
    come upon it.
    """
    if penalty == "l2_ball":
        return np.full(columns, 0.7 / math.sqrt(columns))
    first = rng.uniform(0.2, 0.6) if penalty == "l1_ball" else 0.5
    return np.array([first, first - 0.7] + [0.0] * (columns - 2))


def risk(claim: Claim, *, units: int, epsilon: float, columns: int, seed: int) -> float:
    """||w - w*||^2 / 2 of one private fit."""
    units *= claim.scale
    rng = np.random.default_rng([seed, units, columns, round(1000 * epsilon)])
    best = truth(columns, claim.penalty, rng)
    X = rng.choice([-1.0, 1.0], (units, columns))
    y = X @ best + rng.standard_t(3, units) / math.sqrt(3)
    sampled = claim.batch is not None
    budget = Budget(
        epsilon=epsilon,
        delta=DELTA,
        currency=Currency.ZCDP,
        adjacency=Adjacency.ZERO_OUT if sampled else Adjacency.REPLACE_ONE,
    )
    theorem = theorem_of(claim.mean, claim.solver, sampled)
    assert theorem is not None
    problem = Problem(
        units=units,
        columns=columns,
        epsilon=epsilon,
        delta=DELTA,
        mu=math.sqrt(budget.mu_squared()),
        moment=Moment(order=2.0, bound=SECOND),
        diameter=2.0,
        smoothness=1.0,
        strong_convexity=1.0 if claim.strong else 0.0,
        adjacency=budget.adjacency,
        steps=claim.steps,
        sparsity=2 if claim.penalty == "sparsity" else None,
        batch=round(claim.batch * units) if claim.batch is not None else None,
    )
    chosen = theorem(problem)
    used = {
        "steps",
        "batch",
        *(entry.name for kind in (member(means, claim.mean), member(solvers, claim.solver)) for entry in fields(kind)),
    }
    said = Specification(
        name="m",
        data_set="d",
        preprocessing=Preprocessing(
            features=tuple(f"x{j}" for j in range(columns)),
            target="y",
            centre=(0.0,) * columns,
            scale=(1.0,) * columns,
            intercept=False,
        ),
        budget=budget,
        loss=Squared(),
        penalty=penalty_of({claim.penalty: 2 if claim.penalty == "sparsity" else 1.0}),
        method=Method(
            mean=claim.mean,
            solver=claim.solver,
            moment=problem.moment,
            **{name: value for name, value in chosen.choices().items() if name in used},
        ),
    )
    plan = make(said, units)
    held = Memory(Block(X, y, slots_of("memory", 0, units)), plan.events)
    gate = Gate(account=held, records=held, noise=SeededNoise(np.random.default_rng(seed)))
    fitted = plan.procedure.run(gate, lambda _: None).weights
    return float(np.sum((fitted - best) ** 2)) / 2


def fitted_slope(levels: list[float], risks: list[float]) -> tuple[float, float]:
    """Least squares of log risk over log level, and the slope's standard error."""
    x, y = np.log(levels), np.log(np.maximum(risks, 1e-12))
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    residual = y - y.mean() - slope * x
    return slope, math.sqrt(float(residual @ residual) / (len(x) - 2) / float(x @ x))


def measured(claims: tuple[Claim, ...] = CLAIMS, repeats: int = REPEATS) -> Iterator[Slope]:
    for claim in claims:
        if not claim.known:
            continue
        grids: dict[str, tuple[Any, ...]] = {"units": UNITS, "epsilon": claim.epsilons, "columns": claim.columns}
        usual = {name: grids[name][place] for name, place in USUAL.items()}
        for (over, levels), stated in zip(grids.items(), claim.powers, strict=True):
            pairs = [
                (1 / level if over == "columns" else float(level), risk(claim, **{**usual, over: level}, seed=seed))
                for level in levels
                for seed in range(repeats * claim.repeats)
            ]
            slope, error = fitted_slope(*map(list, zip(*pairs, strict=True)))
            yield Slope(
                method=claim.method,
                theorem=claim.theorem,
                over="1 / columns" if over == "columns" else over,
                stated=stated,
                measured=slope,
                standard_error=error,
            )


def content() -> dict[str, Any]:
    """Every slope, for machines."""
    return {"slopes": [{**asdict(slope), "holds": slope.holds} for slope in measured()]}


def lines(found: dict[str, Any]) -> Iterator[str]:
    """Theory beside measurement."""
    yield f"{'method':34} {'over':11} {'theorem':22} {'stated':>7} {'measured':>9} {'s.e.':>6}  holds"
    for slope in found["slopes"]:
        yield (
            f"{slope['method']:34} {slope['over']:11} {slope['theorem']:22} {slope['stated']:7.2f} {slope['measured']:9.2f} "
            f"{slope['standard_error']:6.2f}  {'yes' if slope['holds'] else 'NO'}"
        )
    share = statistics.mean(slope["holds"] for slope in found["slopes"])
    yield f"{share:.0%} of the slopes are at least as steep as stated, within two standard errors"
