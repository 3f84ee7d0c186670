"""What is asked of records' owners: the sum of a batch's reports, or a walk through many batches. Imports numerics.

A query is sent to every chunk (`part`), and its parts are combined on a worker (`whole`). Both get the key as an argument: a query is
public and may lie in a task graph, the key may not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from nightfit.numerics.keystream import Key
from nightfit.privacy.local.reports import BITS, Randomiser, report_sums, tiles
from nightfit.privacy.local.schedule import Schedule
from nightfit.privacy.local.server import Server, State
from nightfit.types import Array, Block, Integers


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalProtocol:
    """What records' owners agree to: how they randomise, and when they are asked."""

    randomiser: Randomiser
    schedule: Schedule

    @property
    def epsilon(self) -> float:
        """What each report costs."""
        return self.randomiser.sampler.epsilon

    @property
    def reports(self) -> int:
        """How many reports a record sends at most."""
        return self.schedule.reports

    @property
    def label_epsilon(self) -> float:
        """What the label's randomised response costs, once."""
        return self.randomiser.curriculum.label_epsilon

    def chosen(self, epoch: int, cell: int, block: Block, key: Key) -> Block:
        """The records that report in this cell."""
        chosen, _ = self.schedule.members(key, epoch, cell, block.slots)
        return Block(block.X[chosen], block.y[chosen], block.slots[chosen])


class ReportQuery(Protocol):
    """A query that records answer by reports."""

    @property
    def protocol(self) -> LocalProtocol: ...

    @property
    def epoch(self) -> int: ...

    @property
    def cell(self) -> int:
        """A cell is asked once: its records have one report for it, at one w."""

    def part(self, block: Block, key: Key) -> Any:
        """What a block's records report; parts of blocks may be combined in any order and grouping."""

    def whole(self, parts: Sequence[Any], key: Key) -> Integers:
        """The answer, made of reports alone."""


@dataclass(frozen=True, kw_only=True)
class ReportSum:
    """The number and the sum, in whole steps, of the reports of one cell at public weights: a batch too large for one worker."""

    protocol: LocalProtocol
    epoch: int
    cell: int
    weights: Array

    def part(self, block: Block, key: Key) -> Integers:
        return report_sums(self.protocol.chosen(self.epoch, self.cell, block, key), self.weights, self.protocol.randomiser, key, self.epoch)

    def whole(self, parts: Sequence[Integers], key: Key) -> Integers:
        return np.sum(np.asarray(parts, dtype=np.int64).reshape(-1, 1 + len(self.weights)), axis=0)

    def mean(self, answer: Integers) -> Array:
        """The mean report; a batch without reports says nothing, which is zero."""
        scale = self.protocol.randomiser.norm(len(self.weights)) / 2.0**BITS
        return answer[1:].astype(np.float64) * (scale / max(1, int(answer[0])))


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The server's steps through all batches of one cell, each on reports at the weights that the earlier ones led to.

    With batches of a few records there are as many steps as records, and a round trip for each would take days. So the rows of a
    cell are sent to one worker, which plays both parts: the owners, who randomise, and the server, who steps.

    Guarantee: what leaves the task (`State`) is a function of public weights and of reports alone: rows are read by
    `Randomiser.reports` only, whose law is epsilon-private in each row at any weights, and later weights depend on a row through
    its report only (post-processing). The order of rows is that of a keyed hash of their slots. Broken by
    test_a_walk_sees_rows_through_reports_alone and test_a_walk_is_the_same_for_any_chunks_and_order.
    """

    protocol: LocalProtocol
    server: Server
    epoch: int
    cell: int
    state: State

    def part(self, block: Block, key: Key) -> Block:
        return self.protocol.chosen(self.epoch, self.cell, block, key)

    def whole(self, parts: Sequence[Block], key: Key) -> Integers:
        columns, randomiser, schedule = len(self.state.weights), self.protocol.randomiser, self.protocol.schedule
        slots = np.concatenate([part.slots for part in parts]) if parts else np.empty(0, dtype=np.uint64)
        if not len(slots):
            return self.state.packed()
        X, y = np.concatenate([part.X for part in parts]), np.concatenate([part.y for part in parts])
        _, places = schedule.members(key, self.epoch, self.cell, slots)
        order = np.lexsort((slots, places))
        weights, summed, step = self.state.weights.copy(), self.state.summed.copy(), self.state.step
        batch, scale, margins = schedule.batch, randomiser.norm(columns) / 2.0**BITS, randomiser.curriculum.thresholds(self.epoch)
        sums, sent, place = np.zeros(columns), 0, 0
        for tile in tiles(Block(X[order], y[order], slots[order])):
            prepared, at = randomiser.prepare(key, self.epoch, tile), 0
            while at < len(tile):
                stop = min(len(tile), at + batch - place % batch)
                sent += randomiser.add(prepared, at, stop, weights, margins, 2.0**BITS, sums)
                place, at = place + stop - at, stop
                if place % batch == 0 or place == len(order):
                    step += 1
                    self.server.move(weights, summed, sums * (scale / max(1, sent)), step)
                    sums[:], sent = 0.0, 0
        return State(step, weights, summed).packed()
