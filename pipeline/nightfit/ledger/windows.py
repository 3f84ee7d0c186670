"""Which blocks of a data set a refit reads, and how many nights their budgets last: from names and balances alone. Imports the ledger.

A window is chosen before any row is read, from the names of hive folders and from the ledger; so the choice costs nothing.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nightfit.ledger.policy import ALL, buckets_of
from nightfit.privacy.accounting import Cost
from nightfit.types import NightfitError


class WindowError(NightfitError):
    """The window does not suit the blocks of the data set; nothing was read or charged."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Everything:
    """All blocks that there are; `name` tells runs of one window apart where all is one block."""

    name: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Last:
    """The newest hive blocks."""

    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Rotate:
    """The least charged buckets."""

    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """These blocks, by name: day=2026-11-14, or bucket 7."""

    blocks: tuple[str, ...]


Window = Everything | Last | Rotate | Listed


def window_of(said: str | Sequence[str | int] | None) -> Window:
    """What `data.window` means: `last 30 blocks`, `rotate 4`, a list of blocks, or a name."""
    if said is None:
        return Everything()
    if not isinstance(said, str):
        return Listed(blocks=tuple(str(block) for block in said))
    match = re.fullmatch(r"(last|rotate)\s+(\d+)(?:\s+blocks?)?", said.strip())
    if match is None:
        return Everything(name=said)
    if int(match[2]) < 1:
        raise ValueError(f"a window has at least one block, got {said!r}")
    return Last(count=int(match[2])) if match[1] == "last" else Rotate(count=int(match[2]))


def check_suits(window: Window, blocks: str) -> None:
    """Refuse a window that means nothing for this division of the data set, with the reason."""
    hashed = buckets_of(blocks)
    if isinstance(window, Last) and hashed is not None:
        raise WindowError(
            f"data.window is `last {window.count} blocks`, and the blocks are {blocks}: buckets of hashed ids have no order in time; "
            f"use `rotate {window.count}`"
        )
    if isinstance(window, Rotate) and hashed is None:
        raise WindowError(
            f"data.window is `rotate {window.count}`, and the blocks are {blocks}: only buckets of hashed ids (hash:64) take turns; "
            + ("name the window, or divide the data set with a policy of blocks" if blocks == ALL else "use `last 30 blocks`")
        )
    if isinstance(window, Rotate) and hashed is not None and window.count > hashed:
        raise WindowError(f"data.window is `rotate {window.count}`, and there are {hashed} buckets only")
    if isinstance(window, (Last, Listed)) and blocks == ALL:
        raise WindowError(
            "data.window names blocks, and the data set is one block: divide it with `data.blocks` (a hive key such as day, or hash:64) "
            "before anything is spent on it"
        )
    if isinstance(window, Everything) and window.name is not None and blocks != ALL:
        raise WindowError(
            f"data.window is {window.name!r}, and the blocks are {blocks}: use `last 30 blocks`, `rotate 4` or a list of blocks"
        )


def candidates(window: Window, blocks: str, there: Sequence[str], spent: Mapping[str, Cost]) -> tuple[str, ...]:
    """The blocks that a window asks for, of those that are there; `rotate` takes the least charged, the lower number first."""
    if isinstance(window, Last):
        return tuple(there[-window.count :])
    if isinstance(window, Rotate):
        least = sorted(there, key=lambda name: (spent[name].amount, number_of(name)))[: window.count]
        return tuple(sorted(least, key=number_of))
    if isinstance(window, Listed):
        named = [_full(name, blocks) for name in window.blocks]
        unknown = sorted(set(named) - set(there))
        if unknown or len(set(named)) != len(named):
            raise WindowError(
                f"data.window names {unknown[0]}, which is not there: the newest is {there[-1]}"
                if unknown and there
                else "data.window names a block twice or there is none"
            )
        return tuple(name for name in there if name in named)
    return tuple(there)


def _full(name: str, blocks: str) -> str:
    if buckets_of(blocks) is not None:
        return name if name.startswith("bucket ") else f"bucket {name}"
    return name if name.startswith(f"{blocks}=") else f"{blocks}={name}"


def buckets_named(count: int) -> tuple[str, ...]:
    """The names of all buckets of hash:N."""
    return tuple(f"bucket {number}" for number in range(count))


def number_of(bucket: str) -> int:
    return int(bucket.removeprefix("bucket "))


def payable(blocks: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> tuple[str, ...]:
    """The blocks whose budget holds one more run."""
    return tuple(block for block in blocks if (spent[block] + cost).fits(limit))


def times(spent: Cost, cost: Cost, limit: Cost) -> int:
    """How often a block can still pay: floor((limit - spent) / cost), in amount and in mass."""
    left = limit - spent
    by_mass = [left.mass // cost.mass] if cost.mass else []
    return max(0, min([left.amount // cost.amount, *by_mass]))


def nights_left(window: Window, chosen: Sequence[str], there: Sequence[str], spent: Mapping[str, Cost], cost: Cost, limit: Cost) -> int:
    """How many more such runs fit. The chosen blocks each pay for every run; under `rotate K` blocks take turns, and T nights fit if
    and only if the sum over blocks of min(T, times_b) is at least K T, because a block pays at most once a night.
    """
    if not isinstance(window, Rotate):
        return min(times(spent[block], cost, limit) for block in chosen)
    each = [times(spent[block], cost, limit) for block in there]
    low, high = 0, sum(each) // window.count
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if sum(min(middle, n) for n in each) >= window.count * middle else (low, middle - 1)
    return low


def nights_said(window: Window, nights: int) -> str:
    """In words, for the plan."""
    if isinstance(window, Last) and nights >= window.count:
        return (
            f"With a new block every night this goes on for ever: a block is read in {window.count} nights, and the budget of those "
            f"chosen now pays for {nights:,}."
        )
    if isinstance(window, Last):
        return (
            f"The chosen blocks can pay for {nights:,} such nights, and a block would be read in {window.count}: "
            "lower epsilon, or set a pace."
        )
    return f"Nights left at this cost: {nights:,}."
