"""Raw columns of a record to the features of a model, by public facts alone. Imports columns and types."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.records.columns import Column, Feature, Missing, Reading, as_dict, from_dict
from nightfit.records.columns.number import Number
from nightfit.types import Array


@dataclass(frozen=True)
class Encoding:
    """Which raw columns are read, and which features are made of each, in order; products come after the columns they are made of.

    Guarantee: a record's features are a function of that record alone and of public facts. Broken by
    test_a_record_is_encoded_the_same_whatever_the_others_are.
    """

    columns: tuple[tuple[str, Column], ...]

    def __post_init__(self) -> None:
        named: set[str] = set()
        for name, column in self.columns:
            if name in named:
                raise ValueError(f"column {name!r} is described twice")
            for part in column.of:
                if part not in named:
                    raise ValueError(f"column {name!r} is made of {part!r}, which must be described before it")
            named.add(name)
        made = [feature.name for feature in self.features]
        twice = next((name for name in made if made.count(name) > 1), None) if len(set(made)) != len(made) else None
        if twice is not None:
            raise ValueError(f"two columns make a feature named {twice!r}: rename one of them")

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """How each raw column is read."""
        return {name: column.reading for name, column in self.columns if column.reading is not None}

    @cached_property
    def made(self) -> dict[str, tuple[Feature, ...]]:
        """The features of each column."""
        found: dict[str, tuple[Feature, ...]] = {}
        for name, column in self.columns:
            found[name] = column.features(name, *(found[part] for part in column.of))
        return found

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """All features, in order."""
        return tuple(feature for features in self.made.values() for feature in features)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all features."""
        return tuple(feature.name for feature in self.features)

    @cached_property
    def places(self) -> dict[str, slice]:
        """Where the features of each column lie."""
        ends = np.cumsum([0, *(len(features) for features in self.made.values())]).tolist()
        return {name: slice(start, stop) for name, start, stop in zip(self.made, ends[:-1], ends[1:], strict=True)}

    @cached_property
    def drops(self) -> npt.NDArray[np.bool_]:
        """Of each feature, whether a record in which it is missing adds nothing."""
        return np.array([column.drops for name, column in self.columns for _ in self.made[name]], dtype=np.bool_)

    @cached_property
    def imputed(self) -> tuple[int, ...]:
        """The features in which a record may have no value and still count."""
        return tuple(place for place, feature in enumerate(self.features) if feature.imputed)

    def fill(self, name: str, values: Any, out: Array) -> None:
        """Write the features of one raw column, as its reading hands it over, to their place in `out` (rows x features)."""
        self.described[name].encode(values, out[:, self.places[name]])

    def combine(self, out: Array) -> None:
        """Write the features that are made of others, once those are in their place."""
        for name, column in self.columns:
            if column.of:
                column.encode(tuple(out[:, self.places[part]] for part in column.of), out[:, self.places[name]])

    def encode(self, raw: Mapping[str, Any], rows: int) -> Array:
        """Features of raw columns (rows x features), NaN where missing."""
        out = np.empty((rows, len(self.features)))
        for name in self.readings:
            self.fill(name, raw[name], out)
        self.combine(out)
        return out

    @cached_property
    def described(self) -> dict[str, Column]:
        """Each column by its name."""
        return dict(self.columns)

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Each column's kind and fields, as releases store them."""
        return {name: as_dict(column) for name, column in self.columns}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Mapping[str, Any]]) -> "Encoding":
        """What `as_dict` described."""
        return cls(tuple((name, from_dict(fields)) for name, fields in stored.items()))

    @classmethod
    def in_order(cls, columns: Mapping[str, Column]) -> "Encoding":
        """Columns as they are written, those that are made of others behind these."""
        made: dict[str, Column] = {name: column for name, column in columns.items() if not column.of}
        left = {name: column for name, column in columns.items() if column.of}
        while ready := [name for name, column in left.items() if set(column.of) <= made.keys()]:
            made |= {name: left.pop(name) for name in ready}
        for name, column in left.items():
            unknown = next((part for part in column.of if part not in columns), None)
            cure = f"it is made of {unknown!r}, which is not described: describe it too, or name another"
            why = "it is made of itself" if unknown is None else cure
            raise ValueError(f"column {name!r}: {why}")
        return cls(tuple(made.items()))


@lru_cache(maxsize=8)  # a batch asks again for the encoding of the one before
def plain(features: tuple[str, ...]) -> Encoding:
    """Columns of numbers as they are; a record with a missing one adds nothing."""
    return Encoding(tuple((name, Number(missing=Missing.DROP)) for name in features))
