"""I24: every malformed configuration ends in one message that names the fault; none ends in an unforeseen exception."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from nightfit.config import ConfigError, load
from nightfit.ledger import Ledger
from nightfit.nightly import prepare, prepare_search
from nightfit.types import NightfitError

TEXT = """
name: visits
data: {path: shards, target: y, row_id: id, exclude: [note], default: {kind: number, bounds: [-10, 10]}}
privacy: {epsilon: 1.0, delta: 1e-6, lifetime: {epsilon: 8.0, delta: 1e-5}}
method: {steps: 3}
cluster: {kind: synchronous}
"""
DIGITS = "9" * 5000

# What replaces `old` in the text above, and what the message says.
REPLACED = {
    "duplicate key": ("epsilon: 1.0", "epsilon: 0.1, epsilon: 5.0", "'epsilon' is written twice"),
    "duplicate section": ("method:", "privacy: {epsilon: 2.0, delta: 1e-6}\nmethod:", "'privacy' is written twice"),
    "duplicate by a merge": ("{steps: 3}", "{<<: {steps: 3}, <<: {steps: 4}}", "'<<' is written twice"),
    "duplicate bounds": (
        "default: {kind: number, bounds: [-10, 10]}",
        "columns: {x: {kind: number}, x: {kind: boolean}}",
        "'x' is written twice",
    ),
    "a list as a key": ("{steps: 3}", "{[1, 2]: 3}", "not valid YAML"),
    "a mapping as a key": ("{steps: 3}", "{{a: 1}: 3}", "not valid YAML"),
    "a number as a key": ("{steps: 3}", "{3: 3}", "a key is a name"),
    "a number as a section": ("name: visits", "name: visits\n3: 4", "a key is a name"),
    "nothing as a key": ("{steps: 3}", "{~: 3}", "a key is a name"),
    "a date as a key": ("{steps: 3}", "{2026-11-14: 3}", "a key is a name"),
    "a tag": ("name: visits", "name: !!python/name:os.system", "not valid YAML"),
    "an object": ("name: visits", "name: !!python/object/apply:os.getcwd []", "not valid YAML"),
    "an anchor of itself": ("{steps: 3}", "&a {steps: *a}", "steps"),
    "an unknown alias": ("{steps: 3}", "*nowhere", "not valid YAML"),
    "deep lists": ("{steps: 3}", "[" * 3000 + "]" * 3000, "too deeply nested"),
    "deep mappings": ("{steps: 3}", "{a: " * 3000 + "1" + "}" * 3000, "too deeply nested"),
    "many aliases": (
        "{steps: 3}",
        "{a: &a [1,1,1,1,1,1], b: &b [*a,*a,*a,*a,*a], c: [*b,*b,*b,*b,*b]}",
        "unknown key",
    ),
    "two documents": ("name: visits", "---\na: 1\n---\nname: visits", "not valid YAML"),
    "a tab": ("name: visits", "name: visits\n\tb: 1", "not valid YAML"),
    "a bare word": ("method: {steps: 3}", "method", "not valid YAML"),
    "huge epsilon": ("epsilon: 1.0", f"epsilon: {DIGITS}", "too many digits"),
    "huge steps": ("steps: 3", f"steps: {DIGITS}", "too many digits"),
    "huge float": ("epsilon: 1.0", f"epsilon: {DIGITS}.0", "too many digits"),
    "huge exponent": ("epsilon: 1.0", "epsilon: 1e400", "epsilon"),
    "tiny exponent": ("epsilon: 1.0", "epsilon: 1e-400", "epsilon"),
    "sexagesimal": ("epsilon: 1.0", "epsilon: 1:30", "in sixties"),
    "octal steps": ("steps: 3", "steps: 0o17", "steps"),
    "huge hexadecimal": ("steps: 3", f"steps: 0x{'f' * 5000}", "too many digits"),
    "not a number": ("epsilon: 1.0", "epsilon: .nan", "epsilon"),
    "a decimal comma": ("epsilon: 1.0", "epsilon: '1,0'", "epsilon"),
    "a boolean": ("epsilon: 1.0", "epsilon: yes", "epsilon"),
    "a binary": ("epsilon: 1.0", "epsilon: !!binary aGVsbG8=", "epsilon"),
    "a bad binary": ("epsilon: 1.0", "epsilon: !!binary 'aGVs bG8='", "epsilon|not valid YAML"),
    "a bad integer": ("steps: 3", "steps: !!int three", "not valid YAML"),
    "a bad float": ("epsilon: 1.0", "epsilon: !!float one", "not valid YAML"),
    "a bad boolean": ("epsilon: 1.0", "epsilon: !!bool maybe", "not valid YAML"),
    "a bad set": ("{steps: 3}", "!!set [1, 2]", "not valid YAML"),
    "a set": ("{steps: 3}", "!!set {steps}", "method"),
    "pairs": ("{steps: 3}", "!!pairs [steps: 3]", "method"),
    "bad pairs": ("{steps: 3}", "!!omap [1, 2]", "not valid YAML"),
    "a bad timestamp": ("name: visits", "name: !!timestamp tomorrow", "not valid YAML"),
    "an octal integer": ("steps: 3", "steps: 010", "octal"),
    "a float in sixties": ("epsilon: 1.0", "epsilon: 0:01.0", "in sixties"),
    "an integer with an underscore": ("steps: 3", "steps: 1_0", "underscores"),
    "a float with an underscore": ("epsilon: 1.0", "epsilon: 1_0.0", "underscores"),
    "an integer of an underscore": ("steps: 3", "steps: !!int '_'", "not valid YAML"),
}
# What replaces, or adds, keys of a section; None removes it.
CHANGED = {
    "an impossible date": ({"data": {"window": "DATE 2026-02-31"}}, "2026-02-31"),
    "a month of zero": ({"data": {"window": "DATE 2026-00-10"}}, "2026-00-10"),
    "negative blocks": ({"data": {"window": "last -5 blocks"}}, "last 30 blocks"),
    "no blocks": ({"data": {"window": "last 0 blocks"}}, "at least one block"),
    "half a block": ({"data": {"window": "last 1.5 blocks"}}, "last 30 blocks"),
    "blocks in words": ({"data": {"window": "last five blocks"}}, "last 30 blocks"),
    "a missing number": ({"data": {"window": "last blocks"}}, "last 30 blocks"),
    "rotate nothing": ({"data": {"window": "rotate"}}, "rotate 4"),
    "rotate back": ({"data": {"window": "rotate -1"}}, "rotate 4"),
    "capital letters": ({"data": {"window": "Last 5 Blocks"}}, "last 30 blocks"),
    "days": ({"data": {"window": "last 5 days"}}, "last 30 blocks"),
    "a huge window": ({"data": {"window": f"last {DIGITS} blocks"}}, "last 30 blocks"),
    "an empty window": ({"data": {"window": ""}}, "window"),
    "an empty list": ({"data": {"window": []}}, "at least one block"),
    "a window of one block": ({"data": {"window": ["day=1"]}}, "one block"),
    "unknown blocks": ({"data": {"blocks": "hash:-1"}}, "hash:64"),
    "too many buckets": ({"data": {"blocks": f"hash:{DIGITS}"}}, "data.blocks"),
    "an unknown key of blocks": ({"data": {"blocks": "day"}}, "day"),
    "an unknown name to leave out": ({"data": {"exclude": ["nte"]}}, "data.exclude names 'nte'.*did you mean 'note'"),
    "a name left out twice": ({"data": {"exclude": ["note", "note"]}}, "data.exclude names 'note' twice"),
    "the target left out": ({"data": {"exclude": ["note", "y"]}}, "data.exclude names 'y'.*target"),
    "a feature left out": ({"data": {"columns": {"x": {"kind": "number"}}, "exclude": ["note", "x"]}}, "'x' is named twice"),
    "an unknown feature": ({"data": {"columns": {"x": {"kind": "number"}, "xx": {"kind": "number"}}}}, "'xx' is missing"),
    "an unknown target": ({"data": {"target": "yy"}}, "'yy' is missing"),
    "an unknown row id": ({"data": {"row_id": "nobody"}}, "'nobody'"),
    "an unknown bound": ({"data": {"columns": {"xx": {"kind": "number", "bounds": [0, 1]}}}}, "'xx'"),
    "an unknown unit": ({"data": {"unit": "patient", "units": 10}}, "'patient'"),
    "an unknown column of a mean": (
        {"model": {"kind": "mean", "columns": ["xx"]}, "data": {"target": None}},
        "model.columns names 'xx'.*did you mean 'x'",
    ),
    "a column of a mean twice": ({"model": {"kind": "mean", "columns": ["x", "x"]}, "data": {"target": None}}, "named twice"),
    "denormal bounds": ({"data": {"default": {"kind": "number", "bounds": [0.0, 5e-324]}}}, "apart"),
    "bounds that are one number": ({"data": {"default": {"kind": "number", "bounds": [1e16, 1e16 + 2]}}}, "apart"),
    "bounds at the end": ({"data": {"default": {"kind": "number", "bounds": [-1.7e308, 1.7e308]}}}, "finite"),
    "three bounds": ({"data": {"default": {"kind": "number", "bounds": [0, 1, 2]}}}, "data.default"),
    "bounds in words": ({"data": {"default": {"kind": "number", "bounds": "0 to 1"}}}, "data.default"),
    "NUL in the data's path": ({"data": {"path": "sha\0rds"}}, "data.path"),
    "NUL in the output": ({"output": "rele\0ases"}, "output"),
    "NUL in the ledger": ({"ledger": "sqlite:///led\0ger.db"}, "ledger"),
    "NUL in a directory": ({"cluster": {"kind": "local", "directory": "a\0b"}}, "directory"),
    "NUL in a name": ({"name": "a\0b"}, "name"),
    "a half of a character": ({"data": {"path": "sh\ud800rds"}}, "data.path"),
    "an empty path": ({"data": {"path": ""}}, "data.path"),
    "an empty output": ({"output": ""}, "output"),
    "an empty ledger": ({"ledger": ""}, "ledger"),
    "a long path": ({"data": {"path": "a" * 5000}}, "data.path"),
    "a long output": ({"output": "a" * 5000}, "output"),
    "a long ledger": ({"ledger": f"sqlite:///{'a' * 5000}.db"}, "ledger"),
    "an output with a secret": ({"output": "s3://user:secret@bucket/releases"}, "output"),
    "an output with a scheme": ({"output": "file:///tmp/releases"}, "output"),
    "a store without its package": ({"data": {"path": "dropbox://bucket/shards"}}, "dropbox"),
    "another store without its package": ({"data": {"path": "oci://bucket/shards"}}, "oci"),
    "an unknown store": ({"data": {"path": "sthree://bucket/shards"}}, "sthree"),
    "a store without a name": ({"data": {"path": "://bucket/shards"}}, "data.path"),
    "a web page": ({"data": {"path": "http://[::1/x.parquet"}}, "data.path"),
    "a chain of stores": ({"data": {"path": "simplecache::zip://x.parquet::nowhere://y"}}, "data.path|nowhere"),
    "a glob of nothing": ({"data": {"path": "shards/*.csv"}}, "no Parquet file"),
    "an open bracket": ({"data": {"path": "shards/[a.parquet"}}, "no Parquet file"),
    "no folder": ({"data": {"path": "nowhere"}}, "no Parquet file"),
    "a file that is no table": ({"data": {"path": "refit.yaml"}}, "not a readable Parquet file"),
    "a port of words": ({"ledger": "postgresql+psycopg://u@h:port/d"}, "ledger"),
    "a port too large": ({"ledger": "postgresql+psycopg://u@127.0.0.1:99999/d"}, "ledger|port"),
    "another database": ({"ledger": "mysql://u@h/d"}, "SQLite or PostgreSQL"),
    "a driver that nobody has": ({"ledger": "postgresql+nodriver://u@h/d"}, "driver|ledger"),
    "no database": ({"ledger": "ledger.db"}, "ledger"),
    "an option of no driver": ({"ledger": "postgresql+psycopg://u@127.0.0.1:9/d?nonsense=1"}, "ledger"),
    "a scheduler's port of words": ({"cluster": {"address": "tcp://127.0.0.1:port"}}, "cluster.address"),
    "a scheduler's port too large": ({"cluster": {"address": "tcp://127.0.0.1:99999"}}, "cluster.address"),
    "a scheduler without a port": ({"cluster": {"address": "tcp://127.0.0.1"}}, "cluster.address"),
    "a scheduler of nothing": ({"cluster": {"address": "tcp://:8786"}}, "cluster.address"),
    "a scheduler of brackets": ({"cluster": {"address": "tcp://[::1:8786"}}, "cluster.address"),
    "a class of nowhere": ({"cluster": {"class": "nowhere"}}, "cluster.class"),
    "a memory of points": ({"cluster": {"kind": "local", "memory": "1.2.3GiB"}}, "cluster.memory"),
    "a memory of nothing": ({"cluster": {"kind": "local", "memory": "0GiB"}}, "cluster.memory"),
    "a memory of dots": ({"cluster": {"kind": "local", "memory": "...B"}}, "cluster.memory"),
    "a cluster as a list": ({"cluster": ["tcp://h:1"]}, "cluster"),
    "a cluster of numbers": ({"cluster": {1: 2}}, "cluster"),
    "a method as a number": ({"method": 3}, "method"),
    "a method as nothing": ({"method": "NULL"}, "method"),
    "a solver in a list": ({"method": {"solver": ["phased"]}}, "solver"),
    "a solver in a mapping": ({"method": {"solver": {"phased": 1}}}, "solver"),
    "a loss in a list": ({"model": {"loss": ["huber"]}}, "loss"),
    "two losses": ({"model": {"loss": {"huber": {}, "squared": {}}}}, "loss"),
    "no loss": ({"model": {"loss": {}}}, "loss"),
    "a loss of words": ({"model": {"loss": {"huber": {"delta": "two"}}}}, "loss"),
    "a loss of nothing": ({"model": {"loss": {"huber": {"delta": 0.0}}}}, "delta|loss"),
    "a loss not a number": ({"model": {"loss": {"huber": {"delta": float("nan")}}}}, "delta|loss"),
    "a penalty of words": ({"model": {"penalty": {"l1": "much"}}}, "penalty"),
    "a penalty of a list": ({"model": {"penalty": {"l1": [1.0, 2.0]}}}, "penalty"),
    "a penalty of nothing": ({"model": {"penalty": {"elastic_net": "NULL"}}}, "penalty"),
    "a penalty not a number": ({"model": {"penalty": {"l2": float("nan")}}}, "penalty|weight"),
    "an endless penalty": ({"model": {"penalty": {"l2": float("inf")}}}, "penalty|weight"),
    "a box of one side": ({"model": {"penalty": {"box": [1.0]}}}, "penalty"),
    "a box upside down": ({"model": {"penalty": {"box": [1.0, -1.0]}}}, "box|penalty"),
    "a penalty by number": ({"model": {"penalty": {1: 2}}}, "penalty"),
    "an empty grid": ({"search": {"epsilon": 2.0, "grid": {}}}, "grid"),
    "a grid of a scalar": ({"search": {"epsilon": 2.0, "grid": {"model.penalty": 3}}}, "grid"),
    "a grid of unknown values": ({"search": {"epsilon": 2.0, "grid": {"model.loss": ["squared", "nope"]}}}, "nope"),
    "a grid of wrong values": ({"search": {"epsilon": 2.0, "grid": {"method.steps": [1, "many"]}}}, "steps"),
    "a grid of unknown fields": ({"search": {"epsilon": 2.0, "grid": {"method.stepz": [1, 2]}}}, "stepz"),
    "a grid of huge numbers": ({"search": {"epsilon": 2.0, "grid": {"method.steps": [3, 10**40]}}}, "steps"),
    "huge units": ({"privacy": {"adjacency": "add_remove"}, "data": {"units": 10**30}}, "units"),
    "huge rows of a person": ({"data": {"unit": "id", "row_id": None, "units": 10, "rows_per_unit": 10**30}}, "rows_per_unit"),
    "a step of almost nothing": ({"method": {"step_size": 5e-324}}, "step_size"),
    "a bound of almost nothing": ({"method": {"bound": 5e-324}}, "bound"),
    "a bound without end": ({"method": {"bound": float("inf")}}, "bound"),
    "a step without end": ({"method": {"step_size": float("inf")}}, "step_size"),
    "a diameter without end": ({"method": {"schedule": "theory", "diameter": float("inf")}}, "diameter"),
    "a huge batch": ({"method": {"batch": 10**30}}, "batch"),
    "a batch of nothing": ({"method": {"batch": 0}}, "batch"),
    "a huge pace": ({"privacy": {"epsilon": None, "pace": 10**30}}, "pace"),
    "rho of almost nothing": ({"privacy": {"epsilon": None, "rho": 5e-324}}, "epsilon|rho"),
    "rho without end": ({"privacy": {"epsilon": None, "rho": float("inf")}}, "epsilon|rho"),
    "rho not a number": ({"privacy": {"epsilon": None, "rho": float("nan")}}, "epsilon|rho"),
    "a negative rho": ({"privacy": {"epsilon": None, "rho": -1.0}}, "epsilon|rho"),
    "a delta of almost nothing": ({"privacy": {"delta": 5e-324}}, "delta"),
    "a delta of almost one": ({"privacy": {"delta": 1 - 1e-16}}, "delta"),
    "a negative seed": ({"unsafe": {"noise": "seeded", "seed": -1}}, "seed"),
    "a name of dots": ({"name": ".."}, "name"),
    "a long name": ({"name": "a" * 5000}, "name"),
    "a name with a line's end": ({"name": "a\n"}, "name"),
    "another folder": ({"folder": "/tmp"}, "unknown key 'folder'"),
    "certificates of nowhere": ({"cluster": {"address": "tls://127.0.0.1:9", "security": {"ca_file": "a"}}}, "client_key"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with shards and an empty ledger; each test writes its refit.yaml there."""
    folder = tmp_path_factory.mktemp("malformed")
    (folder / "shards").mkdir()
    columns = {"id": np.arange(40), "x": np.ones(40), "z": np.zeros(40), "y": np.ones(40), "note": ["n"] * 40}
    pq.write_table(pa.table(columns), folder / "shards" / "a.parquet")
    Ledger.create(f"sqlite:///{folder}/ledger.db").engine.dispose()
    return folder


