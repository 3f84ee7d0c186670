"""Short texts that the report, its summary and the command line share. Imports the document."""

import json
import math
import re
from html import escape
from typing import Any

from nightfit.records.preprocessing import Preprocessing
from nightfit.release.document import Release

NOT_ALONE = "not known alone"
WHY_NOT_ALONE = (
    f"A coefficient is {NOT_ALONE} where its column follows from others, as each level of a category does from the other levels: only "
    "differences between levels are known. With `reference: LEVEL` in the category's description each level is compared with that one."
)


def badge(release: Release) -> str:
    """Whether it is private, in a word or two."""
    return "private" if release.private else "NOT PRIVATE"


def shown_names(shape: Preprocessing) -> dict[str, str]:
    """What each feature is called on a page: a transformed column by its transform too, because coefficients are per unit of that."""
    stored = shape.encoded.as_dict()
    return {name: f"{how}({name})" if (how := stored.get(name, {}).get("transform", "none")) != "none" else name for name in shape.features}


def plain(text: str) -> str:
    """Text that Markdown and HTML show as it is."""
    return re.sub(r"([\\`*_\[\]|~#])", r"\\\1", escape(" ".join(text.split()), quote=False))


def noise_in_words(noise: float | None) -> str:
    """The standard deviation of a coefficient's noise."""
    return "follows the data" if noise is None else f"{noise:.2g}"


def range_in_words(pair: Any) -> str:
    """1.2 to 3.4."""
    if math.isnan(pair[0]):
        return NOT_ALONE
    return f"{pair[0]:.4g} to {pair[1]:.4g}"


def in_words(setting: dict[str, Any]) -> str:
    """model.penalty {l1: 0.1}, method.steps 20."""
    return ", ".join(f"{name} {json.dumps(value)}".replace('"', "") for name, value in setting.items())
