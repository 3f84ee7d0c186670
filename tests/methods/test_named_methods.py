"""Every method by its name, from configuration to release: 6,000 records of 10 features in 3 shards; each kind of query on a cluster."""

import math
from typing import Any

import numpy as np
import pytest
from benchmarks.slopes import Memory

from nightfit.config import Config, ConfigError, parse
from nightfit.ledger import Ledger, verify
from nightfit.methods.loop import gradient_estimators as means
from nightfit.methods.loop import solvers
from nightfit.methods.loop.theory import Moment, Problem, asi2024
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.planning.plan import PlanError
from nightfit.plugins import members
from nightfit.privacy.accounting import Currency, cost
from nightfit.privacy.gate import Gate
from nightfit.privacy.noise import NoNoise
from nightfit.release import Release
from nightfit.shards.synthetic import Synthetic
from nightfit.types import Answer, Block

ROWS, COLUMNS = 6_000, 10
MADE = Synthetic(rows=ROWS, columns=COLUMNS, shards=3, task="linear", noise="student", noise_tail=3.0, seed=4)

METHODS: dict[str, dict[str, Any]] = {
    "clipped": {},
    "coordinate": {"model": {"penalty": {"box": [-1, 1]}}},
    "soft": {"model": {"penalty": {"l2": 0.01}}},
    "smoothed": {"model": {"penalty": {"l2_ball": 1.0}}},
    "threshold": {"model": {"penalty": {"elastic_net": {"l1": 0.001, "l2": 0.001}}}},
    "median_of_means": {"model": {"penalty": {"group_lasso": {"groups": [0] * 5 + [1] * 5, "weight": 0.001}}}},
    "ball": {"model": {"penalty": {"l2": 0.001}}},
    "range_ball": {},
    "trimmed": {"model": {"penalty": {"l2": 0.001}}},
    "sample_aggregate": {"model": {"penalty": {"l2_ball": 2.0}}},
    "proximal_sgd": {
        "method": {"solver": "proximal_sgd", "steps": 10},
        "privacy": {"adjacency": "zero_out"},
        "model": {"penalty": {"l1": 0.001}},
    },
    "hard_thresholding": {"model": {"penalty": {"sparsity": 3}}},
    "frank_wolfe": {"model": {"penalty": {"l1_ball": 2.0}}},
    "vertex": {"model": {"penalty": {"l1_ball": 2.0}}, "method": {"mean": "vertex", "batch": "full", "steps": 5}},
    "private_lasso": {"model": {"penalty": {"l1_ball": 2.0}}},
    "phased": {"model": {"penalty": {"l2": 0.001}}},
    "accelerated_gradient": {},
    "proximal_gradient": {"model": {"loss": {"huber": {"delta": 0.5}}}},
}
SPLITS = {
    "trimmed with arsinh-normal noise on splits": {"method": {"mean": "trimmed", "noise": "arsinh_normal", "batch": "splits", "steps": 3}},
    "median of means on disjoint splits": {"method": {"mean": "median_of_means", "batch": "splits", "steps": 5}},
    "stochastic median of means": {
        "method": {"solver": "proximal_sgd", "mean": "median_of_means", "batch": 600, "steps": 10, "groups": 4},
        "privacy": {"adjacency": "zero_out"},
    },
    "stochastic soft truncation": {
        "method": {"solver": "proximal_sgd", "mean": "soft", "batch": 600, "steps": 10},
        "privacy": {"adjacency": "zero_out"},
    },
    "stochastic smoothed truncation": {
        "method": {"solver": "proximal_sgd", "mean": "smoothed", "batch": 600, "steps": 10},
        "privacy": {"adjacency": "zero_out"},
    },
}


# One of each kind of query; the other methods ask the same queries with other boundings, and other solvers.
ON_A_CLUSTER = {"clipped", "trimmed", "sample_aggregate", "proximal_sgd", "vertex"}  # a sum, both smooth queries, samples, a selection


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("methods")
    MADE.write(made / "shards")
    for name in ("one", "zero"):
        Ledger.create(f"sqlite:///{made / name}.db")
    return made


