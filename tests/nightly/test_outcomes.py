"""Every kind of outcome from a raw export of the hospital, persons protected: plan, refit, release, report, prediction."""

import copy
import hashlib
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest
import yaml

from nightfit.cli.results import flattened
from nightfit.config import Config, ConfigError, load
from nightfit.config.sections.model import LOSSES, Kind
from nightfit.ledger import Ledger
from nightfit.methods.intervals import INTERCEPT
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.nightly.publication import as_dict
from nightfit.planning.plan import PlanError
from nightfit.release import Release, ReleaseError
from nightfit.release.export import Formula
from nightfit.release.movement import moved
from nightfit.release.report import page, summary
from nightfit.release.used import used_in_words
from nightfit.release.validation import check_content
from nightfit.shards.hospital import CLASSES, Hospital
from nightfit.shards.manifest import DataError
from nightfit.shards.predict import predict
from nightfit.verifier import verify

PATIENTS = 1000
COLUMNS = {
    "sex": {"kind": "category", "levels": ["F", "M", "X"]},
    "age": {"kind": "number", "bounds": [0, 110]},
    "emergency": {"kind": "boolean"},
    "creatinine": {"kind": "number", "transform": "log1p", "missing": "indicator"},
}
OUTCOMES: dict[str, tuple[dict[str, Any], Any, str]] = {
    "linear": ({"kind": "linear"}, {"column": "cost", "transform": "log1p"}, "the median of cost"),
    "logistic": ({"kind": "logistic"}, {"column": "outcome", "positive": "died"}, "the probability that outcome is died"),
    "two labels": ({"kind": "logistic"}, {"column": "outcome", "classes": ["home", "died"]}, "outcome is died and not home"),
    "boolean": ({"loss": "logistic"}, {"column": "readmitted", "positive": True}, "the probability that readmitted is true"),
    "multinomial": (
        {"kind": "multinomial", "penalty": {"l2": 0.001}},
        {"column": "outcome", "classes": list(CLASSES)},
        "home, transferred or died",
    ),
    "counts": ({"kind": "counts"}, "visits_next_year", "the mean of visits_next_year, a count"),
    "exposed": (
        {"kind": "counts"},
        {"column": "visits_next_year", "exposure": {"column": "stay_days", "bounds": [0.5, 60]}},
        "each unit of stay_days",
    ),
    "amounts": ({"kind": "amounts"}, {"column": "cost", "bounds": [0, 1_000_000]}, "the mean of cost, an amount"),
    "quantile": ({"kind": "quantile", "quantile": 0.9}, "stay_days", "90% of stay_days"),
    "mean": ({"kind": "mean", "columns": ["age"]}, None, ""),
}


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hospital")
    Hospital(rows=4 * PATIENTS, days=4, seed=5).write(folder / "export")
    return folder


def config_of(folder: Path, model: dict[str, Any], target: Any, **sections: Any) -> Config:
    kept = {"age": COLUMNS["age"]} if model.get("kind") == "mean" else COLUMNS
    key = hashlib.sha256(json.dumps([model, target, sections]).encode()).hexdigest()[:16]
    content = {
        "name": "m",
        "data": {"path": "export", "name": "hospital", "columns": kept, "unit": "patient_id", "units": PATIENTS, "rows_per_unit": 10},
        "privacy": {"epsilon": 4.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
        "model": model,
        "ledger": f"sqlite:///{key}.db",
        "output": f"releases-{key}",
        "cluster": {"kind": "synchronous"},
        "evaluate": "none",
        **sections,
    }
    content["data"] |= {} if target is None else {"target": target}
    place = folder / f"{key}.yaml"
    place.write_text(yaml.safe_dump(content))
    return load(place)


def released(folder: Path, model: dict[str, Any], target: Any) -> Any:
    config = config_of(folder, model, target)
    if not Path(config.ledger_url.removeprefix("sqlite:///")).exists():
        Ledger.create(config.ledger_url).engine.dispose()
    job, ledger = prepare(config), open_ledger(config)
    return job.plan, publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))


@pytest.fixture(scope="module", params=list(OUTCOMES))
def refitted(request: pytest.FixtureRequest, export: Path) -> Any:
    model, target, said = OUTCOMES[request.param]
    return request.param, said, *released(export, model, target)


def test_every_kind_of_model_is_tested_here() -> None:
    assert set(get_args(Kind)) == set(LOSSES) == {model.get("kind", "logistic") for model, _, _ in OUTCOMES.values()}


