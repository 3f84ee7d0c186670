"""Steps on Poisson samples and disjoint parts: their rows are read together, and the integers stay what they were."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from distributed import Client

from nightfit.problem.losses.huber import Huber
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum, Groups
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import placement, prefetch, tasks
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import Manifest, scan
from nightfit.shards.prefetch import UpcomingDraws
from nightfit.shards.staging import row_bytes
from nightfit.shards.worker_rpc import answer_call
from nightfit.types import WHOLE, Draw, Part, Sample, parts_of

KEY = b"0123456789abcdef"
BOUNDS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
QUERY = GradientSum(
    loss=Huber(), bounding=L2Clip(bound=1.0), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40, key=KEY, groups=Groups(count=4)
)
SAMPLES = tuple(Sample(0.05, number) for number in range(12))
HALVES = tuple(part for _ in range(3) for part in (Part(0, 2**31), Part(2**31, 2**32)))
PLANS: dict[str, tuple[Draw, ...]] = {"samples": SAMPLES, "parts": parts_of(7), "halves": HALVES}


@pytest.fixture
def manifest(table: pa.Table, write: Callable[..., Path]) -> Manifest:
    return scan(str(write("flat", table, [300, 0, 1, 399], row_group_size=70)))


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of every chunk that is read from Parquet."""
    found: list[int] = []
    read = tasks.blocks

    def counted(chunk: Any, preprocessing: Preprocessing) -> Any:
        found.append(chunk.number)
        return read(chunk, preprocessing)

    monkeypatch.setattr(tasks, "blocks", counted)
    return found


@pytest.mark.parametrize("name", PLANS)
def test_steps_on_draws_read_the_rows_together_and_give_the_same_integers(manifest: Manifest, readings: list[int], name: str) -> None:
    draws = PLANS[name]
    apart = ShardedDataset(manifest, BOUNDS, chunk_bytes=4000)
    together = ShardedDataset(manifest, BOUNDS, chunk_bytes=4000, upcoming=UpcomingDraws(KEY, draws))
    expected = [apart.aggregate(replace(QUERY, draw=draw)) for draw in draws]
    assert len(readings) == len(draws) * len(apart.chunks)
    readings.clear()
    found = [together.aggregate(replace(QUERY, draw=draw)) for draw in draws]
    assert sorted(readings) == [chunk.number for chunk in together.chunks], "every chunk was to be read once"
    assert all((one == other).all() for one, other in zip(found, expected, strict=True))
    assert all(one.any() for one in found)
    readings.clear()
    assert (together.aggregate(replace(QUERY, draw=WHOLE)) == apart.aggregate(replace(QUERY, draw=WHOLE))).all()
    assert len(readings) == 2 * len(apart.chunks)


def test_there_are_as_many_readings_as_the_room_asks_for(manifest: Manifest, readings: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for a fifth of the rows holds four samples of a twentieth; room for less than one sample holds none, and all is read."""
    every = 700 * row_bytes(BOUNDS)
    for room, passes in ((0.2 * every, 3), (0.04 * every, 12)):
        monkeypatch.setattr(placement, "UNLIMITED_BYTES", room)
        shards = ShardedDataset(manifest, BOUNDS, upcoming=UpcomingDraws(KEY, SAMPLES))
        for draw in SAMPLES:
            shards.aggregate(replace(QUERY, draw=draw))
        assert len(readings) == passes * len(shards.chunks)
        readings.clear()


def test_a_run_that_is_resumed_reads_only_for_what_is_left(manifest: Manifest, readings: list[int]) -> None:
    shards = ShardedDataset(manifest, BOUNDS, upcoming=UpcomingDraws(KEY, SAMPLES))
    shards.aggregate(replace(QUERY, draw=SAMPLES[9]))
    assert shards.executor.draws == SAMPLES[9:]
    other = replace(QUERY, draw=Sample(0.5, 0))
    assert (shards.aggregate(other) == ShardedDataset(manifest, BOUNDS).aggregate(other)).all()


def test_upcoming_draws_fill_the_room_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = UpcomingDraws(KEY, (SAMPLES[0], SAMPLES[0], *SAMPLES[1:4], WHOLE, *SAMPLES[4:]))
    assert plan.starting_with(SAMPLES[0], 0.151) == SAMPLES[:3]
    assert plan.starting_with(SAMPLES[1], 9.0) == SAMPLES[1:4]
    assert plan.starting_with(SAMPLES[1], 0.049) == plan.starting_with(WHOLE, 9.0) == plan.starting_with(Sample(0.5, 0), 9.0) == ()
    monkeypatch.setattr(prefetch, "MOST_DRAWS", 2)
    assert plan.starting_with(SAMPLES[0], 9.0) == SAMPLES[:2]


@pytest.mark.parametrize(
    ("draws", "disjoint"), [(parts_of(7), True), (HALVES, True), (SAMPLES, False), ((Part(0, 5), Part(4, 9)), False), ((WHOLE,) * 3, False)]
)
def test_disjoint_draws_are_told_from_others(draws: tuple[Draw, ...], disjoint: bool) -> None:
    assert UpcomingDraws(KEY, draws).disjoint is disjoint


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("share", [0.4, 0.0], ids=["in memory", "on disk"])
def test_workers_answer_steps_from_rows_that_were_taken_once(
    manifest: Manifest, client: Client, monkeypatch: pytest.MonkeyPatch, name: str, share: float
) -> None:
    draws = PLANS[name]
    monkeypatch.setattr(placement, "RESIDENT_SHARE", share)
    submitted: list[str] = []
    calls: list[str] = []
    submit, run = client.submit, client.run

    def counted(work: Any, *words: Any, **options: Any) -> Any:
        submitted.append(work.__name__)
        assert KEY.decode() not in repr((words, options)), "Dask prints the arguments of a task that raises"
        return submit(work, *words, **options)

    def called(work: Any, *words: Any, **options: Any) -> Any:
        calls.extend([words[0].__name__] if work is answer_call else [])
        assert KEY.decode() not in repr((words, options)), "Dask prints the arguments of a call that raises"
        return run(work, *words, **options)

    monkeypatch.setattr(client, "submit", counted)
    monkeypatch.setattr(client, "run", called)
    apart = ShardedDataset(manifest, BOUNDS)
    with ShardedDataset(manifest, BOUNDS, client, chunk_bytes=4000, upcoming=UpcomingDraws(KEY, draws)) as shards:
        for draw in draws:
            question = replace(QUERY, draw=draw)
            assert (shards.aggregate(question) == apart.aggregate(question)).all()
    from_parquet = name != "samples" and share > 0
    took, kept = ("prefetch_from_chunks", 0) if from_parquet else ("prefetch_from_staged", 2)
    assert submitted.count(took) == 2
    assert sum(work.startswith("stage_") for work in submitted) == kept
    assert len(submitted) == 2 + kept
    assert calls == ["aggregate_prefetched"] * len(draws)
