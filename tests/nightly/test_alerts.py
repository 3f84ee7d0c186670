"""Alerts are sent by a real program, to a real web server and a real mail server, both on loopback; they hold no secret and no value."""

import json
import os
import re
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from nightfit import nightly
from nightfit.cli.refits import _by_calls
from nightfit.config import Config, ConfigError
from nightfit.ledger import BudgetExceeded, Ledger
from nightfit.nightly import Published, journal
from nightfit.nightly.alerts import tell
from nightfit.nightly.alerts.occasions import of_failure, of_missed, of_night
from nightfit.nightly.alerts.prometheus import text
from nightfit.types import NightfitError

Night = Callable[..., Config]
Refit = Callable[..., Published]
Evaluated = Callable[..., dict[str, Any]]
KEEP = "import pathlib, sys; pathlib.Path('told.jsonl').open('a').write(sys.stdin.read() + '\\n')"
COMMAND = {"command": [sys.executable, "-c", KEEP]}


def told(config: Config) -> list[dict[str, Any]]:
    path = config.folder / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def web() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server on loopback, and what was posted to it."""
    posted: list[dict[str, Any]] = []

    class Kept(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/elsewhere":
                posted.append({"followed": True})
            elif self.path == "/moved":
                self.send_response(307)
                self.send_header("Location", "/elsewhere")
                self.end_headers()
                return
            else:
                posted.append({"path": self.path, "type": self.headers["Content-Type"], **json.loads(body)})
            self.send_response(204)
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Kept)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", posted
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def mail() -> Iterator[tuple[int, list[str]]]:
    """The port of a mail server on loopback, and the lines that it was sent."""
    lines: list[str] = []

    class Talk(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            inside = False
            while line := self.rfile.readline():
                lines.append(word := line.decode().rstrip("\r\n"))
                if inside:
                    inside = word != "."
                    if not inside:
                        self.wfile.write(b"250 kept\r\n")
                    continue
                inside = word.upper() == "DATA"
                answers = {
                    "DATA": b"354 go on\r\n",
                    "QUIT": b"221 bye\r\n",
                    "EHLO": b"250-here\r\n250 AUTH PLAIN\r\n",
                    "AUTH": b"235 in\r\n",
                }
                self.wfile.write(answers.get(word.split(" ")[0].upper(), b"250 ok\r\n"))
                if word == "QUIT":
                    return

    with socketserver.TCPServer(("127.0.0.1", 0), Talk) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1], lines
        server.shutdown()
        thread.join()


@pytest.mark.process
def test_a_failure_is_told_by_every_way_and_noted(
    night: Night, web: tuple[str, list[dict[str, Any]]], mail: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (url, posted), (port, lines) = web, mail
    monkeypatch.setenv("OUR_HOOK", f"{url}/s3cret-hook")
    (tmp_path / "password").write_text("s3cret-password\n")
    email = {
        "host": "127.0.0.1",
        "port": port,
        "security": "none",
        "sender": "nights@clinic.example",
        "to": ["team@clinic.example"],
        "user": "nights",
        "password": {"file": "password"},
    }
    config = night(notify={**COMMAND, "webhook": {"url": {"env": "OUR_HOOK"}}, "email": email})
    with pytest.raises(ZeroDivisionError), nightly.watched(config):
        raise ZeroDivisionError("row 7 is 4711")
    (by_command,) = told(config)
    assert (by_command["occasion"], by_command["model"], by_command["data_set"]) == ("failure", "visits", "clinic")
    (hook,) = posted
    assert (hook["path"], hook["type"], hook["occasion"]) == ("/s3cret-hook", "application/json", "failure")
    assert "ZeroDivisionError" in hook["text"]
    assert "Subject: nightfit visits: failure" in lines
    assert any(line.startswith("AUTH PLAIN") for line in lines)
    assert "4711" not in json.dumps([by_command, hook, lines])
    assert "s3cret" not in json.dumps([by_command, {**hook, "path": ""}, lines])
    (note,) = journal.read(config.output_folder, "visits")
    assert (note.state, note.reason) == ("failed", "an unexpected ZeroDivisionError")


def test_an_alert_says_the_kind_of_a_failure_and_none_of_its_text(night: Night) -> None:
    note, alert = of_failure(night(), NightfitError("file secret-ward.parquet cannot be read"))
    assert (alert.occasion, note.state) == ("failure", "failed")
    assert "secret-ward" not in json.dumps(alert.as_dict())
    assert "secret-ward" in note.reason
    for error in (BudgetExceeded("clinic: 0.2 left"), ConfigError("unknown key")):
        note, alert = of_failure(night(), error)
        assert (alert.occasion, note.state) == ("refusal", "refused")
        assert str(error) not in alert.words


@pytest.mark.process
def test_a_refused_night_is_told_and_one_that_is_stopped_is_not(night: Night, tmp_path: Path) -> None:
    config = night(notify=COMMAND, privacy={"epsilon": 9.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}})
    with pytest.raises(NightfitError):
        _by_calls(tmp_path / "refit.yaml", again=False, unsafe=False, quiet=True, told=lambda _: None)
    assert [one["occasion"] for one in told(config)] == ["refusal"]
    with pytest.raises(KeyboardInterrupt), nightly.watched(config):
        raise KeyboardInterrupt
    assert len(told(config)) == 1


@pytest.mark.process
def test_a_night_that_ended_well_is_told_where_it_is_asked_for_new_or_unchanged(night: Night, tmp_path: Path) -> None:
    results: list[dict[str, Any]] = []
    for notify in (COMMAND, {**COMMAND, "on": ["completion"]}, {**COMMAND, "on": ["completion"]}):
        night(notify=notify)
        _by_calls(tmp_path / "refit.yaml", again=False, unsafe=False, quiet=True, told=results.append)
    assert [result["night"]["state"] for result in results] == ["new", "unchanged", "unchanged"]
    found = told(night())
    assert [(one["occasion"], one["run"]) for one in found] == [("completion", results[0]["run"])] * 2
    assert "nothing spent" in found[0]["words"]
    assert str(tmp_path) not in json.dumps(found)


@pytest.mark.process
def test_the_end_of_a_night_that_is_not_private_is_told_without_a_number_of_it(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    config = night(notify={**COMMAND, "on": ["completion"]}, unsafe={"noise": "none"})
    nightly.tell_completion(config, nightly.as_dict(refit(config, evaluated(0.987), unsafe=True)))
    (only,) = told(config)
    assert "no privacy claimed" in only["words"]
    assert "0.987" not in only["words"]


@pytest.mark.process
def test_a_night_of_several_models_that_is_cut_short_is_told_of_those_that_had_not_ended(night: Night, tmp_path: Path) -> None:
    config = night(notify=COMMAND)
    error = NightfitError("Prefect says Crashed")
    journal.append(config.output_folder, journal.Note(time="2027-01-01T02:00:00+00:00", model="visits", state="new"))
    (tmp_path / "broken.yaml").write_text("name: [")
    nightly.tell_crash([tmp_path / "broken.yaml", tmp_path / "refit.yaml"], "2027-01-01T02:00:00+00:00", error)
    assert told(config) == []
    nightly.tell_crash([tmp_path / "broken.yaml", tmp_path / "refit.yaml"], "2027-01-01T02:00:01+00:00", error)
    assert [one["occasion"] for one in told(config)] == ["failure"]


@pytest.mark.process
def test_few_nights_left_and_a_worse_metric_are_told_with_paid_numbers(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    first = refit(night("1", notify={**COMMAND, "nights": 8}), evaluated(0.5))
    assert first.night.nights_left >= 8
    second = refit(
        night("2", notify={**COMMAND, "nights": 10_000}), evaluated(0.4, against=first.release.run_id, change=-0.1, better=False)
    )
    found = told(night())
    assert [(one["occasion"], one["run"]) for one in found] == [("budget", second.release.run_id), ("drop", second.release.run_id)]
    assert f"R2 -0.1 (-0.11 to -0.09) against {first.release.run_id}" in found[1]["words"]
    refit(night("2", notify={**COMMAND, "nights": 10_000}))  # the same night again: nothing new, nothing told
    assert len(told(night())) == 2


@pytest.mark.process
def test_a_poorer_export_and_another_outcome_are_told(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    notify = {**COMMAND, "nights": 0}
    share = {"share_of_positives": {"value": 0.2, "low": 0.18, "high": 0.22}, "drift": {"value": 0.9, "low": 0.88, "high": 0.92}}
    share["complete"] = {"value": 0.95, "low": 0.93, "high": 0.97}
    first = refit(night("1", notify=notify), {**evaluated(0.5), "checks": share}).release.run_id
    same = {**evaluated(0.5, against=first, better=None), "checks": share}
    refit(night("2", notify=notify), same)  # predictions drifted, and that is told in the history alone
    assert told(night()) == []
    other = {**share, "share_of_positives": {"value": 0.3, "low": 0.28, "high": 0.32}}
    other["complete"] = {"value": 0.5, "low": 0.48, "high": 0.52}
    refit(night("3", notify=notify), {**same, "checks": other})
    (only,) = told(night())
    assert only["occasion"] == "data"
    assert "share of positives 0.2 (0.18 to 0.22) to 0.3 (0.28 to 0.32)" in only["words"]
    assert "complete 0.95 (0.93 to 0.97) to 0.5 (0.48 to 0.52)" in only["words"]


@pytest.mark.process
def test_a_change_within_its_interval_is_not_a_drop_and_numbers_that_are_not_private_are_not_told(
    night: Night, refit: Refit, evaluated: Evaluated
) -> None:
    notify = {**COMMAND, "nights": 0}
    first = refit(night("1", notify=notify), evaluated(0.5))
    same = refit(night("2", notify=notify), evaluated(0.4, against=first.release.run_id, change=-0.1, better=None))
    assert of_night(night("2", notify=notify), same.night) == []
    unsafe = night("3", notify=notify, unsafe={"noise": "none"})
    worse = refit(unsafe, evaluated(0.4, against=first.release.run_id, change=-0.1, better=False), unsafe=True)
    assert of_night(unsafe, worse.night) == []
    assert told(night()) == []


@pytest.mark.process
def test_occasions_that_are_not_wanted_are_not_told(night: Night) -> None:
    config = night(notify={**COMMAND, "on": ["missed"]})
    tell(config, [of_failure(config, ValueError())[1]])
    tell(config, of_missed(config, ["2027-01-01T02:00:00+01:00", "2027-01-02T02:00:00+01:00"]))
    (only,) = told(config)
    assert only["words"].startswith("2 nights missed (2027-01-01T02:00:00+01:00 to 2027-01-02T02:00:00+01:00)")
    assert of_missed(config, []) == []


@pytest.mark.process
def test_what_cannot_be_sent_is_warned_of_without_the_secret_and_fails_no_night(
    night: Night, refit: Refit, web: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, posted = web
    monkeypatch.setenv("OUR_HOOK", "gopher://s3cret")
    config = night(notify={"nights": 10_000, "command": ["/no/such/program"], "webhook": {"url": {"env": "OUR_HOOK"}}})
    with pytest.warns(UserWarning, match="could not be sent") as warned:
        assert refit(config).release_path.exists()
    assert "s3cret" not in " ".join(str(one.message) for one in warned)
    assert {re.search(r"by (\w+)", str(one.message))[1] for one in warned} == {"command", "webhook"}  # type: ignore[index]
    monkeypatch.setenv("OUR_HOOK", f"{url}/moved")
    with pytest.warns(UserWarning, match=r"webhook \(HTTPError\)"):
        tell(night(notify={"webhook": {"url": {"env": "OUR_HOOK"}}}), of_missed(config, ["x"]))
    assert posted == []


@pytest.mark.parametrize(
    ("notify", "message"),
    [
        ({"webhook": {"url": "https://hooks.example/s3cret"}}, "notify.webhook.url"),
        ({"webhook": {"url": {"env": "A", "file": "b"}}}, "by env or by file"),
        ({"webhook": {"url": {}}}, "by env or by file"),
        ({"email": {"host": "mail", "sender": "a@b", "to": ["c@d"], "user": "u", "password": "s3cret"}}, "notify.email.password"),
        ({"email": {"host": "mail", "sender": "a@b", "to": ["c@d"], "user": "u"}}, "go together"),
        ({"email": {"host": "mail", "sender": "a@b", "to": ["c@d"], "security": "none"}}, "on this machine"),
        ({"on": ["failures"]}, "notify.on"),
        ({"command": []}, "notify.command"),
    ],
)
def test_a_secret_in_the_configuration_and_other_faults_are_refused(night: Night, notify: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        night(notify=notify)


def test_a_secret_that_is_not_there_is_named_by_its_place(night: Night, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OUR_HOOK", raising=False)
    for place, words in (({"env": "OUR_HOOK"}, "environment variable OUR_HOOK is empty"), ({"file": "none"}, "file none cannot be read")):
        notify = night(notify={"webhook": {"url": place}}).notify
        assert notify is not None
        assert notify.webhook is not None
        with pytest.raises(NightfitError, match=words):
            notify.webhook.url.read(night().folder)


def samples(path: Path) -> dict[str, float]:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_the_prometheus_file_has_public_and_paid_numbers_alone(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    config = night("1", notify={"prometheus": "metrics/visits.prom"})
    made = refit(config, evaluated(0.41))
    path = config.folder / "metrics" / "visits.prom"
    found, labels = samples(path), '{model="visits",data_set="clinic"}'
    assert found[f"nightfit_nights_left{labels}"] == made.night.nights_left
    assert found['nightfit_budget_left_ratio{data_set="clinic",block="all"}'] == made.balance.share_left
    assert found[f"nightfit_rows{labels}"] == found[f"nightfit_units{labels}"] == 700
    assert found[f"nightfit_duration_minutes{labels}"] >= 1
    assert found[f"nightfit_duration_minutes{labels}"].is_integer()
    metric = 'nightfit_metric{model="visits",data_set="clinic",metric="r2",bound="%s"}'
    assert [found[metric % bound] for bound in ("value", "low", "high")] == [0.41, 0.38, 0.44]
    assert oct(path.stat().st_mode)[-3:] == "644"
    unsafe = night("2", notify={"prometheus": "metrics/visits.prom"}, unsafe={"noise": "none"})
    refit(unsafe, evaluated(0.999), unsafe=True)
    assert not [name for name in samples(path) if "metric{" in name or "last_success" in name]


def test_rows_whose_number_is_not_public_are_not_in_the_prometheus_file(night: Night, refit: Refit) -> None:
    data: dict[str, Any] = {
        "name": "clinic",
        "path": "shards",
        "target": "y",
        "default": {"kind": "number", "bounds": [-4, 4]},
        "units": 650,
        "window": "w",
    }
    privacy = {"epsilon": 1.0, "delta": 1e-6, "adjacency": "add_remove", "lifetime": {"epsilon": 8.0, "delta": 1e-5}}
    config = night(notify={"prometheus": "v.prom"}, data=data, privacy=privacy)
    refit(config)
    found = samples(config.folder / "v.prom")
    assert found['nightfit_units{model="visits",data_set="clinic"}'] == 650
    assert not [name for name in found if name.startswith("nightfit_rows")]


def test_labels_are_escaped_as_prometheus_reads_them() -> None:
    assert '{block="a\\"b\\\\c\\nd"} 1.0' in text(iter([("budget_left_ratio", {"block": 'a"b\\c\nd'}, 1)]))
    assert " +Inf" in text(iter([("nights_left", {"model": "m"}, float("inf"))]))


def test_a_prometheus_file_that_cannot_be_written_is_warned_of(night: Night, refit: Refit) -> None:
    config = night(notify={"prometheus": "refit.yaml/visits.prom"})
    with pytest.warns(UserWarning, match="an earlier night"):
        refit(config)
    assert os.listdir(config.output_folder)
    Ledger.open(config.ledger_url).engine.dispose()
