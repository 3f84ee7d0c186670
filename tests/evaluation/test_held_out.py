"""Fit and evaluation concern different units: on exact sums, under every adjacency, for records and persons, night after night."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from nightfit.evaluation import Earlier, HeldOut
from nightfit.ledger import Ledger, Policy, Reservation
from nightfit.methods.procedure import Outcome
from nightfit.nightly.fit import fit
from nightfit.numerics.prf import members_of, slots_of
from nightfit.planning.plan import PlanError, make
from nightfit.planning.specification import Budget, Evaluate, Method, Specification, penalty_of
from nightfit.privacy.account import InMemoryAccount, by_label
from nightfit.privacy.accounting import UNIT, Currency, cost
from nightfit.privacy.gate import Gate, GateError
from nightfit.privacy.noise import NoNoise, SeededNoise
from nightfit.problem.links.identity import Identity
from nightfit.problem.losses.columns import Columns
from nightfit.problem.losses.hinge import Hinge
from nightfit.problem.losses.logistic import Logistic
from nightfit.problem.losses.poisson import Poisson
from nightfit.problem.losses.quantile import Quantile
from nightfit.problem.losses.squared import Squared
from nightfit.records.preprocessing import Preprocessing
from nightfit.types import Adjacency, Block, runs_of

KEY, UNITS, COLUMNS = bytes(range(16)), 600, 3
METHODS = {
    "auto": Method(solver="auto"),
    "full batch": Method(mean="clipped", bound=1.0, steps=2),
    "splits": Method(mean="clipped", bound=1.0, steps=3, batch="splits"),
    "groups": Method(mean="median_of_means", bound=1.0, steps=2, batch="splits"),
    "trimmed": Method(mean="trimmed", bound=1.0, steps=2, batch="splits"),
    "halves": Method(mean="range_ball", bound=1.0, steps=2),
    "blocks": Method(mean="sample_aggregate", bound=1.0, scales="public"),
    "selection": Method(mean="vertex", bound=1.0, steps=2),
}


def specification(method="auto", loss=None, adjacency=Adjacency.REPLACE_ONE, evaluate=True, earlier=None, **more):
    loss = loss or Squared()
    shape = Preprocessing(
        features=tuple(f"x{j}" for j in range(COLUMNS)),
        target="y",
        centre=(0.0,) * COLUMNS,
        scale=(1.0,) * COLUMNS,
        reach=(math.inf,) * COLUMNS if method == "auto" else (),
        intercept=True,
        target_domain=loss.target,
    )
    gaussian = method in ("auto", "full batch", "splits")
    budget = Budget(epsilon=2.0, delta=1e-6, adjacency=adjacency, currency=Currency.GAUSSIAN if gaussian else Currency.ZCDP)
    return Specification(
        name="m",
        data_set="d",
        preprocessing=shape,
        budget=budget,
        loss=loss,
        penalty=penalty_of({"l1_ball": 2.0} if method == "selection" else {}),
        method=METHODS[method],
        evaluate=Evaluate(share=0.2, earlier=earlier) if evaluate else None,
        **more,
    )


def rows(person=False, labels=False):
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.uniform(-1, 1, (UNITS, COLUMNS)), np.ones(UNITS)])
    z = X @ [1.0, -0.5, 0.0, 0.2]
    y = np.where(rng.random(UNITS) < 1 / (1 + np.exp(-z)), 1.0, -1.0) if labels else z + rng.normal(0, 0.5, UNITS)
    slots = np.sort(rng.integers(0, 2**63, UNITS // 3)).astype(np.uint64).repeat(3) if person else np.arange(UNITS, dtype=np.uint64)
    return Block(X, y, slots, runs_of(slots) if person else None)


class Compared:
    """Records that are read twice: as they are, and with other rows outside of the part that the query may see."""

    def __init__(self, block, evaluation):
        held_out = members_of(KEY, evaluation.held_out_part, block.slots)
        scrambled = [replace(block, X=np.where(of[:, None], 0.9, block.X), y=np.where(of, 1.0, block.y)) for of in (held_out, ~held_out)]
        self.block, self.evaluation, self.other = block, evaluation, dict(zip(("fit", "evaluation"), scrambled, strict=True))
        self.asked = {"fit": 0, "evaluation": 0}

    def aggregate(self, query):
        inside = query.draw.low >= self.evaluation.edge
        assert inside or query.draw.high <= self.evaluation.edge
        part = "evaluation" if inside else "fit"
        self.asked[part] += 1
        exact = query.chunk(self.block)
        assert np.array_equal(exact, query.chunk(self.other[part]))
        return exact


def run(plan, records, noise=None):
    account = InMemoryAccount(events=by_label(plan.events), secret=bytes(range(32)))
    gate = Gate(account=account, records=records, noise=noise or NoNoise())
    one, other = plan.evaluation.divisions(KEY)
    outcome = plan.procedure.run(replace(gate, division=one), lambda _: None)
    return outcome, plan.evaluation.run(replace(gate, division=other), outcome), account


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("groups", "blocks")])
def test_held_out_units_are_never_fitted_on(method):
    """Every exact sum of the fit is the same whatever held-out units say, and every one of the evaluation whatever the others say."""
    plan = make(specification(method), UNITS)
    records = Compared(rows(), plan.evaluation)
    _, _, account = run(plan, records)
    assert records.asked["evaluation"] == len(plan.evaluation.events)
    assert records.asked["fit"] == len(plan.procedure.events)
    assert account.answers.keys() == account.events.keys()


def test_a_person_is_fitted_on_or_held_out_with_all_rows():
    spec = specification("auto")
    shape = replace(spec.preprocessing, unit="patient", rows_per_unit=3)
    plan = make(replace(spec, preprocessing=shape, budget=replace(spec.budget, unit="patient")), UNITS // 3, UNITS)
    records = Compared(rows(person=True), plan.evaluation)
    run(plan, records)
    held = members_of(KEY, plan.evaluation.held_out_part, records.block.slots).reshape(-1, 3)
    assert (held.all(axis=1) == held.any(axis=1)).all()
    assert 0.1 < held.mean() < 0.3


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Poisson(high=50.0), Quantile(quantile=0.7)], ids=lambda loss: loss.name)
@pytest.mark.parametrize("compared", [False, True], ids=["alone", "compared"])
def test_an_evaluation_asks_exactly_its_events(loss, compared):
    """Whatever the fit is: nothing depends on it but what is counted."""
    spec = specification("auto", loss)
    earlier = Earlier(run="m-1", weights=(0.9, -0.4, 0.1, 0.2), preprocessing=replace(spec.preprocessing, reach=()), link=loss.link)
    plan = make(replace(spec, evaluate=Evaluate(share=0.2, earlier=earlier if compared else None)), UNITS)
    block = rows(labels=loss.name == "logistic")
    block = replace(block, y=np.abs(np.rint(block.y))) if loss.name == "poisson" else block
    for weights in (np.zeros(COLUMNS + 1), np.array([1e300, -1e300, 5.0, 1.0]), np.array([1.0, -0.5, 0.0, 0.2])):
        account = InMemoryAccount(events=by_label(plan.events), secret=bytes(32))
        gate = Gate(account=account, records=Compared(block, plan.evaluation), noise=SeededNoise(np.random.default_rng(0)))
        outcome = Outcome(weights=weights, path=[], preprocessing=replace(spec.preprocessing, reach=()))
        found = plan.evaluation.run(replace(gate, division=plan.evaluation.divisions(KEY)[1]), outcome)
        assert set(account.answers) == {event.label for event in plan.evaluation.events}
        assert (found["previous"] is not None) == compared
        numbers = [end for metric in found["metrics"].values() for end in metric.values()]
        assert np.isfinite(numbers).all()
        assert all(one["low"] <= one["value"] <= one["high"] for one in found["metrics"].values())


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("method", ["auto", "full batch", "splits"])
def test_a_unit_pays_for_one_part_or_for_leaving_one_and_joining_the_other(method, adjacency):
    """ALGORITHMS 18.2: the larger of max P_i and max R_i + R_j; nothing is added where a removal costs half a replacement."""
    plan = make(specification(method, adjacency=adjacency), UNITS)
    alone = make(specification(method, adjacency=adjacency, evaluate=False), UNITS)
    fitted, asked = plan.events[: -len(plan.evaluation.events)], plan.evaluation.events

    def spent(events):
        return float(cost(events, Currency.GAUSSIAN).amount * UNIT)

    assert plan.cost.fits(plan.specification.budget.ceiling())
    assert spent(plan.events) == pytest.approx(max(spent(fitted), spent(asked)), rel=1e-9)
    assert spent(asked) == pytest.approx(float(alone.specification.budget.mu_squared()), rel=1e-6)
    assert spent(fitted) == pytest.approx(spent(alone.events), rel=1e-6)
    assert plan.epsilon <= 2.0
    removal = [replace(event, removal=event.sensitivity) for event in asked]
    if adjacency is Adjacency.REPLACE_ONE:
        assert spent([*fitted, *removal]) > 1.2 * spent(plan.events)
    assert all(one.draw.high <= other.draw.low for one, other in itertools.product(fitted, asked))


def test_a_neighbour_that_changes_its_part_moves_all_answers_by_no_more_than_the_price():
    """A unit leaves the fit part and joins the held-out one: exact sums of all queries of a fit, over their noise."""
    plan = make(specification("full batch"), UNITS)
    slots = np.arange(5000, dtype=np.uint64)
    here, there = (slots[members_of(KEY, part, slots)] for part in (plan.evaluation.fit_part, plan.evaluation.held_out_part))
    common = np.concatenate([here[1:400], there[1:100]])

    def block(slot, y):
        X, other = np.ones((len(common) + 1, COLUMNS + 1)), np.linspace(-1, 1, len(common))
        return Block(X, np.append(other, y), np.append(common, np.uint64(slot)))

    blocks = block(here[0], 9.0), block(there[0], -9.0)

    class Both:
        """Answers of one data set, and how far the other's are."""

        moved = 0.0

        def aggregate(self, query):
            one, other = (query.finalise(query.chunk(of)) for of in blocks)
            self.moved += sum(int(a - b) ** 2 for a, b in zip(one, other, strict=True)) / self.sigma**2
            return query.chunk(blocks[0])

    records = Both()

    class Watching(InMemoryAccount):
        def asked(self, event):
            records.sigma = event.sigma
            return super().asked(event)

    account = Watching(events=by_label(plan.events), secret=bytes(32))
    gate = Gate(account=account, records=records, noise=NoNoise())
    fit_part, held_out = plan.evaluation.divisions(KEY)
    outcome = plan.procedure.run(replace(gate, division=fit_part), lambda _: None)
    of_fit = records.moved
    plan.evaluation.run(replace(gate, division=held_out), outcome)
    assert 0 < of_fit < records.moved <= float(plan.cost.amount * UNIT)


