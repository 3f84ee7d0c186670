"""Years of nights on the ledger alone: every block under its policy, epsilon as outside accountants have it, sums without drift."""

import json
import math
import random
from datetime import date, timedelta
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from typer.testing import CliRunner

from nightfit.cli import app
from nightfit.ledger import BudgetExceeded, Ledger, Policy, Reservation, verify
from nightfit.privacy.accounting import UNIT, Cost, Currency, cost, epsilon_of
from nightfit.privacy.events import GaussianEvent
from nightfit.release.burndown import bar, block_budgets, page
from nightfit.types import Adjacency

WINDOW = 30
TOLERANCE = {Currency.GAUSSIAN: 0.005, Currency.ZCDP: 0.12}


def question(share: float, policy: Policy, label: str = "gradient 0") -> GaussianEvent:
    """One that costs this share of a block's budget."""
    mu_squared = share * float(policy.limit().amount * UNIT) * (1 if policy.currency is Currency.GAUSSIAN else 2)
    return GaussianEvent(
        label=label, sensitivity=2.0**30, sigma=2.0**30 / math.sqrt(mu_squared), coordinates=3, adjacency=Adjacency.ZERO_OUT
    )


def order(events: tuple[GaussianEvent, ...], blocks: tuple[str, ...], window: str) -> Reservation:
    return Reservation(
        model="m", data_set="d", unit="record", plan="p", events=events, window=window, manifest="m", files=(), blocks=blocks
    )


def outside(events: list[GaussianEvent], delta: float, *, pessimistic: bool) -> float:
    """Epsilon by dp_accounting alone: privacy loss distributions of Gaussian mechanisms, composed."""
    composed = None
    for event in events:
        one = pld.from_gaussian_mechanism(
            event.sigma / event.sensitivity, value_discretization_interval=1e-4, pessimistic_estimate=pessimistic
        )
        composed = one if composed is None else composed.compose(one)
    return float(composed.get_epsilon_for_delta(delta))


@pytest.mark.parametrize(
    ("currency", "nights"), [(Currency.GAUSSIAN, 410), *(pytest.param(each, 1095, marks=pytest.mark.sweep) for each in TOLERANCE)]
)
def test_years_of_nights_hold_every_block_under_its_policy(currency: Currency, nights: int) -> None:
    ledger = Ledger.create("sqlite://")
    policy = Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=4.0, delta=1e-6, currency=currency, blocks="day")
    ledger.set_policy(policy)
    night = (question(0.9999 / WINDOW, policy),)
    days = [f"day={date(2026, 11, 14) + timedelta(days=number)}" for number in range(nights)]
    for number in range(nights):
        ledger.reserve(order(night, tuple(days[max(0, number + 1 - WINDOW) : number + 1]), days[number]))
    with pytest.raises(BudgetExceeded, match=days[nights - WINDOW - 1]):
        ledger.reserve(order(night, tuple(days[-WINDOW - 1 :]), "one night too many for the oldest"))
    held = ledger.accounts("d")
    assert len(held) == nights
    assert all(spent.fits(policy.limit()) for spent in held.values())
    assert verify(ledger) == []
    blocks = block_budgets(ledger, "d")
    assert [block.block for block in blocks] == days
    assert {len(block.steps) for block in blocks[:-WINDOW]} == {WINDOW}
    assert [len(block.steps) for block in blocks[-WINDOW:]] == list(range(WINDOW, 0, -1))
    assert max(block.left for block in blocks[:-WINDOW]) < 0.001
    assert blocks[-1].refits_left == WINDOW - 1
    drawn = page(ledger)
    assert drawn.count("<path") == 400
    assert f"of {nights} blocks are drawn" in drawn
    for charged in (1, 9, WINDOW):
        block = blocks[-charged]
        least, most = (outside(list(night) * charged, policy.delta, pessimistic=sure) for sure in (False, True))
        assert least <= block.tight <= block.enforced <= policy.epsilon
        assert block.enforced <= most * (1 + TOLERANCE[currency])
        assert block.tight <= most * 1.005
    ledger.engine.dispose()


