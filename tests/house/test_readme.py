"""README and docs say what is true: their commands exist and run, their files exist, their examples work."""

import doctest
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

import nightfit.methods.loop.gradient_estimators
import nightfit.problem.losses
import nightfit.problem.penalties
from nightfit.cli import app
from nightfit.plugins import members

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "data/README.md", "deploy/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
INSTALL = "python3 -m venv .venv && .venv/bin/pip install -q -c constraints.txt -e '.[test]' && "
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def fenced(text, language):
    """The blocks of a language, without their fences."""
    return [body for kind, body in FENCE.findall(text) if kind == language]


def marked(mark):
    """The block after a line that is the mark alone."""
    return re.search(rf"^<!-- {mark} -->\n```sh\n(.*?)```", README.read_text(), re.MULTILINE | re.DOTALL)[1].strip()


def shown(text):
    """Commands of console blocks with the output below them."""
    found = []
    for block in fenced(text, "console"):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return [(command, "\n".join(output)) for command, output in found]


def section(text, title):
    return re.search(rf"^## {title}\n(.*?)(?=^## )", text, re.MULTILINE | re.DOTALL)[1]


def test_the_two_commands_are_marked_and_are_what_they_must_be():
    assert marked("run") == INSTALL + ".venv/bin/nightfit demo"
    by_pip = INSTALL.removeprefix("python3 -m venv .venv && ").removesuffix(" && ")
    by_uv = by_pip.replace(".venv/bin/pip install -q", ".venv/bin/uv pip install -q --system-certs --python .venv")
    installed = f"{{ .venv/bin/pip install -q uv && {by_uv} ||\n  {by_pip}; }}"
    assert marked("test") == f"python3 -m venv .venv &&\n{installed} && .venv/bin/python -m pytest -q"


@pytest.mark.process
def test_continuous_integration_takes_the_test_command_from_the_readme():
    (extraction,) = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("command=")]
    said = subprocess.run(["bash", "-c", f'{extraction}\nprintf "%s" "$command"'], cwd=ROOT, capture_output=True, text=True)
    assert said.stdout == marked("test"), said.stderr


@every_page
def test_every_file_that_a_page_names_exists(page):
    text = page.read_text()
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    named = re.findall(r"`((?:pipeline|flows|docs|tests|data|deploy|\.ci)/[\w./-]*)`", text)
    missing += [name for name in named if not (ROOT / name).exists()]
    assert not missing


