"""An outsider who knows two neighbours, hears every answer of a refit and guesses on which of them it was made. Imports packages below.

His number is the likelihood ratio of all answers, or near it: for an answer a of noise sigma whose exact totals are s and t on the two,
((a - s) . (t - s) - |t - s|^2 / 2) / sigma^2. He knows who is in which part, group and block, because a guarantee over parts holds whoever
knows them. Of a Poisson sample he knows the coins of everybody but the unit that he wants to find, and believes that its coin falls like
theirs: with independent coins this is the rate, with shared ones it is certainty.

Any number that depends on answers alone is a valid score: where noise is not Gaussian, a coarser one is used, which proves less.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from nightfit.ledger import BudgetExceeded, Ledger, Policy
from nightfit.nightly.audit.neighbours import Neighbours, worst_cases
from nightfit.nightly.fit import asked_of, reservation_of
from nightfit.numerics.keystream import Key
from nightfit.numerics.prf import members_of
from nightfit.planning.plan import Plan
from nightfit.privacy.account import Account, InMemoryAccount, by_label
from nightfit.privacy.accounting import Currency
from nightfit.privacy.audit import LowerBound, lower_bound
from nightfit.privacy.gate import Gate
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.privacy.noise import Noise, OperatingSystemNoise
from nightfit.queries.base import Query
from nightfit.types import WHOLE, Array, Integers, NightfitError, Sample

ENOUGH_KEYS = 2**12  # the rarest part has one unit in a hundred: no key of so many holds it once in 10^17 times
PILOT = 12  # refits on each neighbour that choose the neighbours; the bound is made of others
MOST_NIGHTS = 3  # that the ledger is asked for: the lifetime is what one refit may cost


@dataclass(frozen=True, kw_only=True)
class Attack:
    """What was claimed, and what the attack proves; `nights` is how many refits the ledger let pass for one lifetime budget."""

    claimed: float
    delta: float
    bound: LowerBound
    neighbours: str
    runs: int
    nights: int

    @property
    def violated(self) -> bool:
        """Whether more is proved than was claimed."""
        return self.bound.epsilon > self.claimed


@dataclass
class Outsider:
    """The records of one of two neighbours, and the noise of its answers, both heard. `Records` and `Noise` of the gate."""

    neighbours: Neighbours
    number: int
    noise: Noise
    score: float = 0.0
    totals: tuple[Any, Any] = field(default=(None, None))
    belief: float = 1.0  # that the unit takes part

    @property
    def private(self) -> bool:
        return self.noise.private

    def aggregate(self, query: Query) -> Integers:
        """The query's integers, and what the outsider can compute of either neighbour by himself."""
        pair = self.neighbours
        own = query.chunk(pair.second if self.number else pair.first)
        if isinstance(query.draw, Sample):
            sampled: Any = query
            others = query.chunk(pair.others)
            joined = query.merge(others, replace(sampled, draw=WHOLE).chunk(pair.unit))
            drawn = members_of(sampled.key, query.draw, pair.others.owners)
            self.belief = (drawn.sum() + query.draw.rate) / (len(drawn) + 1)
            self.totals = _finalised(query, others), _finalised(query, joined)
        else:
            self.belief = 1.0
            self.totals = _finalised(query, query.chunk(pair.first)), _finalised(query, query.chunk(pair.second))
        return own

    def reported(self, query: ReportQuery, key: Key) -> Integers:
        raise NightfitError("local reports have no answers to hear")

    def discrete_gaussian(self, values: Integers, sigma: float) -> Integers:
        answer = self.noise.discrete_gaussian(values, sigma)
        first, second = self.totals
        apart, off = (second - first).astype(float), (answer - first).astype(float)
        self._heard(float(off @ apart - apart @ apart / 2) / sigma**2)
        return answer

    def largest(self, scores: Integers, count: int, scale: float) -> Integers:
        """The chance that Gumbel noise chooses these, one after the other and in any order: of one it is exact."""
        chosen = self.noise.largest(scores, count, scale)
        first, second = (total.astype(float) / scale for total in self.totals)
        self._heard(float((second - first)[chosen].sum() - count * (logsumexp(second) - logsumexp(first))))
        return chosen

    def smooth(self, values: Array, scales: Array, family: str, spread: float, grid: float) -> Integers:
        """As if noise had the density 1 / (1 + |z|)^2 in its scale."""
        answer = self.noise.smooth(values, scales, family, spread, grid)
        (first, bounds), (second, others) = self.totals
        ratio = scales / (others if self.number else bounds)
        told = np.asarray(answer * grid, dtype=np.float64)
        densities = [_heavy(told, centre, bound * ratio) for centre, bound in ((first, bounds), (second, others))]
        self._heard(float(densities[1] - densities[0]))
        return answer

    def uniform_integer(self, count: int) -> int:
        return self.noise.uniform_integer(count)

    def _heard(self, ratio: float) -> None:
        """Add the likelihood ratio of an answer that the unit may not have been asked for."""
        self.score += float(np.logaddexp(np.log1p(-self.belief) if self.belief < 1 else -np.inf, np.log(self.belief) + ratio))