def planned(path):
    """What `nightfit plan` does, and the checks of a refit before it reserves."""
    config = load(path)
    (prepare_search if config.search is not None else prepare)(config)
    return config


def written(sections):
    """The good text with keys replaced; DATE marks a plain YAML date, NULL a null."""
    content = yaml.safe_load(TEXT.replace("1e-6", "1.0e-6").replace("1e-5", "1.0e-5"))
    for name, value in sections.items():
        inner = {**content.get(name, {}), **value} if isinstance(value, dict) and name not in ("cluster", "method") else value
        content[name] = {key: each for key, each in inner.items() if each is not None} if isinstance(inner, dict) else inner
    text = yaml.safe_dump(content, allow_unicode=False, width=10**6)
    return text.replace("DATE ", "").replace("'NULL'", "null").replace("NULL", "null")


def one_message(path, message):
    with pytest.raises(NightfitError, match=f"(?s){message}") as caught:
        planned(path)
    text = str(caught.value)
    assert len(text) < 4000, "a message is read by a person"
    assert "\0" not in text
    assert isinstance(text.encode(), bytes)


def test_the_text_that_is_changed_is_valid_and_a_date_is_a_name(place):
    path = place / "refit.yaml"
    path.write_text(TEXT)
    assert planned(path).name == "visits"
    path.write_text(written({"data": {"window": "DATE 2026-02-28"}}))
    assert planned(path).data.window == "2026-02-28"


