"""Queries of several models that are asked in one reading of the rows. Imports one_target, parts and below."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

from nightfit.queries.base import Query
from nightfit.queries.one_target import seen_by, target_of
from nightfit.queries.parts import Division, inside_of, of_part
from nightfit.types import WHOLE, Array, Block, Draw, Integers


@runtime_checkable
class SharesWork(Query, Protocol):
    """A query that can be asked with others whose work on a row is the same, whatever their targets are."""

    @property
    def work(self) -> bytes:
        """What tells work on rows apart."""

    def with_work_of(self, other: Any) -> Any:
        """This query, with the objects of another of the same work."""

    def chunks(self, others: Sequence[Any], block: Block, targets: Sequence[Array]) -> list[Integers]:
        """The integers of this query and of others of the same work, each of the records that have its own target, not NaN."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OfModel:
    """A query as a model asks it, and the place of its target among those of all models; None where it needs none."""

    query: Query
    place: int | None


@dataclass(frozen=True, kw_only=True)
class Jointly:
    """Several queries in one reading: the integers of each, in their order. It has no sensitivity: the gate asks for each by itself.

    Guarantee: the integers of each query are those that it has alone: who is in a part is found once for all queries of the part, and a
    query that shares work shares what depends on features alone. Broken by
    test_queries_that_are_asked_jointly_have_the_integers_that_they_have_alone.

    Parameters
    ----------
    queries
        Of models, each of the rows as its model sees them.
    """

    queries: tuple[OfModel, ...]
    reads_codes: ClassVar[bool] = False

    @property
    def draw(self) -> Draw:
        return WHOLE

    @property
    def coordinates(self) -> int:
        return sum(one.query.coordinates for one in self.queries)

    def chunk(self, block: Block) -> Any:
        """A list of the integers of each query: nobody but this class looks inside of it."""
        found: dict[int, Integers] = {}
        seen: dict[Division | None, Any] = {None: block}
        for (division, _), numbers in self._alike().items():
            if division is not None and division not in seen:
                seen[division] = division.select(block)
            queries = [inside_of(self.queries[number].query)[1] for number in numbers]
            places = [self.queries[number].place for number in numbers]
            found |= zip(numbers, _integers(queries, places, seen[division]), strict=True)
        return [found[number] for number in range(len(self.queries))]

    def _alike(self) -> dict[tuple[Division | None, bytes | int], list[int]]:
        """The numbers of queries of one part whose work on a row is the same; one alone where it shares none."""
        found: dict[tuple[Division | None, bytes | int], list[int]] = {}
        for number, one in enumerate(self.queries):
            division, query = inside_of(one.query)
            shares = isinstance(query, SharesWork) and one.place is not None
            found.setdefault((division, query.work if shares else number), []).append(number)
        return found

    def merge(self, one: Any, other: Any) -> Any:
        return [each.query.merge(a, b) for each, a, b in zip(self.queries, one, other, strict=True)]


def _integers(queries: Sequence[Query], places: Sequence[int | None], block: Block) -> list[Integers]:
    """Of queries that share work, or of one. Rows of persons are chosen for each model: there is no work to share."""
    first = queries[0]
    if len(queries) > 1 and block.starts is None and isinstance(first, SharesWork):
        return first.chunks(queries[1:], block, [target_of(place, block) for place in places])
    return [query.chunk(seen_by(place, block)) for query, place in zip(queries, places, strict=True)]


def jointly(queries: Sequence[OfModel]) -> Jointly:
    """The queries, of which those that share work hold the same objects: a message to the workers carries each once."""
    first: dict[bytes, SharesWork] = {}
    return Jointly(queries=tuple(replace(one, query=_with_work_of(first, one.query)) for one in queries))


def _with_work_of(first: dict[bytes, SharesWork], query: Query) -> Query:
    division, inner = inside_of(query)
    if not isinstance(inner, SharesWork):
        return query
    return of_part(inner.with_work_of(first.setdefault(inner.work, inner)), division)