@pytest.fixture(scope="module")
def configured(folder):
    def of(name: str, said: dict[str, Any], cluster: dict[str, Any] | None = None) -> Config:
        data_set = "zero" if "adjacency" in said.get("privacy", {}) else "one"
        target = {} if said.get("model", {}).get("kind") == "mean" else {"target": "y"}
        content = {
            "name": name.replace(" ", "-"),
            "data": {"name": data_set, "path": "shards", "default": {"kind": "number", "bounds": [-8, 8]}, **target},
            "privacy": {
                "epsilon": 2.0,
                "delta": 1e-6,
                "lifetime": {"epsilon": 25.0, "delta": 1e-4, "currency": "zcdp"},
                **said.get("privacy", {}),
            },
            "model": said.get("model", {}),
            "method": said.get("method", name),
            "cluster": cluster or {"kind": "synchronous"},
            "ledger": f"sqlite:///{data_set}.db",
            "output": f"releases-{data_set}",
            "evaluate": "none",
            **said.get("more", {}),
        }
        return parse(content, folder)

    return of


def refit(config: Config, unsafe: bool = False) -> Release:
    job, ledger = prepare(config), open_ledger(config)
    published = publish(job, ledger, run_fit(job, ledger, reserve(job, ledger, unsafe=unsafe)))
    assert verify(ledger) == []
    return published.release


@pytest.mark.parametrize("name", sorted(ON_A_CLUSTER))
def test_every_query_runs_on_a_cluster(configured, client, name):
    check_release(configured(name, METHODS[name], {"address": client.scheduler.address}), name, METHODS[name])


@pytest.mark.parametrize("name", sorted({*METHODS, *SPLITS} - ON_A_CLUSTER))
def test_every_method_runs_from_configuration_to_release(configured, name):
    said = {**METHODS, **SPLITS}[name]
    check_release(configured(name, said), name, said)


def check_release(config: Config, name: str, said: dict[str, Any]) -> None:
    release = refit(config)
    guarantee = release.content["guarantee"]
    assert release.private
    assert (0.8 if name == "frank_wolfe" else 1.5) < guarantee["epsilon"] <= 2.0  # one choice is pure, and cheaper than its rho says
    assert guarantee["adjacency"] == said.get("privacy", {}).get("adjacency", "replace_one")
    assert np.isfinite(release.weights).all()
    assert release.receipt is not None
    assert len(release.terms) == COLUMNS


def test_every_name_is_covered():
    named = {*METHODS, *(said["method"]["mean"] for said in SPLITS.values()), "range", "robust_gradient"}
    assert named >= {*members(means), *members(solvers)} - {"assignment"}


@pytest.mark.parametrize(
    "name", [name for name, (first, *_) in members(means).items() if first.answer is Answer.GRADIENT and not name.startswith("robust")]
)
def test_a_mean_of_columns_is_one_question(configured, name):
    release = refit(configured(f"mean of columns by {name}", {"model": {"kind": "mean", "columns": ["x0", "x1", "y"]}, "method": name}))
    assert release.of_columns
    assert [name for name, _, _ in release.terms] == ["x0", "x1", "y"]
    assert all(abs(mean) < 1.0 for _, mean, _ in release.terms)
    assert len({event["label"].split()[1] for event in release.content["events"]}) == 1


def test_the_baseline_never_claims_privacy(configured):
    planned = prepare(configured("robust gradient", {"method": "robust_gradient"})).explain()
    assert "NOT PRIVATE" in planned
    assert "epsilon 2" not in planned
    assert "a private gradient" not in planned
    with pytest.raises(ConfigError, match="not private"):
        refit(configured("robust gradient", {"method": "robust_gradient"}))
    release = refit(configured("robust gradient", {"method": "robust_gradient", "more": {"unsafe": {"noise": "none"}}}), unsafe=True)
    assert not release.private
    assert release.content["guarantee"] is None


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ({"method": "proximal_sgd"}, "set privacy.adjacency"),
        ({"method": "range"}, "model.kind mean"),
        ({"method": {"solver": "proximal_gradient", "mean": "clipped", "batch": 6_000}}, "below 6000"),
        ({"method": {"solver": "phased", "steps": 7}}, "multiple of the 4 phases"),
        ({"method": {"mean": "range_ball", "batch": 100}, "privacy": {"adjacency": "zero_out"}}, "two halves of its records"),
        ({"model": {"kind": "mean"}, "method": "phased"}, "no solver"),
    ],
)
def test_what_does_not_fit_together_is_refused_with_the_cure(configured, said, cure):
    with pytest.raises(PlanError, match=cure):
        prepare(configured("refused", said))


