"""Which release is in use: moved by the paid comparison or by hand, recorded in the chain, and only ever a bound private release."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from sqlite3 import connect
from typing import Any

import pytest
from typer.testing import CliRunner

from nightfit import predict
from nightfit.cli import app
from nightfit.config import Config, ConfigError
from nightfit.ledger import Ledger, LedgerError, chain, verify
from nightfit.ledger.promotions import current, decide, promotions
from nightfit.nightly import Published, open_ledger, promotion
from nightfit.release import Release, ReleaseError
from nightfit.release.current import load_current, read_pointers

Night = Callable[..., Config]
Refit = Callable[..., Published]
Evaluated = Callable[..., dict[str, Any]]


def in_use(config: Config) -> str | None:
    """By the pointer, which must be what the chain says."""
    ledger = Ledger.open(config.ledger_url)
    run = current(ledger, config.name, config.data_set)
    assert verify(ledger) == []
    ledger.engine.dispose()
    pointers = read_pointers(config.output_folder)
    assert (pointers[config.name].run if pointers else None) == run
    return run


@pytest.fixture
def ledger(night: Night) -> Iterator[Ledger]:
    opened = open_ledger(night())
    yield opened
    opened.engine.dispose()


def test_the_first_private_release_is_promoted_and_then_only_a_better_one(
    night: Night, refit: Refit, evaluated: Evaluated, ledger: Ledger
) -> None:
    first = refit(night("1"), evaluated(0.4)).release.run_id
    assert in_use(night()) == first
    worse = refit(night("2"), evaluated(0.3, against=first, change=-0.1, better=False))
    same = refit(night("3"), evaluated(0.4, against=first, change=0.001, better=None))
    assert in_use(night()) == first
    assert "not promoted (worse: R2 -0.1 (-0.11 to -0.09) against" in worse.night.line()
    assert "not promoted (no difference beyond the interval: R2" in same.night.line()
    better = refit(night("4"), evaluated(0.5, against=first, change=0.1, better=True)).release.run_id
    assert in_use(night()) == better
    stale = refit(night("5"), evaluated(0.6, against=first, change=0.2, better=True))
    assert f"not promoted (it was compared with {first}, and {better} is in use)" in stale.night.line()
    assert "not promoted (no paid comparison with" in refit(night("6")).night.line()
    made = promotions(ledger)
    assert [one.decision for one in made] == ["promoted", "kept", "kept", "promoted", "kept", "kept"]
    assert [one.current for one in made] == [first, first, first, better, better, better]
    assert all(one.reason and one.time and one.rule == "when better" for one in made)


def test_a_fit_of_a_poorer_export_stays_out_of_use_even_where_it_is_better(night: Night, refit: Refit, evaluated: Evaluated) -> None:
    whole, half = ({"complete": {"value": value, "low": value - 0.02, "high": value + 0.02}} for value in (0.97, 0.29))
    first = refit(night("1"), {**evaluated(0.4), "checks": whole}).release.run_id
    made = refit(night("2"), {**evaluated(0.5, against=first, change=0.1, better=True), "checks": half})
    assert in_use(night()) == first
    assert f"not promoted (the export looks poorer than that of {first}: complete 0.97" in made.night.line()
    refit(night("3", promote="always"), {**evaluated(0.5, against=first, change=0.1, better=True), "checks": half})
    assert in_use(night()) != first


def test_a_night_is_decided_about_once(night: Night, refit: Refit, ledger: Ledger) -> None:
    refit(night("1"))
    refit(night("2"))
    before = promotions(ledger)
    refit(night("1"))
    assert promotions(ledger) == before


def test_always_and_by_hand(night: Night, refit: Refit, ledger: Ledger) -> None:
    first = refit(night("1", promote="by hand")).release.run_id
    assert in_use(night()) is None
    assert promotions(ledger) == []
    second = refit(night("2", promote="always")).release.run_id
    third = refit(night("3", promote="always")).release.run_id
    assert in_use(night()) == third
    assert promotion.promote(night(), ledger, first, "the third is too new").current == first
    assert in_use(night()) == first
    assert promotions(ledger)[-1].reason == "the third is too new"
    assert promotion.rollback(night(), ledger, "a mistake").current == third
    assert promotion.rollback(night(), ledger, "again").current == second
    assert in_use(night()) == second
    with pytest.raises(LedgerError, match=f"no release of 'visits' to go back to: {second} is the first"):
        promotion.rollback(night(), ledger, "once more")


def test_only_a_bound_private_release_is_promoted(night: Night, refit: Refit, ledger: Ledger) -> None:
    unsafe = refit(night("1", unsafe={"noise": "none"}), unsafe=True)
    assert in_use(night()) is None
    with pytest.raises(LedgerError, match="is not private"):
        promotion.promote(night(), ledger, unsafe.release.run_id, "")
    made = refit(night("2", promote="by hand"))
    content = json.loads(made.release_path.read_text())
    made.release_path.write_text(json.dumps({**content, "intercept": 123.0}))
    with pytest.raises(LedgerError, match=r"cannot be promoted: its release is not the release that entry \d+ closed: the content changed"):
        promotion.promote(night(), ledger, made.release.run_id, "")
    without = Release(content={name: value for name, value in content.items() if name != "receipt"})
    with pytest.raises(LedgerError, match="has no receipt"):
        decide(ledger, without.claim, lambda _: ("promoted", ""), rule="by hand", time="", token="")
    with pytest.raises(ReleaseError, match="there is no release"):
        promotion.promote(night(), ledger, "visits-00000000", "")
    assert promotions(ledger) == []


def test_a_release_of_another_model_is_not_promoted(night: Night, refit: Refit, ledger: Ledger) -> None:
    other = refit(night("1", name="stays", promote="by hand")).release.run_id
    with pytest.raises(LedgerError, match="is of stays on clinic, not of visits on clinic"):
        promotion.promote(night(), ledger, other, "")


def test_a_lost_pointer_is_mended_by_the_next_night(night: Night, refit: Refit) -> None:
    first = refit(night("1")).release.run_id
    (night().output_folder / "current").unlink()
    refit(night("1"))
    assert in_use(night()) == first


def test_verify_names_a_promotion_of_what_was_never_released(night: Night, refit: Refit, ledger: Ledger, tmp_path: Path) -> None:
    refit(night("1"))
    assert verify(ledger) == []
    body = {"model": "visits", "decision": "promoted", "current": "visits-forged", "rule": "", "reason": "", "time": "", "token": ""}
    with ledger.engine.begin() as connection:
        forged = chain.append(connection, "promotion", "clinic", body, "visits-forged")
    assert verify(ledger) == [f"entry {forged.seq} promotes run visits-forged, which has released nothing private before"]
    with closing(connect(tmp_path / "ledger.db")) as by_hand:
        by_hand.execute("UPDATE entry SET body = '{}' WHERE kind = 'promotion'")
        by_hand.commit()
    assert any("(promotion) was edited" in problem for problem in verify(ledger))


def test_predict_takes_a_folder_and_uses_the_current_release(night: Night, refit: Refit, tmp_path: Path) -> None:
    first = refit(night("1", promote="always")).release.run_id
    folder = night().output_folder
    assert load_current(folder).run_id == first
    assert predict(folder, tmp_path / "shards", tmp_path / "scored.parquet") == 700
    other = refit(night("1", name="stays")).release.run_id
    with pytest.raises(ReleaseError, match="current releases of stays, visits: name one by --model"):
        load_current(folder)
    assert load_current(folder, "stays").run_id == other
    words = ["predict", str(folder), str(tmp_path / "shards"), "-o", str(tmp_path / "by_command.parquet"), "--model", "visits"]
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    with pytest.raises(ReleaseError, match="no release of none in"):
        load_current(folder, "none")
    (folder / "current").write_text('{"nightfit_current": 9}')
    with pytest.raises(ReleaseError, match="is not one that this version reads"):
        load_current(folder)


def test_a_folder_where_nothing_was_promoted_is_refused(night: Night, refit: Refit) -> None:
    refit(night("1", promote="by hand"))
    with pytest.raises(ReleaseError, match="was promoted: `nightfit promote RUN` does"):
        load_current(night().output_folder)


def test_the_commands_promote_and_roll_back(night: Night, refit: Refit, tmp_path: Path) -> None:
    config = str(tmp_path / "refit.yaml")
    runs = [refit(night(str(number), promote="by hand")).release.run_id for number in (1, 2)]
    for run in runs:
        said = CliRunner().invoke(app, ["promote", run, "--config", config, "--reason", "looks well"])
        assert f"{run} is in use, by entry" in said.output
    said = CliRunner().invoke(app, ["rollback", "--config", config])
    assert f"{runs[1]} is given up and {runs[0]} is in use" in said.output
    assert in_use(night()) == runs[0]


def test_an_unknown_rule_is_refused(night: Night) -> None:
    with pytest.raises(ConfigError, match="promote"):
        night("1", promote="sometimes")
