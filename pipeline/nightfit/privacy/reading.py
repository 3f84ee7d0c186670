"""How the gate reads records. Imports queries and the local protocol."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.protocol import ReportQuery
from nightfit.queries.base import Query
from nightfit.types import Integers


class Records(Protocol):
    """The records of a data set, wherever they lie."""

    def aggregate(self, query: Query) -> Integers:
        """The query's integers, merged over all records."""

    def reported(self, query: ReportQuery, key: Key, /) -> Integers:
        """What the records' owners report, merged."""


@dataclass
class Watched:
    """Records that remember a failure to read them."""

    records: Records
    failure: Exception | None = None

    def aggregate(self, query: Query) -> Integers:
        return self._watched(lambda: self.records.aggregate(query))

    def reported(self, query: ReportQuery, key: Key) -> Integers:
        return self._watched(lambda: self.records.reported(query, key))

    def _watched(self, read: Callable[[], Integers]) -> Integers:
        try:
            return read()
        except Exception as failure:
            self.failure = failure
            raise
