"""A search over a small grid of settings: every fit of it is paid, or the best of a random number of them. Imports fit and below.

Two payments, of which a plan takes the cheaper. *All charged*: every setting is fitted and scored, and all of it is charged and may be
told. *Repetition*: settings are drawn by lot, fitted and scored, a random number of times, and only the best is told (Liu, Talwar 2019;
Papernot, Steinke 2022). A score is the noisy mean loss of a fit on the records that it was fitted to.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from nightfit.ledger import Policy, Run
from nightfit.methods.procedure import Outcome, Progress
from nightfit.nightly.fit import closed
from nightfit.planning.plan import Plan, PlanError
from nightfit.planning.specification import Budget
from nightfit.plugins import described
from nightfit.privacy.accounting import UNIT, Currency, CurrencyError, cost, tight_epsilon
from nightfit.privacy.calibration import gaussian_event
from nightfit.privacy.events import Event, GaussianEvent, RepeatedEvent
from nightfit.privacy.gate import Account, Gate, Records
from nightfit.privacy.noise import Noise
from nightfit.problem.losses import Loss
from nightfit.queries.loss_sums import LossSum, Margin
from nightfit.records.preprocessing import Preprocessing
from nightfit.release import Release
from nightfit.release.words import in_words
from nightfit.types import Adjacency, Integers

SCORE, SEARCH, CHEAPER = "score", "search", "cheaper"
ROUNDS = 2  # of the grid, on average, in a repetition: a setting is then tried with a probability of 2 / 3 and more


@dataclass(frozen=True, kw_only=True)
class Score:
    """The question that scores a fit: its mean loss over units, of which one counts at most `most`, with noise of `multiplier`
    sensitivities. The loss of a person is the mean of their rows'."""

    loss: Loss
    most: float
    multiplier: float
    units: int
    bits: int
    adjacency: Adjacency

    def query(self, outcome: Outcome, shape: Preprocessing) -> LossSum:
        margin = Margin.of(outcome.weights, outcome.preprocessing or shape, shape)
        return LossSum(loss=self.loss, margin=margin, most=self.most, bits=self.bits)

    def event(self) -> GaussianEvent:
        """Whatever the weights will be, the sensitivity is the same."""
        nowhere = np.zeros(0)
        query = LossSum(loss=self.loss, margin=Margin(weights=nowhere, centre=nowhere, scale=nowhere), most=self.most, bits=self.bits)
        return gaussian_event(query, SCORE, self.adjacency, self.multiplier)

    def mean_loss(self, answer: float) -> float:
        """most (1 + answer / units) / 2."""
        return self.most * (1 + answer / self.units) / 2

    @property
    def noise(self) -> float:
        """Its standard deviation in a mean loss."""
        return self.most * self.multiplier * self.adjacency.contributions_changed / (2 * self.units)


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A point of the grid: what it sets, in the configuration's words, the plan of its fit, and its score. An attempt of the gate's."""

    said: dict[str, Any]
    plan: Plan
    scored: Score

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return (*self.plan.events, self.scored.event())

    def fitted(self, gate: Gate, show: Callable[[Progress], None] = lambda _: None) -> tuple[Outcome, float]:
        """The fit and its noisy mean loss."""
        outcome = self.plan.procedure.run(gate, show)
        answer = gate.ask(SCORE, self.scored.query(outcome, self.plan.specification.preprocessing))
        return outcome, self.scored.mean_loss(float(answer[0]))

    def score(self, gate: Gate) -> float:
        """The mean loss, or infinity where the answers lead to no fit; nothing is shown on the way, not even that."""
        try:
            return self.fitted(gate)[1]
        except (ArithmeticError, np.linalg.LinAlgError):
            return math.inf


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best setting's place, its fit, and the scores that may be told, by place."""

    place: int
    outcome: Outcome
    scores: dict[int, float]


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a payment would cost: epsilon at the budget's delta, and the share of a block's lifetime budget if there is one."""

    payment: str
    epsilon: float
    share: float | None

    def said(self) -> str:
        share = "" if self.share is None else f" and {self.share:.3g} of the lifetime budget"
        return f"{self.payment}: epsilon {self.epsilon:.4g}{share}"


class _Payment:
    """Shared by both payments: what a plan wants to know of its procedure."""

    prediction: ClassVar[None] = None
    settings: tuple[Setting, ...]
    chosen: int | None
    offers: tuple[str, ...]
    why: str
    payment: str

    @property
    def engine(self) -> str:
        return " and ".join(sorted({setting.plan.procedure.engine for setting in self.settings}))

    @property
    def private(self) -> bool:
        return all(setting.plan.procedure.private for setting in self.settings)

    def coefficient_noise(self) -> float | None:
        return None if self.chosen is None else self.settings[self.chosen].plan.procedure.coefficient_noise()

    def describe(self) -> dict[str, Any]:
        first = self.settings[0].scored
        own = {} if self.chosen is None else self.settings[self.chosen].plan.procedure.describe()
        return {
            **own,
            "search": {
                "payment": self.payment,
                "settings": [{"said": setting.said, "plan": setting.plan.digest()} for setting in self.settings],
                "score": {"loss": described(first.loss), "most": first.most, "sigma": first.event().sigma, "bits": first.bits},
            },
        }

    def run(self, gate: Gate, show: Callable[[Progress], None]) -> Outcome:
        return self.search(gate, show).outcome

    def search(self, gate: Gate, show: Callable[[Progress], None]) -> Found:
        raise NotImplementedError

    def explain(self) -> list[str]:
        first = self.settings[0]
        budget = first.plan.specification.budget
        return [
            f"Search over {len(self.settings)} settings, each fitted at epsilon {budget.epsilon:.4g} and scored by its mean "
            f"{described(first.scored.loss)['kind']} loss (one {budget.unit} counts at most {first.scored.most:.4g}), with noise of "
            f"{first.scored.noise:.3g}:",
            *(f"- {in_words(setting.said)}" for setting in self.settings),
            "What it would cost in all:",
            *(f"- {offer}" for offer in self.offers),
            f"Payment: {self.payment}{self.why}. {self.how()}",
        ]

    def how(self) -> str:
        """What is done and told, in words."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class AllCharged(_Payment):
    """Every setting is fitted and scored under labels of its own; all answers are charged, stored and may be told.

    Guarantee: the cost is that of all questions together (accounting.cost), in whatever order and however they depend on each other;
    all settings draw parts from one key, so a record is in the same parts in all of them. Broken by
    test_a_search_that_charges_all_costs_what_its_questions_add_to.
    """

    settings: tuple[Setting, ...]
    chosen: int | None = None
    offers: tuple[str, ...] = field(default=(), compare=False)
    why: str = field(default="", compare=False)
    payment: str = field(default="all", init=False)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        return tuple(event for place, setting in enumerate(self.settings) for event in Share.of(place, setting.events).values())

    @property
    def passes(self) -> int:
        return len(self.events)

    def search(self, gate: Gate, show: Callable[[Progress], None]) -> Found:
        steps = len(self.settings)
        outcomes, scores = [], {}
        for place, setting in enumerate(self.settings):
            share = Share(account=gate.account, events=_named(setting.events), paid=Share.of(place, setting.events))
            outcome, scores[place] = setting.fitted(replace(gate, account=share))
            outcomes.append(outcome)
            show(Progress(step=place + 1, steps=steps, moved=float(np.linalg.norm(outcome.weights)), noise=math.nan))
        best = min(scores, key=lambda place: scores[place])
        return Found(place=best, outcome=outcomes[best], scores=scores)

    def how(self) -> str:
        return "All are fitted and charged; all scores are told, and the best fit is released."


