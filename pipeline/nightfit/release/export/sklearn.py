"""A Python file with a scikit-learn Pipeline that needs no nightfit. Imports the formula; reads the text of `standalone`."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from nightfit.release.export import Format, Formula

PLACE = re.compile(r"^FORMULA: .*?(?=^INPUTS = )", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sklearn:
    """`from FILE import pipeline`, then `pipeline.predict(frame)`. It is text that can be read before it is run, not a pickle."""

    name: ClassVar[str] = "sklearn"
    suffix: ClassVar[str] = ".py"

    def written(self, formula: Formula) -> bytes:
        text = json.dumps(formula.as_dict(), allow_nan=False)
        line = f"FORMULA: dict[str, Any] = json.loads({text!r})\n"  # Python's own quoting: no name of a column can end the literal
        return PLACE.sub(lambda _: line, Path(__file__).with_name("standalone.py").read_text(), count=1).encode()


EXAMPLES: tuple[Format, ...] = (Sklearn(),)