def test_plan_and_report_speak_of_the_outcome_and_the_release_opens_and_verifies(refitted: Any) -> None:
    _, said, plan, published = refitted
    release = Release.load(published.release_path)
    assert said in plan.explain()
    assert said in page(release, published.balance)
    assert "Run" in summary(release, published.balance)
    assert moved(release, release) == ()
    assert release.tampering() is None
    assert verify(json.loads(published.release_path.read_text())).wrong == ()
    assert all(np.isfinite(list(flattened(as_dict(published)).get("coef", {"x": 0.0}).values())))


def test_predictions_are_in_the_outcome_s_units(refitted: Any, export: Path, tmp_path: Path) -> None:
    kind, _, _, published = refitted
    if kind == "mean":
        return
    release = published.release
    predict(release.preprocessing, release.weights, release.link, str(export / "export"), tmp_path / "scored.parquet")
    scored = pq.read_table(tmp_path / "scored.parquet")
    found = scored["prediction"].drop_null().to_numpy()
    if kind == "multinomial":
        chances = np.column_stack([scored[f"probability_{label}"].to_numpy() for label in CLASSES])
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)
        assert set(found) <= set(CLASSES)
        share = np.mean(np.array(scored["outcome"].to_pylist()) == "home")
        assert abs(chances[:, 0].mean() - share) < 0.2
        np.testing.assert_array_equal(np.array(CLASSES)[chances.argmax(axis=1)], scored["prediction"].to_pylist())
    elif kind in ("logistic", "boolean"):
        assert set(found) <= {0, 1}
        assert 0 < scored["probability"].to_numpy().min() < scored["probability"].to_numpy().max() < 1
    elif kind == "two labels":
        assert set(found) <= {"home", "died"}
    else:
        assert found.min() >= (-1.0 if kind in ("linear", "quantile") else 0.0) * 1e6
        middle = {"linear": (500, 20_000), "counts": (0.2, 5), "exposed": (0.05, 50), "amounts": (1000, 30_000), "quantile": (3, 40)}[kind]
        assert middle[0] < np.median(found) < middle[1]


def test_a_prediction_of_a_count_is_for_the_record_s_own_exposure(export: Path, tmp_path: Path) -> None:
    model, target, _ = OUTCOMES["exposed"]
    release = released(export, model, target)[1].release
    first = pq.read_table(export / "export").slice(0, 1)
    place, days = first.column_names.index("stay_days"), pa.array([1.0, 2.0, None, 0.0])
    same = pa.concat_tables([first] * 4).set_column(place, "stay_days", days)
    pq.write_table(same, tmp_path / "same.parquet")
    predict(release.preprocessing, release.weights, release.link, str(tmp_path / "same.parquet"), tmp_path / "scored.parquet")
    one, two, *rest = pq.read_table(tmp_path / "scored.parquet")["prediction"].to_pylist()
    assert two == pytest.approx(2 * one)
    assert rest == [None, None]


def test_a_release_of_several_classes_is_checked_whole(export: Path) -> None:
    model, target, _ = OUTCOMES["multinomial"]
    content = released(export, model, target)[1].release.content
    term = {"estimate": 0.0, "deviation": 1.0, "bias": 0.0}
    terms = dict.fromkeys([*content["features"], INTERCEPT], term)
    content = content | {"class_intervals": {label: {"of": "", "assumed": [], "terms": terms} for label in CLASSES}}
    check_content(content)
    damages: list[Any] = [
        lambda c: c.pop("classes"),
        lambda c: c.pop("kind"),
        lambda c: c["coef"].pop("died"),
        lambda c: c["coef"]["died"].pop("age"),
        lambda c: c["intercept"].pop("home"),
        lambda c: c["scaled_weights"].pop(),
        lambda c: c["scaled_weights"][0].pop(),
        lambda c: c.update(scaled_weights=c["scaled_weights"][0]),
        lambda c: c["classes"].reverse(),
        lambda c: c["preprocessing"]["target"].pop("labels"),
        lambda c: c["preprocessing"]["target"]["labels"].reverse(),
        lambda c: c["class_intervals"].pop("home"),
        lambda c: c["class_intervals"]["home"]["terms"].pop("age"),
    ]
    for damage in damages:
        broken = copy.deepcopy(content)
        damage(broken)
        with pytest.raises(ValueError, match=r"class|coef|intercept|kind|label|preprocessing|weights"):
            check_content(broken)


