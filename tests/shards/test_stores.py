"""Shards and releases in an object store: a real S3 server on loopback, with credentials from the environment alone."""

import urllib.request

import numpy as np
import pyarrow.parquet as pq
import pytest

from nightfit.config import ConfigError, parse
from nightfit.ledger import Ledger
from nightfit.nightly import open_ledger, prepare, publish, reserve, run_fit
from nightfit.nightly.copies import check_store
from nightfit.problem.losses.squared import Squared
from nightfit.queries.boundings.coordinate_clip import CoordinateClip
from nightfit.queries.gradient_sums import GradientSum
from nightfit.records.preprocessing import Preprocessing
from nightfit.shards.dataset import ShardedDataset
from nightfit.shards.manifest import DataError, check_unchanged, scan
from nightfit.shards.source import Source

pytestmark = pytest.mark.process

BOUNDS = Preprocessing(features=("x0", "x1", "x2"), target="y", centre=(0, 0, 0), scale=(4, 2, 1), intercept=True)
QUERY = GradientSum(loss=Squared(), bounding=CoordinateClip(bound=0.5), weights=np.array([0.3, -0.2, 0.1, 0.05]), bits=40)
SECRET = "a-secret-of-the-store"


@pytest.fixture
def endpoint(monkeypatch):
    """The URL of an S3 server in this process; what opens it is in the environment."""
    from moto.server import ThreadedMotoServer

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "user")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    url = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{url}/moto-api/reset", method="POST")).close()  # another test's buckets
    yield url
    server.stop()


@pytest.fixture
def store(endpoint):
    """Another client of the same store, with one bucket."""
    import s3fs

    made = s3fs.S3FileSystem(endpoint_url=endpoint, skip_instance_cache=True, use_listings_cache=False)
    made.mkdir("clinic")
    return made


def put(store, table, name):
    with store.open(f"clinic/{name}", "wb") as handle:
        pq.write_table(table, handle)


def test_f44_shards_in_s3_are_read_and_a_replaced_object_is_seen(store, endpoint, table):
    """The client that scans remembers what it listed; a second one replaces an object of the same name."""
    put(store, table.slice(0, 300), "day=1/a.parquet")
    put(store, table.slice(300), "day=2/b.parquet")
    source = Source(path="s3://clinic", options={"endpoint_url": endpoint})
    first = scan(source)
    assert first.rows == 700
    whole = ShardedDataset(first, BOUNDS).aggregate(QUERY)
    assert (whole == QUERY.chunk(BOUNDS.block(np.column_stack([table[f"x{j}"] for j in range(3)]), table["y"].to_numpy()))).all()
    put(store, table.slice(300, 5), "day=2/b.parquet")
    with pytest.raises(DataError, match=r"b\.parquet was added, removed or rewritten"):
        check_unchanged(first)
    with pytest.raises(DataError, match="rewritten since the plan"):
        ShardedDataset(first, BOUNDS).aggregate(QUERY)
    assert scan(source).rows == 305
    store.rm("clinic/day=1/a.parquet")
    assert scan(source).rows == 5


def test_secrets_do_not_belong_into_a_configuration(tmp_path):
    content = {
        "name": "visits",
        "data": {"path": "s3://clinic", "target": "y", "storage_options": {"client_kwargs": {"aws_secret_access_key": SECRET}}},
        "privacy": {"epsilon": 1.0, "delta": 1e-6},
    }
    with pytest.raises(ConfigError, match=r"storage_options.client_kwargs.aws_secret_access_key: secrets do not belong") as caught:
        parse(content, tmp_path)
    assert SECRET not in str(caught.value)


@pytest.fixture
def copied(endpoint, store, tmp_path, table, write, monkeypatch):
    """A function that loads a refit of a window whose releases are copied to the store."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    write("shards", table, [300, 400])

    def make(window="night 1", output="s3://clinic/models"):
        content = {
            "name": "m",
            "data": {"name": "d", "path": "shards", "target": "y", "default": {"kind": "number", "bounds": [-4, 4]}, "window": window},
            "privacy": {"epsilon": 1.0, "delta": 1e-6, "lifetime": {"epsilon": 8.0, "delta": 1e-5}},
            "method": {"steps": 2},
            "cluster": "synchronous",
            "output": output,
        }
        return parse(content, tmp_path)

    Ledger.create(make().ledger_url).engine.dispose()
    return make


def refitted(config):
    job, ledger = prepare(config), open_ledger(config)
    return publish(job, ledger, run_fit(job, ledger, reserve(job, ledger))).release_path.parent


def test_releases_are_copied_to_a_store_and_what_it_lacks_by_the_next_night(copied, store, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nightfit.nightly.copies._put", None)
        patch.setattr("nightfit.nightly.readiness.check_store", lambda _: None)
        with pytest.warns(UserWarning, match=r"s3://clinic/models could not be written .* the next refit copies it"):
            first = refitted(copied())
    assert first.parent == tmp_path / "releases"
    assert store.find("clinic/models") == []
    second = refitted(copied("night 2"))
    for made in (first, second):
        for name in ("release.json", "report.html"):
            assert store.cat_file(f"clinic/models/{made.name}/{name}") == (made / name).read_bytes()
    assert store.cat_file("clinic/models/current") == (tmp_path / "releases" / "current").read_bytes()


def test_a_store_that_cannot_be_written_is_told_before_anything_is_reserved(copied):
    for url in ("s3://missing/models", "nostore://clinic/models"):
        config = copied(output=url)
        job, ledger = prepare(config), open_ledger(config)
        with pytest.raises(ConfigError, match=f"output: {url} cannot be written .* nothing was reserved"):
            reserve(job, ledger)
        assert ledger.runs() == []
    with pytest.raises(ConfigError, match="without what opens the store"):
        copied(output=f"s3://user:{SECRET}@clinic/models")


def test_a_file_in_a_store_of_files_is_never_seen_half(tmp_path):
    url = f"file://{tmp_path}/models"
    check_store(url)
    assert list((tmp_path / "models").iterdir()) == []
