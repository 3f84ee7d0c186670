"""Which records contribute in an epoch: everyone, or those whose margin passes a falling threshold. Imports numerics.

Han et al. (2018), alg. 1: a record is learned from when (<w, x> + b) y >= D_th, and after epoch k D_th falls by mu sqrt(k); their D_th
and mu are our start and drop.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nightfit.numerics.keystream import LABEL, Key, uniforms
from nightfit.numerics.prf import Slots
from nightfit.privacy.local.randomisers.djw import check_epsilon
from nightfit.types import Array


@dataclass(frozen=True, slots=True)
class MarginThresholds:
    """A record whose margin is below `learn` reports a zero gradient; one below `send` sends no report, which everyone sees."""

    learn: float
    send: float


class Curriculum(Protocol):
    """Decides from a record's margin whether the server learns from it."""

    @property
    def label_epsilon(self) -> float:
        """What the label's randomised response costs, once for the whole fit; 0 where labels stay with their owners."""

    def labels(self, key: Key, y: Array, slots: Slots) -> Array:
        """The labels that gradients are computed from."""

    def thresholds(self, epoch: int) -> MarginThresholds:
        """What a margin y <w, x> must reach in the epoch of this number (from 0)."""


def threshold(start: float, drop: float, epoch: int) -> float:
    """start - drop (sqrt(1) + ... + sqrt(epoch))."""
    return start - drop * math.fsum(math.sqrt(k) for k in range(1, epoch + 1))


def _check(start: float, drop: float) -> None:
    if not (math.isfinite(start) and math.isfinite(drop) and drop >= 0):
        raise ValueError(f"a curriculum needs a finite threshold and a drop of 0 or more, got {start} and {drop}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Everyone:
    """Private sampling without a curriculum (Duchi, Jordan, Wainwright 2013)."""

    @property
    def label_epsilon(self) -> float:
        return 0.0

    def labels(self, key: Key, y: Array, slots: Slots) -> Array:
        return y

    def thresholds(self, epoch: int) -> MarginThresholds:
        return MarginThresholds(-math.inf, -math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class Masked:
    """The decision is made inside the randomiser, from the true label: a record that does not pass reports a zero gradient.

    Guarantee: everybody sends a report, whose law is within e^epsilon of any other record's, so whether the record passed is as
    private as the rest of it. Broken by test_whether_a_record_passed_the_curriculum_cannot_be_told.
    """

    start: float = 1.5
    drop: float = 1.0

    def __post_init__(self) -> None:
        _check(self.start, self.drop)

    @property
    def label_epsilon(self) -> float:
        return 0.0

    def labels(self, key: Key, y: Array, slots: Slots) -> Array:
        return y

    def thresholds(self, epoch: int) -> MarginThresholds:
        return MarginThresholds(threshold(self.start, self.drop, epoch), -math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelOnly:
    """The paper's curriculum: the label is flipped with probability 1 / (1 + e^label_epsilon), once and for all, and a record sends
    a report only if the margin of its flipped label passes.

    Guarantee: for the label alone, the features being known: all that follows is a function of features and flipped label.
    Whether a record reports depends on its features in the clear, so nothing of them is protected: broken by
    test_whether_a_record_passed_the_curriculum_cannot_be_told, which this curriculum fails. The flip comes from a keystream without epoch:
    a fresh one in each epoch would cost label_epsilon each time. Broken by test_a_label_is_flipped_once_for_the_whole_fit.
    """

    label_epsilon: float
    start: float = 1.5
    drop: float = 1.0

    def __post_init__(self) -> None:
        check_epsilon(self.label_epsilon)
        _check(self.start, self.drop)

    def labels(self, key: Key, y: Array, slots: Slots) -> Array:
        kept = uniforms(key, LABEL, 0, slots) < np.uint64(2.0**63 * (1 + math.tanh(self.label_epsilon / 2) * (1 - 2.0**-40)))
        return np.where(kept, y, -y)

    def thresholds(self, epoch: int) -> MarginThresholds:
        return MarginThresholds(-math.inf, threshold(self.start, self.drop, epoch))