@every_page
def test_a_page_speaks_of_nothing_outside_of_the_repository(page):
    text = page.read_text()
    links = [(page.parent / link.split("#")[0]).resolve() for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert all(link.is_relative_to(ROOT) for link in links)
    assert "../shared" not in text


def test_the_readme_names_every_part_of_the_docs():
    parts = ["guides/index.md", "reference/index.md", "explanation/index.md", "contributing/extending.md"]
    assert all(f"(docs/{part})" in README.read_text() for part in parts)
    assert all(f"({name})" in README.read_text() for name in ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"))


def resolved(words):
    """The command that the words name, and the words left over."""
    command, rest = typer.main.get_command(app), list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        assert rest[0] in command.commands, f"there is no `nightfit {' '.join(words)}`"
        command = command.commands[rest.pop(0)]
    return command, rest


@every_page
def test_every_nightfit_command_that_a_page_shows_can_be_given(page):
    text = page.read_text()
    lines = [command for command, _ in shown(text)] + [line for block in fenced(text, "sh") for line in block.splitlines()]
    for line in lines:
        for part in line.split("&&"):
            words = shlex.split(part.split(" > ")[0], comments=True)
            if words and Path(words[0]).name == "nightfit":
                command, rest = resolved(words[1:])
                command.make_context("nightfit", rest)  # raises on a wrong option or a missing argument


@every_page
def test_every_nightfit_command_in_a_sentence_exists(page):
    text = FENCE.sub("", page.read_text())
    for line in re.findall(r"`nightfit ([^`]+)`", text):
        command, rest = resolved(shlex.split(line))
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in rest if word.startswith("-")} <= options | {"--debug", "--help"}, line


def masked(text):
    """Text without what differs from run to run: ids, times, places, noisy numbers, widths."""
    text = re.sub(r"/\S*?/(?=ledger\.db|releases/)", "PLACE/", text)
    text = re.sub(r"(?:visits|cost)-[0-9a-f]{8}", "RUN", text)
    text = re.sub(r"\b[0-9a-f]{16}\b", "LEDGER", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    number = r"-?[\d.]+(?:e[-+]?\d+)?"
    text = re.sub(rf"^(│ \S[^│]*│) +{number} │(?: +{number} to {number} │)?$", r"\1 NUMBER │", text, flags=re.MULTILINE)
    text = re.sub(r"([━─])\1+", r"\1", text)
    return " ".join(text.split())


def agrees(said, readme):
    """Whether the parts of what the README shows, between its dots, are found in order."""
    place = 0
    for part in re.split(r"^\.\.\.$", readme, flags=re.MULTILINE):
        place = said.find(masked(part), place)
        if place < 0:
            return False
    return True


def test_masking_hides_noise_and_nothing_else():
    row, other = "│ lpi         │   0.1085 │", "│ lpi         │ -3.2e-05 │"
    assert masked(row) == masked(other)
    assert not agrees(masked("epsilon 0.87 of 8"), "epsilon 0.88 of 8")
    assert agrees(masked("one\ntwo\nthree"), "one\n...\nthree\n")
    assert not agrees(masked("one\ntwo\nthree"), "three\n...\none")


@pytest.fixture
def said_in(tmp_path, forked):
    """Runs a command of a page in a folder with our data: `nightfit` forked, anything else by a shell."""
    shutil.copytree(ROOT / "data", tmp_path / "data")

    def run(command):
        name, *words = shlex.split(command)
        if name == "nightfit":
            return forked(tmp_path, *words, COLUMNS="80")
        return subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True)

    return run


def test_the_tour_runs_and_prints_what_the_readme_shows(tmp_path, said_in):
    """On the synchronous scheduler, which the plan does not depend on; three of four refits go through Prefect."""
    text = README.read_text()
    tour = shown(section(text, "Five-minute tour"))
    assert sum("nightfit refit" in command for command, _ in tour) == 4
    for command, output in [*tour, *shown(section(text, "Synthetic data"))]:
        said = said_in(command)
        assert (said.returncode == 0) == (re.search(r"^error:", output, re.MULTILINE) is None), f"{command}\n{said.stdout}{said.stderr}"
        assert agrees(masked(said.stdout + said.stderr), output), f"{command}\n{said.stdout}{said.stderr}"
        if command.startswith("nightfit init"):
            config = tmp_path / shlex.split(command)[2]
            config.write_text(re.sub(r"^cluster:.*$", "cluster: {kind: synchronous}", config.read_text(), flags=re.MULTILINE))
    assert len(list((tmp_path / "releases").glob("*/report.html"))) == 2


@pytest.mark.statistical  # they fit models
@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "extending.md" and page.parent != ROOT / "data"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_python_examples_work(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for block in fenced(page.read_text(), "python"):
        exec(compile(block, page.name, "exec"), {"__name__": "example"})
    failures, _ = doctest.testfile(str(page), module_relative=False)
    assert failures == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    "room", [nightfit.problem.losses, nightfit.problem.penalties, nightfit.methods.loop.gradient_estimators], ids=lambda room: room.__name__
)
def test_the_docs_tell_of_every_member_that_a_configuration_can_name(room):
    text = (ROOT / "docs" / "explanation" / "algorithms.md").read_text()
    assert [name for name in members(room) if not re.search(rf"^\| .*`[^`]*\b{name}\b", text, re.MULTILINE)] == []


def test_the_licence_is_whole():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Copyright 2026 The nightfit authors" in text
