"""The packages and who imports whom, as a picture: `python -m benchmarks graph > docs/explanation/packages.svg`.

The packages are the layers of the import contract in pyproject.toml. An arrow that follows from others is left out; `--json` tells all
imports. Imports grimp, which import-linter brings along, and nothing of the package: the code is read, not run.
"""

import itertools
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import grimp

ROOT = Path(__file__).parents[1]
AUDITED = ("queries", "privacy", "ledger", "records", "shards", "numerics")  # docs/explanation/privacy.md says which files of them
WIDTH, HEIGHT, ACROSS, DOWN, EDGE = 176, 34, 196, 66, 12
SWEEPS = 12  # of the ordering; it settles after three or four
LIGHT = "--ink: #1f2430; --line: #7a8194; --box: #ffffff; --audited: #dbe7ff; --small: #5a6072"
DARK = "--ink: #e8eaf0; --line: #8d94a8; --box: #23283a; --audited: #1d3a6e; --small: #b4bacb"
STYLE = f"""
.packages, [data-md-color-scheme="default"] .packages {{ {LIGHT} }}
@media (prefers-color-scheme: dark) {{ .packages {{ {DARK} }} }}
[data-md-color-scheme="slate"] .packages {{ {DARK} }}
.packages rect {{ fill: var(--box); stroke: var(--line) }}
.packages .audited rect {{ fill: var(--audited); stroke-width: 2 }}
.packages text {{ fill: var(--ink); font: 600 13px sans-serif; text-anchor: middle }}
.packages .library {{ fill: var(--small); font: 400 10px sans-serif }}
.packages path {{ fill: none; stroke: var(--line); stroke-width: 1.3 }}
.packages marker path {{ fill: var(--line); stroke: none }}
"""
ARROW_HEAD = """<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 8 4 0 8z"/></marker>"""

Edge = tuple[str, str]


def contracts(root: Path = ROOT) -> list[dict[str, Any]]:
    settings: list[dict[str, Any]] = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return settings


def layers(root: Path = ROOT) -> list[str]:
    """The packages of the first layers contract, highest first."""
    return [name.strip() for layer in contracts(root)[0]["layers"] for name in layer.split("|")]


def content() -> dict[str, Any]:
    """The packages, how many modules of one import how many of another, and the libraries that one package alone may import."""
    packages, guarded = (
        layers(),
        sorted({name for one in contracts() for name in one.get("forbidden_modules", ()) if "nightfit" not in name}),
    )
    graph = grimp.build_graph("nightfit", "nightfit_flows", include_external_packages=True, cache_dir=None)
    counts: Counter[Edge] = Counter()
    for module in graph.modules:
        for imported in graph.find_modules_directly_imported_by(module):
            counts[_package(module, packages), _package(imported, packages)] += 1
    imports = {f"{one} -> {other}": counts[one, other] for one in packages for other in packages if one != other and counts[one, other]}
    libraries = {one: [name for name in guarded if counts[one, name]] for one in packages}
    return {"packages": packages, "imports": imports, "libraries": {one: names for one, names in libraries.items() if names}}


def _package(module: str, packages: list[str]) -> str:
    return next((name for name in packages if module == name or module.startswith(f"{name}.")), module)


def arrows(found: dict[str, Any]) -> list[Edge]:
    """The imports that do not follow from others."""
    edges: list[Edge] = [(one, other) for one, other in (pair.split(" -> ") for pair in found["imports"])]
    below = {name: {other for one, other in edges if one == name} for name in found["packages"]}

    def reached(start: str) -> set[str]:
        return below[start].union(*(reached(name) for name in below[start]))

    return [(one, other) for one, other in edges if not any(other in reached(between) for between in below[one])]


