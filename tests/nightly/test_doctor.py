"""`nightfit doctor`: what a night needs, checked one by one; each thing that is wrong is found, with its cure, and nothing is spent."""

import os
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest

from nightfit.ledger import Ledger
from nightfit.nightly import doctor
from nightfit.nightly.doctor import examine
from nightfit.release.signing import new_key
from nightfit.shards.cluster import Remote


def found(config, **asked):
    return {finding.name: finding for finding in examine(config, **asked)}


def test_a_night_that_can_work_has_nothing_wrong_and_costs_nothing(night, tmp_path):
    config = night()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    findings = found(config, nights=3, backup=tmp_path / "copy.db")
    assert list(findings) == ["versions", "ledger", "clock", "backup", "data and plan", "budget", "output", "cluster"]
    assert {finding.state for finding in findings.values()} == {"ok"}, findings
    assert Ledger.open(config.ledger_url).runs() == []
    assert not (tmp_path / "releases").exists()


def test_each_thing_that_is_wrong_is_found_beside_the_others(night, refit, tmp_path, monkeypatch):
    config = night()
    shutil.copy(tmp_path / "ledger.db", tmp_path / "old.db")
    refit(config)
    (tmp_path / "taken").write_text("a file")
    findings = found(night(output="taken", cluster={"address": "tcp://10.255.255.1:9"}), nights=10_000, backup=tmp_path / "old.db")
    wrong = {name: finding.found for name, finding in findings.items() if finding.state == "wrong"}
    assert list(wrong) == ["backup", "budget", "output", "TLS", "cluster"]
    assert "lacks 1 runs" in wrong["backup"]
    assert "10000 are asked for" in wrong["budget"]
    assert "no Dask scheduler answers" in wrong["cluster"]
    assert found(config)["backup"].state == "look"


def test_a_backup_of_another_ledger_or_an_old_one_is_told(night, tmp_path):
    config = night()
    Ledger.create(f"sqlite:///{tmp_path}/other.db").engine.dispose()
    assert "another ledger" in found(config, backup=tmp_path / "other.db")["backup"].found
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    os.utime(tmp_path / "copy.db", (time.time() - 5 * 86400,) * 2)
    assert "5 days old" in found(config, backup=tmp_path / "copy.db")["backup"].found


def test_a_clock_that_is_behind_the_ledger_and_a_ledger_on_a_network_disk_are_told(night, refit, monkeypatch):
    config = night()
    refit(config)

    class Behind(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) - timedelta(days=1)

    monkeypatch.setattr(doctor, "datetime", Behind)
    monkeypatch.setattr(doctor, "_disk_of", lambda _: "nfs4")
    findings = found(config)
    assert findings["clock"].state == "wrong"
    assert "network disk (nfs4)" in findings["ledger"].found


@pytest.mark.parametrize(("address", "state"), [("tcp://127.0.0.1:8786", "ok"), ("tcp://10.0.0.5:8786", "wrong")])
def test_a_plain_connection_to_another_machine_is_wrong(address, state):
    (finding,) = doctor._of_connection(Remote(address=address))
    assert finding.state == state


def test_a_key_that_cannot_sign_is_told(night, tmp_path):
    assert found(night(sign={"key": "none.pem"}))["signing key"].state == "wrong"
    new_key(tmp_path / "own.pem")
    assert found(night(sign={"key": "own.pem"}))["signing key"].state == "ok"


def test_a_package_that_this_version_does_not_allow_is_told(monkeypatch):
    real = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "1.0" if name == "numpy" else real(name))
    finding = doctor.of_versions()
    assert finding.state == "wrong"
    assert finding.found.startswith("numpy 1.0 (needs")
