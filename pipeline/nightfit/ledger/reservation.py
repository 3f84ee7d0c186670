"""What a plan asks the ledger to set aside: whether the policy allows it, what it costs, and what is said where that is too much.
Imports accounting, events, policy.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from nightfit.ledger.errors import LedgerError
from nightfit.ledger.policy import ALL, Policy, buckets_of
from nightfit.privacy.accounting import Cost, CurrencyError, RenyiOrder, epsilon_of
from nightfit.privacy.events import Event, RepeatedEvent
from nightfit.types import Sample


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What a plan asks the ledger to set aside.

    `window` names what the run reads and `manifest` what that is now: both are secret functions of the data, so the ledger keeps
    only their HMAC. `files` are the fingerprints of the data set's files, `homes` the hive blocks that they lie in, if any.
    """

    model: str
    data_set: str
    unit: str
    plan: str
    events: tuple[Event, ...]
    window: str
    manifest: str
    files: tuple[str, ...]
    private: bool = True
    blocks: tuple[str, ...] = (ALL,)
    homes: tuple[str, ...] = ()


def repriced(events: Iterable[Event]) -> bool:
    """Whether some event has its price at one Renyi order only."""
    return any(isinstance(event.draw, Sample) or isinstance(event, RepeatedEvent) for event in events)


def price(order: Order, policy: Policy) -> Cost:
    try:
        return policy.cost(order.events)
    except CurrencyError as error:
        raise LedgerError(f"{order.data_set}: {error}") from None


def check_fits_policy(order: Order, policy: Policy) -> None:
    adjacencies = sorted({str(event.adjacency) for event in order.events})
    if order.unit != policy.unit or adjacencies != [policy.adjacency]:
        raise LedgerError(
            f"{order.data_set}: the policy protects one {policy.unit} under {policy.adjacency}, the plan one {order.unit} under "
            f"{' and '.join(adjacencies)}: guarantees of different kinds do not add; use the policy's"
        )
    if not order.blocks or len(set(order.blocks)) != len(order.blocks) or not all(_is_block(name, policy.blocks) for name in order.blocks):
        charged = ", ".join(order.blocks) or "no block"
        raise LedgerError(f"{order.data_set}: the policy divides the data set by {policy.blocks}, the plan charges {charged}")


def _is_block(name: str, blocks: str) -> bool:
    """Whether this is the name of a block: `all`, `bucket 7` of hash:N, or `day=2026-11-14` of the hive key day."""
    count = buckets_of(blocks)
    if count is not None:
        return name in {f"bucket {number}" for number in range(count)}
    return name == ALL if blocks == ALL else name.startswith(f"{blocks}=")


def refusal(order: Order, policy: Policy, block: str, spent: Cost, needed: Cost, renyi: RenyiOrder | None) -> str:
    left = policy.limit() - spent
    fraction = max(0.0, min(left.amount / needed.amount, left.mass / needed.mass if needed.mass else 1.0))
    used = epsilon_of(spent, policy.delta, policy.currency, renyi)
    alone = epsilon_of(needed, policy.delta, policy.currency, renyi)
    return (
        f"{order.model}: this refit does not fit the lifetime budget of {order.data_set!r} (block {block}): "
        f"epsilon {used:.4g} of {policy.epsilon:g} is spent at delta {policy.delta:g}, and the plan alone would cost {alone:.4g}; "
        f"what is left would pay {fraction:.0%} of it. Nothing was read or charged. Lower epsilon, wait for new data, or widen the policy"
    )
