"""Raw columns of a record to the features of a model, by public facts alone. Imports columns and types."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.records.columns import Column, Feature, Reading
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

    def encode(self, raw: Mapping[str, Any], rows: int) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Features of raw columns (rows x features), NaN where missing, and which records are kept: those without a missing value in a
        column that drops them.
        """
        out, kept, places = np.empty((rows, len(self.features))), np.ones(rows, dtype=np.bool_), dict[str, Array]()
        start = 0
        for name, column in self.columns:
            stop = start + len(self.made[name])
            places[name] = out[:, start:stop]
            column.encode(tuple(places[part] for part in column.of) if column.of else raw[name], places[name])
            if column.drops:
                kept &= ~np.isnan(places[name]).any(axis=1)
            start = stop
        return out, kept
