"""Which estimator and solver a plan combines: only those that declare what their protocols ask for."""

import ast
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

import nightfit
from nightfit.methods.auto.procedure import AutoFit
from nightfit.methods.auto.screening import ScreenedAutoFit
from nightfit.methods.local.fit import LocalFit
from nightfit.methods.loop.declared import check_members, declared_members
from nightfit.methods.loop.gradient_estimators import GaussianEstimator, GradientEstimator, Point
from nightfit.methods.loop.gradient_estimators.clipped import Clipped
from nightfit.methods.loop.loop import GradientLoop
from nightfit.methods.loop.solvers.proximal_gradient import ProximalGradient
from nightfit.methods.procedure import Procedure
from nightfit.nightly.search.procedure import Search
from nightfit.planning import components
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Budget, Method, Specification, penalty_of
from nightfit.privacy.accounting import Currency
from nightfit.privacy.events import Event, GaussianEvent, PureEvent, RepeatedEvent, SelectionEvent, SmoothEvent, SmoothGaussianEvent
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency

SHAPE = Preprocessing(features=("a", "b"), target="y", centre=(0.0, 0.0), scale=(1.0, 1.0), intercept=True)


def planned(penalty=None, **method):
    spec = Specification(
        name="m",
        data_set="d",
        preprocessing=SHAPE,
        budget=Budget(epsilon=1.0, delta=1e-6, currency=Currency.ZCDP),
        loss=Squared(),
        penalty=penalty_of(penalty or {}),
        method=Method(**{"scales": "public", **method}),
        residual=0.5,
    )
    return make(spec, 10_000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Silent(GaussianEstimator):
    """Everything but `private`."""

    name: ClassVar[str] = "silent"
    bound: float

    def query(self, point: Point):
        return point.sum(L2Clip(bound=self.bound))


@dataclass(frozen=True, kw_only=True, slots=True)
class Heir(Clipped):
    """`private` of another estimator."""

    name: ClassVar[str] = "heir"


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline(Silent):
    """Silent, with the claim that it lacks."""

    private: ClassVar[bool] = False


def offered(monkeypatch, kind):
    known = components.member
    monkeypatch.setattr(components, "member", lambda package, name: kind if name == kind.name else known(package, name))


@pytest.mark.parametrize(("kind", "message"), [(Silent, "Silent does not declare private"), (Heir, "Heir inherits private")])
def test_an_estimator_that_does_not_declare_private_is_refused(monkeypatch, kind, message):
    offered(monkeypatch, kind)
    with pytest.raises(PlanError, match=message):
        planned(mean=kind.name)


def test_a_loop_claims_privacy_only_if_its_estimator_says_so_outright():
    """Past the check of a plan too: nothing answers in the estimator's place, and a method of that name is no claim."""

    class Method(Silent):
        def private(self):
            return False

    loop = planned(mean="clipped", steps=1).procedure
    assert loop.private
    with pytest.raises(AttributeError, match="private"):
        _ = replace(loop, estimator=Silent(bound=1.0)).private
    assert not replace(loop, estimator=Method(bound=1.0)).private


def test_an_estimator_that_says_that_it_is_not_private_is_believed(monkeypatch):
    offered(monkeypatch, Baseline)
    plan = planned(mean="silent", steps=2)
    assert not plan.procedure.private
    assert "NOT PRIVATE" in plan.explain()


def test_a_solver_that_leaves_something_out_is_refused(monkeypatch):
    @dataclass(frozen=True, kw_only=True, slots=True)
    class Bare:
        name: ClassVar[str] = "bare"
        steps: int

    offered(monkeypatch, Bare)
    with pytest.raises(PlanError, match=r"Bare does not declare accelerated, bound_factor, .*update, usual_estimator"):
        planned(solver="bare")


@pytest.mark.parametrize("member", sorted(declared_members(GradientEstimator) - {"bound"}))
def test_every_member_of_the_protocol_is_asked_for(member):
    body = {name: getattr(Clipped, name) for name in declared_members(GradientEstimator) - {"bound", member}}
    kind = type("Partial", (), {**body, "bound": 1.0})
    with pytest.raises(ValueError, match=f"Partial does not declare {member}:"):
        check_members(kind, GradientEstimator)


@pytest.mark.parametrize("procedure", [GradientLoop, AutoFit, ScreenedAutoFit, LocalFit, Search])
def test_every_engine_has_what_a_plan_reads(procedure):
    check_members(procedure, Procedure)


@pytest.mark.parametrize("event", [GaussianEvent, SelectionEvent, SmoothEvent, SmoothGaussianEvent, PureEvent, RepeatedEvent])
def test_every_event_has_what_accountants_and_plans_read(event):
    check_members(event, Event)


def test_the_scale_of_noise_on_a_grid_is_what_the_sampler_gets():
    shared = {"label": "q", "sensitivity": 1.0, "coordinates": 3, "adjacency": Adjacency.REPLACE_ONE}
    assert GaussianEvent(**shared, sigma=7.0).noise_scale == 7.0
    assert SelectionEvent(**shared, scale=5.0, chosen=1).noise_scale == 5.0


def test_the_usual_partner_of_an_estimator_or_a_solver_takes_and_gives_the_same():
    assert type(planned(mean="clipped").procedure.solver).name == "accelerated_gradient"
    assert type(planned(mean="clipped", batch="splits", steps=3).procedure.solver) is ProximalGradient
    with pytest.raises(PlanError, match="takes a vertex, and the estimator 'clipped' gives a gradient"):
        planned(mean="clipped", solver="frank_wolfe")


@pytest.mark.parametrize(
    ("mean", "penalty", "bound"),
    [
        ("clipped", {}, 0.5 * math.sqrt(3)),
        ("ball", {}, 0.5 * math.sqrt(3)),
        ("coordinate", {}, 0.5),
        ("private_lasso", {"l1_ball": 3.0}, 0.5),
        ("sample_aggregate", {"l2_ball": 3.0}, 3.0),
        ("sample_aggregate", {"l1_ball": 3.0}, 3.0),
    ],
)
def test_the_usual_bound_is_the_largest_value_of_what_an_estimator_bounds(mean, penalty, bound):
    """Residuals of at most 0.5, three columns of at most 1."""
    assert planned(penalty, mean=mean).procedure.estimator.bound == bound


@pytest.mark.parametrize(
    ("mean", "penalty", "words"),
    [
        ("clipped", {}, "the norm of each record's gradient bounded by 0.866"),
        ("coordinate", {}, "each coordinate of a record's gradient bounded by 0.5"),
        ("private_lasso", {"l1_ball": 3.0}, "each record's target bounded by 0.5"),
        ("sample_aggregate", {"l2_ball": 3.0}, "the norm of the weights bounded by 3"),
    ],
)
def test_a_plan_says_what_is_bounded(mean, penalty, words):
    assert words in planned(penalty, mean=mean).explain()


def test_no_attribute_of_a_collaborator_is_read_with_a_default():
    """`getattr(estimator, "private", True)` would claim privacy for an estimator that says nothing."""
    root = Path(nightfit.__file__).parent
    sources = [path for package in ("methods", "planning") for path in (root / package).rglob("*.py")]
    assert len(sources) > 50
    found = [
        f"{path.name}:{node.lineno}"
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) > 2
    ]
    assert found == []
