"""A pass against dask-glm (not private) on the same Dask arrays, and an epoch against Opacus (private), one thread each.

Opacus and torch come with `pip install nightfit[bench]`. Both private fits get the same data, epochs, epsilon and delta; error is the
distance of the direction of the coefficients from the truth, and is printed beside the ratios.
"""

import functools
import importlib.util
import math
import statistics
import sys
from typing import Any

import dask
import dask.array as da
import numpy as np

from benchmarks._measure import REPEATS, seconds
from nightfit.problem.losses.logistic import Logistic
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.types import Array, Block

ROWS, COLUMNS, CHUNKS = 1_000_000, 50, 4
PRIVATE_ROWS, EPOCHS, EPSILON, DELTA, BATCHES = 200_000, 5, 1.0, 1e-6, (256, 1024, 4096)


def ratios() -> dict[str, float]:
    return glm() | opacus()


def sample(rows: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=COLUMNS) / math.sqrt(COLUMNS)
    X = np.clip(rng.normal(size=(rows, COLUMNS)) / 4, -1, 1)
    y = (rng.random(rows) < 1 / (1 + np.exp(-8 * X @ truth))).astype(float)
    return X, y, truth


def glm(rows: int = ROWS) -> dict[str, float]:
    from dask_glm.algorithms import gradient_descent, proximal_grad

    X, y, _ = sample(rows)
    lazy, target = da.from_array(X, chunks=(rows // CHUNKS, COLUMNS)), da.from_array(y, chunks=rows // CHUNKS)
    query = GradientSum(loss=Logistic(), bounding=L2Clip(bound=1.0), weights=np.full(COLUMNS, 0.1), bits=36)
    signs = da.from_array(2 * y - 1, chunks=rows // CHUNKS)

    with dask.config.set(scheduler="synchronous"):
        parts = zip(lazy.to_delayed().ravel(), signs.to_delayed().ravel(), strict=True)
        blocks = dask.persist(*(dask.delayed(Block)(a, b) for a, b in parts))

        def step() -> Any:
            return sum(dask.compute(*(dask.delayed(query.chunk)(block) for block in blocks)))

        step()
        found = {}
        for solver, options in ((gradient_descent, {}), (proximal_grad, {"regularizer": "l2", "lamduh": 0.1})):

            def iterations(count: int, of: Any = solver, options: dict[str, Any] = options) -> float:
                with np.errstate(over="ignore"):  # theirs, of long steps that they take back
                    return seconds(functools.partial(of, lazy, target, max_iter=count, tol=0.0, **options))

            turns = [((iterations(7) - iterations(2)) / 5, seconds(step)) for _ in range(REPEATS)]
            theirs, ours = (statistics.median(times) for times in zip(*turns, strict=True))
            found[f"dask-glm {solver.__name__}, an iteration against ours"] = theirs / ours
    return found


def opacus(rows: int = PRIVATE_ROWS) -> dict[str, float]:
    if importlib.util.find_spec("opacus") is None or importlib.util.find_spec("torch") is None:
        print("Opacus is not installed: `pip install nightfit[bench]` adds it to this comparison.", file=sys.stderr)
        return {}
    X, y, truth = sample(rows)
    theirs = {batch: _opacus(X, y, batch) for batch in BATCHES}
    fastest = min(taken for taken, _ in theirs.values())
    best = min(error_of(weights, truth) for _, weights in theirs.values())
    taken, whole, weights = _ours(X, y)
    return {
        "Opacus, an epoch against ours": fastest / taken,
        "Opacus, an epoch against ours with its share of plan and ledger": fastest / whole,
        "Opacus, error against ours": best / error_of(weights, truth),
        "epsilon of both": EPSILON,
    }


def error_of(weights: Array, truth: Array) -> float:
    return float(np.linalg.norm(weights / np.linalg.norm(weights) - truth / np.linalg.norm(truth)))


def _ours(X: Array, y: Array) -> tuple[float, float, Array]:
    """Time of an epoch, as of Opacus without what comes before the first; of an epoch with its share of that; and the coefficients of a
    private fit of EPOCHS full passes, clipped as Opacus clips.
    """
    from nightfit.estimators import PrivateLogisticRegression

    def fitted(steps: int) -> Any:
        model = PrivateLogisticRegression(
            epsilon=EPSILON, delta=DELTA, bounds=(-1, 1), adjacency="zero_out", classes=(0, 1), fit_intercept=False, method="clipped",
            bound=1.0, steps=steps, step_size=16.0,
        )  # fmt: skip
        return model.fit(X, y)

    weights = np.asarray(fitted(EPOCHS).coef_).ravel()
    short, long = (statistics.median(seconds(functools.partial(fitted, n * EPOCHS)) for _ in range(REPEATS)) for n in (1, 5))
    return (long - short) / (4 * EPOCHS), short / EPOCHS, weights


def _opacus(X: Array, y: Array, batch: int) -> tuple[float, Array]:
    """Time of an epoch and the coefficients of DP-SGD with Poisson batches, calibrated to the same epsilon and delta."""
    import warnings

    import torch
    from opacus import PrivacyEngine

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(COLUMNS, 1, bias=False)
    data = torch.utils.data.TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    private, optimizer, loader = PrivacyEngine(accountant="rdp").make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=4.0),
        data_loader=torch.utils.data.DataLoader(data, batch_size=batch),
        target_epsilon=EPSILON,
        target_delta=DELTA,
        epochs=EPOCHS,
        max_grad_norm=1.0,
    )
    loss = torch.nn.BCEWithLogitsLoss()

    def epoch() -> None:
        for rows, labels in loader:
            optimizer.zero_grad()
            loss(private(rows).squeeze(-1), labels).backward()
            optimizer.step()

    taken = [seconds(epoch) for _ in range(EPOCHS)]
    return statistics.median(taken), model.weight.detach().numpy().ravel().astype(np.float64)