@pytest.mark.parametrize("case", REPLACED)
def test_a_malformed_text_ends_in_one_message(place, case):
    old, new, message = REPLACED[case]
    assert old in TEXT
    path = place / "refit.yaml"
    path.write_text(TEXT.replace(old, new, 1))
    one_message(path, message)


@pytest.mark.parametrize("case", CHANGED)
def test_a_malformed_value_ends_in_one_message(place, case):
    sections, message = CHANGED[case]
    path = place / "refit.yaml"
    path.write_text(written(sections))
    one_message(path, message)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT.replace("visits", "visité").encode("latin-1"), "not UTF-8"),
        (TEXT.encode("utf-16"), "not UTF-8"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"name: a\0b", "not valid YAML"),
        (b"\x89PNG\r\n\x1a\n", "not UTF-8|not valid YAML"),
        (b"%PDF-1.4\n%%EOF", "not valid YAML|is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"# nothing but words of explanation\n", "is empty"),
    ],
)
def test_a_file_of_other_bytes_ends_in_one_message(place, content, message):
    path = place / "refit.yaml"
    path.write_bytes(content)
    one_message(path, message)


def test_a_configuration_that_is_no_file_ends_in_one_message(place):
    with pytest.raises(ConfigError, match="cannot be read"):
        load(place)
    with pytest.raises(ConfigError, match="cannot be read"):
        load(place / ("a" * 5000))
    with pytest.raises(ConfigError, match="cannot be read"):
        load(place / "a\0b")
