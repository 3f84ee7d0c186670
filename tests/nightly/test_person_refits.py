"""Whole refits that protect persons: from a configuration and Parquet shards through the ledger to a release."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from nightfit.config import ConfigError, load
from nightfit.config.sections import Unsafe
from nightfit.ledger import Ledger, Policy, verify
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.numerics.prf import Buckets
from nightfit.planning.defaults import MOST_ROWS
from nightfit.planning.plan import PlanError, make
from nightfit.privacy.accounting import Currency
from nightfit.queries.base import bits_for
from nightfit.shards.arrays import ArrayRecords
from nightfit.shards.manifest import DataError
from nightfit.shards.read import hash_ids
from nightfit.types import Adjacency

PATIENTS, DAYS, EACH = 60, 3, 80


def visits(seed, rows=EACH):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 2))
    ids = [f"p{number}" for number in rng.integers(0, PATIENTS, rows)]
    ids[0] = "p7"
    return {"x0": X[:, 0], "x1": X[:, 1], "y": X @ [1.0, -0.5], "patient_id": ids, "visit": np.arange(rows) + 1000 * seed}


def write(folder, columns):
    """The same patients come again on other days."""
    for day, content in enumerate(columns):
        (folder / "shards" / f"day={day}").mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(content), folder / "shards" / f"day={day}" / "part-0.parquet")


@pytest.fixture
def place(tmp_path):
    write(tmp_path, [visits(day) for day in range(DAYS)])
    Ledger.create(f"sqlite:///{tmp_path / 'ledger.db'}")
    return tmp_path


def config(folder, method=None, privacy=None, model=None, lifetime=None, **data):
    content = {
        "name": "m",
        "data": {
            "name": "clinic",
            "path": "shards",
            "target": {"column": "y", "bounds": [-1, 1]},
            "columns": {name: {"kind": "number", "bounds": [-1, 1]} for name in ("x0", "x1")},
            "unit": "patient_id",
            "units": PATIENTS,
            **data,
        },
        "privacy": {"epsilon": 1.0, "delta": 1e-4, "lifetime": {"epsilon": 8.0, "delta": 1e-3, **(lifetime or {})}, **(privacy or {})},
        "model": model or {},
        "method": {"scales": "public", **method} if isinstance(method, dict) else method or {"steps": 2, "scales": "public"},
        "cluster": {"kind": "synchronous"},
    }
    content["data"] = {name: value for name, value in content["data"].items() if value is not None}
    (folder / "refit.yaml").write_text(yaml.safe_dump(content))
    return load(folder / "refit.yaml")


def answers(settings, again=False):
    """The exact answers of a refit without noise, by label, with what was reserved for each."""
    exact = settings.model_copy(update={"unsafe": Unsafe(noise="none")})
    opened, job = open_ledger(exact), prepare(exact, again=again)
    run = reserve(job, opened, unsafe=True, again=again)
    run_fit(job, opened, run)
    return [(event, [int(value) for value in run.asked(event)]) for event in run.events.values()]


ZCDP = {"currency": "zcdp"}
LOGISTIC = {"loss": "logistic"}
METHODS = {
    "auto": {"method": "auto"},
    "auto without bounds": {"method": "auto", "columns": {"x0": {"kind": "number"}, "x1": {"kind": "number"}}},
    "auto labels": {"method": "auto", "model": {"loss": "hinge"}, "target": "y"},
    "clipped": {"method": {"mean": "clipped", "steps": 2}},
    "median_of_means": {"method": {"mean": "median_of_means", "steps": 2}},
    "ball": {"method": {"mean": "ball", "steps": 2}},
    "range_ball": {"method": {"mean": "range_ball", "steps": 2}},
    "trimmed": {"method": {"mean": "trimmed", "steps": 1}, "lifetime": ZCDP},
    "sample_aggregate": {"method": {"mean": "sample_aggregate", "bound": 2.0, "blocks": 5}, "lifetime": ZCDP},
    "hard_thresholding": {"method": {"mean": "hard_thresholding", "steps": 2}, "model": {"penalty": {"sparsity": 1}}, "lifetime": ZCDP},
    "frank_wolfe": {
        "method": {"solver": "frank_wolfe", "steps": 2},
        "model": {"penalty": {"l1_ball": 1.0}, "intercept": False},
        "lifetime": ZCDP,
    },
    "splits": {"method": {"mean": "clipped", "steps": 2, "batch": "splits"}},
    "poisson": {"method": {"mean": "clipped", "steps": 2, "batch": 20}, "privacy": {"adjacency": "zero_out"}, "lifetime": ZCDP},
    "means": {"method": {"mean": "clipped"}, "model": {"kind": "mean"}, "target": None},
}


@pytest.mark.parametrize("name", METHODS)
def test_every_method_refits_with_persons_as_units(place, name):
    settings = config(place, **METHODS[name])
    job, ledger = prepare(settings), open_ledger(settings)
    assert job.plan.units == PATIENTS
    assert job.plan.specification.preprocessing.features == ("x0", "x1")
    published = publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))
    assert published.release.private
    assert published.release.content["guarantee"]["unit"] == "patient_id"
    assert "for one patient_id, a person with all their rows, under" in published.release.statement()
    assert "patient_id" in published.report_path.read_text()
    assert f"all rows of one patient_id are one unit, of {PATIENTS} as stated; at most 100 rows of each" in job.explain()
    assert "of one patient_id" in job.explain()
    assert verify(ledger) == []


@pytest.mark.parametrize("name", ["auto", "auto without bounds", "clipped", "means"])
def test_all_rows_of_a_person_in_every_file_move_an_answer_by_one_sensitivity(place, name):
    settings = config(place, **METHODS[name])
    before = answers(settings)
    changed = [visits(day) for day in range(DAYS)]
    for day, rows in enumerate(changed):
        theirs = np.array(rows["patient_id"]) == "p7"
        rows.update({column: np.where(theirs, 1e9 * (-1) ** day, rows[column]) for column in ("x0", "y")})
    more = {"x0": [1.0] * 500, "x1": [np.nan, 0.5] * 250, "y": [-1e300] * 500, "patient_id": ["p7"] * 500, "visit": [9] * 500}
    changed[0] = {column: [*more[column], *changed[0][column]] for column in more}
    write(place, changed)
    pairs = [(event, old, new) for (event, old), (_, new) in zip(before, answers(settings), strict=True) if old != new]
    event, old, new = pairs[0]  # later questions are asked at other weights
    assert sum((a - b) ** 2 for a, b in zip(old, new, strict=True)) <= Fraction(event.sensitivity) ** 2


def test_rewritten_files_give_the_same_answers(place):
    settings = config(place, method="auto")
    before = answers(settings)
    everything = pa.concat_tables([pa.table(visits(day)) for day in range(DAYS)])
    order = np.random.default_rng(0).permutation(everything.num_rows)
    pieces = np.array_split(order, DAYS)
    write(place, [everything.take(piece).to_pydict() for piece in pieces])
    assert answers(settings) == before


def test_rows_without_an_id_belong_to_nobody(place):
    settings = config(place)
    before = answers(settings)
    nobody = {"x0": [0.9] * 40, "x1": [1e308] * 40, "y": [np.inf] * 40, "patient_id": [None] * 40, "visit": [1] * 40}
    write(place, [visits(0), visits(1), {name: [*visits(2)[name], *nobody[name]] for name in nobody}])
    assert answers(settings) == before


def test_buckets_hold_whole_persons(place):
    settings = config(place, blocks="hash:4", window="rotate 2")
    job = prepare(settings)
    assert job.blocks == ("bucket 0", "bucket 1")
    assert job.plan.units == PATIENTS * 2 // 4
    exact = settings.model_copy(update={"unsafe": Unsafe(noise="none")})
    opened = open_ledger(exact)
    first = answers(exact)
    chosen = Buckets(count=4, chosen=(0, 1), key=opened.bucket_key("clinic"))
    columns = [visits(day) for day in range(DAYS)]
    for rows in columns:
        outside = ~chosen.hold(hash_ids(pa.array(rows["patient_id"])))
        assert 0 < outside.sum() < EACH
        rows["y"] = np.where(outside, 5.0, rows["y"])
    write(place, columns)
    assert answers(exact.model_copy(update={"data": exact.data.model_copy(update={"window": [0, 1]})})) == first


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"units": None}, "data.units is missing: with data.unit 'patient_id' state how many persons"),
        ({"blocks": "day"}, "a person's rows return in many of them"),
        ({"columns": {"patient_id": {"kind": "number"}}}, "'patient_id' is named twice: data.unit"),
        ({"target": "patient_id"}, "cannot be the target"),
        ({"row_id": "patient_id"}, "as well"),
        ({"unit": "record", "units": None, "rows_per_unit": 5}, "rows_per_unit is for persons"),
        ({"rows_per_unit": 0}, "rows_per_unit"),
    ],
)
def test_a_configuration_of_persons_that_cannot_hold_is_refused_with_the_cure(place, changes, reason):
    with pytest.raises(ConfigError, match=reason):
        config(place, **changes)


@pytest.mark.parametrize(
    ("changes", "kind", "reason"),
    [
        ({"unit": "person"}, DataError, "'person', data.unit, is missing"),
        (
            {"unit": "x1", "columns": {"x0": {"kind": "number", "bounds": [-1, 1]}}},
            DataError,
            "'x1', data.unit, has type double",
        ),
        ({"privacy": {"epsilon": 1.0, "delta": 0.02}}, PlanError, "not below 1 / 60 units"),
        (
            {"method": "djw", "target": "y", "privacy": {"trust": "local"}, "lifetime": {"currency": "pure"}, "model": LOGISTIC},
            PlanError,
            "a local report is about one record",
        ),
        ({"method": {"mean": "clipped", "batch": 20, "steps": 2}}, PlanError, "zero_out or add_remove"),
    ],
)
def test_a_plan_of_persons_that_cannot_hold_is_refused_by_name(place, changes, kind, reason):
    with pytest.raises(kind, match=reason):
        prepare(config(place, **changes))


def test_policy_and_configuration_must_protect_the_same(place):
    ledger = Ledger.open(f"sqlite:///{place / 'ledger.db'}")
    ledger.set_policy(
        Policy(data_set="clinic", unit="patient_id", adjacency=Adjacency.REPLACE_ONE, epsilon=8.0, delta=1e-3, currency=Currency.GAUSSIAN)
    )
    with pytest.raises(ConfigError, match=r"protects one patient_id, and data\.unit is record"):
        prepare(config(place, unit="record", units=None))
    job = prepare(config(place))
    assert job.plan.specification.budget.unit == "patient_id"
    with pytest.raises(ValueError, match="a person's rows return in many of them"):
        Policy(data_set="d", unit="patient_id", adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=1e-3, blocks="day").check()


def test_a_plan_of_persons_leaves_room_for_more_than_were_stated(place):
    """Nobody counts them, so sums must not overflow however many there are; and another person may come in one's place."""
    assert prepare(config(place)).plan.procedure.bits <= bits_for(MOST_ROWS)
    aggregate = prepare(config(place, **METHODS["sample_aggregate"])).plan.procedure.estimator
    assert aggregate.touched == 2


def test_a_guarantee_for_persons_needs_rows_that_are_brought_together(place):
    plan = prepare(config(place)).plan
    shape = plan.specification.preprocessing
    with pytest.raises(PlanError, match="the budget protects one patient_id, and rows are grouped by None"):
        make(replace(plan.specification, preprocessing=replace(shape, unit=None)), PATIENTS)
    with pytest.raises(DataError, match="persons are units if and only if each row's id is given"):
        ArrayRecords(np.zeros((3, 2)), np.zeros(3), shape)


def test_a_plan_knows_nothing_of_how_many_rows_there_are(place):
    """The number of rows is a fact about persons: it must be in no plan, noise or release."""
    before = prepare(config(place, method="auto")).plan
    write(place, [visits(day, rows=5000 if day == 0 else EACH) for day in range(DAYS)])
    assert prepare(config(place, method="auto")).plan.digest() == before.digest()
