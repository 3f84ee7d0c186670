"""From raw columns to a bounded block, by public facts alone: centre, scale, clamp. Imports numpy, persons and below."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nightfit.numerics.prf import Buckets, Slots
from nightfit.records.bounded_rows import bound_rows
from nightfit.records.coded_rows import Layout, layout_of
from nightfit.records.encoding import Encoding, plain
from nightfit.records.outcomes import AS_IT_IS, Outcome
from nightfit.records.persons import UNUSABLE, PersonRows, row_hashes
from nightfit.records.targets import ANYWHERE, Pair, Target
from nightfit.types import Array, Block

Precision = Literal["double", "single"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocessing:
    """Centre, scale and reach of each feature, and of the target.

    `encoding` makes the features x of raw columns. Without one, each feature is a raw column of numbers, and a record in which one is
    missing adds nothing. x' = clip((x - centre) / scale, -1, 1), with a last column of ones if there is an intercept. A feature without
    a public scale has an infinite reach instead of 1: only a query that bounds rows itself may see it. A missing feature becomes
    x' = `absent`, by default 0: it counts as the centre. With `imputes` false it stays NaN, for queries that find the centre.

    The loss decides about the target: labels become -1 or 1; any other target becomes y' = clip((y - target_centre) / target_scale,
    *target_reach), where a target that may not be scaled keeps the centre 0 and the scale 1 (`targets.treatment`). `outcome` reads labels
    as numbers, divides by exposures and transforms y first. A record in which a
    column that drops it is missing, or with a target outside of `target_domain`, becomes a row of zeros with target zero: its gradient
    is zero whatever the weights, and no record can stop a run. So does every record outside of `buckets`, if they are set. Without a
    target (columns whose mean is wanted) y' is zero. `precision: single` rounds x' to float32, which halves what is read; sums of
    either are exact.

    `unit` is the column that identifies a person, None where every record is a unit; of a person at most `rows_per_unit` rows are used.
    `row_id` identifies a record: it tells the record's bucket, or which rows of a person are used. Coins never depend on it.

    With `several` models of the same rows, y' has a column for each, NaN where a record has no such target, and a row is zeros only if
    features are missing: `queries.one_target` makes a model's rows of it. There is no `target` then. Where persons are units, the rows that
    are used of a person are chosen whatever their targets are, and a model's are those among them that have its target.

    Guarantee: a block does not depend on what a record outside of the buckets says. Broken by
    test_a_record_outside_of_the_chosen_buckets_changes_nothing.
    """

    features: tuple[str, ...]
    target: str | None
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    target_centre: float = 0.0
    target_scale: float = 1.0
    target_reach: Pair = ANYWHERE
    target_domain: Target = Target.REAL
    outcome: Outcome = AS_IT_IS
    intercept: bool
    row_id: str | None = None
    precision: Precision = "double"
    buckets: Buckets | None = None
    reach: tuple[float, ...] = ()
    encoding: Encoding | None = None
    absent: tuple[float, ...] = ()
    imputes: bool = True
    unit: str | None = None
    rows_per_unit: int = 1
    several: tuple["Preprocessing", ...] = ()

    def __post_init__(self) -> None:
        if self.several and self.target is not None:
            raise ValueError("targets of several models are kept side by side, and there is no other target")
        if len({*self.features, self.target}) != len(self.features) + 1:
            raise ValueError("every feature and the target must be another column")
        if not len(self.features) == len(self.centre) == len(self.scale):
            raise ValueError("features, centre and scale must have the same length")
        if (
            not all(np.isfinite([*self.centre, *self.scale, self.target_centre, self.target_scale]))
            or min([*self.scale, self.target_scale]) <= 0
        ):
            raise ValueError("bounds must be finite with low < high")
        if self.target_domain is not Target.REAL and (self.target_centre, self.target_scale) != (0.0, 1.0):
            raise ValueError("only a target of real numbers is centred and scaled")
        if not self.target_domain.clamps(*self.target_reach):
            raise ValueError(
                f"the target's values are {self.target_domain}: its bounds {self.target_reach} must be {self.target_domain} too"
            )
        if self.encoding is not None and self.encoding.names != self.features:
            raise ValueError("the features must be those that the encoding makes")
        if self.absent and not (len(self.absent) == len(self.features) and np.isfinite(self.absent).all()):
            raise ValueError("what a missing value counts as must be one finite number for each feature")
        if self.rows_per_unit < 1:
            raise ValueError(f"at least one row of a unit is used, got {self.rows_per_unit}")
        if self.buckets is not None and self.row_id is None and self.unit is None:
            raise ValueError("buckets need a row_id: a record without an id would change its bucket when files are rewritten")
        if self.reach and not (len(self.reach) == len(self.features) and set(self.reach) <= {1.0, math.inf}):
            raise ValueError("every feature has the reach 1 of public bounds or an infinite one")

    @property
    def classification(self) -> bool:
        """Whether the target is a label."""
        return self.target_domain is Target.LABELS

    @property
    def bounded(self) -> bool:
        """Whether every feature has public bounds."""
        return math.inf not in self.reach

    @property
    def encoded(self) -> Encoding:
        """How raw columns become features."""
        return plain(self.features) if self.encoding is None else self.encoding

    @property
    def may_be_missing(self) -> tuple[int, ...]:
        """The features in which a record may have no value and still count."""
        return () if self.encoding is None else self.encoding.imputed

    @property
    def reads_row_ids(self) -> bool:
        """Whether the ids of records matter: for their buckets, or for the choice of a person's rows."""
        return self.row_id is not None and (self.buckets is not None or self.unit is not None)

    @property
    def targets(self) -> tuple["Preprocessing", ...]:
        """The models whose targets are read."""
        return self.several or ((self,) if self.target is not None else ())

    @property
    def target_columns(self) -> tuple[int, ...]:
        """The shape of y after its rows: nothing, or the number of several models."""
        return (len(self.several),) if self.several else ()

    @property
    def columns(self) -> int:
        """The number of columns of a block, the intercept's included."""
        return len(self.features) + self.intercept

    @property
    def layout(self) -> Layout | None:
        """How rows are kept as numbers and codes in memory; None where they are kept dense: where that takes less than twice as many bytes,
        and where several models are read, whose rows are cut by what their targets say. Persons are brought together as dense rows.
        """
        if self.several or self.encoding is None:
            return None
        return layout_of(self.encoding, self.centre, self.scale, self.columns, self.dtype.itemsize)

    @property
    def row_bytes(self) -> int:
        """Bytes of one kept record."""
        saved = 0 if self.layout is None else self.dtype.itemsize * self.columns - self.layout.row_bytes(self.dtype.itemsize)
        return self.dense_row_bytes - saved

    @property
    def dense_row_bytes(self) -> int:
        """Bytes of one record with all columns: its features, targets and slot."""
        return self.dtype.itemsize * self.columns + 8 * max(1, len(self.several)) + 8

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of a block's features."""
        return np.dtype(np.float32 if self.precision == "single" else np.float64)

    def features_of(self, raw: Array, out: Array | None = None) -> tuple[Array, npt.NDArray[np.bool_]]:
        """Bounded features of encoded ones (rows x features), C-contiguous, and which rows are kept. They are written to `out` if given."""
        features = len(self.features)
        X = np.empty((len(raw), self.columns)) if out is None else out
        if raw.shape != (len(X), features) or X.shape[1] != self.columns:
            raise ValueError(f"{features} features of {len(X)} rows are bounded, got {raw.shape}")
        kept: npt.NDArray[np.bool_] = np.empty(len(raw), dtype=np.bool_)
        fills = bool(self.may_be_missing)
        drops = self.encoded.drops if fills else np.ones(features, dtype=np.bool_)
        absent = np.broadcast_to(np.array(self.absent or 0.0) if self.imputes else math.nan, features).astype(np.float64)
        reach = np.array(self.reach or (1.0,) * features, dtype=np.float64)
        bound_rows(
            raw, np.array(self.centre, dtype=np.float64), np.array(self.scale, dtype=np.float64), reach, drops, fills, absent, X, kept
        )
        return X, kept

    def rows_of(self, raw: Array, target: Array | None, out: Array | None = None) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
        """Bounded features (written to `out` if given) and targets of raw ones, and which rows are usable; the others are zeros."""
        X, kept = self.features_of(raw, np.empty((len(raw), self.columns), dtype=self.dtype) if out is None else out)
        if target is None:
            target = np.zeros(len(raw))
        target = self.outcome.transformed(target)
        valid: npt.NDArray[np.bool_] = kept & self.outcome.domain(self.target_domain).holds(target)
        with np.errstate(invalid="ignore", over="ignore"):
            y = (self.target_domain.encoded(target) - self.target_centre) / self.target_scale
        y = np.clip(y, *self.target_reach)
        X[~valid] = 0.0
        y[~valid] = 0.0
        return X, y, valid

    def targets_of(self, target: Array) -> Array:
        """Bounded targets of raw ones, NaN where a record has none that this model can use."""
        target = self.outcome.transformed(target)
        with np.errstate(invalid="ignore", over="ignore"):
            y = (self.target_domain.encoded(target) - self.target_centre) / self.target_scale
        return np.where(self.outcome.domain(self.target_domain).holds(target), np.clip(y, *self.target_reach), math.nan)

    def _side_by_side(self, target: Array, kept: npt.NDArray[np.bool_]) -> Array:
        y = np.column_stack([one.targets_of(target[:, place]) for place, one in enumerate(self.several)])
        y[~kept] = math.nan
        return y

    def block(
        self, raw: Array, target: Array | None, slots: Slots | None = None, ids: Slots | None = None, out: Array | None = None
    ) -> Block:
        """The block that kernels see, from encoded features (rows x features) and raw target.

        `slots` are the records' slots, if groups or draws need them; `ids` are hashes of their ids, which buckets need. The block's rows
        are written to `out` if that is given.
        """
        X, y, kept = self.rows_of(raw, None if self.several else target, out)
        if self.several:
            assert target is not None
            y = self._side_by_side(target, kept)
        if self.buckets is not None:
            if ids is None:
                raise ValueError("the buckets of records need their ids")
            outside = ~self.buckets.hold(ids)
            X[outside] = 0.0
            y[outside] = math.nan if self.several else 0.0
        return Block(X, y) if slots is None else Block(X, y, slots)

    def person_rows(self, raw: Array, target: Array | None, slots: Slots, priorities: Slots | None = None) -> PersonRows:
        """Bounded rows of persons, to be grouped; persons outside of the buckets are left out.

        `slots` are hashes of the persons' ids, `priorities` hashes of the rows' own ids, by default of their numbers.
        """
        X, y, usable = self.rows_of(raw, None if self.several else target)
        if self.several:
            assert target is not None
            y = self._side_by_side(target, usable)
        drawn = row_hashes(X, y) if priorities is None else priorities
        rows = PersonRows(Block(X, y, slots), np.where(usable, np.minimum(drawn, UNUSABLE - np.uint64(1)), UNUSABLE))
        return rows if self.buckets is None else rows.select(self.buckets.hold(slots))

    def in_original_units(self, weights: Array) -> tuple[Array, float]:
        """(coef, intercept) with prediction = coef . x + intercept for x inside its bounds, in the user's units."""
        inner = weights[: len(self.features)] / np.array(self.scale)
        offset = weights[-1] if self.intercept else 0.0
        coef = self.target_scale * inner
        return coef, float(self.target_centre + self.target_scale * (offset - inner @ np.array(self.centre)))

    def means_in_original_units(self, weights: Array) -> Array:
        """Means of the columns, in the user's units, from means of the bounded ones."""
        return np.array(self.centre) + np.array(self.scale) * weights[: len(self.features)]

    def as_dict(self) -> dict[str, Any]:
        reaches = self.reach or (1.0,) * len(self.features)
        columns: dict[str, dict[str, Any]] = {
            name: {"centre": centre, "scale": scale, "clamp": [centre - scale, centre + scale] if reach == 1 else None}
            for name, centre, scale, reach in zip(self.features, self.centre, self.scale, reaches, strict=True)
        }
        for name, value in zip(self.features, self.absent, strict=False):
            columns[name]["missing"] = columns[name]["centre"] + columns[name]["scale"] * value
        clamp = None if self.target_reach == ANYWHERE else [self.target_centre + self.target_scale * end for end in self.target_reach]
        target: dict[str, Any] = {"name": self.target, "centre": self.target_centre, "scale": self.target_scale, "clamp": clamp}
        if self.target_domain not in (Target.REAL, Target.LABELS):  # which `classification` tells apart
            target["domain"] = str(self.target_domain)
        target |= self.outcome.as_dict()
        return (
            {"columns": columns, "target": target, "intercept": self.intercept, "classification": self.classification}
            | ({"precision": self.precision} if self.precision != "double" else {})
            | ({"encoding": self.encoding.as_dict()} if self.encoding is not None else {})
            | ({"unit": self.unit, "rows_per_unit": self.rows_per_unit} if self.unit is not None else {})
        )

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> "Preprocessing":
        columns, target = stored["columns"], stored["target"]
        reach = tuple(math.inf if column["clamp"] is None else 1.0 for column in columns.values())
        absent = tuple((column.get("missing", column["centre"]) - column["centre"]) / column["scale"] for column in columns.values())
        return cls(
            features=tuple(columns),
            encoding=Encoding.from_dict(stored["encoding"]) if "encoding" in stored else None,
            absent=absent if any(absent) else (),
            target=target["name"],
            centre=tuple(column["centre"] for column in columns.values()),
            scale=tuple(column["scale"] for column in columns.values()),
            target_centre=target["centre"],
            target_scale=target["scale"],
            target_reach=_reach(target),
            target_domain=Target(target.get("domain", Target.LABELS if stored["classification"] else Target.REAL)),
            outcome=Outcome.from_dict(target),
            intercept=stored["intercept"],
            precision=stored.get("precision", "double"),
            reach=reach if math.inf in reach else (),
            unit=stored.get("unit"),
            rows_per_unit=stored.get("rows_per_unit", 1),
        )


def _reach(target: dict[str, Any]) -> Pair:
    """Where a stored target was clamped, in its scaled units: [-1, 1] of bounds that made its centre and scale."""
    centre, scale, clamp = target["centre"], target["scale"], target["clamp"]
    if clamp is None:
        return ANYWHERE
    return (-1.0, 1.0) if clamp == [centre - scale, centre + scale] else (clamp[0], clamp[1])
