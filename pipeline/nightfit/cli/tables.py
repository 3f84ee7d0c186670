"""Tables that fit the screen without broken words or numbers. Imports rich."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from nightfit.cli.console import out, plain, say, width

LONGEST_TEXT = 60
"""Of a column of words, even where there is room: longer lines are hard to follow."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    heading : str
        What stands above it.
    cells : tuple of str
        From top to bottom.
    right : bool
        Whether it is aligned to the right.
    wraps : bool
        Whether cells may be broken between words.
    spare : bool
        Whether it is left out where there is no room.
    """

    heading: str
    cells: tuple[str, ...]
    right: bool = False
    wraps: bool = False
    spare: bool = False

    @property
    def natural(self) -> int:
        """The width at which nothing is broken."""
        longest = max((len(line) for cell in (self.heading, *self.cells) for line in cell.split("\n")), default=0)
        return max(min(longest, LONGEST_TEXT), self.least) if self.wraps else longest

    @property
    def least(self) -> int:
        """The width below which a word or a number would be broken."""
        lines = [part for cell in self.cells for part in (cell.split() if self.wraps else cell.split("\n"))]
        return max((len(part) for part in (*lines, *self.heading.split())), default=0)

    def stacked(self) -> "Column":
        """With intervals below their numbers."""
        return self if self.wraps else replace(self, cells=tuple(cell.replace(" (", "\n(", 1) for cell in self.cells))


def columns_of(headings: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, right: bool = True) -> list[Column]:
    """Columns of rows of words: the first `left` are aligned to the left and may wrap, the others hold numbers."""
    return [
        Column(heading=heading, cells=tuple(row[place] for row in rows), right=right and place >= left, wraps=place < left)
        for place, heading in enumerate(headings)
    ]


def show(title: str, columns: Sequence[Column], *, lines: bool = False) -> None:
    """Print a table as wide as the screen allows, and say what was left out; where no screen is, as wide as it is.

    Parameters
    ----------
    title : str
        Above the table.
    columns : sequence of Column
        From left to right.
    lines : bool
        Whether a line divides rows.
    """
    shown, room = fitted(columns, width())
    say(f"[italic]{plain(title)}[/]")
    table = Table(show_lines=lines)
    for column, wide in zip(shown, room, strict=True):
        table.add_column(plain(column.heading), justify="right" if column.right else "left", width=wide)
    for row in zip(*(column.cells for column in shown), strict=True):
        table.add_row(*map(plain, row))
    Console(file=out.file, width=sum(room) + _borders(room), highlight=False).print(table)
    missing = [column.heading for column in columns if column.heading not in {one.heading for one in shown}]
    if missing:
        say(f"Left out for lack of room: {plain(', '.join(missing))}.")


def fitted(columns: Sequence[Column], most: int | None) -> tuple[list[Column], list[int]]:
    """The columns that fit into a screen of `most` characters, and their widths.

    Words wrap first; then intervals go below their numbers; then spare columns are left out, the last one first. What does not fit even
    then is as narrow as it can be.
    """
    kept = list(columns)
    if most is None:
        return kept, [column.natural for column in kept]
    steps: list[Callable[[list[Column]], list[Column]]] = [lambda of: of, lambda of: [column.stacked() for column in of]]
    steps += [_without_last_spare] * sum(column.spare for column in columns)
    for step in steps:
        kept = step(kept)
        if sum(column.least for column in kept) + _borders(kept) <= most:
            break
    return kept, _widths(kept, most)


def _without_last_spare(columns: list[Column]) -> list[Column]:
    last = max(place for place, column in enumerate(columns) if column.spare)
    return columns[:last] + columns[last + 1 :]


def _widths(columns: Sequence[Column], most: int) -> list[int]:
    """Natural widths, of which those with the most to spare are narrowed until all fit."""
    found, least = [column.natural for column in columns], [column.least for column in columns]
    while sum(found) + _borders(found) > most and found != least:
        place = max(range(len(found)), key=lambda at: found[at] - least[at])
        found[place] -= 1
    return found


def _borders(columns: Sequence[object]) -> int:
    """A line before, between and behind columns, and a blank on both sides of each."""
    return 3 * len(columns) + 1
