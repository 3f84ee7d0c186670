"""Which blocks of a data set a refit reads, and how many nights their budgets last: from names and balances alone. Imports the policy.

A window is chosen before any row is read, from the names of hive folders and from the ledger; so the choice costs nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nightfit.ledger.policy import ALL, buckets_of
from nightfit.privacy.accounting import Cost
from nightfit.types import NightfitError

NIGHTS_LEFT = "Nights left at this cost: {:,}."


class WindowError(NightfitError):
    """The window does not suit the blocks of the data set; nothing was read or charged."""


class Window(Protocol):
    """What `data.window` asks for."""

    def check_suits(self, blocks: str) -> None:
        """Raise a WindowError if the window means nothing for this division of the data set."""

    def candidates(self, blocks: str, existing: Sequence[str], spent: Mapping[str, Cost]) -> tuple[str, ...]:
        """The blocks that it asks for, of the existing ones; a WindowError if one does not exist."""

    def nights_left(self, chosen: Sequence[str], existing: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> int:
        """How many more runs of this cost fit, when these blocks are chosen now."""

    def goes_on(self, nights: int) -> bool:
        """Whether budgets that pay for this many nights never end, if a new block comes every night."""

    def describe_nights(self, nights: int) -> str:
        """In words, for the plan."""


class EndsAfterNights:
    """Base of windows whose budgets end, however many blocks come."""

    __slots__ = ()

    def goes_on(self, nights: int) -> bool:
        return False

    def describe_nights(self, nights: int) -> str:
        return NIGHTS_LEFT.format(nights)


@dataclass(frozen=True, kw_only=True, slots=True)
class Everything(EndsAfterNights):
    """All blocks that exist; `name` tells runs of one window apart where all is one block."""

    name: str | None = None

    def check_suits(self, blocks: str) -> None:
        if self.name is not None and blocks != ALL:
            raise WindowError(
                f"data.window is {self.name!r}, and the blocks are {blocks}: use `last 30 blocks`, `rotate 4` or a list of blocks"
            )

    def candidates(self, blocks: str, existing: Sequence[str], spent: Mapping[str, Cost]) -> tuple[str, ...]:
        return tuple(existing)

    def nights_left(self, chosen: Sequence[str], existing: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> int:
        return min(times(spent[block], cost, limit) for block in chosen)


@dataclass(frozen=True, kw_only=True, slots=True)
class Last:
    """The newest hive blocks."""

    count: int

    def check_suits(self, blocks: str) -> None:
        if buckets_of(blocks) is not None:
            raise WindowError(
                f"data.window is `last {self.count} blocks`, and the blocks are {blocks}: buckets of hashed ids have no order in time; "
                f"use `rotate {self.count}`"
            )
        _check_is_divided(blocks)

    def candidates(self, blocks: str, existing: Sequence[str], spent: Mapping[str, Cost]) -> tuple[str, ...]:
        return tuple(existing[-self.count :])

    def nights_left(self, chosen: Sequence[str], existing: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> int:
        return min(times(spent[block], cost, limit) for block in chosen)

    def goes_on(self, nights: int) -> bool:
        return nights >= self.count

    def describe_nights(self, nights: int) -> str:
        if self.goes_on(nights):
            return (
                f"With a new block every night this goes on for ever: a block is read in {self.count} nights, and the budget of those "
                f"chosen now pays for {nights:,}."
            )
        return (
            f"The chosen blocks can pay for {nights:,} such nights, and a block would be read in {self.count}: "
            "lower epsilon, or set a pace."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rotate(EndsAfterNights):
    """The least charged buckets, the lower number first."""

    count: int

    def check_suits(self, blocks: str) -> None:
        buckets = buckets_of(blocks)
        if buckets is None:
            raise WindowError(
                f"data.window is `rotate {self.count}`, and the blocks are {blocks}: only buckets of hashed ids (hash:64) take turns; "
                + ("name the window, or divide the data set with a policy of blocks" if blocks == ALL else "use `last 30 blocks`")
            )
        if self.count > buckets:
            raise WindowError(f"data.window is `rotate {self.count}`, and there are {buckets} buckets only")

    def candidates(self, blocks: str, existing: Sequence[str], spent: Mapping[str, Cost]) -> tuple[str, ...]:
        least = sorted(existing, key=lambda name: (spent[name].amount, number_of(name)))[: self.count]
        return tuple(sorted(least, key=number_of))

    def nights_left(self, chosen: Sequence[str], existing: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> int:
        """Blocks take turns: T nights fit if and only if the sum over blocks of min(T, times_b) is at least count T.

        A block pays at most once a night. Broken by test_the_nights_left_are_those_that_a_rotation_gives.
        """
        each = [times(spent[block], cost, limit) for block in existing]
        low, high = 0, sum(each) // self.count
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if sum(min(middle, n) for n in each) >= self.count * middle else (low, middle - 1)
        return low


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed(EndsAfterNights):
    """These blocks, by name: day=2026-11-14, or bucket 7; the key may be left out."""

    blocks: tuple[str, ...]

    def check_suits(self, blocks: str) -> None:
        _check_is_divided(blocks)

    def candidates(self, blocks: str, existing: Sequence[str], spent: Mapping[str, Cost]) -> tuple[str, ...]:
        prefix = "bucket " if buckets_of(blocks) is not None else f"{blocks}="
        named = [name if name.startswith(prefix) else f"{prefix}{name}" for name in self.blocks]
        unknown = sorted(set(named) - set(existing))
        if unknown or len(set(named)) != len(named):
            raise WindowError(
                f"data.window names {unknown[0]}, which is not there: the newest is {existing[-1]}"
                if unknown and existing
                else "data.window names a block twice or there is none"
            )
        return tuple(name for name in existing if name in named)

    def nights_left(self, chosen: Sequence[str], existing: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> int:
        return min(times(spent[block], cost, limit) for block in chosen)


def window_of(stated: str | Sequence[str | int] | None) -> Window:
    """Read `data.window`.

    Parameters
    ----------
    stated
        `last 30 blocks`, `rotate 4`, a list of blocks, a name, or nothing.

    Raises
    ------
    ValueError
        If the window would have no block, or begins like `last 30 blocks` and goes on in another way.
    """
    if stated is None:
        return Everything()
    if not isinstance(stated, str):
        if not stated:
            raise ValueError("a window has at least one block, got an empty list")
        return Listed(blocks=tuple(str(block) for block in stated))
    match = re.fullmatch(r"(last|rotate)\s+(\d{1,9})(?:\s+blocks?)?", stated.strip())
    if match is None:
        if re.match(r"\s*((last|rotate)(\s|$)|$)", stated, re.IGNORECASE):
            raise ValueError("a window is `last 30 blocks`, `rotate 4`, a list of blocks, or a name that does not begin like these")
        return Everything(name=stated)
    if int(match[2]) < 1:
        raise ValueError(f"a window has at least one block, got {stated!r}")
    return Last(count=int(match[2])) if match[1] == "last" else Rotate(count=int(match[2]))


def bucket_names(count: int) -> tuple[str, ...]:
    """The names of all buckets of hash:N."""
    return tuple(f"bucket {number}" for number in range(count))


def number_of(bucket: str) -> int:
    """7 of `bucket 7`."""
    return int(bucket.removeprefix("bucket "))


def payable(blocks: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> tuple[str, ...]:
    """The blocks whose budget holds one more run."""
    return tuple(block for block in blocks if (spent[block] + cost).fits(limit))


def times(spent: Cost, cost: Cost, limit: Cost) -> int:
    """How often a block can still pay: floor((limit - spent) / cost), in amount and in mass."""
    left = limit - spent
    by_mass = [left.mass // cost.mass] if cost.mass else []
    return max(0, min([left.amount // cost.amount, *by_mass]))


def _check_is_divided(blocks: str) -> None:
    if blocks == ALL:
        raise WindowError(
            "data.window names blocks, and the data set is one block: divide it with `data.blocks` (a hive key such as day, or hash:64) "
            "before anything is spent on it"
        )