def lines(found: dict[str, Any]) -> Iterator[str]:
    """The picture, line by line."""
    edges = arrows(found)
    rank = _ranks(found["packages"], edges)
    routes = {edge: _route(edge, rank) for edge in edges}
    rows = _ordered(_rows(found["packages"], rank, routes.values()), list(routes.values()))
    across = max(map(len, rows))
    place = {
        node: (_x(position, len(row), across), _y(level, len(rows))) for level, row in enumerate(rows) for position, node in enumerate(row)
    }
    width, height = across * ACROSS, _y(0, len(rows)) + HEIGHT + EDGE
    yield f'<svg class="packages" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="Packages">'
    yield f"<style>{STYLE}</style>"
    yield f"<defs>{ARROW_HEAD}</defs>"
    for route in routes.values():
        yield f'<path d="{_curve([place[node] for node in route])}" marker-end="url(#head)"/>'
    for name in found["packages"]:
        yield _box(name, place[name], found["libraries"].get(name, ()))
    yield "</svg>"


def _ranks(packages: list[str], edges: list[Edge]) -> dict[str, int]:
    """How high a package stands: one above the highest that it imports. One that imports nothing stands right below who imports it."""
    rank: dict[str, int] = {}
    for name in reversed(packages):
        rank[name] = max((rank[other] + 1 for one, other in edges if one == name), default=0)
    for name in packages[:-1]:
        importers = [rank[one] for one, other in edges if other == name]
        if rank[name] == 0 and importers:
            rank[name] = min(importers) - 1
    return rank


def _route(edge: Edge, rank: dict[str, int]) -> list[str]:
    """The edge's ends and a point of its own in every row between them."""
    return [edge[0], *(f"{edge[0]} {level} {edge[1]}" for level in range(rank[edge[0]] - 1, rank[edge[1]], -1)), edge[1]]


def _rows(packages: list[str], rank: dict[str, int], routes: Iterable[list[str]]) -> list[list[str]]:
    rows: list[list[str]] = [[] for _ in range(max(rank.values()) + 1)]
    for name in packages:
        rows[rank[name]].append(name)
    for route in routes:
        for point in route[1:-1]:
            rows[int(point.split(" ")[1])].append(point)
    return rows


def _ordered(rows: list[list[str]], routes: list[list[str]]) -> list[list[str]]:
    """Rows sorted by where their neighbours stand, down and up in turns, so that few arrows cross."""
    beside: dict[str, list[str]] = {node: [] for row in rows for node in row}
    for one, other in itertools.chain.from_iterable(map(itertools.pairwise, routes)):
        beside[one].append(other)
        beside[other].append(one)
    for sweep in range(SWEEPS):
        levels = range(1, len(rows)) if sweep % 2 else range(len(rows) - 2, -1, -1)
        for level in levels:
            fixed = rows[level - 1 if sweep % 2 else level + 1]
            middle = {node: position - (len(fixed) - 1) / 2 for position, node in enumerate(fixed)}
            here = {node: position - (len(rows[level]) - 1) / 2 for position, node in enumerate(rows[level])}
            wanted = {node: fmean([middle[other] for other in beside[node] if other in middle] or [here[node]]) for node in rows[level]}
            rows[level] = sorted(rows[level], key=lambda node: (wanted[node], here[node]))
    return rows


def _x(position: int, count: int, across: int) -> float:
    return (across - count) * ACROSS / 2 + position * ACROSS + ACROSS / 2


def _y(level: int, count: int) -> int:
    return EDGE + (count - 1 - level) * DOWN


def _curve(points: list[tuple[float, int]]) -> str:
    """From the lower edge of the first box, through the points between, to the upper edge of the last."""
    (x, y), *between, (last, below) = points
    parts = [f"M{x:g} {y + HEIGHT}"]
    y += HEIGHT
    for right, down in [*((one, level + HEIGHT // 2) for one, level in between), (last, below)]:
        middle = (y + down) / 2
        parts.append(f"C{x:g} {middle:g} {right:g} {middle:g} {right:g} {down}")
        x, y = right, down
    return " ".join(parts)


def _box(name: str, place: tuple[float, int], libraries: Iterable[str]) -> str:
    x, y = place
    short, alone = name.removeprefix("nightfit."), ", ".join(libraries)
    kind = ' class="audited"' if short in AUDITED else ""
    text = f'<text x="{x:g}" y="{y + (15 if alone else 22)}">{short}</text>'
    small = f'<text class="library" x="{x:g}" y="{y + 28}">{alone}</text>' if alone else ""
    return f'<g{kind}><rect x="{x - WIDTH / 2:g}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>{text}{small}</g>'
