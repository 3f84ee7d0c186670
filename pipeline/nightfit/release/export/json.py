"""The scoring formula as JSON, for a system that has none of the other formats. Imports the formula."""

import json
from dataclasses import dataclass
from typing import ClassVar

from nightfit.release.export import Format, Formula


@dataclass(frozen=True, kw_only=True, slots=True)
class Json:
    """Inputs, features as nested expressions, terms, and the link: docs/guides/export.md says how they are read."""

    name: ClassVar[str] = "json"
    suffix: ClassVar[str] = ".json"

    def written(self, formula: Formula) -> bytes:
        return (json.dumps(formula.as_dict(), indent=2, allow_nan=False) + "\n").encode()


EXAMPLES: tuple[Format, ...] = (Json(),)
