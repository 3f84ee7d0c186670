"""What a refit leaves behind: the release and the pages about it.

Contents
--------
document
    `Release`: a released model as one JSON file: reading, writing, its guarantee in words, and its claim on the ledger.
assumptions
    What a guarantee takes for granted.
signing
    Ed25519 signatures of releases.
validation
    What a release.json must hold before anything is computed from it.
assembly
    `build`: a release from a plan and its outcome.
previous_release
    The earlier release that a refit starts from.
balance
    `Balance`: what a data set's lifetime budget holds.
report, report_sections, figures, words
    The page of one refit as HTML and its gist as Markdown; its sections, plots and short texts.
burndown, trade_off
    Pages about budgets over time, and about what epsilon buys.
html
    Self-contained pages: style, tables and plots without anything from elsewhere.

Imports planning and below.
"""

from nightfit.release.assembly import build
from nightfit.release.document import Release, ReleaseError, damaged_in, releases_in, write_atomically

__all__ = ["Release", "ReleaseError", "build", "damaged_in", "releases_in", "write_atomically"]
