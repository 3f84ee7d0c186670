"""The plan of a search: check its settings, price both payments and take the cheaper one. Imports planning, ledger and below."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nightfit.ledger import Policy
from nightfit.nightly.search.payments import AllCharged, Repetition
from nightfit.nightly.search.procedure import Search
from nightfit.nightly.search.settings import Setting
from nightfit.planning.plan import Plan, PlanError
from nightfit.planning.specification import Budget
from nightfit.privacy.accounting import CurrencyError, cost, tight_epsilon
from nightfit.release.words import in_words

CHEAPER = "cheaper"
ROUNDS = 2  # mean number of fits of a repetition, per setting: each setting is then tried with a probability of at least 2 / 3


@dataclass(frozen=True, kw_only=True)
class Offer:
    """What a payment would cost: epsilon at the budget's delta, and the share of a block's lifetime budget if there is one."""

    payment: str
    epsilon: float
    share: float | None

    @property
    def price(self) -> float:
        """What offers are compared by: the share of the lifetime budget, or epsilon without one."""
        return self.epsilon if self.share is None else self.share

    def explain(self) -> str:
        share = "" if self.share is None else f" and {self.share:.3g} of the lifetime budget"
        return f"{self.payment}: epsilon {self.epsilon:.4g}{share}"


def make(settings: Sequence[Setting], *, epsilon: float, payment: str, mean: int | None, policy: Policy | None) -> Plan:
    """The plan of a search that costs at most epsilon.

    Parameters
    ----------
    settings : sequence of Setting
        What to try; all read the same records.
    epsilon : float
        The most that the whole search may cost.
    payment : {"cheaper", "all", "repetition"}
        Which payment to take.
    mean : int, optional
        Mean number of fits of a repetition.
    policy : Policy, optional
        The data set's policy, of whose budget offers take a share.

    Returns
    -------
    Plan

    Raises
    ------
    PlanError
        If a setting cannot be searched, or the search costs more than epsilon.
    """
    first = settings[0].plan
    for setting in settings:
        _check(setting, first)
    budget = replace(first.specification.budget, epsilon=epsilon)
    offered, refused = _offers(tuple(settings), mean or ROUNDS * len(settings), budget, policy)
    wanted = [offer for offer in offered if payment in (CHEAPER, offer.payment)]
    if not wanted:
        raise PlanError(f"search.payment {refused[0]}")
    best = min(wanted, key=lambda offer: offer.price)
    if best.epsilon > epsilon:
        raise PlanError(
            f"the search would cost epsilon {best.epsilon:.4g} at delta {budget.delta:g}, more than search.epsilon {epsilon:g}: "
            "lower privacy.epsilon, which is what one fit costs, take fewer settings, or allow more"
        )
    why = "" if len(wanted) < 2 else ", the cheaper" if best.share is None else ", the cheaper for the ledger"
    procedure = replace(offered[best], offers=(*(offer.explain() for offer in offered), *refused), why=why)
    return Plan(specification=replace(first.specification, budget=budget), units=first.units, procedure=procedure)


def _offers(settings: tuple[Setting, ...], mean: int, budget: Budget, policy: Policy | None) -> tuple[dict[Offer, Search], list[str]]:
    """What each possible payment would cost, and why the others are not possible."""
    offered, refused = {}, []
    for paid in (AllCharged(), Repetition(mean)):
        search = Search(settings=settings, payment=paid)
        try:
            offered[_offer(search, budget, policy)] = search
        except CurrencyError as error:
            refused.append(f"{paid.name}: not possible ({error})")
    return offered, refused


def _offer(search: Search, budget: Budget, policy: Policy | None) -> Offer:
    """What a search would cost; a CurrencyError if the accounting cannot express it."""
    epsilon = tight_epsilon(search.events, budget.delta)
    if policy is None:
        cost(search.events, budget.currency, budget.renyi_order)
        return Offer(payment=search.payment.name, epsilon=epsilon, share=None)
    needed, limit = policy.cost(search.events), policy.limit()
    share = max(needed.amount / limit.amount, needed.mass / limit.mass if limit.mass else 0.0)
    return Offer(payment=search.payment.name, epsilon=epsilon, share=share)


def _check(setting: Setting, first: Plan) -> None:
    specification = setting.plan.specification
    if specification.of_columns or specification.local is not None:
        raise PlanError("a search scores predictions from records: it is for model.kind linear with privacy.trust central")
    if specification.preprocessing != first.specification.preprocessing:
        raise PlanError(
            f"search: {in_words(setting.values)} changes how records are read, which all settings must share: vary other fields"
        )
    if any(event.sampled for event in setting.plan.events):
        raise PlanError(f"search: {in_words(setting.values)} reads Poisson samples, which cannot be searched: use batch full or splits")
