"""`nightfit audit` tells broken code from whole code: each mutant is caught, and the table of docs/explanation/audit.md is what is found.

All noise is seeded, so the table repeats itself; a bound exceeds a true claim with probability below 1e-3 over seeds.
"""

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import ConfigError, load
from nightfit.ledger import reservations
from nightfit.methods.procedure import Outcome
from nightfit.nightly.audit import attacked, audit, neighbours, searched
from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import members_of
from nightfit.planning.plan import Plan, make
from nightfit.planning.specification import PUBLIC, Budget, Evaluate, Method, Specification, penalty_of
from nightfit.privacy.accounting import Currency
from nightfit.privacy.audit import lower_bound, pure_lower_bound
from nightfit.privacy.local.curriculum import LabelOnly, Masked
from nightfit.privacy.local.randomisers.djw import PrivateSampling
from nightfit.privacy.local.reports import BITS, Randomiser
from nightfit.privacy.noise import SeededNoise
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.queries import base, gradient_sums
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards import read
from nightfit.shards.manifest import scan
from nightfit.types import Adjacency, Block, Sample

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "audit.md"
RUNS, CONFIDENCE, UNITS = 300, 0.999, 100
SHAPE = Preprocessing(features=("a", "b"), target="y", centre=(0.0,) * 2, scale=(1.0,) * 2, intercept=False, target_reach=(-4.0, 4.0))
PERSONS = replace(SHAPE, unit="patient", rows_per_unit=20)


QUICK: dict[str, Any] = {"solver": "proximal_gradient", "mean": "clipped", "steps": 2, "bound": 1.0, "averaged": 1, "scales": PUBLIC}


def plan_of(
    shape: Preprocessing = SHAPE,
    adjacency: Adjacency = Adjacency.REPLACE_ONE,
    epsilon: float = 8.0,
    currency: str = "gaussian",
    evaluate: Evaluate | None = None,
    **said: Any,
) -> Plan:
    """Few queries, so that many refits are quick: bounds are public scales."""
    chosen = Method(**{**QUICK, **said})
    budget = Budget(epsilon=epsilon, delta=1e-5, adjacency=adjacency, unit=shape.unit or "record", currency=Currency(currency))
    asked = Specification(name="m", data_set="d", preprocessing=shape, budget=budget, loss=Squared(), penalty=penalty_of({}), method=chosen)
    return make(replace(asked, evaluate=evaluate), UNITS)


def noise() -> SeededNoise:
    return SeededNoise(np.random.default_rng(1))


def measured(plan: Plan, sampler: Any = None) -> float:
    return attacked(plan, runs=RUNS, confidence=CONFIDENCE, noise=sampler or noise(), in_memory=True).bound.epsilon


def farthest(plan: Plan) -> float:
    return max(query.share for query in searched(plan, 60))


def nights(plan: Plan) -> int:
    return attacked(plan, runs=2, confidence=CONFIDENCE, noise=noise()).nights


# what is broken


@dataclass
class Drawn:
    """Noise of another size than was paid for: the sum of `parts` draws of a share of it."""

    share: float
    parts: int
    sampler: SeededNoise
    private: bool = False

    def discrete_gaussian(self, values: Any, sigma: float) -> Any:
        for _ in range(self.parts):
            values = self.sampler.discrete_gaussian(values, sigma * self.share)
        return values

    def uniform_integer(self, count: int) -> int:
        return self.sampler.uniform_integer(count)


def drawn(share: float, parts: int = 1) -> Drawn:
    return Drawn(share, parts, noise())


SPLITS = {"batch": "splits", "steps": 4}


def every_record_in_every_part(patch: pytest.MonkeyPatch) -> float:
    """Paper 002 prints X for X_t: each step reads all records and pays for a part."""
    patch.setattr(base, "members_of", lambda key, draw, slots: np.ones(len(slots), dtype=bool))
    return measured(plan_of(**SPLITS))


def largest_sample() -> float:
    """The largest of 50 samples of a tenth of 1,000 records whose ids are all equal; a tenth has a deviation of one hundredth."""
    with tempfile.TemporaryDirectory() as folder:
        rows = {"a": np.ones(1000), "b": np.ones(1000), "y": np.ones(1000), "visit": ["same"] * 1000}
        pq.write_table(pa.table(rows), Path(folder) / "a.parquet")
        slots = read.load(read.chunks_of(scan(folder), 2, 2**26)[0], replace(SHAPE, row_id="visit")).slots
    return max(float(members_of(bytes(16), Sample(0.1, number), slots).mean()) for number in range(50))


def shared_coins(patch: pytest.MonkeyPatch) -> float:
    """A slot that is a hash of the id."""
    patch.setattr(read, "slots_of", lambda place, start, count: np.full(count, 7, dtype=np.uint64))
    return largest_sample()


def rows_bounded_and_not_persons(patch: pytest.MonkeyPatch) -> float:
    whole = neighbours.as_block
    patch.setattr(neighbours, "as_block", lambda rows: replace(whole(rows), starts=None))
    return measured(plan_of(PERSONS))


