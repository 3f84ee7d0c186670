"""MkDocs hook: the pages of the papers, drawn from their numbers in docs/papers. Imports nightfit_flows and mkdocs.

A link to PAPER.json, which works where the repository is browsed, leads to PAPER.html in the site. The numbers are made anew by
`nightfit reproduce PAPER --fast --output docs/papers`, which writes a page beside them that the repository does not keep.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from nightfit_flows.reproduce import page as pages

FOLDER = Path(__file__).parents[1] / "papers"
LINK = re.compile(r"(\((?:[^()\s]*/)?papers/\w+)\.json\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the page of every paper whose numbers are there."""
    for numbers in sorted(FOLDER.glob("*.json")):
        drawn = pages.as_html(pages.read(numbers))
        files.append(File.generated(config, f"papers/{numbers.stem}.html", content=drawn))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page's text, whose links lead to pages instead of numbers."""
    return LINK.sub(r"\1.html)", markdown)
