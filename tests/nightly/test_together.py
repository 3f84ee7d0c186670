"""Several models of a night: what needs no target is asked and paid once, and each model is resumed, refused and released by itself."""

import json
import os
import re
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.config import Config, ConfigError, load
from nightfit.ledger import Ledger, LedgerError, chain, verify
from nightfit.ledger.history import chain_records
from nightfit.nightly import Failed, Published, Result, open_ledger, prepare, prepare_together, prune, run, run_together
from nightfit.nightly import together as module
from nightfit.nightly.groups import Group
from nightfit.privacy.accounting import epsilon_of, tight_epsilon
from nightfit.privacy.events import event_from_dict
from nightfit.queries.one_target import seen_by
from nightfit.release import Release
from nightfit.release.discovered import claims_in
from nightfit.shards.dataset import RowsOfModel, ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.types import Block
from nightfit.verifier import verify as verified

MODELS: dict[str, dict[str, Any]] = {
    "stay": {"target": "y"},
    "died": {"target": {"column": "outcome", "positive": "died"}, "model": {"kind": "logistic"}},
    "cost": {"target": {"column": "w", "transform": "log1p"}},
    "falls": {"target": {"column": "k", "exposure": {"column": "days", "bounds": [1, 30]}}, "model": {"kind": "counts"}},
}
ROWS = 600
PERSONS = {"unit": "patient", "units": ROWS // 3, "row_id": "visit"}
NAMED = {"solver": "proximal_gradient", "steps": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Records with four targets, each missing in others, and columns with gaps."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(ROWS, 2))
    y = x @ [1.0, -0.5] + 0.3 * rng.normal(size=ROWS)
    table = {
        "x0": np.where(rng.random(ROWS) < 0.1, np.nan, x[:, 0]),
        "x1": x[:, 1],
        "ward": rng.choice(["a", "b"], ROWS),
        "y": np.where(rng.random(ROWS) < 0.2, np.nan, y),
        "outcome": rng.choice(["died", "lives", None], ROWS).tolist(),
        "w": np.where(rng.random(ROWS) < 0.3, np.nan, np.exp(y)),
        "k": rng.poisson(1.0, ROWS).astype(float),
        "days": rng.integers(0, 20, ROWS).astype(float),
        "visit": np.arange(ROWS),
        "patient": rng.permutation(np.arange(ROWS) // 3),
    }
    (tmp_path / "shards").mkdir()
    for number, half in enumerate((slice(0, 250), slice(250, ROWS))):
        pq.write_table(pa.table({name: values[half] for name, values in table.items()}), tmp_path / "shards" / f"{number}.parquet")
    return tmp_path


def configured(folder: Path, name: str, window: str = "first", data: dict[str, Any] | None = None, **changes: Any) -> Config:
    chosen = MODELS[name]
    columns = {"x0": {"kind": "number"}, "x1": {"kind": "number", "bounds": [-3, 3]}, "ward": {"kind": "category", "levels": ["a", "b"]}}
    content = {
        "name": name,
        "data": {"name": "clinic", "path": "shards", "columns": columns, "window": window, "target": chosen["target"], **(data or {})},
        "model": chosen.get("model", {}),
        "privacy": {"epsilon": 2.0, "delta": 1e-6, "lifetime": {"epsilon": 20.0, "delta": 1e-5}},
        "cluster": {"kind": "synchronous"},
        "evaluate": "none",
        **changes,
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return load(folder / f"{name}.yaml")


@pytest.fixture
def night(folder: Path) -> Callable[..., list[Config]]:
    """A function that configures all models; the ledger exists."""

    def configure(*names: str, **changes: Any) -> list[Config]:
        return [configured(folder, name, **changes) for name in names or MODELS]

    Ledger.create(configure()[0].ledger_url).engine.dispose()
    return configure


def fitted(configs: Sequence[Config], **how: Any) -> list[Result]:
    groups, failed = prepare_together(configs, again=how.get("again", False))
    return [*run_together(groups, **how), *failed]


def released(results: Sequence[Result]) -> list[Release]:
    assert all(isinstance(result, Published) for result in results), results
    return [result.release for result in results if isinstance(result, Published)]


def asked(ledger: Ledger) -> list[tuple[str, str]]:
    return [(entry["run"], entry["label"]) for entry in chain_records(ledger) if entry["kind"] == "asked"]


@pytest.mark.unit
@pytest.mark.parametrize("evaluate", ["none", {"share": 0.2}], ids=["all units", "some held out"])
def test_models_of_the_same_columns_share_the_same_queries_about_rows(night: Callable[..., list[Config]], evaluate: Any) -> None:
    (group,), failed = prepare_together(night(evaluate=evaluate))
    assert failed == []
    assert [job.config.name for job in group.jobs] == list(MODELS)
    assert group.rows is not None
    shared = group.rows.plan.events
    for job in group.jobs:
        plan, alone = job.plan, prepare(job.config).plan
        assert plan.shared_events == shared == plan.events[: len(shared)]
        assert plan.own_events == plan.events[len(shared) :]
        assert plan.epsilon <= plan.specification.budget.epsilon
        assert plan.cost.amount == pytest.approx(alone.cost.amount, rel=1e-3), "a release has the guarantee that it would have alone"
        assert "present" in {event.label for event in plan.own_events}


@pytest.mark.unit
def test_other_columns_windows_splits_and_budgets_are_not_shared(night: Callable[..., list[Config]], folder: Path) -> None:
    one, two = night("stay", "cost")
    others = [
        configured(folder, "cost", data=PERSONS),
        configured(folder, "cost", data={"columns": {"x1": {"kind": "number"}}}),
        configured(folder, "cost", data={"columns": {"x0": {"kind": "number"}, "x1": {"kind": "number"}, "ward": {"kind": "number"}}}),
        configured(folder, "cost", window="second"),
        configured(folder, "cost", evaluate={"share": 0.2}),
        configured(folder, "cost", privacy={"epsilon": 1.0, "delta": 1e-6}),
        configured(folder, "cost", unsafe={"noise": "none"}),
        configured(folder, "cost", method={"solver": "proximal_gradient", "steps": 2}),
    ]
    assert len(prepare_together([one, two])[0]) == 1
    for other in others:
        groups, failed = prepare_together([one, other])
        assert failed == []
        assert [group.rows for group in groups] == [None] * len(groups)
        assert all(group.jobs[0].plan.shared_rows is None for group in groups), "one model alone asks by itself"
    with pytest.raises(ConfigError, match="two configurations have the name stay"):
        prepare_together([one, one])


@pytest.mark.unit
def test_rows_decoded_once_are_those_of_each_model(night: Callable[..., list[Config]]) -> None:
    (group,), _ = prepare_together(night())
    assert group.rows is not None
    blocks = _blocks(group)
    for place, job in enumerate(group.jobs):
        own = job.plan.specification.preprocessing
        for several, one in zip(blocks, ShardedDataset(job.manifest, own).chunks, strict=True):
            _same(seen_by(place, several), _decoded(one, own))
    for several, chunk in zip(blocks, ShardedDataset(group.rows.manifest, group.queries.preprocessing).chunks, strict=True):
        _same(seen_by(None, several), _decoded(chunk, group.queries.preprocessing))
    with pytest.raises(ValueError, match="one target each"):
        seen_by(0, seen_by(0, blocks[0]))


@pytest.mark.unit
def test_a_missing_target_changes_nothing_that_is_shared(night: Callable[..., list[Config]]) -> None:
    (group,), _ = prepare_together(night())
    for block in _blocks(group):
        nobody = replace(block, y=np.full_like(block.y, np.nan))
        _same(seen_by(None, block), seen_by(None, nobody))
        for query in group.queries.templates.values():
            assert (query.chunk(seen_by(None, block)) == query.chunk(seen_by(None, nobody))).all()
        assert not seen_by(1, nobody).X.any()


def _blocks(group: Group) -> list[Block]:
    assert group.rows is not None
    columns = group.columns
    return [_decoded(chunk, columns) for chunk in ShardedDataset(group.rows.manifest, columns).chunks]


def _decoded(chunk: Any, columns: Any) -> Block:
    from nightfit.shards.read import load as decoded

    return decoded(chunk, columns)


def _same(one: Block, other: Block) -> None:
    for part in ("X", "y", "slots"):
        assert np.array_equal(getattr(one, part), getattr(other, part), equal_nan=True), part


@pytest.mark.process
def test_a_night_of_several_models_pays_for_rows_once(night: Callable[..., list[Config]], folder: Path) -> None:
    configs = night(evaluate={"share": 0.25})
    (group,), _ = prepare_together(configs)
    assert group.rows is not None
    releases = released(fitted(configs))
    ledger = open_ledger(configs[0])
    rows = next(run["run"] for run in ledger.runs() if run["model"].startswith("rows-"))
    labels = [label for _, label in asked(ledger)]
    assert all(labels.count(event.label) == 1 for event in group.rows.plan.events)
    policy = ledger.policies()["clinic"]
    separate = [policy.cost(prepare(config).plan.events) for config in night(window="other", evaluate={"share": 0.25})]
    assert ledger.spent("clinic").amount < 0.9 * sum(cost.amount for cost in separate)
    for release in releases:
        content = release.content
        assert content["shared"] == {"run": rows, "queries": [event.label for event in group.rows.plan.events]}
        events = [event_from_dict(stored) for stored in content["events"]]
        assert events[: len(group.rows.plan.events)] == list(group.rows.plan.events)
        assert tight_epsilon(events, 1e-6) == pytest.approx(content["guarantee"]["epsilon"])
        assert content["guarantee"]["epsilon"] <= 2.0
    verdict = verified(releases[-1].content, chain_records(ledger))
    assert verdict.wrong == ()
    assert any(f"run {rows} paid for" in found for found in verdict.found)
    assert verify(ledger, claims_in(configs[0].output_folder)) == []
    spent = ledger.spent("clinic")
    assert [result.night.new for result in fitted(configs) if isinstance(result, Published)] == [False] * 4
    assert run(prepare(configs[0])).release.content["run"] == releases[0].run_id, "one model alone returns it too"
    assert ledger.spent("clinic") == spent
    again = released(fitted(configs[:2], again=True))
    assert {release.content["shared"]["run"] for release in again} not in ({rows}, set())
    assert [result.night.release.run_id for result in fitted(configs) if isinstance(result, Published)] == [
        *(release.run_id for release in again),
        *(release.run_id for release in releases[2:]),
    ]


@pytest.mark.process
def test_a_model_that_comes_later_takes_what_was_paid(night: Callable[..., list[Config]]) -> None:
    configs = night()
    released(fitted(configs[:2]))
    ledger = open_ledger(configs[0])
    before = ledger.spent("clinic")
    (group,), _ = prepare_together(configs[:3])
    released(fitted(configs[:3]))
    policy = ledger.policies()["clinic"]
    assert ledger.spent("clinic") == before + policy.cost(group.jobs[2].plan.own_events)
    kept = [one["run"] for one in ledger.runs() if one["model"].startswith("rows-")]
    assert len(kept) == 1
    (configs[0].output_folder / ledger.runs()[1]["run"] / "release.json").rename(configs[0].folder / "away.json")
    with pytest.raises(LedgerError, match=f"release of run {ledger.runs()[1]['run']} is not in"):
        prune(ledger, configs[0].output_folder, kept)
    released(fitted(configs[:3]))
    assert prune(ledger, configs[0].output_folder, kept) == len(group.jobs[0].plan.shared_events)
    assert verify(ledger, claims_in(configs[0].output_folder)) == []


@pytest.mark.process
def test_a_release_made_again_from_stored_answers_is_the_same(night: Callable[..., list[Config]]) -> None:
    """In the night, coordinates were found once for all models; here each finds them in the answers."""
    configs = night("stay", "cost")
    releases = released(fitted(configs))
    for release in releases:
        (configs[0].output_folder / release.run_id / "release.json").unlink()
    assert [release.content for release in released(fitted(configs))] == [release.content for release in releases]


@pytest.mark.process
def test_one_model_s_failure_does_not_stop_the_others(night: Callable[..., list[Config]], monkeypatch: pytest.MonkeyPatch) -> None:
    configs = night("stay", "died", "cost")
    honest, secret = module.asked_of, "a value of a patient"

    def failing(plan: Any, *given: Any) -> Any:
        if plan.specification.name == "died":
            raise RuntimeError(secret)
        return honest(plan, *given)

    with monkeypatch.context() as patch:
        patch.setattr(module, "asked_of", failing)
        results = fitted([*configs, configured(configs[0].folder, "falls", data={"target": "nothing"})])
    assert [type(result) for result in results] == [Published, Failed, Published, Failed]
    words = [str(result.error) for result in results if isinstance(result, Failed)]
    assert "unexpected RuntimeError" in words[0]
    assert secret not in words[0]
    assert "nothing" in words[1]
    ledger = open_ledger(configs[0])
    assert {one["model"]: one["state"] for one in ledger.runs() if one["model"] in MODELS} == {
        "stay": "finished",
        "died": "abandoned",  # it asked nothing: its own queries are given back
        "cost": "finished",
    }
    assert [result.night.new for result in fitted(configs) if isinstance(result, Published)] == [False, True, False]
    assert verify(ledger, claims_in(configs[0].output_folder)) == []


@pytest.mark.process
def test_a_night_that_cannot_be_staged_gives_everything_back(night: Callable[..., list[Config]], monkeypatch: pytest.MonkeyPatch) -> None:
    configs = night("stay", "cost")

    def broken(_: Any) -> None:
        raise OSError("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(ShardedDataset, "stage", broken)
        assert [type(result) for result in fitted(configs)] == [Failed, Failed]
    ledger = open_ledger(configs[0])
    assert {one["state"] for one in ledger.runs()} == {"abandoned"}
    assert ledger.spent("clinic").amount == 0


@pytest.mark.process
def test_a_second_driver_of_the_night_is_refused_and_gives_nothing_back(night: Callable[..., list[Config]]) -> None:
    configs = night("stay", "cost")
    groups, _ = prepare_together(configs)
    results = run_together(groups)
    assert isinstance(next(results), Published)  # and holds the runs, until it is gone on with
    ledger = open_ledger(configs[0])
    states = {one["run"]: one["state"] for one in ledger.runs()}
    second = fitted(configs)
    assert all("another process is working on run" in str(result.error) for result in second if isinstance(result, Failed))
    assert len(second) == 2
    assert {one["run"]: one["state"] for one in ledger.runs()} == states
    assert [type(result) for result in results] == [Published]


def _killed(configs: list[Config], kind: str, number: int) -> None:
    """Run a night in a process of its own, and kill it when the entry of this kind and number is about to be committed, or just was."""
    child = os.fork()
    if child == 0:
        append, seen = chain.append, []

        def appended(connection: Any, what: str, *given: Any, **more: Any) -> Any:
            seen.append(what)
            if seen.count(kind) == number and what == kind:
                os.kill(os.getpid(), signal.SIGKILL)
            return append(connection, what, *given, **more)

        chain.append = appended
        try:
            fitted(configs)
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


@pytest.mark.process
@pytest.mark.parametrize(
    ("kind", "number"),
    [("reserved", 3), ("answered", 3), ("finished", 1), ("answered", 15), ("finished", 2)],
    ids=["reserving", "about rows", "rows finished", "in a model", "a model finished"],
)
def test_a_night_that_is_killed_anywhere_is_paid_once(night: Callable[..., list[Config]], kind: str, number: int) -> None:
    configs = night("stay", "cost")
    ledger = open_ledger(configs[0])
    ledger.engine.dispose()
    _killed(configs, kind, number)
    answers = [(entry["label"], entry["body"]) for entry in chain_records(ledger) if entry["kind"] == "answered"]
    releases = released(fitted(configs))
    after = [(entry["label"], entry["body"]) for entry in chain_records(ledger) if entry["kind"] == "answered"]
    assert after[: len(answers)] == answers
    (group,), _ = prepare_together(configs)
    assert group.rows is not None
    policy = ledger.policies()["clinic"]
    once = [policy.cost(group.rows.plan.events), *(policy.cost(job.plan.own_events) for job in group.jobs)]
    assert ledger.spent("clinic").amount == sum(cost.amount for cost in once)
    assert len(after) == len(group.rows.plan.events) + sum(len(job.plan.own_events) for job in group.jobs)
    assert len({release.content["shared"]["run"] for release in releases}) == 1
    assert verify(ledger, claims_in(configs[0].output_folder)) == []


@pytest.mark.process
def test_shared_answers_are_those_of_rows_alone(night: Callable[..., list[Config]]) -> None:
    """Whatever is staged beside them: the records of the shared queries are those of a data set without targets."""
    (group,), _ = prepare_together(night())
    manifest = scan(str(group.jobs[0].config.folder / "shards"))
    with ShardedDataset(manifest, group.columns) as several, ShardedDataset(manifest, group.queries.preprocessing) as alone:
        for query in group.queries.templates.values():
            assert (RowsOfModel(records=several, place=None).aggregate(query) == alone.aggregate(query)).all()


@pytest.mark.process
def test_the_command_plans_and_refits_a_folder(night: Callable[..., list[Config]], folder: Path) -> None:
    (folder / "models").mkdir()
    night("stay", "cost", data={"path": "../shards"}, ledger="sqlite:///../ledger.db", output="../releases")
    for name in ("stay", "cost"):
        (folder / f"{name}.yaml").rename(folder / "models" / f"{name}.yaml")

    def said(*words: str) -> tuple[int, str]:
        answer = CliRunner().invoke(app, [*words])
        return answer.exit_code, " ".join(f"{answer.output} {answer.exception or ''}".split())

    models = str(folder / "models")
    code, words = said("plan", models)
    assert code == 0, words
    assert "cost, stay: share scales," in words
    assert re.search(r"2 models on clinic: epsilon [\d.]+ together, [\d.]+ as separate refits", words)
    planned = json.loads(CliRunner().invoke(app, ["plan", models, "--json"]).output)
    (compared,) = planned["night"]
    assert compared["epsilon_together"] < compared["epsilon_separately"]
    (folder / "models" / "broken.yaml").write_text("name: broken\n")
    code, words = said("refit", models, "--direct")
    assert code == 1
    assert "1 of 3 models failed: broken.yaml" in words
    assert words.count("new release") == 2
    assert "--resume continues one run" in said("refit", models, "--resume", "x")[1]
    assert "--sweep is of one configuration" in said("plan", models, "--sweep", "epsilon")[1]
    assert "there is no .yaml file" in said("refit", str(folder / "shards"))[1]
    (folder / "models" / "broken.yaml").unlink()
    told = json.loads(CliRunner().invoke(app, ["refit", models, "--direct", "--json"]).output)
    assert [one["night"]["state"] for one in told] == ["unchanged"] * 2
    ledger = Ledger.open(f"sqlite:///{folder / 'ledger.db'}")
    policy = ledger.policies()["clinic"]
    assert epsilon_of(ledger.spent("clinic"), policy.delta, policy.currency) == pytest.approx(compared["epsilon_together"], rel=1e-6)


@pytest.mark.unit
@pytest.mark.parametrize("most", [100, 2], ids=["every row", "two rows"])
def test_rows_of_persons_decoded_once_are_those_of_each_model(night: Callable[..., list[Config]], most: int) -> None:
    (group,), failed = prepare_together(night(data={**PERSONS, "rows_per_unit": most}))
    assert failed == []
    assert group.rows is not None
    manifest, columns = group.rows.manifest, group.columns
    (source,) = ShardedDataset(manifest, columns).sources
    several = _decoded(source, columns)
    assert several.units == ROWS // 3
    assert several.starts is not None
    for place, job in enumerate(group.jobs):
        seen, alone = seen_by(place, several), _decoded(source, job.plan.specification.preprocessing)
        assert seen.units == alone.units == several.units, "a person without the target is one row of zeros"
        assert seen.rows_of_unit.max() <= most
        if most == 100:
            assert [_rows_by_person(seen)] == [_rows_by_person(alone)], "the same rows, in an order of their own"
        changed = np.where(np.arange(len(several)) < several.starts[1], np.nan, several.y[:, place])  # the first person loses this target
        other = seen_by(place, replace(several, y=np.column_stack([several.y[:, :place], changed, several.y[:, place + 1 :]])))
        assert _rows_by_person(other)[1:] == _rows_by_person(seen)[1:], "who else is used, and how, follows from the others alone"
    _same(seen_by(None, several), _decoded(source, group.queries.preprocessing)) if most == 100 else None


def _rows_by_person(block: Block) -> list[list[list[float]]]:
    assert block.starts is not None
    rows = np.nan_to_num(np.column_stack([block.X, block.y]), nan=99.0).tolist()
    return [sorted(rows[first:last]) for first, last in zip(block.starts[:-1], block.starts[1:], strict=True)]


@pytest.mark.process
def test_persons_pay_for_rows_once(night: Callable[..., list[Config]]) -> None:
    configs = night("stay", "died", data=PERSONS)
    (group,), _ = prepare_together(configs)
    assert group.rows is not None
    releases = released(fitted(configs))
    ledger = open_ledger(configs[0])
    policy = ledger.policies()["clinic"]
    assert policy.unit == "patient"
    once = [policy.cost(group.rows.plan.events), *(policy.cost(job.plan.own_events) for job in group.jobs)]
    assert ledger.spent("clinic").amount == sum(cost.amount for cost in once)
    assert len({release.content["shared"]["run"] for release in releases}) == 1
    assert verify(ledger, claims_in(configs[0].output_folder)) == []


@pytest.mark.process
def test_named_methods_share_rows_but_no_query(night: Callable[..., list[Config]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {"columns": {"x0": {"kind": "number", "bounds": [-3, 3]}, "x1": {"kind": "number", "bounds": [-3, 3]}}}
    night("stay", data=bounds)
    median = {"mean": "median_of_means", "steps": 2}
    kinds = {"stay": {"column": "y", "bounds": [-3, 3]}, "cost": {"column": "w", "bounds": [0, 9]}, "died": MODELS["died"]["target"]}
    configs = [
        configured(folder, name, data={**bounds, "target": target}, method=median if name == "cost" else NAMED)
        for name, target in kinds.items()
    ]
    (group,), failed = prepare_together(configs)
    assert failed == []
    assert group.rows is None
    staged: list[None] = []
    stage = ShardedDataset.stage
    monkeypatch.setattr(ShardedDataset, "stage", lambda self: (staged.append(None), stage(self))[1])
    results = fitted(configs)
    releases = released(results)
    assert len(staged) == 1, "records are decoded once"
    assert all("shared" not in release.content for release in releases)
    ledger = open_ledger(configs[0])
    policy = ledger.policies()["clinic"]
    alone = [policy.cost(prepare(config, again=True).plan.events).amount for config in configs]
    assert ledger.spent("clinic").amount == sum(alone)
    assert verify(ledger, claims_in(configs[0].output_folder)) == []


@pytest.mark.process
def test_named_models_that_do_not_fit_the_budget_stop_no_other(night: Callable[..., list[Config]], folder: Path) -> None:
    bounds = {"columns": {"x0": {"kind": "number", "bounds": [-3, 3]}}, "target": {"column": "y", "bounds": [-3, 3]}}
    night("stay")
    lifetime = {"lifetime": {"epsilon": 3.0, "delta": 1e-6}}
    sizes = {"stay": 1.0, "cost": 2.9, "falls": 1.0}
    configs = [
        configured(folder, name, data=bounds, model={}, method=NAMED, privacy={"epsilon": epsilon, "delta": 1e-6, **lifetime})
        for name, epsilon in sizes.items()
    ]
    assert len(prepare_together(configs)[0]) == 1
    assert [type(result) for result in fitted(configs)] == [Failed, Published, Published]


@pytest.mark.process
def test_a_ledger_that_did_not_pay_for_any_model_s_folder_is_refused(night: Callable[..., list[Config]], folder: Path) -> None:
    first = night("stay", "cost")[0]
    released(fitted([first]))
    elsewhere = configured(folder, "cost", output="elsewhere", window="next")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "release.json").write_text("{}")
    results = fitted([configured(folder, "stay", window="next"), elsewhere])
    assert all("elsewhere cannot be told" in str(result.error) for result in results if isinstance(result, Failed))
    assert len(results) == 2
    assert len(open_ledger(first).runs()) == 1