def test_a_fit_of_all_units_is_refused_by_the_reservation():
    plan = make(specification("full batch"), UNITS)
    account = InMemoryAccount(events=by_label(plan.events), secret=bytes(32))
    gate = Gate(account=account, records=Compared(rows(), plan.evaluation), noise=NoNoise())
    with pytest.raises(GateError, match="other records"):
        plan.procedure.run(gate, lambda _: None)
    with pytest.raises(GateError, match="other records"):
        plan.procedure.run(replace(gate, division=plan.evaluation.divisions(KEY)[1]), lambda _: None)


def test_means_are_over_the_public_share_of_the_units():
    plan, alone = (make(specification("full batch", evaluate=evaluate), UNITS) for evaluate in (True, False))
    assert plan.units == alone.units == UNITS
    assert plan.procedure.units == int(UNITS * plan.evaluation.fit_part.fraction)
    assert plan.evaluation.held_out_part.fraction == pytest.approx(0.2, abs=1e-9)
    assert "evaluation" not in alone.as_dict()
    assert plan.digest() != alone.digest()
    assert "20% of the units are held out" in plan.explain()
    assert "To be known: nothing, of so few units" in plan.explain()
    assert "R2 within about" in make(specification("full batch"), 20 * UNITS).explain()


def test_the_division_is_that_of_the_data_set_whatever_the_run():
    ledger = Ledger.create("sqlite://")
    assert ledger.division_key("d") == ledger.division_key("d") != ledger.division_key("e")
    assert ledger.division_key("d") != ledger.bucket_key("d")
    plan = make(specification("full batch"), UNITS)
    ledger.set_policy(Policy(data_set="d", epsilon=30.0, delta=1e-5, adjacency=Adjacency.REPLACE_ONE))
    runs = [
        ledger.reserve(
            Reservation(model="m", data_set="d", unit="record", plan=plan.digest(), events=plan.events, window=w, manifest=w, files=())
        )
        for w in ("one", "other")
    ]
    assert runs[0].division_key == runs[1].division_key == ledger.division_key("d")
    assert runs[0].key != runs[1].key

    class Seen:
        def __init__(self):
            self.block = rows()

        def aggregate(self, query):
            return query.chunk(self.block)

    made = [fit(plan, Seen(), one, NoNoise()) for one in runs]
    assert made[0].content["evaluation"] == made[1].content["evaluation"]
    assert made[0].content["coef"] == made[1].content["coef"]