def attacked(plan: Plan, *, runs: int, confidence: float, noise: Noise | None = None, in_memory: bool = False) -> Attack:
    """Refit many times on each of the worst neighbours, and bound epsilon from below.

    Each refit has a data set of its own in the ledger, with a lifetime budget of the plan's epsilon, and is repeated until the ledger
    refuses. With `in_memory` there is no ledger, and one refit of each.

    Guarantee: as `lower_bound`: if all that the ledger lets pass is epsilon-private at delta, the bound exceeds epsilon with probability
    at most 1 - confidence. The neighbours are chosen by refits of their own. Broken by
    test_what_is_proved_is_less_than_was_claimed_unless_something_is_broken.
    """
    budget = plan.specification.budget
    heard = Hearing(plan=plan, noise=noise or OperatingSystemNoise(), ledger=None if in_memory else Ledger.create("sqlite://"))
    pairs = list(worst_cases(plan.specification.preprocessing, plan.units, budget.adjacency))
    cases = [(pair, key) for pair in pairs for key in _keys(plan, pair)]
    worst, key = max(cases, key=lambda case: _separation(*heard.scores(case[0], case[1], PILOT)))
    first, second = heard.scores(worst, key, runs)
    gaussian = all(event.supports(Currency.GAUSSIAN) for event in plan.events)
    return Attack(
        claimed=budget.epsilon,
        delta=budget.delta,
        bound=lower_bound(first, second, delta=budget.delta, confidence=confidence, gaussian=gaussian),
        neighbours=worst.name,
        runs=runs,
        nights=heard.nights,
    )


def _keys(plan: Plan, pair: Neighbours) -> list[bytes]:
    """Keys of the division of units: one that fits on the changed unit and, if the plan holds units out, one that holds it out."""
    if plan.evaluation is None:
        return [bytes(16)]
    keys = (number.to_bytes(16) for number in itertools.count())
    divided = [(key, members_of(key, plan.evaluation.held_out_part, pair.unit.slots).all()) for key in itertools.islice(keys, ENOUGH_KEYS)]
    return [next(key for key, held in divided if held == wanted) for wanted in (False, True)]


@dataclass
class Hearing:
    """Refits of one plan, each on an account of its own."""

    plan: Plan
    noise: Noise
    ledger: Ledger | None
    made: int = 0
    nights: int = 0  # the most that one lifetime budget paid for

    def scores(self, pair: Neighbours, key: bytes, runs: int) -> tuple[Array, Array]:
        """The outsider's number of each refit on the first and on the second of two neighbours, whose units this key divides."""
        first, second = (np.array([self._score(pair, key, number) for _ in range(runs)]) for number in (0, 1))
        return first, second

    def _score(self, pair: Neighbours, key: bytes, number: int) -> float:
        """Nights until the ledger refuses."""
        outsider = Outsider(neighbours=pair, number=number, noise=self.noise)
        for night, account in enumerate(self._accounts()):
            self.nights = max(self.nights, night + 1)
            asked_of(self.plan, Gate(account=account, records=outsider, noise=outsider), key)
        return outsider.score

    def _accounts(self) -> Iterator[Account]:
        """The accounts that one lifetime budget pays for."""
        if self.ledger is None:
            secret = b"".join(self.noise.uniform_integer(2**32).to_bytes(4) for _ in range(8))
            yield InMemoryAccount(events=by_label(self.plan.events), secret=secret)
            return
        budget, self.made = self.plan.specification.budget, self.made + 1
        policy = Policy(
            data_set=f"audit-{self.made}",
            unit=budget.unit,
            adjacency=budget.adjacency,
            epsilon=budget.epsilon,
            delta=budget.delta,
            currency=budget.currency,
        )
        self.ledger.set_policy(policy)
        for night in range(MOST_NIGHTS):
            reservation = replace(reservation_of(self.plan, window=str(night), manifest="audit", files=()), data_set=policy.data_set)
            try:
                yield self.ledger.reserve(reservation)
            except BudgetExceeded:
                return


def _finalised(query: Any, total: Integers) -> Any:
    return query.finalise(total)


def _heavy(answer: Array, centre: Array, scale: Array) -> float:
    """The logarithm of the product of densities, up to a constant."""
    safe = np.maximum(scale, 1e-300)
    return float(-(2 * np.log1p(np.abs(answer - centre) / safe) + np.log(safe)).sum())


def _separation(first: Array, second: Array) -> float:
    """How far apart two sets of scores lie, in their deviations."""
    return float(abs(second.mean() - first.mean()) / (first.std() + second.std() + 1e-12))
