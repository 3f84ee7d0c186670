"""The ledger on a real PostgreSQL server: the same promises as on SQLite, for drivers on several machines."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from nightfit.ledger import Binding, Claim, Ledger, LedgerError, Policy, Reservation, Run, database, verify
from nightfit.ledger.identity import Identity
from nightfit.privacy.accounting import cost
from nightfit.types import Adjacency

pytestmark = pytest.mark.process

RACERS = 50
NUMBERS = itertools.count()
POLICY = Policy(data_set="clinic", adjacency=Adjacency.REPLACE_ONE, epsilon=2.0, delta=1e-5)

RACE = """
import os, sys
from tests_order import order
from nightfit.ledger import BudgetExceeded, Ledger

there, warm = Ledger.open(sys.argv[1]), Ledger.create("sqlite://")
warm.set_policy(there.policies()["clinic"])
there.engine.dispose()
try:
    for number in range(int(sys.argv[2])):
        warm.reserve(order(f"racer {number}"))
except BudgetExceeded:
    pass
waiting, started = os.pipe()
children = []
for number in range(int(sys.argv[2])):
    child = os.fork()
    if child == 0:
        code = 2
        try:
            os.close(started)
            os.read(waiting, 1)
            Ledger.open(sys.argv[1]).reserve(order(f"racer {number}"))
            code = 0
        except BudgetExceeded:
            code = 1
        finally:
            os._exit(code)
    children.append(child)
