"""The documentation is a site that builds without a warning and loads nothing; what it says of the code is compared with the code."""

import ast
import importlib.metadata
import inspect
import json
import os
import re
import subprocess
import sys
import threading
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import typer
import yaml
from benchmarks import graph

import nightfit
from nightfit import nightly
from nightfit.bundled import bundled
from nightfit.cli import app
from nightfit.config import load, schema
from nightfit.config.template import configuration, randhie_start
from nightfit.estimators import PrivateLinearRegression, PrivateLogisticRegression
from nightfit.ledger import Ledger
from nightfit.privacy.gate import Gate

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCES = (ROOT / "pipeline", ROOT / "flows")
ARCHITECTURE = (DOCS / "explanation" / "architecture.md").read_text()
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "embed": "src", "object": "data"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built with warnings as errors; its listings have no colours, which load nothing and take half of the build."""
    folder = tmp_path_factory.mktemp("site")
    said = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "NIGHTFIT_DOCS_COLOURS": "false"},
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    return folder


class Page(HTMLParser):
    """What a page loads when it is opened, its links, and the text of its code elements."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.code, self.classes, self.inside = [], [], set(), []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        said = dict(attributes)
        self.classes |= set((said.get("class") or "").split())
        self.inside.append(tag)
        if tag == "code":
            self.code.append("")
        if tag in LOADED and said.get(LOADED[tag]):
            self.loads.append(said[LOADED[tag]])
        if tag == "link" and not {"canonical", "next", "prev", "alternate", "edit"} & set((said.get("rel") or "").split()):
            self.loads.append(said["href"])
        self.loads += [address.split()[0] for address in (said.get("srcset") or "").split(",") if address]
        self.loads += addresses(said.get("style") or "")

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "code" in self.inside:
            self.code[-1] += data
        if self.inside and self.inside[-1] == "style":
            self.loads += addresses(data)


def addresses(css):
    """What a style sheet loads."""
    return re.findall(r"""(?:url\(\s*|@import\s+(?!url))["']?([^"')\s;]+)""", css)


def page(site, name):
    return Page((site / f"{name}.html").read_text())


def foreign(address):
    return re.match(r"(?:[a-z]+:)?//", address) is not None


def test_a_page_that_loads_something_from_the_network_is_seen():
    seen = Page('<link rel="stylesheet" href="//a/b.css"><script src="https://c/d.js"></script><p style="background: url(http://e/f.png)">')
    assert [foreign(address) for address in seen.loads] == [True, True, True]
    sheet = addresses("@import 'https://a/x'; @import url( https://a/y ); p {background: url(z)}")
    assert [foreign(address) for address in sheet] == [True, True, False]
    assert not any(map(foreign, Page('<img src="a.png"><a href="https://elsewhere/">x</a>').loads))


def test_no_page_loads_anything_from_the_network(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for path in pages:
        read = Page(path.read_text())
        assert not [address for address in read.loads if foreign(address)], path
        assert not read.classes & {"mermaid", "md-source"}, f"{path}: Material's script would ask the network for this"
    for path in site.rglob("*.css"):
        assert not [address for address in addresses(path.read_text()) if foreign(address)], path


def test_the_search_works_without_a_server(site):
    """The index is a script, and so is the stand-in for the worker that a browser does not start for files."""
    index = json.loads((site / "search" / "search_index.js").read_text().removeprefix("var __index = "))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"explanation/privacy.html", "guides/persons.html", "reference/configuration.html"} <= found
    assert not any(name.startswith("source/") for name in found)
    assert "../assets/iframe-worker.js" in page(site, "guides/persons").loads


def keys_of(section, path=""):
    """Every key of the schema, by its whole path, with its description."""
    defined = schema()["$defs"]
    for key, said in section["properties"].items():
        full = f"{path}.{key}" if path else key
        yield full, said.get("description")
        for one in (said, *said.get("anyOf", ()), *said.get("oneOf", ())):
            inner = defined[one["$ref"].rsplit("/", 1)[-1]] if "$ref" in one else one
            if "properties" in inner:
                yield from keys_of(inner, full)


