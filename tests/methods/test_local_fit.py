"""Fits from local reports: paid per user, the same on any cluster, told honestly, undone by nobody."""

import dataclasses
import html
import math
import os
import pickle
import signal
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dp_accounting.pld import privacy_loss_distribution

from nightfit import nightly as job
from nightfit.config import ConfigError, parse
from nightfit.ledger import BudgetExceeded, Ledger
from nightfit.methods.local.fit import LocalMethod, local_fit
from nightfit.numerics.keystream import Key
from nightfit.planning.plan import PlanError
from nightfit.privacy.accounting import Cost, Currency, CurrencyError, cost, epsilon_of, limit, tight_epsilon
from nightfit.privacy.audit import pure_lower_bound
from nightfit.privacy.events import GaussianEvent, PureEvent
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.local.protocol import ReportSum, Walk
from nightfit.privacy.noise import NoNoise
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.squared import Squared
from nightfit.problem.penalties.box import Box
from nightfit.problem.penalties.l1 import L1
from nightfit.problem.penalties.l1_ball import L1Ball
from nightfit.problem.penalties.l2 import L2
from nightfit.problem.penalties.l2_ball import L2Ball
from nightfit.problem.penalties.none import NoPenalty
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.shards import placement
from nightfit.shards.cluster import Local as LocalCluster
from nightfit.shards.cluster import connected
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.keys import KeyPlugin, LocalKey
from nightfit.shards.manifest import DataError, scan
from nightfit.types import Adjacency, Block

SECRET = bytes(range(7, 39))


def procedure(
    epsilon=2.0, currency=Currency.PURE, columns=4, units=600, loss=None, penalty=None, adjacency=Adjacency.REPLACE_ONE, **method
):
    return local_fit(
        LocalMethod(**method),
        loss=loss or Logistic(),
        penalty=penalty or NoPenalty(),
        features=columns - 1,
        columns=columns,
        units=units,
        ceiling=limit(epsilon, 1e-6, currency),
        currency=currency,
        adjacency=adjacency,
    )


@dataclasses.dataclass
class Account:
    events: dict
    secret: bytes = SECRET
    stored: dict = dataclasses.field(default_factory=dict)

    @property
    def key(self):
        return self.secret[:16]

    def asked(self, event):
        return self.stored.get(event.label)

    def answered(self, event, answer):
        assert event.label not in self.stored
        self.stored[event.label] = answer


class Held:
    """Records in memory."""

    def __init__(self, block):
        self.block = block

    def reported(self, question, key):
        return question.whole([question.part(self.block, key)], key)


def ran(local, records, secret=SECRET, account=None):
    account = account or Account({event.label: event for event in local.events}, secret)
    return local.run(Gate(account=account, records=records, noise=NoNoise()), lambda _: None)


def problem(count=600, columns=4, seed=3):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, columns))
    y = np.where(X @ np.arange(1, columns + 1) > 0, 1.0, -1.0)
    return Block(X, y, rng.integers(0, 2**63, count).astype(np.uint64))


# the budget of a user


@pytest.mark.parametrize("currency", [Currency.PURE, Currency.ZCDP])
@pytest.mark.parametrize(("epochs", "cohorts", "reports"), [(1, True, 1), (10, True, 1), (10, False, 10)])
def test_a_user_pays_for_each_report(currency, epochs, cohorts, reports):
    local = procedure(epsilon=2.0, currency=currency, epochs=epochs, cohorts=cohorts)
    (event,) = local.events
    assert event.reports == reports
    assert cost(local.events, currency).fits(limit(2.0, 1e-6, currency))
    assert not cost([dataclasses.replace(event, epsilon=event.epsilon * 1.001)], currency).fits(limit(2.0, 1e-6, currency))
    assert local.protocol.epsilon == event.epsilon
    if currency is Currency.PURE:
        assert event.epsilon == pytest.approx(2.0 / reports)
    assert tight_epsilon(local.events, 1e-6) <= 2.0 * (1 + 1e-9)


