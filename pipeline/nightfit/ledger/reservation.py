"""What a plan asks the ledger to set aside, and whether its policy allows that. Imports accounting, events, policy."""

from dataclasses import dataclass, replace

from nightfit.ledger.errors import LedgerError
from nightfit.ledger.policy import ALL, Policy, buckets_of
from nightfit.privacy.accounting import Cost, Currency, CurrencyError, RenyiOrder, epsilon_of, short_of
from nightfit.privacy.events import Event
from nightfit.types import RECORD, Adjacency


@dataclass(frozen=True, kw_only=True, slots=True)
class Shared:
    """Queries that another run pays for, and whose stored answers a run takes.

    Parameters
    ----------
    run
        The run that pays.
    events
        The queries, as that run reserved them.
    """

    run: str
    events: tuple[Event, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reservation:
    """What a plan asks the ledger to set aside.

    Parameters
    ----------
    model, data_set, unit
        Of the refit.
    plan
        Digest of the plan.
    events
        Every query of the plan.
    window
        Names what the run reads. A secret function of the data, as are manifest and files: the ledger keeps only their HMACs.
    manifest
        What the window holds now.
    files
        Fingerprints of the data set's files.
    private
        Whether the run's noise is private.
    blocks
        The blocks of the data set that are read and charged.
    buckets
        Into how many hash buckets the run divides the units that it reads; None if its blocks are no buckets.
    row_id
        The column by which records are in a bucket; None if its blocks are no buckets of records.
    homes
        The hive block of each file, where blocks are folders.
    shared
        What another run of the same records pays for; it is no part of `events`, and costs nothing here.
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
    buckets: int | None = None
    row_id: str | None = None
    shared: Shared | None = None

    @property
    def single_order(self) -> bool:
        """Whether some event has its price at one Renyi order only."""
        return any(event.single_order for event in self.events)

    @property
    def renumbers(self) -> bool:
        """Whether a unit that comes or goes changes the slots of others: records do, whose slots are their places.

        Guarantee: such a run divides its units by a key of its own. Under one key for all nights, whether files hold the others in the
        same places again would decide whether the same ones are held out again, and a sum over thousands would tell of the one in front.
        Under a secret key that is drawn for the run, the others' parts have one distribution with it and without it. Broken by
        test_a_record_that_comes_or_goes_is_not_told_by_who_else_is_held_out.
        """
        return self.unit == RECORD and any(event.adjacency is Adjacency.ADD_REMOVE for event in self.events)


def price(reservation: Reservation, policy: Policy) -> Cost:
    """The cost of a reservation under the data set's policy.

    Raises
    ------
    LedgerError
        If the policy's currency does not support an event.
    """
    try:
        return policy.cost(reservation.events)
    except CurrencyError as error:
        raise LedgerError(f"{reservation.data_set}: {error}") from None


def check_fits_policy(reservation: Reservation, policy: Policy) -> None:
    """Refuse a reservation of another unit, adjacency or division than the policy's.

    Guarantee: a run reads a unit only in blocks that it charges. The division that it reads by is part of the reservation and is the
    policy's: hash:2 of one run and hash:64 of the policy would call different units `bucket 1`, and so would hashes of two columns.
    Broken by test_a_run_that_reads_by_another_division_than_the_policy_s_is_refused and
    test_a_run_that_reads_buckets_of_another_column_is_refused.

    Raises
    ------
    LedgerError
        With the reason.
    """
    adjacencies = sorted({str(event.adjacency) for event in reservation.events})
    if reservation.unit != policy.unit or adjacencies != [policy.adjacency]:
        raise LedgerError(
            f"{reservation.data_set}: the policy protects one {policy.unit} under {policy.adjacency}, the plan one {reservation.unit} "
            f"under {' and '.join(adjacencies)}: guarantees of different kinds do not add; use the policy's"
        )
    blocks = reservation.blocks
    if not blocks or len(set(blocks)) != len(blocks) or not all(_is_block(name, policy.blocks) for name in blocks):
        charged = ", ".join(blocks) or "no block"
        raise LedgerError(f"{reservation.data_set}: the policy divides the data set by {policy.blocks}, the plan charges {charged}")
    _check_buckets(reservation, policy)


def _check_buckets(reservation: Reservation, policy: Policy) -> None:
    """Refuse buckets of another number, or of another column, than the policy's."""
    if reservation.buckets != buckets_of(policy.blocks):
        read = "no buckets" if reservation.buckets is None else f"hash:{reservation.buckets}"
        raise LedgerError(
            f"{reservation.data_set}: the policy divides the data set by {policy.blocks}, and the run would read it by {read}: a unit "
            f"would be read in one block and charged in another; remove data.blocks, or set it to {policy.blocks}"
        )
    if reservation.buckets is None or policy.unit != RECORD:
        return
    if policy.row_id is None:
        raise LedgerError(
            f"{reservation.data_set}: the policy does not say which column names a record's bucket; state it once, the one that every "
            "earlier run used, with `nightfit ledger policy set --row-id COLUMN --override REASON`"
        )
    if reservation.row_id != policy.row_id:
        raise LedgerError(
            f"{reservation.data_set}: the policy's buckets are of {policy.row_id!r}, and data.row_id is {reservation.row_id!r}: a record "
            f"would be in two buckets, and have two budgets; set data.row_id to {policy.row_id}"
        )


def _is_block(name: str, blocks: str) -> bool:
    """Whether this is the name of a block: `all`, `bucket 7` of hash:N, or `day=2026-11-14` of the hive key day."""
    count = buckets_of(blocks)
    if count is not None:
        return name in {f"bucket {number}" for number in range(count)}
    return name == ALL if blocks == ALL else name.startswith(f"{blocks}=")


def refusal(
    reservation: Reservation, policy: Policy, block: str, spent: Cost, needed: Cost, order: RenyiOrder | None, waiting: dict[str, Cost]
) -> str:
    """Why a reservation does not fit, what is spent, what would still fit, and which unfinished runs hold a part of the budget."""
    left = policy.limit() - spent
    fraction = max(0.0, min(left.amount / needed.amount, left.mass / needed.mass if needed.mass else 1.0))
    used = epsilon_of(spent, policy.delta, policy.currency, order)
    alone = epsilon_of(needed, policy.delta, policy.currency, order)
    return (
        f"{reservation.model}: this refit does not fit the lifetime budget of {reservation.data_set!r} (block {block}): "
        f"epsilon {used:.4g} of {policy.epsilon:g} is spent at delta {policy.delta:g}, and the plan alone would cost {alone:.4g}; "
        f"what is left would pay {fraction:.0%} of it. What binds is the {short_of(needed, left, policy.currency)}. "
        f"Nothing was read or charged. Lower epsilon, wait for new data, or widen the policy{_other_currencies(reservation, policy)}"
        f"{_unfinished(waiting, policy, order)}"
    )


def _other_currencies(reservation: Reservation, policy: Policy) -> str:
    """Currencies in which a policy of the same epsilon and delta would hold the reservation more often; empty if there are none."""

    def times(currency: Currency) -> int:
        other = replace(policy, currency=currency, lattice_share=None).made()
        try:
            cost, limit = other.cost(reservation.events), other.limit()
        except CurrencyError:
            return 0
        return min([limit.amount // cost.amount, *([limit.mass // cost.mass] if cost.mass else [])])

    now = times(policy.currency)
    better = [f"{often:,} such refits in the currency {currency}" for currency in Currency if (often := times(currency)) > now]
    if not better:
        return ""
    return f"; a new policy of this epsilon and delta would hold {' or '.join(better)} (in {policy.currency}: {now:,})"


def _unfinished(waiting: dict[str, Cost], policy: Policy, order: RenyiOrder | None) -> str:
    """Which reserved runs are unfinished, and what abandoning each would give back; empty if there are none."""
    told = [f"{run_id} (epsilon {epsilon_of(cost, policy.delta, policy.currency, order):.4g})" for run_id, cost in waiting.items()]
    if not told:
        return ""
    return (
        f". Unfinished runs hold a part of the budget: {', '.join(told)}; `nightfit ledger abandon RUN` gives back what stands beside it, "
        "and running its refit again finishes it"
    )
