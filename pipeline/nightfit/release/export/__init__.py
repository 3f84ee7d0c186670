"""Released models for other systems, one format per file: clamps, encodings and links included. Imports the document and below.

A format turns a `Formula` into the bytes of one file. Whatever a release knows, the formula says in expressions; a format knows the
operations and nothing of columns, links or releases.
"""

from typing import ClassVar, Protocol

from nightfit.release.export.formula import Formula

__all__ = ["Format", "Formula"]


class Format(Protocol):
    """`name` is what the command calls it; `suffix` ends its files."""

    name: ClassVar[str]
    suffix: ClassVar[str]

    def written(self, formula: Formula) -> bytes:
        """The whole file."""
