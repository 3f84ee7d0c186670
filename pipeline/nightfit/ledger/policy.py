"""The lifetime budget of every block of a data set. Imports accounting, events and nightfit.types."""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Literal

from nightfit.privacy.accounting import Cost, Currency, RenyiOrder, cost, lattice_share_for, limit, renyi_order_for
from nightfit.privacy.events import Event
from nightfit.types import RECORD, Adjacency

ALL = "all"
MOST_BUCKETS = 65_536  # a reservation and a checkpoint list the buckets by name
OPTIONAL = ("row_id", "earlier_rows", "lattice_share")  # left out of the stored form where there is none
Period = Literal["life", "year"]


def buckets_of(blocks: str) -> int | None:
    """N of `hash:N`; None if blocks are not buckets of hashed ids."""
    match = re.fullmatch(r"hash:(\d{1,9})", blocks)
    return int(match[1]) if match else None


def check_blocks(blocks: str, unit: str) -> None:
    """Refuse what is no division of a data set, and one in which a unit would have many budgets.

    Parameters
    ----------
    blocks
        all, the name of a hive key, or hash:N.
    unit
        Of the policy.

    Raises
    ------
    ValueError
        With the reason.
    """
    count = buckets_of(blocks)
    if count is not None and not 2 <= count <= MOST_BUCKETS:
        raise ValueError(f"blocks are {blocks!r}: use from 2 to {MOST_BUCKETS} buckets, such as hash:64")
    if count is None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", blocks):
        raise ValueError(f"blocks are {blocks!r}: use all, the name of a hive key such as day, or hash:64")
    if unit != RECORD and blocks != ALL and count is None:
        raise ValueError(
            f"one {unit} cannot be protected by blocks of {blocks}: a person's rows return in many of them, so that a budget for each "
            f"would be many budgets for one person; use blocks all, or hash:64, which keeps all rows of a {unit} in one bucket"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """The promise of a data set: all that is ever released of a block is (epsilon, delta) private for one unit.

    Parameters
    ----------
    data_set
        Its name.
    unit
        Whom it protects: record, label, or the column of a person.
    adjacency
        Which data sets are neighbours.
    epsilon, delta
        The budget of each block.
    currency
        In which costs are added and refused.
    blocks
        How the data set is divided: all, a hive key, or hash:N buckets of hashed ids.
    per
        life, or year: renewed every calendar year.
    row_id
        For hash:N buckets of records: the column whose hash names a record's bucket, for life. A person's is the unit.
    lattice_share
        Of delta, for the lattices of discrete noise; None for the usual one. The ledger fixes it when the policy is made.
    earlier_rows
        If the data set protected records before it protected persons: how many rows of one person the runs of that time read at most, as
        was stated then. It never changes.

    Notes
    -----
    Guarantee: blocks are disjoint and a unit stays in one, so whoever is in a block meets the costs of that block's runs only, and
    their sum is at most the limit (parallel composition under an adaptive filter). Per year, that holds for each year by itself.
    Broken by test_years_of_nights_hold_every_block_under_its_policy.
    """

    data_set: str
    unit: str = RECORD
    adjacency: Adjacency
    epsilon: float
    delta: float
    currency: Currency = Currency.GAUSSIAN
    blocks: str = ALL
    per: Period = "life"
    row_id: str | None = None
    lattice_share: float | None = None
    earlier_rows: int | None = None

    def limit(self) -> Cost:
        """The largest cost that a block may have."""
        if self.lattice_share is None:
            return limit(self.epsilon, self.delta, self.currency)
        return limit(self.epsilon, self.delta, self.currency, Fraction(self.lattice_share))

    def made(self) -> "Policy":
        """The policy with the share of delta for lattices that suits its epsilon."""
        share = lattice_share_for(self.epsilon)
        large = self.currency is Currency.GAUSSIAN and share != lattice_share_for(0.0)
        return replace(self, lattice_share=float(share) if large else None)

    @property
    def renyi_order(self) -> RenyiOrder | None:
        """At which Poisson samples and repeated attempts are priced; None in other currencies than zcdp."""
        return renyi_order_for(self.epsilon, self.delta) if self.currency is Currency.ZCDP else None

    def cost(self, events: Iterable[Event]) -> Cost:
        """What events cost under this policy; a CurrencyError if its currency does not support one.

        A replaced unit may have another id, and with it another bucket: where buckets are blocks, a unit's removal counts twice.
        """
        return cost(events, self.currency, self.renyi_order, other_blocks=buckets_of(self.blocks) is not None)

    def check(self) -> None:
        """Refuse what is no policy; a ValueError with the reason."""
        self.limit()
        check_blocks(self.blocks, self.unit)
        by_record = buckets_of(self.blocks) is not None and self.unit == RECORD
        if by_record and self.row_id is None:
            raise ValueError(
                f"blocks are {self.blocks}: name the column that identifies a record for life (data.row_id, --row-id); by another column "
                "a record would be in another bucket, and have two budgets"
            )
        if not by_record and self.row_id is not None:
            raise ValueError(f"row_id names the buckets of records, and blocks are {self.blocks} of one {self.unit}: remove it")

    def account(self, block: str, year: int) -> str:
        """The name of a block's account: the block's, with the year if the budget is renewed."""
        return block if self.per == "life" else f"{block} in {year}"

    def as_dict(self) -> dict[str, object]:
        """The stored form."""
        stored = {**asdict(self), "adjacency": str(self.adjacency), "currency": str(self.currency)}
        return {name: value for name, value in stored.items() if name not in OPTIONAL or value is not None}

    @classmethod
    def from_dict(cls, stored: dict[str, str | float]) -> "Policy":
        """Read the stored form."""
        return cls(
            data_set=str(stored["data_set"]),
            unit=str(stored["unit"]),
            adjacency=Adjacency(str(stored["adjacency"])),
            epsilon=float(stored["epsilon"]),
            delta=float(stored["delta"]),
            currency=Currency(str(stored["currency"])),
            blocks=str(stored["blocks"]),
            per="year" if stored.get("per") == "year" else "life",
            row_id=str(stored["row_id"]) if "row_id" in stored else None,
            lattice_share=float(stored["lattice_share"]) if "lattice_share" in stored else None,
            earlier_rows=int(stored["earlier_rows"]) if "earlier_rows" in stored else None,
        )

    @property
    def kind(self) -> tuple[str, ...]:
        """What a sum of costs means; costs of two kinds do not add."""
        return self.unit, self.adjacency, self.currency, self.blocks, self.per

    def same_promise(self, stated: "Policy") -> bool:
        """Whether a configuration states this policy: all but what the ledger adds to it when it is made or migrated."""
        return replace(self, earlier_rows=None, lattice_share=None) == replace(stated, earlier_rows=None, lattice_share=None)

    def loosens(self, earlier: "Policy") -> bool:
        """Whether this policy allows anything that the earlier one does not."""
        same = self.kind == earlier.kind and self.row_id == earlier.row_id
        return not (same and self.epsilon <= earlier.epsilon and self.delta <= earlier.delta)

    def renames_buckets(self, earlier: "Policy") -> bool:
        """Whether records that were spent on would be in other buckets than before; unknown of a policy that named no column."""
        return earlier.row_id is not None and self.row_id != earlier.row_id

    def describe(self) -> str:
        """In words."""
        by = "" if self.row_id is None else f" of {self.row_id}"
        division = "" if self.blocks == ALL else f", each block of {self.blocks}{by}"
        renewed = "" if self.per == "life" else ", per year"
        rows = "" if self.earlier_rows is None else f", with at most {self.earlier_rows} rows in earlier releases"
        unit = f"unit {self.unit}{rows}"
        return f"(epsilon {self.epsilon:g}, delta {self.delta:g}, {self.adjacency}, {unit}, {self.currency}{division}{renewed})"