def test_a_million_tiny_charges_add_without_drift() -> None:
    rng = random.Random(20261114)
    events = [
        GaussianEvent(
            label="g", sensitivity=1.0 + rng.random(), sigma=1e6 * (1 + rng.random()), coordinates=1, adjacency=Adjacency.ZERO_OUT
        )
        for _ in range(1000)
    ]
    one = [cost([event], Currency.GAUSSIAN) for event in events]
    drawn = rng.choices(range(1000), k=1_000_000)
    total = sum((one[number] for number in drawn), Cost())
    times = np.bincount(drawn, minlength=1000).tolist()
    assert total.amount == sum(n * each.amount for n, each in zip(times, one, strict=True))
    assert total.mass == sum(n * each.mass for n, each in zip(times, one, strict=True))
    exact = sum((n * event.mu_squared for n, event in zip(times, events, strict=True)), Fraction(0))
    assert 0 <= total.amount * UNIT - exact <= 1_000_000 * UNIT, "rounded up, by less than one unit each"


def test_an_accountant_from_outside_gets_the_same_epsilon_from_the_export(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger.create(url)
    policy = Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=2.0, delta=1e-6, blocks="day")
    ledger.set_policy(policy)
    for number, share in enumerate((0.1, 0.2, 0.3)):
        asked, never = question(share, policy, "asked"), question(share, policy, "never asked")
        run = ledger.reserve(order((asked, never), ("day=1", f"day={number + 2}"), str(number)))
        run.asked(asked)
        run.answered(asked, np.array([1, 2, 3]))
        if number:
            ledger.abandon(run.run_id)
    said = CliRunner().invoke(app, ["ledger", "export", "--ledger", url])
    assert said.exit_code == 0, said.output
    records = [json.loads(line) for line in said.stdout.splitlines()]
    assert [record["state"] for record in records] == ["answered", "reserved", "answered", "refunded", "answered", "refunded"]
    for block in ("day=1", "day=2", "day=3"):
        paid = [record["event"] for record in records if block in record["blocks"] and record["state"] != "refunded"]
        assert {event["mechanism"] for event in paid} == {"discrete_gaussian"}
        composed = None
        for event in paid:
            one = pld.from_gaussian_mechanism(event["sigma"] / event["sensitivity"], value_discretization_interval=1e-4)
            composed = one if composed is None else composed.compose(one)
        enforced = epsilon_of(ledger.spent("d", block), policy.delta, policy.currency)
        assert enforced == pytest.approx(composed.get_epsilon_for_delta(policy.delta), rel=0.005)
    shown = {block.block: block for block in block_budgets(ledger, "d")}
    assert shown["day=1"].enforced == epsilon_of(ledger.spent("d", "day=1"), policy.delta, policy.currency)
    ledger.engine.dispose()


def test_the_ledger_is_shown_in_the_terminal_and_as_a_page_that_loads_nothing(tmp_path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    ledger = Ledger.create(url)
    policy = Policy(data_set="d", adjacency=Adjacency.ZERO_OUT, epsilon=2.0, delta=1e-6, currency=Currency.ZCDP, blocks="day")
    ledger.set_policy(policy)
    for number in range(4):
        ledger.reserve(order((question(0.2001, policy),), tuple(f"day={day}" for day in range(number + 1)), str(number)))
    said = CliRunner().invoke(app, ["ledger", "show", "--ledger", url, "--html", str(tmp_path / "page.html")], env={"COLUMNS": "160"})
    assert said.exit_code == 0, said.output
    assert f"│ day=0 │ {bar(0.2)} │ 20% │" in said.stdout
    assert f"│ day=3 │ {bar(0.8)} │ 80% │" in said.stdout
    written = (tmp_path / "page.html").read_text()
    assert written.count("<path") == 4
    assert "http" not in written.replace("http-equiv", "")
    assert "<script" not in written
    told = json.loads(CliRunner().invoke(app, ["ledger", "show", "--ledger", url, "--json"]).stdout)["blocks"]["d"]
    assert [block["refits_left"] for block in told] == [0, 1, 2, 3]
    assert all(block["tight"] < block["enforced"] for block in told)
    assert [len(block["steps"]) for block in told] == [4, 3, 2, 1]
    ledger.engine.dispose()
