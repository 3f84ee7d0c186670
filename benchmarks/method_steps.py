"""Every method's name once on 1e6 x 50 rows of Parquet, on a local cluster of two workers: a step in units of one clipped step."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nightfit.config import parse
from nightfit.ledger import Ledger, Policy
from nightfit.methods.loop import gradient_estimators as means
from nightfit.methods.loop import solvers
from nightfit.nightly.fit import fit, reservation_of
from nightfit.planning.plan import Plan, make
from nightfit.plugins import members
from nightfit.privacy.accounting import Currency
from nightfit.privacy.noise import NoNoise, OperatingSystemNoise
from nightfit.shards.cluster import Local, connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import Manifest, scan
from nightfit.shards.prefetch import UpcomingDraws
from nightfit.shards.synthetic import Synthetic

ROWS, COLUMNS, SHARDS, REPEATS = 1_000_000, 50, 8, 1
PENALTIES: dict[str, dict[str, Any]] = {
    "assignment": {"sparsity": 5},
    "hard_thresholding": {"sparsity": 5},
    "frank_wolfe": {"l1_ball": 1.0},
    "private_lasso": {"l1_ball": 1.0},
    "vertex": {"l1_ball": 1.0},
    "sample_aggregate": {"l2_ball": 1.0},
}
STEPS = {"phased": 4, "proximal_sgd": 20, "sample_aggregate": 1, "range": 1}
BOUNDED = {"kind": "number", "bounds": [-5, 5]}  # the columns' public range


def plan_of(name: str, manifest: Manifest, folder: Path) -> Plan:
    """The plan of `method: NAME`, with few steps and a penalty that the method can work with."""
    solver = name in members(solvers)
    columns = name == "range"
    content: dict[str, Any] = {
        "name": name,
        "data": {"path": str(folder), "name": "d", "default": BOUNDED, **({} if columns else {"target": "y"})},
        "privacy": {"epsilon": 1.0, "delta": 1e-8, "adjacency": "zero_out"},
        "model": {"kind": "mean"} if columns else {"penalty": PENALTIES.get(name, {"l2": 0.1})},
        "method": {"solver" if solver else "mean": name, **({} if columns else {"steps": STEPS.get(name, 2)})},
    }
    config = parse(content, folder)
    return make(config.specification(manifest, Currency.ZCDP), config.units(manifest))


def seconds(plan: Plan, records: ShardedDataset) -> float:
    """The time of a whole fit, with a ledger in memory."""
    said = plan.specification
    ledger = Ledger.create("sqlite://")
    ledger.set_policy(
        Policy(data_set=said.data_set, adjacency=said.budget.adjacency, epsilon=30.0, delta=1e-2, currency=said.budget.currency)
    )
    run = ledger.reserve(reservation_of(plan, window="w", manifest="m", files=()))
    records.expect(UpcomingDraws(run.key, tuple(event.draw for event in plan.events)))
    start = time.perf_counter()
    fit(plan, records, run, OperatingSystemNoise() if plan.procedure.private else NoNoise())
    taken = time.perf_counter() - start
    ledger.engine.dispose()
    return taken


def ratios() -> dict[str, float]:
    return dict(measured())


def measured() -> Iterator[tuple[str, float]]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "rows"
        Synthetic(rows=ROWS, columns=COLUMNS, shards=SHARDS, task="linear", noise="student", seed=1).write(folder)
        manifest = scan(str(folder))
        clipped = plan_of("clipped", manifest, folder)
        with connected(Local(workers=2, memory="2GiB", directory=temporary)) as client:
            records = ShardedDataset(manifest, clipped.specification.preprocessing, client)
            seconds(clipped, records)
            for name in sorted({*members(means), *members(solvers)}):
                plan = plan_of(name, manifest, folder)
                same = plan.specification.preprocessing == clipped.specification.preprocessing
                held = records if same else ShardedDataset(manifest, plan.specification.preprocessing, client)
                seconds(plan, held)
                # one clipped step is measured beside each method, so that a busy moment weighs on both
                one = statistics.median(seconds(clipped, records) for _ in range(REPEATS)) / 2
                yield name, statistics.median(seconds(plan, held) for _ in range(REPEATS)) / STEPS.get(name, 2) / one