os.close(started)
print(*sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""

HOLDER = """
import sys, time
from tests_order import order
from nightfit.ledger import Ledger

ledger = Ledger.open(sys.argv[1])
run = ledger.reserve(order("held"))
with ledger.hold(run.run_id):
    print(run.run_id, flush=True)
    time.sleep(600)
"""

ORDER = """
from nightfit.privacy.events import GaussianEvent
from nightfit.ledger import Reservation
from nightfit.types import Adjacency


def order(window):
    shape = {"sensitivity": 2.0**37, "sigma": 2.0**37 / 0.1, "coordinates": 3, "adjacency": Adjacency.REPLACE_ONE}
    events = tuple(GaussianEvent(label=f"g{i}", **shape) for i in range(2))
    return Reservation(model="m", data_set="clinic", unit="record", plan="p", events=events, window=window, manifest="x", files=())
"""


def order(window: str) -> Reservation:
    scope: dict[str, object] = {}
    exec(ORDER, scope)
    made = scope["order"](window)  # type: ignore[operator]
    assert isinstance(made, Reservation)
    return made


def close(run: Run) -> Claim:
    """Finish a run; what its release says then."""
    content = {"run": run.run_id, "private": True, "plan_digest": "p", "events": [event.as_dict() for event in run.events.values()]}
    return Claim.of({**content, "receipt": run.finish(Binding.of(content)).as_dict()})


@pytest.fixture(scope="module")
def url(postgresql_url):
    return postgresql_url


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
    claim = close(run)
    assert close(ledger.reserve(order("first"))) == claim
    assert verify(ledger, [("release", claim)]) == []


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
    assert 0 < room < RACERS
    with script(RACE, url, str(RACERS)) as racers:
        codes = racers.stdout.read().split()
    assert codes == ["0"] * room + ["1"] * (RACERS - room)
    assert ledger.spent("clinic").fits(POLICY.limit())
    assert verify(ledger) == []


class Cutting:
    """A proxy to a server's socket that cuts the connection at the n-th COMMIT: before the server hears it, or before its reply."""

    def __init__(self, folder, server, *, heard):
        self.server, self.heard, self.at, self.commits = server, heard, None, 0
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(folder / server.name))
        self.listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    @contextlib.contextmanager
    def cut(self, at=1):
        """What is done inside meets the cut, and goes on all the same."""
        self.commits, self.at = 0, at
        yield
        assert self.commits > at, "it was not cut, or not tried again"
        self.at = None

    def _serve(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(str(self.server))
            threading.Thread(target=self._towards_server, args=(near, far), daemon=True).start()

    def _towards_server(self, near, far):
        """Requests and replies take turns: each request is answered up to ReadyForQuery before the next is sent."""
        cut = threading.Event()
        threading.Thread(target=self._towards_client, args=(near, far, cut), daemon=True).start()
        with contextlib.suppress(OSError):  # the other thread may have closed both ends
            while data := near.recv(2**16):
                if data == b"Q\x00\x00\x00\x0bCOMMIT\x00":  # the whole message: BEGIN says READ COMMITTED
                    self.commits += 1
                    if self.commits == self.at:
                        if self.heard:
                            cut.set()  # the reply is swallowed
                            far.sendall(data)
                            return
                        break
                far.sendall(data)
        for end in (near, far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # close alone is not told while another thread reads

    def _towards_client(self, near, far, cut):
        with contextlib.suppress(OSError):
            while data := far.recv(2**16):
                if cut.is_set():
                    break
                near.sendall(data)
        for end in (near, far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.fixture
def fresh(url):
    """A ledger of its own in a new database of the same server."""
    name = f"ledger_{next(NUMBERS)}"
    server = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with server.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {name}"))
    parsed = sa.engine.make_url(url)
    made = Ledger.create(parsed.set(database=name).render_as_string(hide_password=False))
    made.set_policy(POLICY)
    yield made
    made.engine.dispose()


@pytest.mark.parametrize("heard", [False, True], ids=["lost", "made but not told"])
def test_a_connection_cut_at_commit_is_retried_and_charged_once(fresh, heard):
    parsed = sa.engine.make_url(fresh.url)
    with tempfile.TemporaryDirectory() as folder:
        proxy = Cutting(Path(folder), Path(parsed.query["host"]) / ".s.PGSQL.5432", heard=heard)
        through = parsed.set(query={**parsed.query, "host": folder}).render_as_string(hide_password=False)
        with proxy.cut():
            ledger = Ledger.open(through)
        with proxy.cut():
            run = ledger.reserve(order("cut"))
        first, second = run.events.values()
        with proxy.cut():
            assert run.asked(first) is None
        with proxy.cut():
            run.answered(first, np.array([1, 2, 3]))
        assert run.asked(second) is None
        run.answered(second, np.array([4, 5, 6]))
        with proxy.cut():
            claim = close(run)
        given_up = ledger.reserve(order("given up"))
        with proxy.cut():
            assert given_up.asked(first) is None
        with pytest.MonkeyPatch.context() as patch, proxy.cut(at=2):
            patch.setattr(ledger, "hold", lambda _: contextlib.nullcontext())
            assert ledger.abandon(given_up.run_id) == cost([second], POLICY.currency)
        ledger.engine.dispose()
        proxy.listener.close()
    assert fresh.spent("clinic") == cost([first, second, first], POLICY.currency)
    assert [run["state"] for run in fresh.runs()] == ["finished", "abandoned"]
    assert fresh.reserve(order("cut")).asked(first).tolist() == [1, 2, 3]
    assert verify(fresh, [("release", claim)]) == []


def test_a_serialisation_failure_is_retried_and_charged_once(fresh):
    """The server itself raises 40001 on the first two tries of every entry."""
    with fresh.engine.begin() as connection:
        connection.execute(sa.text("CREATE SEQUENCE tries"))
        connection.execute(
            sa.text(
                "CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('tries') % 3 <> 0 THEN "
                "RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END IF; RETURN NEW; END $$"
            )
        )
        connection.execute(sa.text("CREATE TRIGGER conflict BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION conflict()"))
    run = fresh.reserve(order("conflict"))
    for event in run.events.values():
        assert run.asked(event) is None
        run.answered(event, np.arange(3))
    close(run)
    with fresh.engine.begin() as connection:
        tried = connection.execute(sa.text("SELECT last_value FROM tries")).scalar()
    assert tried == 3 * 6
    assert fresh.spent("clinic") == cost(run.events.values(), POLICY.currency)
    assert verify(fresh) == []


def test_a_failure_that_does_not_pass_is_told_and_nothing_is_charged(fresh):
    with fresh.engine.begin() as connection:
        connection.execute(
            sa.text(
                "CREATE FUNCTION conflict() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
                "RAISE EXCEPTION 'could not serialize access' USING ERRCODE = '40001'; END $$"
            )
        )
        connection.execute(sa.text("CREATE TRIGGER conflict BEFORE INSERT ON entry FOR EACH ROW EXECUTE FUNCTION conflict()"))
    with pytest.raises(LedgerError, match="could not serialize access"):
        fresh.reserve(order("conflict"))
    assert fresh.spent("clinic").amount == 0


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
    ledger = Ledger("postgresql+psycopg://user:secret@host/d", ledger.engine, Identity("id", b""))
    assert "secret" not in ledger.place


def test_a_ledger_that_another_driver_holds_too_long_is_a_clean_error_and_nothing_is_charged(fresh, monkeypatch):
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.3)
    monkeypatch.setattr(database, "PAUSES", ())
    waiting = Ledger.open(fresh.url)
    with fresh.engine.begin(), pytest.raises(LedgerError, match=r"another process holds it; wait for that run to end"):
        waiting.reserve(order("waiting"))
    waiting.engine.dispose()
    assert fresh.spent("clinic").amount == 0
    assert fresh.runs() == []


def ended(ledger, *, run_id=None):
    """End the backends of other connections to a ledger's database, as an administrator may; of a run's lock alone if one is named."""
    held = "" if run_id is None else "AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted)"
    server = sa.create_engine(ledger.url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)
    with server.connect() as connection:
        where = f"pid <> pg_backend_pid() AND datname = current_database() {held}"
        return len(connection.execute(sa.text(f"SELECT pg_terminate_backend(pid, 600000) FROM pg_stat_activity WHERE {where}")).all())


def test_f37_a_driver_whose_lock_the_database_ended_stores_no_answer(fresh):
    first = fresh.reserve(order("fenced"))
    one, two = first.events.values()
    second = Ledger.open(fresh.url)
    with fresh.hold(first.run_id):
        assert first.asked(one) is None
        first.answered(one, np.array([1, 2, 3]))
        assert first.asked(two) is None
        assert ended(fresh, run_id=first.run_id) == 1
        with pytest.raises(LedgerError, match="ended the connection that keeps other drivers away"):
            first.answered(two, np.array([4, 5, 6]))
        with second.hold(first.run_id):
            again = second.reserve(order("fenced"))
            assert again.asked(one).tolist() == [1, 2, 3]
            assert again.asked(two) is None
            with pytest.raises(LedgerError, match="ended the connection"):
                first.asked(two)
            with pytest.raises(LedgerError, match="ended the connection"):
                first.answered(two, np.array([4, 5, 6]))
            again.answered(two, np.array([7, 8, 9]))
            close(again)
    second.engine.dispose()
    with fresh.hold(first.run_id):  # a driver that lost its lock does not keep others away
        assert first.asked(two).tolist() == [7, 8, 9]
    assert fresh.spent("clinic") == cost([one, two], POLICY.currency)
    assert verify(fresh) == []


def test_f38_backends_that_are_killed_often_end_in_a_message_and_one_charge(fresh):
    """Every backend of the database is ended every 5 to 50 ms, until the run has failed or finished; then nothing disturbs it."""
    calm = threading.Event()
    pauses = np.random.default_rng(38).uniform(0.005, 0.05, 10_000)

    def kill():
        for pause in pauses:
            if calm.wait(pause):
                return
            ended(fresh)

    storm = threading.Thread(target=kill)
    storm.start()
    told = []
    try:
        for number in range(200):
            if number == 4:
                calm.set()
            try:
                run = fresh.reserve(order("storm"))
                with fresh.hold(run.run_id):
                    for event in run.events.values():
                        if run.asked(event) is None:
                            run.answered(event, np.arange(3))
                    close(run)
                break
            except LedgerError as error:
                told.append(str(error))
        else:
            pytest.fail("it never finished: " + told[-1])
    finally:
        calm.set()
        storm.join()
    assert fresh.spent("clinic") == cost(run.events.values(), POLICY.currency)
    assert [run["state"] for run in fresh.runs()] == ["finished"]
    assert verify(fresh) == []
