"""MkDocs hook: the site shows files of the repository that lie outside of docs/. Imports mkdocs and the standard library.

A page links to a file by its path in the repository, so that the link works where the repository is browsed. In the site that link leads
to a page: the one that PAGES names, or a listing of the file under source/. A line `<!-- section: README.md: Title -->` is replaced by
that section of that file, and a link to an SVG picture by the picture itself, so that it follows the page's colours.
"""

import ast
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = {
    "CONTRIBUTING.md": "contributing/index.md",
    "SECURITY.md": "contributing/security.md",
    "CHANGELOG.md": "contributing/changelog.md",
    "README.md": "index.md",
    "benchmarks/RESULTS.md": "explanation/results.md",
    "benchmarks/EXPERIMENTS.md": "explanation/experiments.md",
    "data/README.md": "reference/data.md",
    "deploy/README.md": "guides/deploy.md",
}
LANGUAGES = {".py": "python", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml", ".service": "ini"}
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
SECTION = re.compile(r"^<!-- section: (\S+): (.+) -->$", re.MULTILINE)
LISTED = "---\nsearch: {{exclude: true}}\nhide: [navigation, toc]\n---\n\n# {title}\n\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file of the repository that a page leads to, and for those that these lead to."""
    for source, uri in PAGES.items():
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))
    waiting = [place for file in files.documentation_pages() for place in _targets(_written(file), _origin(file.src_uri))]
    while waiting:
        place = waiting.pop()
        uri = _uri(place)
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=_listing(place)))
            waiting += _inside(place) if place.is_dir() else _targets(_listing(place), place.parent) if place.suffix == ".md" else []
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page's text with its sections filled in, and its links leading to pages of the site."""
    uri = page.file.src_uri
    if uri.startswith("source/") and not (ROOT / uri.removeprefix("source/")).exists():
        return markdown
    return _relinked(_filled(markdown, uri), _origin(uri), uri)


def _origin(uri: str) -> Path:
    """The folder that the links of a page of the site are relative to."""
    by_page = {page: source for source, page in PAGES.items() if not (DOCS / page).exists()}
    if uri in by_page:
        return (ROOT / by_page[uri]).parent
    return (ROOT / uri.removeprefix("source/") if uri.startswith("source/") else DOCS / uri).parent


def _written(file: File) -> str:
    return _filled(file.content_string, file.src_uri)


def _filled(text: str, uri: str) -> str:
    """The text with the sections of other files that it names, their links made relative to this page's origin."""

    def section(found: re.Match[str]) -> str:
        source = ROOT / found[1]
        part = re.search(rf"^## {re.escape(found[2])}\n(.*?)(?=^## |\Z)", source.read_text(), re.MULTILINE | re.DOTALL)
        if part is None:
            raise ValueError(f"{uri}: {found[1]} has no section {found[2]!r}")
        return _each_link(part[1].strip(), lambda target: os.path.relpath(source.parent / target, _origin(uri)))

    return SECTION.sub(section, text)


def _each_link(text: str, change: Callable[[str], str]) -> str:
    """The text with the path of every link that is no address changed, outside of code blocks."""

    def changed(found: re.Match[str]) -> str:
        path, hash_mark, anchor = found[2].partition("#")
        return found[0] if "://" in path or not path else f"{found[1]}({change(path)}{hash_mark}{anchor})"

    return "".join(part if place % 2 else LINK.sub(changed, part) for place, part in enumerate(FENCED.split(text)))


def _targets(text: str, origin: Path) -> list[Path]:
    """The files of the repository outside of docs/ that a text links to and that have no page of their own."""
    found: list[Path] = []

    def seen(path: str) -> str:
        place = (origin / path).resolve()
        ours = place.exists() and place.is_relative_to(ROOT) and not place.is_relative_to(DOCS)
        if ours and str(place.relative_to(ROOT)) not in PAGES:
            found.append(place)
        return path

    _each_link(text, seen)
    return found


def _uri(place: Path) -> str:
    """The page of a file: its own in docs/, the one that PAGES names, or its listing."""
    if place.is_relative_to(DOCS):
        return str(place.relative_to(DOCS))
    path = str(place.relative_to(ROOT))
    return PAGES.get(path) or f"source/{path}" + ("/index.md" if place.is_dir() else "" if place.suffix == ".md" else ".md")


def _relinked(text: str, origin: Path, uri: str) -> str:
    folder = os.path.dirname(uri) or "."

    def drawn(found: re.Match[str]) -> str:
        return f'<div class="picture">\n{(origin / found[1]).read_text()}</div>'

    pictured = re.sub(r"^!\[[^\]]*\]\((\S+\.svg)\)$", drawn, text, flags=re.MULTILINE)
    return _each_link(pictured, lambda path: os.path.relpath(_uri((origin / path).resolve()), folder))


def _inside(folder: Path) -> list[Path]:
    return [place for place in sorted(folder.iterdir()) if place.suffix == ".py" or (place.is_dir() and any(place.glob("*.py")))]


def _listing(place: Path) -> str:
    """A page of a file or a folder: the file's text, or the folder's modules with the first sentence of each."""
    path = place.relative_to(ROOT)
    if place.is_dir():
        return LISTED.format(title=f"`{path}/`") + "\n".join(_rows(place))
    if place.suffix == ".md":
        return place.read_text()
    language = LANGUAGES.get(place.suffix, "text")
    return LISTED.format(title=f"`{path}`") + f'~~~~~~ {{.{language} linenums="1"}}\n{place.read_text()}\n~~~~~~\n'


def _rows(folder: Path) -> Iterator[str]:
    yield "| module | what it holds |\n|---|---|"
    for place in _inside(folder):
        inner = place.is_dir()
        yield f"| [`{place.name}{'/' if inner else ''}`]({place.name}{'/index' if inner else ''}.md) | {_first(place)} |"


def _first(place: Path) -> str:
    """The first paragraph of a module's or package's docstring, in one line that a table can hold."""
    module = place / "__init__.py" if place.is_dir() else place
    said = ast.get_docstring(ast.parse(module.read_text())) if module.exists() else None
    return " ".join((said or "").partition("\n\n")[0].split()).replace("|", "\\|")
