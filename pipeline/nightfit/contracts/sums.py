"""Sums of bounded gradients one row at a time, in Python integers, to compare a compiled pass with. Imports numpy, queries, problem."""

import numpy as np

from nightfit.numerics.exact import margins
from nightfit.problem.losses import Loss
from nightfit.queries.boundings import Bounding
from nightfit.types import Array, Block


def squares_of(X: Array) -> Array:
    """The rows' squared norms as a pass over them reads them."""
    products, found = np.empty(len(X)), np.empty(len(X))
    margins(X, np.zeros(X.shape[1]), products, found)
    return found


def contribution(bounding: Bounding, row: list[float], slope: float, bits: int) -> Array:
    """The steps that one row adds."""
    sums = np.zeros((1, len(row)), dtype=np.int64)
    bounding.add(np.array([row]), np.array([slope]), squares_of(np.array([row])), np.zeros(1, dtype=np.int64), bits, sums)
    steps: Array = sums[0].astype(np.float64)
    return steps


def row_by_row(block: Block, weights: Array, loss: Loss, bounding: Bounding, bits: int) -> list[int]:
    """What `gradient_sums` of one group must be."""
    total = [0] * len(weights)
    for i in range(len(block)):
        row, product, square = block.X[i : i + 1].copy(), np.empty(1), np.empty(1)
        margins(row, weights, product, square)
        steps = np.zeros((1, len(weights)), dtype=np.int64)
        bounding.add(row, loss.slope(block.y[i : i + 1].copy(), product), square, np.zeros(1, dtype=np.int64), bits, steps)
        total = [have + int(step) for have, step in zip(total, steps[0], strict=True)]
    return total


def hard_block(targets: Array, rows: int = 60, columns: int = 9, seed: int = 0) -> Block:
    """Heavy-tailed rows, records at the edges of float64 among them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_cauchy((rows, columns))
    edges = np.array([np.nan, np.inf, -np.inf, 1e308, -1e308, 5e-324, 1.6e-162, -0.0, 0.0])
    X[rng.integers(0, rows, len(edges)), rng.integers(0, columns, len(edges))] = edges
    return Block(X, rng.choice(targets, rows))