def test_the_currency_gaussian_refuses_samples_and_says_the_cure(configured):
    config = configured("sampled", {"method": "proximal_sgd", "privacy": {"adjacency": "zero_out"}})
    lifetime = config.privacy.lifetime.model_copy(update={"currency": Currency.GAUSSIAN})
    gaussian = config.model_copy(
        update={"privacy": config.privacy.model_copy(update={"lifetime": lifetime}), "ledger": "sqlite:///none.db"}
    )
    with pytest.raises(PlanError, match="currency: zcdp"):
        prepare(gaussian)


def test_a_record_pays_for_one_phase(configured):
    plan = prepare(configured("phases", {"method": {"solver": "phased", "steps": 40, "scales": "public"}})).plan
    by_part = {event.draw for event in plan.events}
    assert len(by_part) == 4
    for part in by_part:
        alone = [event for event in plan.events if event.draw == part]
        assert len(alone) == 10
        assert cost(alone, Currency.ZCDP).amount == pytest.approx(plan.cost.amount, rel=1e-9)
    assert sum(part.fraction for part in by_part) == 1.0


def test_each_phase_has_the_bound_of_its_theorem(configured):
    """C_i = G_k (n_i sqrt(rho / d))^(1 / k) on half, a quarter and an eighth of the records; the last phase has an eighth too."""
    said = {"method": {"solver": "phased", "steps": 40, "schedule": "theory", "scales": "public", "moment": {"order": 3.0, "bound": 2.0}}}
    plan = prepare(configured("bounds-of-phases", said)).plan
    made = asi2024.phases(
        Problem(
            units=ROWS, columns=COLUMNS + 1, epsilon=2.0, delta=1e-6, mu=math.sqrt(plan.specification.budget.mu_squared()),
            moment=Moment(order=3.0, bound=2.0), diameter=1.0, smoothness=1.0,
        )
    )  # fmt: skip
    bounds = [plan.procedure.estimator_at(step).bound for step in range(0, 40, 10)]
    assert bounds[:3] == pytest.approx([phase.bound for phase in made[:3]], rel=1e-9)
    assert bounds[3] == bounds[2]
    assert "in later phases" in plan.explain()
    same = prepare(configured("phases-of-one-bound", {"method": {"solver": "phased", "steps": 40, "scales": "public"}})).plan
    assert {same.procedure.estimator_at(step).bound for step in range(40)} == {same.procedure.estimator.bound}


def test_each_phase_is_clipped_at_its_own_bound(configured):
    plan = prepare(
        configured("clipped-phases", {"method": {"solver": "phased", "steps": 8, "schedule": "theory", "scales": "public"}})
    ).plan
    asked = []

    class Seen(Memory):
        def aggregate(self, query):
            asked.append(query.bounding.bound)
            return super().aggregate(query)

    held = Seen(Block(np.ones((40, COLUMNS + 1)), np.full(40, 1e6), np.arange(40, dtype=np.uint64)), plan.events)
    plan.procedure.run(Gate(account=held, records=held, noise=NoNoise()), lambda _: None)
    first = plan.procedure.estimator.bound
    assert asked == pytest.approx([first, first] + [first / 2**0.5] * 2 + [first / 2] * 4)


def test_disjoint_splits_cost_what_one_of_them_costs(configured):
    said = {"mean": "median_of_means", "batch": "splits", "steps": 5, "scales": "public"}
    plan = prepare(configured("splits", {"method": said})).plan
    assert {cost([event], Currency.ZCDP) for event in plan.events} == {plan.cost}
