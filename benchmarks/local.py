"""Local reports of 2e5 records x 100 columns, one thread, against drawing their Gaussian numbers: from the same cipher, and by numpy."""

import numpy as np

from benchmarks._measure import ratio
from nightfit.numerics.keystream import KEY_BYTES, Key, draw
from nightfit.plugins import members
from nightfit.privacy.local import randomisers as local
from nightfit.privacy.local.curriculum import Masked
from nightfit.privacy.local.reports import Randomiser, report_sums, tiles
from nightfit.problem.losses.logistic import Logistic
from nightfit.types import Block

ROWS, COLUMNS = 200_000, 100


def ratios(rows: int = ROWS) -> dict[str, float]:
    rng = np.random.default_rng(0)
    slots = rng.integers(0, 2**63, rows).astype(np.uint64)
    block = Block(rng.uniform(-1, 1, (rows, COLUMNS)), rng.choice([-1.0, 1.0], rows), slots)
    weights, key = rng.normal(size=COLUMNS), Key(rng.bytes(KEY_BYTES))

    def numbers() -> None:
        for tile in tiles(block):
            draw(key, 0, tile.slots, 0, np.empty(tile.X.shape), np.empty(len(tile), dtype=np.uint64))

    found = {}
    for name, (example, *_) in members(local).items():
        randomiser = Randomiser(loss=Logistic(), bound=1.0, sampler=example, curriculum=Masked())

        def reported(r: Randomiser = randomiser) -> object:
            return report_sums(block, weights, r, key, 0)

        found[f"{name}, against its Gaussian numbers"] = ratio(reported, numbers)
        found[f"{name}, against numpy's"] = ratio(reported, lambda: rng.standard_normal((rows, COLUMNS)))
    return found
