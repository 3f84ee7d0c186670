"""What commands print fits the screen: no word and no number is broken."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from nightfit.cli import console
from nightfit.cli.coefficients import coefficient_columns, ends
from nightfit.cli.tables import Column, columns_of, fitted, show

LONG = {"ward cardiology of the second floor": 0.0174, "creatinine missing": -0.02876, "log(stay_days) x emergency": -1.2345e-05}
RESULT = {
    "coef": LONG,
    "intercept": 5.991,
    "intervals": {"terms": {name: {"95%": (-0.012345, 0.012345), "estimate": -0.012345} for name in LONG}, "assumed": ["all is well"]},
    "clamps": dict.fromkeys(LONG, (-12345.6, 12345.6)),
}
METRICS = ["deviance explained", "AUC", "Brier score"]
LEAVE_OUT = {(80, "coefficients")}
RUNS = ("metric", "this fit (90% interval)", "best constant", "readmissions-of-the-hospital-1a2b3c4d")
TABLES = {
    "coefficients": coefficient_columns(RESULT)[0],
    "evaluation": columns_of(RUNS[:3], [(name, "-0.0123 (-0.0456 to 0.0789)", "0.905 (0.828 to 0.975)") for name in METRICS], right=False),
    "compared": columns_of((*RUNS[:3], "visits-1a2b3c4d"), [(name, *["-0.012 (-0.045 to 0.078)"] * 3) for name in METRICS], right=False),
}


@pytest.fixture(params=[80, 120])
def screen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    monkeypatch.setattr(console.out, "_width", None)  # of the environment in which it was made
    return request.param


@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits_the_screen_without_broken_words(name: str, screen: int, capsys: pytest.CaptureFixture[str]) -> None:
    show(name, TABLES[name])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= screen
    table, _, left_out = printed.partition("Left out for lack of room:")
    words = set(table.replace("│", " ").replace("┃", " ").split())
    for column in TABLES[name]:
        told = {word for cell in (column.heading, *column.cells) for word in cell.split()}
        assert told <= words or (column.spare and column.heading in left_out)
    assert (screen, name) in LEAVE_OUT or not left_out


def test_what_another_program_reads_is_not_broken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    show("compared", TABLES["compared"])
    console.say("word " * 50)
    printed = capsys.readouterr().out
    assert "-0.012 (-0.045 to 0.078) │ -0.012 (-0.045 to 0.078) │ -0.012 (-0.045 to 0.078)" in printed
    assert ("word " * 50).strip() in printed


@pytest.mark.usefixtures("screen")
def test_sentences_are_broken_between_words_and_paths_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    path = "/a/very/long" * 12 + "/release.json"
    console.say(f"[bold]Night[/]: {'some words ' * 20}{path}\n  an item: {'x y ' * 50}")
    lines = capsys.readouterr().out.splitlines()
    assert path in lines
    assert all(len(line) <= console.out.width for line in lines if line != path)
    items = lines[lines.index(path) + 1 :]
    assert items[0].startswith("  an item")
    assert all(line.startswith("    ") for line in items[1:])
    assert " ".join(" ".join(lines).split()) == f"Night: {'some words ' * 20}{path} an item: {'x y ' * 50}".strip()


TEXTS = st.lists(st.text("ab (", max_size=20), min_size=3, max_size=3).map(tuple)
COLUMNS = st.builds(Column, heading=st.text("ab ", max_size=12), cells=TEXTS, wraps=st.booleans(), spare=st.booleans())


@given(st.lists(COLUMNS), st.integers(1, 60))
def test_columns_are_never_narrower_than_a_word(columns: list[Column], most: int) -> None:
    kept, widths = fitted(columns, most)
    assert all(width >= column.least for column, width in zip(kept, widths, strict=True))
    if sum(column.least for column in kept) + 3 * len(kept) + 1 <= most:
        assert sum(widths) + 3 * len(kept) + 1 <= most
    else:
        assert not any(column.spare for column in kept)
    assert [column.heading for column in columns if not column.spare] == [column.heading for column in kept if not column.spare]


def test_markup_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    console.say(f"[bold red]error:[/] {console.plain('[x] is no column')}")
    assert Text.from_ansi(capsys.readouterr().out).plain.strip() == "error: [x] is no column"


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.14231, -0.14102, "-0.1423 to -0.141"),
        (-0.0413, 0.1749, "-0.041 to 0.17"),
        (12345.6, 12999.9, "12346 to 13000"),
        (2.0, 2.0, "2 to 2"),
    ],
)
def test_an_interval_has_as_many_digits_as_its_width_needs(low: float, high: float, words: str) -> None:
    assert ends(low, high) == words