@dataclass(frozen=True, kw_only=True)
class Repetition(_Payment):
    """The best of a geometric number of fits, each of a setting by lot: one question of the ledger. See Gate.repeat."""

    settings: tuple[Setting, ...]
    mean: int
    chosen: int | None = None
    offers: tuple[str, ...] = field(default=(), compare=False)
    why: str = field(default="", compare=False)
    payment: str = field(default="repetition", init=False)

    @cached_property
    def events(self) -> tuple[Event, ...]:
        costs = [cost(setting.events, Currency.ZCDP) for setting in self.settings]
        if any(spent.mass for spent in costs):
            raise CurrencyError("an approximate question has no place in a repetition: only its rho is known to repeat")
        dearest = float(max(spent.amount for spent in costs) * UNIT)
        return (
            RepeatedEvent(
                label=SEARCH,
                attempt_rho=math.nextafter(dearest, math.inf),
                mean=self.mean,
                coordinates=1 + max(sum(1 + event.coordinates for event in setting.events) for setting in self.settings),
                adjacency=self.settings[0].scored.adjacency,
            ),
        )

    @property
    def passes(self) -> int:
        return self.mean * max(len(setting.events) for setting in self.settings)

    @property
    def tried(self) -> float:
        """The probability that a setting is tried at all: mean / (mean + settings - 1), because one that is left out k times in a row
        has (1 - 1/m)^k, and E (1 - 1/m)^K of a geometric K is (m - 1) / (mean + m - 1).
        """
        return self.mean / (self.mean + len(self.settings) - 1)

    def search(self, gate: Gate, show: Callable[[Progress], None]) -> Found:
        place, stored = gate.repeat(SEARCH, self.settings)
        outcome, score = self.settings[place].fitted(stored)
        return Found(place=place, outcome=outcome, scores={place: score})

    def how(self) -> str:
        return (
            f"Settings are drawn by lot and fitted, {self.mean} times on average; each is tried with a probability of {self.tried:.2g}. "
            "Only the best fit is told: not how many there were, nor anything of the others."
        )