def test_many_reports_cost_less_than_their_sum_at_a_delta():
    event = PureEvent(label="reports", epsilon=0.1, reports=100, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    exact = privacy_loss_distribution.from_randomized_response(2 / (1 + math.exp(0.1)), 2, value_discretization_interval=1e-4)
    wanted = exact.self_compose(100).get_epsilon_for_delta(1e-6)
    found = tight_epsilon([event], 1e-6)
    assert wanted * (1 - 1e-6) <= found < 1.05 * wanted < 6  # ten by adding
    assert epsilon_of(cost([event], Currency.PURE), 1e-6, Currency.PURE) == pytest.approx(10.0)
    assert epsilon_of(cost([event], Currency.ZCDP), 1e-6, Currency.ZCDP) >= found


def test_the_label_and_the_reports_share_the_budget():
    local = procedure(epsilon=1.0, solver="prestige", curriculum="label_only", epochs=4, cohorts=False)
    labels, reports = local.events
    assert (labels.epsilon, labels.reports) == (pytest.approx(0.2), 1)
    assert (reports.epsilon, reports.reports) == (pytest.approx(0.2), 4)
    assert "label only" in local.protects
    assert "whole record" in procedure(solver="prestige").protects


def test_currencies_do_not_carry_what_they_cannot_add():
    gaussian = GaussianEvent(label="sum", sensitivity=1.0, sigma=1.0, coordinates=1, adjacency=Adjacency.REPLACE_ONE)
    with pytest.raises(CurrencyError, match="local reports only"):
        cost([gaussian], Currency.PURE)
    with pytest.raises(CurrencyError, match="pure"):
        procedure(currency=Currency.GAUSSIAN)
    assert limit(3.0, 1e-6, Currency.PURE).mass == 0
    assert epsilon_of(Cost(1, 0), 1e-6, Currency.PURE) > 0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"adjacency": Adjacency.ADD_REMOVE}, "takes part"),
        ({"loss": Squared()}, "losses of labels"),
        ({"penalty": L1(weight=0.1)}, "penalties {}, l2 and l2_ball"),
        ({"penalty": L1Ball(radius=1.0)}, "penalties {}, l2 and l2_ball"),
        ({"penalty": Box(low=-1.0, high=1.0)}, "penalties {}, l2 and l2_ball"),
        ({"penalty": L2Ball(radius=1.0), "radius": 2.0}, "given twice"),
        ({"steps": "strongly_convex"}, "need an l2 penalty"),
        ({"sampler": "privunit", "epsilon": 0.0014, "columns": 2000}, "use djw"),
        ({"sampler": "laplace"}, "not one of the randomisers"),
    ],
)
def test_what_does_not_fit_together_is_refused(said, message):
    with pytest.raises(ValueError, match=message):
        procedure(**said).describe()


# the gate


def test_the_gate_asks_a_cell_once_and_only_what_was_reserved():
    local, records = procedure(), Held(problem())
    account = Account({event.label: event for event in local.events})
    gate = Gate(account=account, records=records, noise=NoNoise())
    walk = Walk(protocol=local.protocol, server=local.server, epoch=0, cell=0, state=local.server.start(4))
    with pytest.raises(GateError, match="twice"):
        gate.report("reports", local.protocol, local.coordinates, lambda ask: [ask(walk), ask(walk)])
    louder = procedure(epsilon=2.1)
    with pytest.raises(GateError, match="cost more"):
        gate.report("reports", louder.protocol, louder.coordinates, lambda ask: ask(walk))
    with pytest.raises(GateError, match="another way"):
        gate.report("reports", local.protocol, local.coordinates, lambda ask: ask(dataclasses.replace(walk, protocol=louder.protocol)))
    often = procedure(epochs=2, cohorts=False)
    with pytest.raises(GateError, match="cost more"):
        gate.report("reports", often.protocol, local.coordinates, lambda ask: ask(walk))
    with pytest.raises(GateError, match="not in the plan"):
        gate.report("more", local.protocol, local.coordinates, lambda ask: ask(walk))
    flipping = procedure(solver="prestige", curriculum="label_only")
    with pytest.raises(GateError, match="labels"):
        gate.report("reports", flipping.protocol, local.coordinates, lambda ask: ask(walk))
    assert not account.stored


