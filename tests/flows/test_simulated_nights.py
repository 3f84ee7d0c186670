"""Nights of the simulated hospital: one fails, one is missed, one has a broken export, and then the outcome drifts."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.nights import Story, alerts_of, by_calls, play

from nightfit.config import load
from nightfit.ledger import Ledger, verify
from nightfit.nightly.history import History, history_of
from nightfit.nightly.site import write_site
from nightfit.release import Release

ROOT = Path(__file__).parents[2]
SHORT = Story(nights=5, failed=2, missed=3, broken=4, drifting=5, drift=3.0, days=2, rows=3000, epsilon=20.0)


def check(story: Story, told: History, folder: Path) -> None:
    """What every story must come to, whatever the noise."""
    by_night = {int(one.time[8:10]): one for one in told.nights}
    assert sorted(by_night) == list(range(1, story.nights + 1))
    assert {night: one.state for night, one in by_night.items() if one.state != "released"} == {
        story.failed: "failed",
        story.missed: "missed",
    }
    first, broken = by_night[1], by_night[story.broken]
    assert first.note.startswith("promoted (it is the first private release)")
    assert broken.suspect
    assert not broken.in_use
    assert broken.note.startswith("not promoted (the export looks poorer than that of")
    assert [night for night, one in by_night.items() if one.suspect] == [story.broken]
    drifted = [one for night, one in by_night.items() if night >= story.drifting]
    assert any(shift.name == "share of positives" and shift.after.low > shift.before.high for one in drifted for shift in one.shifted)
    alerts = [(alert["occasion"], int(alert["time"][8:10])) for alert in alerts_of(folder)]
    assert {("failure", story.failed), ("missed", story.missed + 1), ("data", story.broken)} <= set(alerts)
    check_paid_once(told, folder)


def check_paid_once(told: History, folder: Path) -> None:
    """The chain verifies, each night has one run, and what is spent is the sum of the releases' costs."""
    config = load(folder / "refit.yaml")
    ledger = Ledger.open(config.ledger_url)
    assert verify(ledger) == []
    runs = [one.run for one in told.nights if one.run is not None]
    assert len(runs) == len(set(runs)) == len(ledger.runs())
    costs = [Release.load(path).content["cost"]["amount"] for path in config.output_folder.glob("*/release.json")]
    spent: Any = ledger.spent(config.data_set).amount
    assert float(spent) == pytest.approx(sum(float(cost) for cost in costs))
    by_calls(folder / "refit.yaml")  # the last night once more
    assert ledger.spent(config.data_set).amount == spent
    ledger.engine.dispose()


@pytest.mark.process
def test_five_nights_are_told_as_they_were(tmp_path: Path) -> None:
    told = play(tmp_path, SHORT)
    check(SHORT, told, tmp_path)
    index, _ = write_site([load(tmp_path / "refit.yaml")], tmp_path / "site")
    page = (tmp_path / "site" / "readmissions-hospital.html").read_text()
    for words in ("looks poorer", "nothing served the schedule", "is not a readable Parquet file", "share of positives"):
        assert words in page
    assert len(re.findall(r"<tr[^>]*><td>2026-11-", index.read_text())) == SHORT.nights + 1  # and one that found nothing new
    assert "nightfit_last_success_timestamp_seconds" in (tmp_path / "nights.prom").read_text()


THIRTY = """
import sys
from pathlib import Path
from nightfit_flows.server import server
with server():
    from benchmarks.nights import Story, play
    from nightfit_flows.refit import refit
    play(Path(sys.argv[1]), Story(), lambda path: refit(str(path)))
"""


@pytest.mark.sweep
def test_thirty_nights_through_the_flow_are_told_as_they_were(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    home = tmp_path / "prefect"
    subprocess.run([sys.executable, "-c", THIRTY, str(tmp_path)], cwd=ROOT, env={**environment, "PREFECT_HOME": str(home)}, check=True)
    config = load(tmp_path / "refit.yaml")
    ledger = Ledger.open(config.ledger_url)
    told = history_of(config, ledger)
    ledger.engine.dispose()
    check(Story(), told, tmp_path)
