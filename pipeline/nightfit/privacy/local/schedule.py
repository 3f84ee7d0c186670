"""Who reports when: epochs, cells and batches by a keyed hash of the slot. Imports numerics."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightfit.numerics.keystream import ORDER, Key, uniforms
from nightfit.numerics.prf import Slots

CELL_BYTES = 2**26
CELLS = 2**31


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """Every record has one place in the order of an epoch: in cohorts, in the order of the whole fit, of which each epoch takes
    an equal part. An epoch's order is cut into `cells`: batches that shards report into `together`, or many batches each, for one
    worker to walk through.

    Guarantee: in cohorts a record sends one report in the whole fit, else one per epoch, because its place is a function of key, epoch
    and slot alone. Broken by test_a_record_reports_as_often_as_its_budget_says.
    """

    units: int
    batch: int
    epochs: int
    cohorts: bool
    cells: int
    together: bool

    def __post_init__(self) -> None:
        if min(self.units, self.batch, self.epochs, self.cells) < 1:
            raise ValueError("units, batch, epochs and cells of a schedule must be at least 1")
        if self.cells * self.epochs > CELLS:
            raise ValueError(f"{self.cells * self.epochs} batches are more than can be told apart: choose a larger batch")

    @property
    def reports(self) -> int:
        """How many reports one record sends."""
        return 1 if self.cohorts else self.epochs

    def members(self, key: Key, epoch: int, cell: int, slots: Slots) -> tuple[npt.NDArray[np.bool_], Slots]:
        """Which of the slots report in this cell, and every slot's place in the order."""
        places = uniforms(key, ORDER, 0 if self.cohorts else 1 + epoch, slots)
        parts, wanted = (self.epochs * self.cells, epoch * self.cells + cell) if self.cohorts else (self.cells, cell)
        found = ((places >> np.uint64(32)) * np.uint64(parts)) >> np.uint64(32)
        return found == np.uint64(wanted), places


def schedule(*, units: int, columns: int, batch: int, epochs: int, cohorts: bool, cell_bytes: int = CELL_BYTES) -> Schedule:
    """A cell holds as many whole batches as one worker takes at a time, or one batch that shards report into together."""
    each = units / max(1, epochs) if cohorts else units
    held = max(1, cell_bytes // (8 * (columns + 3)))
    cells = max(1, math.ceil(each / max(1, batch, held)))
    return Schedule(units=units, batch=batch, epochs=epochs, cohorts=cohorts, cells=cells, together=batch > held)
