"""Slots, groups and their pseudo-random function."""

import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightfit.numerics.prf import Buckets, groups_of, members, prf, slots_of
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.boundings.l2_clip import L2Clip
from nightfit.queries.gradient_sums import GradientSum, Groups
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import scan
from nightfit.shards.read import chunks_of, hash_ids, load
from nightfit.types import Adjacency, Block, Sample

KEY = bytes(range(16))


def test_the_function_is_siphash():
    """The authors' test vector for the 16 bytes 00 01 .. 0f under the key 00 01 .. 0f."""
    stream, slot = struct.unpack("<QQ", bytes(range(16)))
    assert prf(KEY, stream, np.array([slot], dtype=np.uint64))[0] == 0x3F2ACC7F57C29BDB


def test_groups_are_even_and_change_with_the_key():
    slots = slots_of("file", 0, 100_000)
    groups = groups_of(KEY, 10, slots)
    counts = np.bincount(groups, minlength=10)
    # chi-square with 9 degrees of freedom exceeds 40 with probability below 1e-5; the key is fixed
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 40
    assert 0.08 < (groups == groups_of(bytes(16), 10, slots)).mean() < 0.12


def test_a_row_keeps_its_slot_however_the_file_is_cut(tmp_path):
    table = pa.table({"a": np.arange(1000.0), "y": np.arange(1000.0), "id": [f"r{i}" for i in range(1000)]})
    seen = []
    for number, (rows, chunk_bytes) in enumerate([(1000, 2**26), (64, 2**26), (64, 3000)]):
        (tmp_path / str(number)).mkdir()
        pq.write_table(table, tmp_path / str(number) / "part.parquet", row_group_size=rows)
        manifest = scan(str(tmp_path / str(number)))
        shape = Preprocessing(features=("a",), target="y", centre=(0.0,), scale=(1e4,), intercept=False)
        seen.append(np.concatenate([load(chunk, shape).slots for chunk in chunks_of(manifest, 1, chunk_bytes)]))
    assert (seen[0] == seen[1]).all()
    assert (seen[0] == seen[2]).all()
    assert len(np.unique(seen[0])) == 1000


@pytest.mark.parametrize("ids", [[None] * 2000, ["same"] * 2000, [f"r{i // 50}" for i in range(2000)]])
def test_records_that_share_an_id_are_sampled_one_by_one(tmp_path, ids):
    table = pa.table({"a": np.arange(2000.0), "y": np.arange(2000.0), "id": pa.array(ids, type=pa.string())})
    pq.write_table(table, tmp_path / "part.parquet", row_group_size=300)
    block = load(chunks_of(scan(str(tmp_path)), 1, 2**26)[0], named())
    assert len(np.unique(block.slots)) == 2000
    drawn = np.array(list(members(KEY, [Sample(0.1, number) for number in range(50)], block.slots)))
    # 200 of 2000 with a deviation of 13.4 are expected in a sample: 100 and 300 are more than 7 deviations away
    assert 100 < drawn.sum(axis=1).min() <= drawn.sum(axis=1).max() < 300
    # two records together in 0.01 of the samples; if an id's records shared their coins, in 0.1 of them
    assert (drawn[:, 0::2] & drawn[:, 1::2]).mean() < 0.02


def test_a_bucket_is_that_of_the_id_in_whatever_file_and_row(tmp_path):
    table = pa.table({"a": np.arange(1.0, 101.0), "y": np.arange(100.0), "id": np.arange(100)})
    found = []
    for name, order in (("one", np.arange(100)), ("two", np.arange(100)[::-1])):
        (tmp_path / name).mkdir()
        pq.write_table(table.take(order), tmp_path / name / f"{name}.parquet")
        block = load(chunks_of(scan(str(tmp_path / name)), 1, 2**26)[0], named(buckets=BUCKETS))
        found.append(sorted(block.X[block.X[:, 0] != 0, 0].tolist()))
    assert found[0] == found[1]
    assert 20 < len(found[0]) < 80


def test_an_id_that_is_no_text_stops_nothing(tmp_path):
    ids = pa.array([b"\xff\xfe", None, b"ok"], type=pa.binary())
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0], "id": ids}), tmp_path / "part.parquet")
    assert len(load(chunks_of(scan(str(tmp_path)), 1, 2**26)[0], named(buckets=BUCKETS))) == 3
    assert len(np.unique(hash_ids(ids))) == 3


BUCKETS = Buckets(count=2, chosen=(1,), key=KEY)


def named(**said):
    return Preprocessing(features=("a",), target="y", centre=(0.0,), scale=(1e4,), intercept=False, row_id="id", **said)


def medians(block, count=4, bounding=None):
    query = GradientSum(
        loss=Squared(), bounding=bounding or CoordinateClip(bound=1.0), weights=np.zeros(2), bits=20, key=KEY, groups=Groups(count=count)
    )
    return query, query.finalise(query.chunk(block))


@settings(max_examples=200, deadline=None)
@given(
    values=st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=2, max_size=40),
    new=st.tuples(st.floats(-9, 9), st.floats(-9, 9)),
    place=st.integers(0, 39),
    count=st.sampled_from([2, 4, 8]),
    l2=st.booleans(),
)
def test_a_neighbour_moves_the_two_middle_sums_by_at_most_the_sensitivity(values, new, place, count, l2):
    slots = slots_of("file", 0, len(values))
    bounding = L2Clip(bound=1.0) if l2 else CoordinateClip(bound=1.0)
    before = np.array(values)
    after = before.copy()
    after[place % len(values)] = new
    query, one = medians(Block(before, np.ones(len(values)), slots), count, bounding)
    _, two = medians(Block(after, np.ones(len(values)), slots), count, bounding)
    assert sum(int(v) ** 2 for v in one - two) <= query.sensitivity(Adjacency.REPLACE_ONE) ** 2


def test_an_odd_number_of_groups_is_refused():
    with pytest.raises(ValueError, match="even"):
        Groups(count=5)


def test_grouped_sums_are_the_same_for_any_cut_and_on_a_cluster(table, write, client):
    query = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=1.0), weights=np.zeros(4), bits=30, key=KEY, groups=Groups(count=6))
    shape = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0.0,) * 3, scale=(5.0,) * 3, intercept=True)
    manifest = scan(str(write("flat", table, [300, 400], row_group_size=37)))
    plain = ShardedDataset(manifest, shape).aggregate(query)
    assert plain.shape == (6, 4)
    assert (ShardedDataset(manifest, shape, chunk_bytes=100 * 40).aggregate(query) == plain).all()
    assert (ShardedDataset(manifest, shape, client, chunk_bytes=100 * 40).aggregate(query) == plain).all()
    rows = np.column_stack([table[name].to_numpy() for name in ("x0", "x1", "x2")])
    slots = np.concatenate([slots_of("part-00000.parquet", 0, 300), slots_of("part-00001.parquet", 0, 400)])
    assert (query.chunk(shape.block(rows, table["y"].to_numpy(), slots)) == plain).all()