def test_a_crashed_talk_is_held_again_and_hears_the_same_reports():
    local, block = procedure(epochs=3, batch=7), problem()
    whole = ran(local, Held(block))

    class Cut(Held):
        asked = 0

        def reported(self, question, key):
            self.asked += 1
            if self.asked == 2:
                raise RuntimeError
            return super().reported(question, key)

    account = Account({event.label: event for event in local.events})
    with pytest.raises(RuntimeError):
        ran(local, Cut(block), account=account)
    resumed = ran(local, Held(block), account=account)
    assert (resumed.weights == whole.weights).all()
    again = ran(local, None, account=account)  # answered: nothing is read
    assert (again.weights == whole.weights).all()
    assert (ran(local, Held(block), secret=bytes(32)).weights != whole.weights).any()


@pytest.mark.parametrize("sampler", ["djw", "privunit"])
def test_an_outsider_learns_no_more_than_the_report(sampler):
    """Whole fits of three records, of which one turns round: 3 x 2 outcomes of the released iterate. False alarms: 1e-6, keys fixed."""
    local = procedure(epsilon=1.0, columns=1, units=3, loss=Hinge(), batch=1, bound=0.5, radius=3.0, sampler=sampler, iterate="last")
    rng = np.random.default_rng(4)
    counts = []
    for label in (1.0, -1.0):
        block = Block(np.ones((3, 1)), np.array([1.0, label, -1.0]), np.array([11, 22, 33], dtype=np.uint64))
        found = [float(ran(local, Held(block), secret=rng.bytes(32)).weights[0]) for _ in range(2_500)]
        counts.append(np.histogram(found, bins=6, range=(-3, 3))[0])
    assert 0.1 < pure_lower_bound(*counts, confidence=1 - 1e-6) <= 1.0


def test_small_and_large_batches_learn_alike():
    """A batch that fits no worker is summed over shards; the mean reports are those of a walk with the same batches."""
    block = problem(4_000)
    many = procedure(epsilon=8.0, units=4_000, batch=400, epochs=1, penalty=L2(weight=1e-3))
    few = procedure(epsilon=8.0, units=4_000, batch=400, epochs=1, penalty=L2(weight=1e-3), cell_bytes=1)
    assert not many.protocol.schedule.together
    assert few.protocol.schedule.together
    assert few.protocol.schedule.cells == 10
    for local in (many, few):
        weights = ran(local, Held(block)).weights
        assert (np.sign(block.X @ weights) != block.y).mean() < 0.15


# on a cluster

BOUNDS = Preprocessing(
    features=("x0", "x1", "x2"), target="y", centre=(0.0,) * 3, scale=(1.0,) * 3, intercept=True, target_domain=Target.LABELS
)


@pytest.fixture
def folder(write):
    rng = np.random.default_rng(8)
    columns = {f"x{j}": rng.uniform(-1, 1, 900) for j in range(3)}
    table = pa.table({**columns, "y": (columns["x0"] > columns["x1"]).astype(float)})
    return write("records", table, [300, 100, 500])


def surveyed(**method):
    return procedure(units=900, **({"epochs": 2, "batch": 5} | method))


@pytest.mark.parametrize(("place", "cell_bytes"), [("memory", 2**26), ("files", 2**26), ("files", 1), ("parquet", 1)])
def test_any_cluster_and_chunks_give_the_same_fit(folder, client, monkeypatch, place, cell_bytes):
    if place != "memory":
        monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    local, manifest = surveyed(cell_bytes=cell_bytes, batch=100), scan(str(folder))
    bounds = dataclasses.replace(BOUNDS, precision="single" if place == "parquet" else "double")
    alone = ran(local, ShardedDataset(manifest, bounds))
    with ShardedDataset(manifest, bounds, client, chunk_bytes=4_000, passes=1 if place == "parquet" else 2) as shards:
        together = ran(local, shards)
    assert (alone.weights == together.weights).all()
    assert all((one == other).all() for one, other in zip(alone.path, together.path, strict=True))