def dropped_charge(patch: pytest.MonkeyPatch) -> int:
    patch.setattr(reservations, "_charge", lambda connection, reservation, policy, row, files: _uncharged(connection, reservation, row))
    return nights(plan_of())


def _uncharged(connection: Any, reservation: Any, row: Any) -> None:
    """The entry of a reservation that costs nothing."""
    body = {"cost": ["0", "0"], "blocks": ["all"], "accounts": [], "plan": reservation.plan, "events": [], "private": True}
    reservations.chain.append(connection, "reserved", reservation.data_set, body, row.run)


def clip_after_the_sum(patch: pytest.MonkeyPatch) -> float:
    def chunk(query: GradientSum, block: Block) -> Any:
        gradient = block.X.T @ (block.X @ query.weights - np.clip(block.y, -1e6, 1e6))
        length = max(1.0, float(np.linalg.norm(gradient)) / query.bounding.l2_bound(2, query.bits) / query.grid)  # type: ignore[call-arg]
        return np.rint(gradient / query.grid / length).astype(np.int64)[None]

    patch.setattr(GradientSum, "chunk", chunk)
    return farthest(plan_of(adjacency=Adjacency.ZERO_OUT))


GROUPS = {"mean": "median_of_means", "groups": 4, "adjacency": Adjacency.ADD_REMOVE}


def groups_by_position(patch: pytest.MonkeyPatch) -> float:
    patch.setattr(gradient_sums, "groups_of", lambda key, count, slots: np.arange(len(slots)) % count)
    return farthest(plan_of(**GROUPS))


def told_apart(curriculum: Any, epsilon: float) -> float:
    """Two records on either side of a curriculum's threshold, by the angles of their reports and by whether they report at all."""
    randomiser = Randomiser(loss=Logistic(), bound=0.5, sampler=PrivateSampling(epsilon=epsilon), curriculum=curriculum)
    first, second = (_angles(np.tile([x, 0.0], (3000, 1)), randomiser) for x in (-4.0, -0.2))
    return pure_lower_bound(first, second, confidence=CONFIDENCE)