@pytest.mark.parametrize(
    ("model", "target", "said"),
    [
        ({"kind": "counts"}, {"column": "outcome", "positive": "died"}, "predicts numbers: use kind logistic"),
        ({"kind": "multinomial"}, "outcome", "needs the public labels of three or more classes"),
        ({"kind": "multinomial"}, {"column": "outcome", "classes": ["a", "b"]}, "for two use kind logistic"),
        ({"kind": "multinomial", "penalty": {"l1": 0.1}}, {"column": "outcome", "classes": ["a", "b", "c"]}, "no penalty or l2"),
        ({"kind": "multinomial", "start": "previous"}, {"column": "outcome", "classes": ["a", "b", "c"]}, "start previous"),
        ({"kind": "logistic"}, {"column": "outcome", "classes": ["a", "b", "c"]}, "use kind multinomial, or positive"),
        ({"kind": "logistic"}, {"column": "outcome", "positive": "a", "classes": ["a", "b"]}, "keep one of them"),
        ({"kind": "logistic"}, {"column": "outcome", "positive": 1.5}, "neither text, a whole number nor a boolean"),
        ({"kind": "logistic"}, {"column": "outcome", "classes": ["a"]}, "at least two classes"),
        ({"kind": "logistic"}, {"column": "outcome", "classes": ["a", "a"]}, "declared twice"),
        ({"kind": "logistic"}, {"column": "outcome", "bounds": [0, 1]}, "predicts labels: remove them"),
        ({"kind": "counts"}, {"column": "cost", "transform": "log1p"}, "has a scale of its own"),
        ({"kind": "linear"}, {"column": "cost", "exposure": "stay_days"}, "exposure is for kind counts and amounts"),
        ({"kind": "linear"}, {"column": "cost", "transform": "log", "bounds": [0, 9]}, "outside of what log is defined for"),
        ({"kind": "counts"}, {"column": "cost", "exposure": {"column": "stay_days", "bounds": [0, 9]}}, "exposures lie above zero"),
        ({"kind": "quantile"}, "cost", "goes with the quantile that is wanted"),
        ({"kind": "linear", "quantile": 0.5}, "cost", "goes with the quantile that is wanted"),
        ({"kind": "counts", "loss": "huber"}, "cost", "has a loss of its own"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_cure(export: Path, model: dict[str, Any], target: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        config_of(export, model, target)


@pytest.mark.parametrize(
    ("model", "target", "sections", "said"),
    [
        ({"kind": "logistic"}, "outcome", {}, "declare its labels, as in target"),
        ({"kind": "logistic"}, {"column": "admitted", "positive": "x"}, {}, "labels are text, whole numbers or booleans"),
        ({"kind": "logistic"}, {"column": "readmitted", "positive": 1}, {}, "'1' cannot occur in column 'readmitted', which has type bool"),
        ({"kind": "logistic"}, {"column": "outcome", "positive": True}, {}, "write the label in quotes"),
        ({"kind": "counts"}, {"column": "visits_next_year", "exposure": "ward"}, {}, "an exposure must be numbers"),
        ({"kind": "counts"}, {"column": "visits_next_year", "exposure": "nothing"}, {}, "column 'nothing' is missing"),
    ],
)
def test_what_the_export_does_not_hold_is_refused_before_a_row_is_read(
    export: Path, model: dict[str, Any], target: Any, sections: dict[str, Any], said: str
) -> None:
    with pytest.raises((ConfigError, DataError, PlanError), match=said):
        prepare(config_of(export, model, target, **sections))


def test_several_classes_by_another_method_are_refused(export: Path) -> None:
    with pytest.raises(ConfigError, match="fitted by `auto` alone"):
        config_of(export, *OUTCOMES["multinomial"][:2], method="clipped")


def test_a_transform_is_taken_back_in_an_export(export: Path) -> None:
    assert "exp" in str(Formula.of(released(export, *OUTCOMES["linear"][:2])[1].release).outputs["prediction"].as_list())


def test_an_undeclared_label_is_a_missing_value_and_no_error(export: Path) -> None:
    release = released(export, {"kind": "logistic"}, {"column": "outcome", "classes": ["nowhere", "gone"]})[1].release
    assert np.isfinite(release.weights).all()


@pytest.mark.parametrize("kind", ["logistic", "counts", "quantile"])
def test_named_methods_fit_outcomes_too(export: Path, kind: str) -> None:
    model, target, said = OUTCOMES[kind]
    columns = {"age": COLUMNS["age"], "emergency": COLUMNS["emergency"]}
    target = {"column": target, "bounds": [0, 50]} if isinstance(target, str) else target
    config = config_of(export, model, target, method={"solver": "accelerated_gradient", "steps": 5})
    data = config.data.model_copy(update={"columns": {name: config.data.columns[name] for name in columns}})
    plan = prepare(config.model_copy(update={"data": data})).plan
    assert plan.procedure.engine == "loop"
    assert said in plan.explain()


def test_a_release_with_a_kind_that_this_version_does_not_know_is_refused(export: Path, tmp_path: Path) -> None:
    content = copy.deepcopy(released(export, *OUTCOMES["counts"][:2])[1].release.content) | {"kind": "rankings"}
    (tmp_path / "release.json").write_text(json.dumps(content))
    with pytest.raises(ReleaseError, match="kind"):
        Release.load(tmp_path / "release.json")


@pytest.mark.parametrize(
    ("target", "units", "said"),
    [
        ({"column": "outcome", "classes": ["home", "died"]}, PATIENTS, "Used: "),
        ({"column": "outcome", "positive": "died"}, PATIENTS, "Used: "),
        ({"column": "outcome", "classes": ["gone", "Died"]}, PATIENTS, "Warning: few persons counted"),
        ({"column": "outcome", "positive": "died"}, PATIENTS // 4, "check data.units"),
    ],
    ids=["two of three", "all", "misspelt", "too few stated"],
)
def test_the_share_of_units_that_counted_is_paid_for_and_told(export: Path, tmp_path: Path, target: Any, units: int, said: str) -> None:
    """A misspelt label or a wrong number of persons is no error, and no fit without a word."""
    (tmp_path / "export").symlink_to(export / "export")
    config = config_of(tmp_path, {"kind": "logistic"}, target)
    config = config.model_copy(update={"data": config.data.model_copy(update={"units": units})})
    Ledger.create(config.ledger_url).engine.dispose()
    job, ledger = prepare(config), open_ledger(config)
    published = publish(job, ledger, run_fit(job, ledger, reserve(job, ledger)))
    content = published.release.content
    data = pads.dataset(export / "export").to_table(["patient_id", "outcome"]).to_pandas()
    kept = data if "positive" in target else data[data.outcome.isin(target["classes"])]
    expected = kept.patient_id.nunique() / units
    assert abs(content["used"]["share"] - expected) < 4 * content["used"]["deviation"] + 0.01
    assert content["used"]["deviation"] < 0.3
    told = " ".join(sentence for sentence in used_in_words(published.release) if "abel" not in sentence)
    assert said in told
    assert ("Warning" in told) == said.startswith(("Warning", "check"))
    ((label, paid),) = content["labels"].items()
    if said != "check data.units":
        chosen = kept.groupby("patient_id").outcome.agg(lambda seen: (seen == label).mean())
        assert abs(paid["share"] - (chosen.mean() if len(chosen) else 0.5)) < 4 * paid["deviation"]
    assert told.split(". ")[0] in summary(published.release, published.balance).replace("\\", "")
    assert as_dict(published)["used"] == used_in_words(published.release)
    assert used_in_words(Release(content={**content, "private": False})) == []


def told_of(release: Release, **content: Any) -> list[str]:
    return used_in_words(Release(content={**release.content, **content}))


def test_a_label_that_no_record_seems_to_have_is_told(export: Path) -> None:
    release = released(export, *OUTCOMES["logistic"][:2])[1].release
    (missing,) = (one for one in told_of(release, labels={"Died": {"share": 0.01, "deviation": 0.02}}) if "Warning" in one)
    assert "no record has the label Died" in missing
    assert "matched exactly, with case" in missing
    assert any(
        "no record has another label than yes" in one for one in told_of(release, labels={"yes": {"share": 1.01, "deviation": 0.01}})
    )
    rare, hidden = {"share": 0.004, "deviation": 0.001}, {"share": 0.1, "deviation": 0.3}
    assert "Label died: 0.2% to 0.6% of the persons that count." in told_of(release, labels={"died": rare})
    assert not any("Warning" in one for one in told_of(release, labels={"died": rare}))
    assert not any("abel" in one for one in told_of(release, labels={"died": hidden}))


def test_a_category_of_hardly_any_declared_level_is_told(export: Path) -> None:
    release = released(export, *OUTCOMES["logistic"][:2])[1].release
    stored = copy.deepcopy(release.content["preprocessing"])
    stored["columns"]["sex=other"]["centre"] = 0.97
    assert any(
        "about 97% of the values of sex are missing or none of its declared levels" in one for one in told_of(release, preprocessing=stored)
    )
    assert not any("sex" in one for one in told_of(release))