LIMITED = """
import resource, sys
from pathlib import Path
from nightfit.numerics.keystream import Key
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.penalties.none import NoPenalty
from nightfit.records.preprocessing import Preprocessing
from nightfit.records.targets import Target
from nightfit.privacy.accounting import Currency, limit
from nightfit.methods.local.fit import LocalMethod, local_fit
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.shards.read import blocks
from nightfit.types import Adjacency

folder, columns, rows, room = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
shape = Preprocessing(
    features=tuple(f"x{j}" for j in range(columns)), target="y", centre=(0.0,) * columns, scale=(1.0,) * columns,
    intercept=False, target_domain=Target.LABELS,
)

def fitted(place, rows, batch, cell_bytes):
    shards = ShardedDataset(scan(place), shape, chunk_bytes=2**23)
    local = local_fit(
        LocalMethod(batch=batch, epochs=3, cell_bytes=cell_bytes), loss=Logistic(), penalty=NoPenalty(), features=columns, columns=columns,
        units=rows, ceiling=limit(8.0, 1e-6, Currency.PURE), currency=Currency.PURE, adjacency=Adjacency.REPLACE_ONE,
    )
    assert local.protocol.schedule.together == (cell_bytes == 1)
    return local.outcome(local.exchange(lambda asked: shards.reported(asked, Key(bytes(range(32)))), lambda _: None)).weights

for cell_bytes in (2**24, 1):
    fitted(folder + "/few", 300, 100, cell_bytes)  # what is loaded and compiled once
used = 4096 * int(Path("/proc/self/statm").read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
for batch, cell_bytes in ((rows // 3, 1), (rows // 60, 2**24)):
    weights = fitted(folder + "/many", rows, batch, cell_bytes)
    assert weights[0] == max(weights) > 0
shards = ShardedDataset(scan(folder + "/many"), shape)
try:
    held = [block for chunk in shards.chunks for block in blocks(chunk, shape)]
except MemoryError:
    print("too large to hold")
"""


