"""All models and nights as a folder of static pages with a search box. Imports history and release.

The pages load nothing from elsewhere. One short script of ours filters the tables; without it everything is shown. `index.html#failed`
opens with that search.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

from nightfit.config import Config, ConfigError, load
from nightfit.ledger import Ledger
from nightfit.nightly import history_page
from nightfit.nightly.card import card_of
from nightfit.nightly.history import History, history_of
from nightfit.release import write_atomically
from nightfit.release.html import html_page, linked_table
from nightfit.release.metrics import metric_name
from nightfit.types import NightfitError

DEPTH = ("*.yaml", "*.yml", "*/*.yaml", "*/*.yml")  # not deeper: folders of records can hold millions of files
SEARCH = """\
const box = document.querySelector("input[type=search]"), told = document.querySelector("#found");
const rows = of => [...document.querySelectorAll(`${of} tbody tr`)].map(row => [row, row.textContent.toLowerCase()]);
const models = rows("#models"), nights = rows("#nights"), link = row => row.querySelector("a").getAttribute("href");
box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean), holds = text => words.every(word => text.includes(word));
  const found = nights.filter(([row, text]) => !(row.hidden = !holds(text)));
  const theirs = new Set(found.map(([row]) => link(row)));
  for (const [row, text] of models) row.hidden = !holds(text) && !theirs.has(link(row));
  told.textContent = words.length ? `${found.length} of ${nights.length} nights` : `${nights.length} nights`;
});
const asked = () => { box.value = decodeURIComponent(location.hash.slice(1)); box.dispatchEvent(new Event("input")); };
addEventListener("hashchange", asked);
asked();
"""


def configurations_in(folder: Path) -> tuple[list[Config], list[str]]:
    """Every configuration of a refit in a folder and the folders in it, and what was passed over, in words.

    Parameters
    ----------
    folder : Path
        Where to look.

    Returns
    -------
    tuple
        Configurations, and a sentence for each file that is meant to be one and is not.
    """
    found, passed = [], []
    for path in sorted({path for pattern in DEPTH for path in folder.glob(pattern)}):
        if not _is_meant(path):
            continue
        try:
            found.append(load(path))
        except ConfigError as error:
            passed.append(f"{path} is left out: {error}")
    return found, passed


def _is_meant(path: Path) -> bool:
    """Whether a file has the three keys that every configuration has."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, ValueError, yaml.YAMLError):
        return False
    return isinstance(content, dict) and {"name", "data", "privacy"} <= content.keys()


def write_site(configs: Sequence[Config], folder: Path) -> tuple[Path, list[str]]:
    """Write the index, a page for each model and a copy of each report.

    Parameters
    ----------
    configs : sequence of Config
        The models.
    folder : Path
        Where to write; it is made, and pages of an earlier call are replaced.

    Returns
    -------
    tuple
        The index's path, and a sentence for each model that was passed over.

    Raises
    ------
    NightfitError
        If no model has a history, or two have the same name and data set.
    """
    histories: dict[str, History] = {}
    passed = []
    folder.mkdir(parents=True, exist_ok=True)
    for config in configs:
        name = f"{config.name}-{config.data_set}"
        if name in histories:
            raise NightfitError(f"two configurations are of {config.name} on {config.data_set}: remove one, or name another folder")
        try:
            ledger = Ledger.open(config.ledger_url)
            histories[name] = history_of(config, ledger)
            ledger.engine.dispose()
        except NightfitError as error:
            passed.append(f"{config.name} is left out: {error}")
            continue
        _write_model(folder, name, config, histories[name])
    if not histories:
        raise NightfitError("there is no model to show: " + ("; ".join(passed) or "no configuration of a refit was found"))
    write_atomically(folder / "index.html", _index(histories))
    return folder / "index.html", passed


def _write_model(folder: Path, name: str, config: Config, history: History) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    reports = {}
    for night in history.nights:
        source = config.output_folder / str(night.run) / "report.html"
        if night.release is not None and source.exists():
            shutil.copyfile(source, folder / name / f"{night.run}.html")
            reports[str(night.run)] = f"{name}/{night.run}.html"
    write_atomically(folder / f"{name}.html", history_page.page(history, reports, "index.html", card_of(config, history).html()))


def _index(histories: dict[str, History]) -> str:
    models, nights = [], []
    for name, history in histories.items():
        last = history.nights[-1] if history.nights else None
        judged = next((found for night in reversed(history.nights) if (found := night.evaluation) is not None), None)
        left = "" if history.nights_left is None else "without end" if history.goes_on else f"{history.nights_left:,}"
        cells = (
            history.model,
            history.data_set,
            "none yet" if last is None else f"{last.time[:10]} {last.state}",
            "" if judged is None else f"{metric_name(judged.main)} {judged.headline.words()}",
            "" if history.current is None else str(history.current.run),
            f"{history.balance.share_left:.1%}",
            left,
        )
        models.append((cells, {0: f"{name}.html"}))
        nights += [_night_row(name, history, k) for k in range(len(history.nights))]
    header = ("model", "data set", "last night", "metric", "in use", "budget left", "nights left")
    nights.sort(reverse=True, key=_time)
    titles = ("night (UTC)", "model", "state", "run", "data set", "metric", "note")
    listed = linked_table(titles, [(cells, links) for cells, links, _ in nights], [mark for _, _, mark in nights], "nights")
    return html_page(
        "nightfit: all models",
        "<header><h1>All models</h1></header>\n"
        '<label for="search">Search models, runs, states and notes</label>'
        '<input type="search" id="search" autocomplete="off"> <span id="found" class="faint" role="status"></span>\n'
        f'<section id="models"><h2>Models</h2>{linked_table(header, models, name="models")}</section>\n'
        f'<section id="nights" class="nights"><h2>Nights</h2>{listed}</section>\n',
        SEARCH,
    )


Row = tuple[tuple[str, ...], dict[int, str], str]


def _night_row(name: str, history: History, k: int) -> Row:
    """Cells, links and class of a night."""
    night = history.nights[k]
    found = night.evaluation
    cells = (
        night.time[:16].replace("T", " "),
        history.model,
        night.state + (", in use" if night.in_use else "") + (", poorer data" if night.suspect else ""),
        night.run or "",
        history.data_set,
        "" if found is None else f"{metric_name(found.main)} {found.headline.words()}",
        night.note,
    )
    links = {1: f"{name}.html"}
    return cells, {**links, 3: f"{name}/{night.run}.html"} if night.release is not None else links, history_page.mark(night)


def _time(row: Row) -> str:
    return row[0][0]