def test_every_key_of_the_configuration_is_in_the_reference_and_explained(site):
    keys = list(keys_of(schema()))
    assert len(keys) > 60
    code = page(site, "reference/configuration").code
    assert not [key for key, _ in keys if key not in code]
    assert not [key for key, said in keys if not said]


def commands_of(command, name="nightfit"):
    yield name, command
    for below, one in getattr(command, "commands", {}).items():
        yield from commands_of(one, f"{name} {below}")


def test_every_command_and_option_is_in_the_reference_and_explained(site):
    code = page(site, "reference/command-line").code
    commands = list(commands_of(typer.main.get_command(app)))
    assert len(commands) > 15
    for name, command in commands:
        assert name in code
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"{name} {parameter.name}"
            assert all(option in code for option in parameter.opts if option.startswith("-")), f"{name} {parameter.opts}"


PUBLIC = [name for name in nightfit.__all__ if not name.startswith("__")]


def test_every_public_name_and_every_protocol_of_an_extension_is_in_the_reference(site):
    text = (site / "reference" / "api.html").read_text()
    assert not [name for name in PUBLIC if f'id="nightfit.{name}"' not in text]
    protocols = re.findall(r"id=\"(nightfit\.(?:problem|queries|methods)\.[\w.]+\.[A-Z]\w+)\"", text)
    assert {name.rpartition(".")[2] for name in protocols} >= {"Loss", "Penalty", "Bounding", "GradientEstimator", "Solver", "Procedure"}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_docstring_documents_no_parameter_that_is_not_there(name):
    thing = getattr(nightfit, name)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", inspect.getdoc(thing) or "", re.MULTILINE | re.DOTALL)
    documented = re.findall(r"^(\w[\w, ]*?)(?: :|$)", section[1] if section else "", re.MULTILINE)
    names = {one for group in documented for one in group.split(", ")}
    assert names <= set(inspect.signature(thing).parameters)


