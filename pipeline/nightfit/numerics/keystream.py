"""A keystream for each record: ChaCha20 with the run's key and the nonce (purpose, epoch, slot). Imports numpy, prf, types.

Why ChaCha20 (Bernstein 2008; RFC 8439): the privacy of a report rests on a number that nobody can predict without the key, so the
generator must be a cryptographic pseudo-random function with a key of 256 bits; and because it is addressed by a counter, a retried or
moved task repeats itself. It consists of 32-bit additions, exclusive ors and rotations without tables, so sixteen blocks are computed
side by side in vector registers, which a hash per number (SipHash) does not allow. All 20 rounds are kept: they cost less than turning
words into Gaussian numbers.

Of the 16 words of a block's initial state, word 12 is the counter and words 13 to 15 are the nonce: 2^24 purpose + epoch, then the two
halves of the slot.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.numerics.compiled import compiled
from nightfit.numerics.prf import Slots
from nightfit.types import Array

KEY_BYTES = 32
LANES = 16  # blocks that are computed side by side
WORDS = 16  # 32-bit words of a block
LAYERS = 256  # of the ziggurat: 8 bits choose one
EPOCHS = 2**24  # a purpose and an epoch share the 32 bits of word 13
REPORT, ORDER, LABEL, SIGN = 1, 2, 3, 4  # purposes
COIN_WORDS = 2
ATTEMPT = 2**20  # blocks between two attempts at a report: 16 million words

Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Key:
    """The 256-bit key that all reports of a run are drawn with. Its repr does not show it, and it cannot be pickled.

    Guarantee: whoever holds the key can undo every report, so it travels to workers as bytes beside a task graph (never in one), is
    erased when the run ends and is in no release, log or error. Broken by test_the_key_is_in_no_repr_and_no_pickle and
    test_the_key_is_in_no_pickle_of_the_procedure.

    Raises
    ------
    ValueError
        If the secret does not have 32 bytes.
    """

    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ValueError(f"a key of local reports has {KEY_BYTES} bytes, got {len(self.secret)}")

    def __reduce__(self) -> Any:
        raise TypeError("a key of local reports is never pickled")

    @property
    def words(self) -> Words:
        """The key as eight little-endian words (RFC 8439, sec. 2.3)."""
        return np.frombuffer(self.secret, dtype="<u4").astype(np.uint32)


def uniforms(key: Key, purpose: int, epoch: int, slots: Slots) -> Slots:
    """64 pseudo-random bits for each slot: the beginning of its keystream for this purpose and epoch."""
    words = np.empty((len(slots), WORDS), dtype=np.uint32)
    fill(key.words, nonce_word(purpose, epoch), slots, np.uint32(0), 1, words)
    return words[:, :2].copy().view(np.uint64)[:, 0]


def draw(key: Key, epoch: int, slots: Slots, attempt: int, gaussians: Array, coins: Slots) -> None:
    """Fill gaussians[i] with standard normal numbers and coins[i] with 64 random bits, from the keystream of slots[i].

    Parameters
    ----------
    key : Key
    epoch, attempt : int
        Each epoch, and each attempt within it, has numbers of its own.
    slots : array of uint64
    gaussians : array of float64, slots x columns
        Output.
    coins : array of uint64
        Output.
    """
    _draw(key.words, nonce_word(REPORT, epoch), slots, np.uint32(attempt * ATTEMPT), gaussians, coins)


def nonce_word(purpose: int, epoch: int) -> np.uint32:
    """Word 13 of the state, 2^24 purpose + epoch: different purposes or epochs never share a block.

    Raises
    ------
    ValueError
        If the epoch is negative or has more than 24 bits.
    """
    if not 0 <= epoch < EPOCHS:
        raise ValueError(f"an epoch is a number from 0 to {EPOCHS - 1}, got {epoch}")
    return np.uint32(purpose * EPOCHS + epoch)


# Numba widens 32-bit sums and shifts to 64 bits, hence the casts.
@compiled(inline="always")
def _rotate_left(x: Any, bits: Any) -> Any:
    return np.uint32(np.uint32(x << np.uint32(bits)) | np.uint32(x >> np.uint32(32 - bits)))


@compiled(inline="always")
def _quarter_round(s: Any, a: Any, b: Any, c: Any, d: Any) -> None:
    """RFC 8439, sec. 2.1, on words a, b, c and d of every lane."""
    for lane in range(np.uintp(LANES)):
        x, y, z, w = s[np.uintp(a), lane], s[np.uintp(b), lane], s[np.uintp(c), lane], s[np.uintp(d), lane]
        x = np.uint32(x + y)
        w = _rotate_left(np.uint32(w ^ x), 16)
        z = np.uint32(z + w)
        y = _rotate_left(np.uint32(y ^ z), 12)
        x = np.uint32(x + y)
        w = _rotate_left(np.uint32(w ^ x), 8)
        z = np.uint32(z + w)
        y = _rotate_left(np.uint32(y ^ z), 7)
        s[np.uintp(a), lane], s[np.uintp(b), lane], s[np.uintp(c), lane], s[np.uintp(d), lane] = x, y, z, w


@compiled
def chacha(start: Any, s: Any) -> None:
    """RFC 8439, sec. 2.3: set s to the blocks of the initial states in `start`, one per lane (both are 16 words x lanes)."""
    for word in range(np.uintp(WORDS)):  # Numba compiles s[:] = start for seconds
        for lane in range(np.uintp(LANES)):
            s[word, lane] = start[word, lane]
    for _ in range(10):
        for a in range(4):
            _quarter_round(s, a, 4 + a, 8 + a, 12 + a)
        for a in range(4):
            _quarter_round(s, a, 4 + (a + 1) % 4, 8 + (a + 2) % 4, 12 + (a + 3) % 4)
    for word in range(np.uintp(WORDS)):
        for lane in range(np.uintp(LANES)):
            s[word, lane] = np.uint32(s[word, lane] + start[word, lane])


@compiled
def fill(key: Any, nonce: Any, slots: Any, first: Any, count: Any, out: Any) -> None:
    """out[i, 16 k : 16 (k + 1)] = the block of slots[i] with the counter first + k, for k < count; `nonce` is word 13."""
    start, s = np.empty((WORDS, LANES), dtype=np.uint32), np.empty((WORDS, LANES), dtype=np.uint32)
    for lane in range(LANES):
        start[0, lane], start[1, lane] = np.uint32(0x61707865), np.uint32(0x3320646E)
        start[2, lane], start[3, lane] = np.uint32(0x79622D32), np.uint32(0x6B206574)
        for word in range(8):
            start[4 + word, lane] = key[word]
        start[13, lane] = nonce
    items = len(slots) * count
    for item in range(0, items, LANES):
        many = min(LANES, items - item)
        for lane in range(many):
            slot = slots[(item + lane) // count]
            start[12, lane] = np.uint32(first + np.uint32((item + lane) % count))
            start[14, lane] = np.uint32(slot & np.uint64(0xFFFFFFFF))
            start[15, lane] = np.uint32(slot >> np.uint64(32))
        chacha(start, s)
        for lane in range(many):
            i, offset = (item + lane) // count, WORDS * ((item + lane) % count)
            for word in range(WORDS):
                out[i, offset + word] = s[word, lane]


def _ziggurat() -> tuple[Array, float]:
    """Edges x_0 > x_1 > ... > x_256 = 0 of 256 layers of equal area under exp(-x^2 / 2) (Marsaglia, Tsang 2000), and the start x_1 of
    the tail. The lowest layer is a box of width x_0 = area / exp(-x_1^2 / 2), which has the area of its part below x_1 and the tail.
    """
    tail = 3.6541528853610088  # for this x_1, and no other, the 256th layer ends at exp(0) = 1
    area = tail * math.exp(-tail * tail / 2) + math.sqrt(math.pi / 2) * math.erfc(tail / math.sqrt(2))
    edges = np.zeros(LAYERS + 1)
    edges[0], edges[1] = area / math.exp(-tail * tail / 2), tail
    for layer in range(2, LAYERS):
        edges[layer] = math.sqrt(-2 * math.log(area / edges[layer - 1] + math.exp(-(edges[layer - 1] ** 2) / 2)))
    return edges, tail


EDGES, TAIL = _ziggurat()
HEIGHTS = np.exp(-(EDGES**2) / 2)
STEPS = EDGES[:-1] * 2.0**-23
INSIDE = np.floor(EDGES[1:] / EDGES[:-1] * 2.0**23 - 0.5)  # below it a place of 23 bits lies under the curve, whatever its height
UNIT = 2.0**-32
MOST_WORDS = 3  # that one attempt at a number uses


@compiled
def _normals(words: Any, at: Any, out: Any, j: Any) -> Any:
    """Fill out[j:] with standard normal numbers made from words[at:], and return how much of `out` is filled when words run out.

    Of a word, 8 bits choose a layer of the ziggurat, one bit the sign and 23 bits k the place (k + 1/2) 2^-23 of the layer's width: the
    number is never zero, and its absolute value does not depend on its sign.
    """
    last = len(words) - MOST_WORDS
    while j < len(out) and at <= last:
        word = words[at]
        at += 1
        layer = np.uintp(word & np.uint32(255))
        place = np.float64(np.int64(word >> np.uint32(9)))
        x = (place + 0.5) * STEPS[layer]
        if place >= INSIDE[layer]:
            height = (np.float64(words[at]) + 0.5) * UNIT
            at += 1
            if layer > 0:
                if HEIGHTS[layer] + height * (HEIGHTS[layer + 1] - HEIGHTS[layer]) >= math.exp(-x * x / 2):
                    continue
            elif x >= TAIL:
                beyond = -math.log(height) / TAIL
                height = (np.float64(words[at]) + 0.5) * UNIT
                at += 1
                if -2.0 * math.log(height) < beyond * beyond:
                    continue
                x = TAIL + beyond
        out[j] = -x if word & np.uint32(256) else x
        j += 1
    return j


@compiled
def _draw(key: Any, nonce: Any, slots: Any, first: Any, gaussians: Any, coins: Any) -> None:
    """The first two words of a keystream are the coin. 3% more words than numbers are made in advance, and more when they run out."""
    columns = gaussians.shape[1]
    count = (COIN_WORDS + MOST_WORDS + columns + columns // 32 + WORDS - 1) // WORDS
    words, more = np.empty((LANES, WORDS * count), dtype=np.uint32), np.empty((1, WORDS), dtype=np.uint32)
    for start in range(0, len(slots), LANES):
        many = min(LANES, len(slots) - start)
        fill(key, nonce, slots[start : start + many], first, count, words)
        for lane in range(many):
            i = start + lane
            coins[i] = np.uint64(words[lane, 0]) | (np.uint64(words[lane, 1]) << np.uint64(32))
            filled = _normals(words[lane], COIN_WORDS, gaussians[i], 0)
            block = count
            while filled < columns:
                fill(key, nonce, slots[i : i + 1], np.uint32(first + np.uint32(block)), 1, more)
                filled = _normals(more[0], 0, gaussians[i], filled)
                block += 1