@dataclass(frozen=True, kw_only=True)
class Share:
    """The questions of one setting inside the account of a search that is charged for all, where they have labels of their own."""

    account: Account
    events: dict[str, Event]
    paid: dict[str, Event]

    @staticmethod
    def of(place: int, events: tuple[Event, ...]) -> dict[str, Event]:
        """By their labels in the setting, the events as the whole search reserves them."""
        return {event.label: _labelled(event, f"setting {place + 1}: {event.label}") for event in events}

    @property
    def key(self) -> bytes:
        return self.account.key

    @property
    def secret(self) -> bytes:
        return self.account.secret

    def asked(self, event: Event) -> Integers | None:
        return self.account.asked(self.paid[event.label])

    def answered(self, event: Event, answer: Integers) -> None:
        self.account.answered(self.paid[event.label], answer)


def make(settings: Sequence[Setting], *, epsilon: float, payment: str, mean: int | None, policy: Policy | None) -> Plan:
    """The plan of a search that costs at most epsilon: by the named payment, or the cheaper one."""
    first = settings[0].plan
    for setting in settings:
        _check(setting, first)
    budget = replace(first.specification.budget, epsilon=epsilon)
    offered, refused = {}, []
    for paid in (AllCharged(settings=tuple(settings)), Repetition(settings=tuple(settings), mean=mean or ROUNDS * len(settings))):
        try:
            offered[_offer(paid, budget, policy)] = paid
        except CurrencyError as error:
            refused.append(f"{paid.payment}: not possible ({error})")
    wanted = [offer for offer in offered if payment in (CHEAPER, offer.payment)]
    if not wanted:
        raise PlanError(f"search.payment {refused[0]}")
    best = min(wanted, key=lambda offer: offer.epsilon if offer.share is None else offer.share)
    if best.epsilon > epsilon:
        raise PlanError(
            f"the search would cost epsilon {best.epsilon:.4g} at delta {budget.delta:g}, more than search.epsilon {epsilon:g}: "
            "lower privacy.epsilon, which is what one fit costs, take fewer settings, or allow more"
        )
    why = "" if len(wanted) < 2 else ", the cheaper" if best.share is None else ", the cheaper for the ledger"
    procedure = replace(offered[best], offers=(*(offer.said() for offer in offered), *refused), why=why)
    return Plan(specification=replace(first.specification, budget=budget), units=first.units, procedure=procedure)


def _offer(paid: "AllCharged | Repetition", budget: Budget, policy: Policy | None) -> Offer:
    if policy is None:
        cost(paid.events, budget.currency, budget.renyi_order)  # a CurrencyError if no such policy can carry it
        return Offer(payment=paid.payment, epsilon=tight_epsilon(paid.events, budget.delta), share=None)
    needed, limit = policy.cost(paid.events), policy.limit()
    share = max(needed.amount / limit.amount, needed.mass / limit.mass if limit.mass else 0.0)
    return Offer(payment=paid.payment, epsilon=tight_epsilon(paid.events, budget.delta), share=share)


def _check(setting: Setting, first: Plan) -> None:
    said = setting.plan.specification
    if said.of_columns or said.local is not None:
        raise PlanError("a search scores predictions from records: it is for model.kind linear with privacy.trust central")
    if said.preprocessing != first.specification.preprocessing:
        raise PlanError(f"search: {in_words(setting.said)} changes how records are read, which all settings must share: vary other fields")
    if any(event.sampled for event in setting.plan.events):
        raise PlanError(f"search: {in_words(setting.said)} reads Poisson samples, which cannot be searched: use batch full or splits")


def searched(plan: Plan, records: Records, run: Run, noise: Noise, show: Callable[[Progress], None] = lambda _: None) -> Release:
    """Search as the plan says and release the best fit, with the guarantee of the whole search; a finished search is returned."""
    procedure = plan.procedure
    assert isinstance(procedure, AllCharged | Repetition)
    found = procedure.search(Gate(account=run, records=records, noise=noise), show)
    best = procedure.settings[found.place]
    specification = replace(best.plan.specification, budget=plan.specification.budget)
    chosen = replace(plan, specification=specification, procedure=replace(procedure, chosen=found.place), theorem=best.plan.theorem)
    told = {
        "payment": procedure.payment,
        "chosen": best.said,
        "scores": [{"setting": procedure.settings[place].said, "score": score} for place, score in found.scores.items()],
        "score_noise": best.scored.noise,
    }
    return closed(chosen, found.outcome, run, noise, plan_digest=plan.digest(), search=told)


def _named(events: tuple[Event, ...]) -> dict[str, Event]:
    return {event.label: event for event in events}


def _labelled(event: Event, label: str) -> Event:
    renamed: Event = replace(event, label=label)  # type: ignore[type-var]
    return renamed