def _angles(X: Any, randomiser: Randomiser) -> Any:
    slots = np.arange(len(X), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    prepared, found = randomiser.prepare(Key(bytes(range(32))), 0, Block(X, np.ones(len(X)), slots)), np.zeros(5, dtype=np.int64)
    for row in range(len(X)):
        report = np.zeros(2)
        sent = randomiser.add(prepared, row, row + 1, np.array([-0.5, 0.0]), randomiser.curriculum.thresholds(0), 2.0**BITS, report)
        found[int((np.arctan2(report[1], report[0]) / np.pi + 1) * 2) % 4 if sent else 4] += 1
    return found


@dataclass(frozen=True)
class Mutant:
    """What is broken, what is claimed, and what is found with it whole and with it broken."""

    name: str
    claimed: float
    whole: Callable[[], float]
    broken: Callable[[pytest.MonkeyPatch], float]
    found: Callable[[float], str] = "epsilon {:.3g}".format


def moved(share: float) -> str:
    return "a sum depends on how rows are cut" if share == math.inf else f"a sum moves by {share:.0%} of its sensitivity"


PASSED, TAKEN = "refits for one lifetime: {:.0f}".format, "a sample of a tenth takes at most {:.0%}".format
MUTANTS = [
    Mutant("half the noise", 8.0, lambda: measured(plan_of()), lambda _: measured(plan_of(), Drawn(0.5, 1, noise()))),
    Mutant(
        "half the noise, persons", 8.0, lambda: measured(plan_of(PERSONS)), lambda _: measured(plan_of(PERSONS), Drawn(0.5, 1, noise()))
    ),
    Mutant(
        "noise per partition, deviations added", 8.0, lambda: measured(plan_of()), lambda _: measured(plan_of(), Drawn(0.25, 4, noise()))
    ),
    Mutant("rows of a person are bounded, not the person", 8.0, lambda: measured(plan_of(PERSONS)), rows_bounded_and_not_persons),
    Mutant("a paper's X printed for X_t", 8.0, lambda: measured(plan_of(**SPLITS)), every_record_in_every_part),
    Mutant("coins shared by records of one id", 0.17, largest_sample, shared_coins, TAKEN),
    Mutant("a curriculum that is not masked", 1.0, lambda: told_apart(Masked(start=1.5), 1.0), lambda _: told_apart(PAPERS, 0.8)),
    Mutant("a clip after the sum", 1.0, lambda: farthest(plan_of(adjacency=Adjacency.ZERO_OUT)), clip_after_the_sum, moved),
    Mutant("groups by position", 1.0, lambda: farthest(plan_of(**GROUPS)), groups_by_position, moved),
    Mutant("a charge is dropped", 1.0, lambda: nights(plan_of()), dropped_charge, PASSED),
]
PAPERS = LabelOnly(label_epsilon=0.2, start=1.5)  # of 1 in all


@pytest.fixture(scope="module")
def found() -> dict[str, tuple[float, float]]:
    """What is found of each mutant, whole and broken."""
    results = {}
    for mutant in MUTANTS:
        with pytest.MonkeyPatch.context() as patch:
            results[mutant.name] = mutant.whole(), mutant.broken(patch)
    return results


def table(found: dict[str, tuple[float, float]]) -> list[str]:
    """The rows of the table in the docs."""
    words = [(mutant, *(mutant.found(value) for value in found[mutant.name])) for mutant in MUTANTS]
    return [f"| {mutant.name} | {mutant.found(mutant.claimed)} | {whole} | {broken} |" for mutant, whole, broken in words]


def test_what_is_proved_is_less_than_was_claimed_unless_something_is_broken(found: dict[str, tuple[float, float]]) -> None:
    for mutant in MUTANTS:
        whole, broken = found[mutant.name]
        assert whole <= mutant.claimed < broken, mutant.name


def test_the_table_of_mutants_is_that_of_the_page(found: dict[str, tuple[float, float]]) -> None:
    rows = table(found)
    print("\n".join(rows))
    assert [line for line in PAGE.read_text().splitlines() if line in rows] == rows


def test_an_audit_hears_the_evaluation_and_finds_a_third_of_its_noise() -> None:
    """The changed unit is fitted on, or held out: whichever tells more."""
    whole = plan_of(evaluate=Evaluate())
    plan = replace(whole, procedure=Silent(whole.procedure))
    assert measured(plan) <= 8.0 < measured(plan, Drawn(1 / 3, 1, noise()))


def test_no_neighbour_moves_a_query_of_an_evaluation_too_far() -> None:
    plan = plan_of(evaluate=Evaluate())
    shares = {query.label: query.share for query in searched(plan, 60)}
    asked = [event.label for event in plan.evaluation.events] if plan.evaluation else []
    assert len(asked) == 4
    assert all(0 < shares[label] <= 1 for label in asked)


@dataclass(frozen=True)
class Silent:
    """A fit that asks nothing: what is heard is the evaluation."""

    procedure: Any
    events: tuple[Any, ...] = ()

    def run(self, gate: Any, show: Any) -> Outcome:
        return Outcome(weights=np.array([1.0, 1.0]), path=[])


@pytest.mark.parametrize("gaussian", [True, False])
def test_a_mechanism_that_is_not_gaussian_is_not_overstated(gaussian: bool) -> None:
    """Randomised response of epsilon 1, 4,000 times: the trade-off of a Gaussian through its one point would claim more at delta 1e-9."""
    rng, truth = np.random.default_rng(3), 1.0
    odds = np.exp(truth) / (1 + np.exp(truth))
    first, second = (rng.random(4000) < chance for chance in (1 - odds, odds))
    bound = lower_bound(first.astype(float), second.astype(float), delta=1e-9, confidence=0.99, gaussian=gaussian)
    assert (bound.epsilon > truth) == gaussian
    assert bound.epsilon > 0.7


ONE_STEP = {"mean": "clipped", "steps": 1, "scales": "public"}


@pytest.fixture
def configured(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes a configuration beside a folder of shards."""
    rng = np.random.default_rng(0)
    (tmp_path / "shards").mkdir()
    rows = {"x": rng.normal(size=300), "z": rng.normal(size=300), "y": rng.normal(size=300)}
    pq.write_table(pa.table(rows), tmp_path / "shards" / "a.parquet")

    def make_one(**sections: Any) -> Path:
        data = {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}}
        content = {"name": "m", "data": data, "privacy": {"epsilon": 8.0, "delta": 1e-5}, "evaluate": "none", **sections}
        (tmp_path / "refit.yaml").write_text(yaml.safe_dump(content))
        return tmp_path / "refit.yaml"

    return make_one


def test_the_command_attacks_a_configuration_and_reads_no_record(configured: Callable[..., Path]) -> None:
    path = configured(method=ONE_STEP)
    said = CliRunner().invoke(app, ["audit", str(path), "--runs", "20", "--json"])
    assert said.exit_code == 0, said.output
    told = json.loads(said.output)
    assert (told["claimed"], told["delta"], told["runs"], told["nights"]) == (8.0, 1e-5, 20, 1)
    assert told["bound"]["epsilon"] <= 8.0
    assert 0.9 < told["reached"]["gradient 1"] <= 1.0
    assert not (path.parent / "ledger.db").exists()


def test_the_command_fails_where_more_is_proved_than_was_claimed(configured: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_sums.GradientSum, "sensitivity", lambda query, adjacency: 2.0**query.bits)
    found = audit(load(configured(method=ONE_STEP)), runs=20, confidence=0.99)
    assert max(query.share for query in found.reached) > 1.9
    assert found.violated


def test_what_has_no_claim_is_refused(configured: Callable[..., Path]) -> None:
    path = configured(method={"mean": "robust_gradient"})
    with pytest.raises(ConfigError, match="baseline"):
        audit(load(path), runs=20, confidence=0.99)