@pytest.mark.sweep
def test_reports_run_in_less_address_space_than_the_decoded_rows(tmp_path):
    """Several epochs, by sums over shards and by walks through cells; the same process cannot hold all rows."""
    rows, columns, rng = 110_000, 120, np.random.default_rng(3)
    values = pa.array([-1.0, 1.0])
    for place, count in (("few", 300), ("many", rows)):
        (tmp_path / place).mkdir()
        codes = [rng.integers(0, 2, count) if j < 2 else np.full(count, j % 2) for j in range(columns)]
        coded = [pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int8)), values).cast(pa.float64()) for code in codes]
        table = pa.table({f"x{j}": column for j, column in enumerate(coded)} | {"y": codes[0].astype(float)})
        pq.write_table(table, tmp_path / place / "rows.parquet", row_group_size=10_000)
    room = 70 * 2**20
    assert rows * columns * 8 > 1.4 * room
    words = [str(tmp_path), str(columns), str(rows), str(room)]
    said = subprocess.run([sys.executable, "-c", LIMITED, *words], capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert "too large to hold" in said.stdout


def deadly(question, flag, where):
    """The same question, whose first task at `where` kills its worker. Defined here, so that workers get the class by value."""

    class Deadly:
        protocol, epoch, cell = question.protocol, question.epoch, question.cell

        def _die_once(self, here):
            if here == where:
                try:
                    os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    return
                os.kill(os.getpid(), signal.SIGKILL)

        def part(self, block, key):
            self._die_once("part")
            return question.part(block, key)

        def whole(self, parts, key):
            self._die_once("whole")
            return question.whole(parts, key)

    return Deadly()


@pytest.mark.process
def test_reports_survive_the_loss_of_a_worker(folder, tmp_path):
    """Real worker processes, killed while they randomise and while they walk, in a fit of several epochs."""
    local, manifest = surveyed(), scan(str(folder))
    undisturbed = ran(local, ShardedDataset(manifest, BOUNDS))
    with connected(LocalCluster(workers=3)) as cluster:  # two die, and need not be back in time
        shards = ShardedDataset(manifest, BOUNDS, cluster, chunk_bytes=4_000)

        class Disturbed:
            def reported(self, question, key):
                where = "whole" if question.epoch == 1 else "part"
                return shards.reported(deadly(question, str(tmp_path / f"flag{question.epoch}"), where), key)

        found = ran(local, Disturbed())
    assert sorted(path.name for path in tmp_path.glob("flag*")) == ["flag0", "flag1"]
    assert (found.weights == undisturbed.weights).all()


def watcher():
    """A scheduler plugin that keeps the bytes of every task's call."""
    import cloudpickle
    from distributed import SchedulerPlugin

    class Watch(SchedulerPlugin):
        name = "watch"
        seen = b""

        def update_graph(self, scheduler, **kwargs):
            self.seen += b"".join(cloudpickle.dumps(task.run_spec) for task in list(scheduler.tasks.values()))

    return Watch()


@pytest.mark.parametrize("passes", [1, 2])
def test_the_key_is_in_no_graph(folder, client, monkeypatch, caplog, passes):
    monkeypatch.setattr(placement, "RESIDENT_SHARE", 0)
    client.register_plugin(watcher(), name="watch")
    try:
        with ShardedDataset(scan(str(folder)), BOUNDS, client, passes=passes) as shards:
            ran(surveyed(), shards)
        assert client.submit(len, b"a mark that the plugin must see", pure=False).result() == 31
        seen = client.run_on_scheduler(lambda dask_scheduler: dask_scheduler.plugins["watch"].seen)
    finally:
        client.unregister_scheduler_plugin("watch")
    logs = repr([client.get_worker_logs(), client.get_scheduler_logs(), caplog.text])
    assert b"a mark that the plugin must see" in seen
    assert SECRET not in seen
    for text in (SECRET.hex(), repr(SECRET)[2:-1]):
        assert text not in logs


def test_the_key_is_in_no_pickle_of_the_procedure():
    local = procedure()
    assert SECRET not in pickle.dumps(local)
    with pytest.raises(TypeError):
        pickle.dumps([Key(SECRET)])
    assert "secret" not in repr(LocalKey(SECRET))
    assert repr(KeyPlugin("name", SECRET)) == "KeyPlugin(...)"


def test_a_shard_that_cannot_be_read_is_told_without_a_value(folder, client):
    for where in (None, client):
        with ShardedDataset(scan(str(folder)), BOUNDS, where) as shards:
            (folder / "part-00001.parquet").touch()
            with pytest.raises(DataError, match="added, removed or rewritten"):
                ran(surveyed(), shards)


# from the configuration to the release


def configured(folder, place, method=None, privacy=None, **said):
    budget = {"epsilon": 4.0, "delta": 1e-6, "trust": "local", "lifetime": {"epsilon": 8.0, "delta": 1e-5, "currency": "pure"}}
    content = {
        "name": "m",
        "data": {"path": str(folder), "target": "y", "default": {"kind": "number", "bounds": [-1, 1]}, "name": "d", **said.pop("data", {})},
        "privacy": budget | (privacy or {}),
        "model": {"loss": "logistic", "penalty": {"l2": 0.001}},
        "method": {"solver": "djw"} if method is None else method,
        "cluster": {"kind": "synchronous"},
        **said,
    }
    return parse(content, place)


def refitted(config):
    planned = job.prepare(config)
    ledger = job.open_ledger(config)
    release = job.run_fit(planned, ledger, job.reserve(planned, ledger))
    return planned, ledger, job.publish(planned, ledger, release)


@pytest.mark.parametrize(
    ("method", "unit"),
    [
        ("djw", "record"),
        ({"solver": "djw", "sampler": "privunit", "batch": 1, "iterate": "last"}, "record"),
        ({"solver": "prestige", "epochs": 3, "start": 0.0, "steps": "strongly_convex"}, "record"),
        ({"solver": "prestige", "curriculum": "label_only", "epochs": 2}, "label"),
    ],
)
def test_a_local_refit_is_paid_told_and_not_paid_twice(folder, tmp_path, method, unit):
    config = configured(folder, tmp_path, method, data={"unit": unit})
    Ledger.create(config.ledger_url)
    planned, ledger, published = refitted(config)
    release = published.release
    assert published.balance.epsilon_spent == pytest.approx(4.0)
    assert release.private
    assert ("the label only" in release.statement()) == (unit == "label")
    assert ("the whole record" in release.statement()) == (unit == "record")
    assert "4-locally differentially private" in release.statement()
    assert release.content["guarantee"]["protects"] in release.statement()
    assert release.content["guarantee"]["protects"] in planned.plan.explain()
    assert html.escape(release.statement()) in published.report_path.read_text()
    again = job.run_fit(planned, ledger, job.reserve(planned, ledger))
    assert again.content["coef"] == release.content["coef"]
    assert job.balance_of(ledger, "d").epsilon_spent == pytest.approx(4.0)
    refitted_again = job.reserve(planned, ledger, again=True)
    job.run_fit(planned, ledger, refitted_again)
    with pytest.raises(BudgetExceeded):
        job.reserve(planned, ledger, again=True)


def test_the_secret_of_a_run_is_erased_when_it_ends(folder, tmp_path):
    config = configured(folder, tmp_path)
    ledger = Ledger.create(config.ledger_url)
    planned = job.prepare(config)
    run = job.reserve(planned, job.open_ledger(config))
    assert len(run.secret) == 32
    assert ledger.runs()[0]["secret"] == run.secret.hex()
    assert run.secret.hex() not in repr(run)
    release = job.run_fit(planned, ledger, run)
    published = job.publish(planned, ledger, release)
    assert ledger.runs()[0]["secret"] == "00" * 32
    for path in (published.release_path, published.report_path):
        assert run.secret.hex() not in path.read_text()
    given_up = job.reserve(planned, ledger, again=True)
    assert given_up.secret != run.secret
    ledger.abandon(given_up.run_id)
    assert {row["secret"] for row in ledger.runs()} == {"00" * 32}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"method": "auto"}, "privacy.trust local goes with"),
        ({"privacy": {"trust": "central"}}, "privacy.trust local goes with"),
        ({"method": {"solver": "prestige", "curriculum": "open"}}, "method.curriculum"),
        ({"method": {"solver": "djw", "sampler": "gauss"}}, "is not one of the randomisers"),
        ({"method": {"solver": "djw", "batch": 0}}, "method.batch"),
        ({"method": {"solver": "djw", "epoch": 1}}, "did you mean 'epochs'"),
        ({"privacy": {"epsilon": 0.0}}, "epsilon"),
        ({"privacy": {"epsilon": math.nan}}, "epsilon"),
    ],
)
def test_a_wrong_local_configuration_is_refused(folder, tmp_path, said, message):
    with pytest.raises(ConfigError, match=message):
        configured(folder, tmp_path, **said)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"privacy": {"lifetime": {"epsilon": 8.0, "delta": 1e-5}}}, "currency pure"),
        ({"privacy": {"adjacency": "add_remove"}, "data": {"units": 900}}, "takes part"),
        ({"data": {"row_id": "x2"}}, "remove data.row_id"),
        ({"data": {"unit": "label"}}, "unit label|got the unit label"),
        ({"method": {"solver": "prestige", "curriculum": "label_only"}}, "unit: label"),
        ({"model": {"loss": "squared"}}, "losses of labels"),
    ],
)
def test_a_local_plan_that_cannot_be_is_refused_before_any_charge(folder, tmp_path, said, message):
    with pytest.raises(PlanError, match=message):
        job.prepare(configured(folder, tmp_path, **said))


def test_a_batch_over_shards_counts_every_report(folder):
    local = surveyed(cell_bytes=1, batch=300, epochs=1)
    question = ReportSum(protocol=local.protocol, epoch=0, cell=1, weights=np.zeros(4))
    answer = ShardedDataset(scan(str(folder)), BOUNDS).reported(question, Key(SECRET))
    assert 200 < answer[0] < 400
    assert np.linalg.norm(question.mean(answer)) < local.protocol.randomiser.norm(4)