def rows_of(title):
    """The cells of the tables in a section of the page on architecture."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", ARCHITECTURE, re.MULTILINE | re.DOTALL)[1]
    lines = [line.strip("| \n").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in cells] for cells in lines]


def test_the_packages_are_those_of_the_import_contract_in_its_order():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    layers = [name.strip().removeprefix("nightfit.") for layer in contract["layers"] for name in layer.split("|")]
    described = [re.match(r"\[(\w+)\]\(\S+\)", cells[0]) for cells in rows_of("Packages")]
    assert [found[1] for found in described if found] == layers


def test_the_picture_of_the_packages_is_what_the_command_draws():
    drawn = "".join(f"{line}\n" for line in graph.lines(graph.content()))
    assert (DOCS / "explanation" / "packages.svg").read_text() == drawn, "run `python -m benchmarks graph > docs/explanation/packages.svg`"


def test_an_arrow_stands_for_every_import_or_follows_from_others():
    found = {"packages": ["a", "b", "c"], "imports": {"a -> b": 1, "b -> c": 1, "a -> c": 1}, "libraries": {}}
    assert graph.arrows(found) == [("a", "b"), ("b", "c")]
    assert sum("<path d" in line and "marker-end" in line for line in graph.lines(found)) == 2


HOPS = [
    (package, function)
    for cells in rows_of("The default refit, hop by hop")[1:]
    for package, functions in [cells[1].split(": ")]
    for function in re.findall(r"`([\w.]+)`", functions)
    for package in [package.strip("`")]
]


def defined_in(package):
    """The qualified names of the functions and methods of a package."""
    place = next(root / path for root in SOURCES for path in folders(package) if (root / path).exists())
    for path in place.rglob("*.py"):
        tree = ast.parse(path.read_text())
        yield from (node.name for node in tree.body if isinstance(node, ast.FunctionDef))
        for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            yield from (f"{kind.name}.{node.name}" for node in kind.body if isinstance(node, ast.FunctionDef))


def folders(package):
    return package.replace(".", "/"), f"nightfit/{package.replace('.', '/')}"


@pytest.mark.parametrize("package", sorted({package for package, _ in HOPS}))
def test_every_function_on_the_path_of_the_default_refit_exists(package):
    known = set(defined_in(package))
    assert [function for there, function in HOPS if there == package and function not in known] == []


def called(work):
    """(file, qualified name) of our functions in the order of their first call while `work` runs."""
    seen, ours = {}, tuple(f"{root}{os.sep}" for root in SOURCES)

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(ours):
            seen.setdefault((frame.f_code.co_filename, frame.f_code.co_qualname), None)

    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    return list(seen)


@pytest.mark.sweep
def test_the_default_refit_takes_the_hops_in_the_order_that_is_told(tmp_path):
    """Without the command and the flow, which only call these steps."""
    text = configuration("refit.yaml", randhie_start(str(bundled("randhie"))))
    path = tmp_path / "refit.yaml"
    path.write_text(re.sub(r"^cluster:.*$", "cluster: {kind: synchronous}", text, flags=re.MULTILINE))
    Ledger.create(load(path).ledger_url).engine.dispose()

    def refit():
        prepared = nightly.prepare(load(path))
        ledger = nightly.open_ledger(prepared.config)
        nightly.publish(prepared, ledger, nightly.run_fit(prepared, ledger, nightly.reserve(prepared, ledger)))
        ledger.engine.dispose()

    calls = called(refit)

    def place(package, function):
        found = [at for at, (file, name) in enumerate(calls) if name == function and any(f"/{one}/" in file for one in folders(package))]
        return found[0] if found else None

    hops = [hop for hop in HOPS if hop[0] not in ("cli", "nightfit_flows")]
    assert len(hops) > 30
    places = [place(*hop) for hop in hops]
    assert [hop for hop, at in zip(hops, places, strict=True) if at is None] == []
    assert places == sorted(places), [hop for hop, at, after in zip(hops, places, places[1:], strict=False) if at > after]


def test_the_page_names_the_file_that_proves_the_sensitivity_of_each_default_query(monkeypatch):
    asked, ask = set(), Gate.ask
    monkeypatch.setattr(Gate, "ask", lambda self, label, query: (asked.add((label, type(query))), ask(self, label, query))[1])
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=20_000)
    for more in ({}, {"bounds": (-5.0, 5.0)}, {"adjacency": "zero_out"}):
        PrivateLinearRegression(epsilon=1.0, delta=1e-6, **more).fit(X, y)
    PrivateLogisticRegression(epsilon=1.0, delta=1e-6).fit(X, y > 0)
    rows = rows_of("Where the sensitivity of each default query is proved")[1:]
    told = {(name.strip(), cells[1].strip("`")): cells[2] for cells in rows for name in cells[0].partition(", under")[0].split(",")}
    found = {(label.rstrip(" 0123456789"), kind.__name__): kind.__module__ for label, kind in asked}
    assert len(found) > 8
    assert {pair for pair in found if pair not in told} == set()
    wrong = [pair for pair, module in found.items() if f"{module.removeprefix('nightfit.').replace('.', '/')}.py" not in told[pair]]
    assert wrong == []
    for (_, kind), link in told.items():
        proof = (DOCS / "explanation" / re.search(r"\((\S+)\)", link)[1]).read_text()
        assert f"class {kind}(" in proof
        assert "Guarantee:" in proof


def test_only_the_gate_asks_for_a_sum_over_records():
    """What docs/explanation/privacy.md rests on where it leaves packages out of the list of those that an auditor reads.
    ShardedDataset is on that list: it computes these sums.
    """
    asking = set()
    for path in (path for root in SOURCES for path in root.rglob("*.py") if "shards" not in path.parts):
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        if any(isinstance(function, ast.Attribute) and function.attr in ("aggregate", "reported") for function in calls):
            asking.add(path.name)
    assert asking == {"gate.py", "reading.py", "in_step.py"}  # the last two hand the calls of gates on


def test_the_citation_names_this_version_and_the_five_papers_and_invents_nobody():
    said = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(said)
    assert said["version"] == nightfit.__version__
    assert said["license"] == importlib.metadata.metadata("nightfit")["License-Expression"]
    assert said["authors"] == [{"name": "nightfit contributors"}]
    assert [paper["authors"][0]["family-names"] for paper in said["references"]] == ["Wang", "Kamath", "Tao", "Xie", "Han"]