@pytest.mark.parametrize("unit", ["record", "patient"])
@pytest.mark.parametrize("adjacency", Adjacency)
def test_a_record_that_comes_or_goes_is_not_told_by_who_else_is_held_out(adjacency, unit):
    """A file is written anew with its first record at its end: without that record the others keep their places, with it they move.

    Were the key the same in both nights, thousands would be held out twice in the first case, and one in twenty-five in the other.
    """
    ledger = Ledger.create("sqlite://")
    plan = make(specification("full batch", adjacency=adjacency), UNITS)
    ledger.set_policy(Policy(data_set="d", epsilon=30.0, delta=1e-5, adjacency=adjacency, unit=unit, currency=Currency.ZCDP))
    order = Reservation(model="m", data_set="d", unit=unit, plan=plan.digest(), events=plan.events, window="w", manifest="m", files=())
    runs = [ledger.reserve(replace(order, window=window)) for window in ("one", "other")]
    assert ledger.reserve(replace(order, window="one")).division_key == runs[0].division_key, "a resumed run divides as before"

    slots = slots_of("a.parquet", 0, 20_001)
    held_out = [members_of(one.division_key, plan.evaluation.held_out_part, slots) for one in runs]
    with_it, without_it = (held_out[0][1:] & held_out[1][:-1]).mean(), (held_out[0][:-1] & held_out[1][:-1]).mean()
    moves = unit == "record" and adjacency is Adjacency.ADD_REMOVE
    assert with_it == pytest.approx(0.04, abs=0.01)  # of 20,000, with a deviation of 0.0014
    assert without_it == pytest.approx(0.04 if moves else 0.2, abs=0.02)  # with a deviation of 0.0028


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (specification("full batch", Hinge()), "nothing to evaluate"),
        (specification("full batch", Columns()), "nothing to evaluate"),
        (replace(specification("full batch", adjacency=Adjacency.ZERO_OUT), method=Method(mean="clipped", bound=1.0, batch=50)), "Poisson"),
    ],
    ids=["scores", "means", "samples"],
)
def test_what_cannot_be_evaluated_is_refused_with_the_cure(spec, message):
    currency = replace(spec.budget, currency=Currency.ZCDP)
    with pytest.raises(PlanError, match=f"{message}.*evaluate: none"):
        make(replace(spec, budget=currency), UNITS)


def test_shares_of_an_error_histogram_add_to_no_more_than_one():
    plan = make(specification("auto"), UNITS)
    for earlier in (None, Earlier(run="m-1", weights=(0.0,) * 4, preprocessing=plan.specification.preprocessing, link=Identity())):
        compared = replace(plan.evaluation, earlier=earlier)
        assert 0.999999 < sum(weight**2 for weight in compared.weights) <= 1.0
        assert 0.999999 < sum(weight**2 for weight in compared.size_weights) <= 1.0
        assert sum(compared.shares.values()) == pytest.approx(1.0)
    assert isinstance(plan.evaluation, HeldOut)
