"""The sections `search` and `unsafe`. Imports pydantic and packages below."""

import math
import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from nightfit.config.sections.base import Section
from nightfit.privacy.accounting import check_budget

MOST_SETTINGS = 64  # each costs a refit
VARIED = r"model\.(loss|penalty)|method(\.[a-z_]+)?"


class SearchSection(Section):
    """For `nightfit search`: settings to try, each at the cost of one refit (privacy.epsilon) and a little more for its score."""

    epsilon: float = Field(description="the most that the whole search may cost, at privacy.delta; there is no default")
    grid: dict[str, list[Any]] = Field(
        min_length=1, description="which fields take which values: {model.penalty: [{l1: 0.1}, {l1: 0.01}], method.steps: [20, 50]}"
    )
    score: float = Field(0.1, gt=0, le=1, description="what a score costs, as a share of the fit's cost; it comes on top")
    bound: float | None = Field(
        None, gt=0, description="the largest residual that counts in a score, in units of the target (classification: in the margin)"
    )
    payment: Literal["cheaper", "all", "repetition"] = Field(
        "cheaper", description="all: every setting is fitted and charged; repetition: the best of a random number of fits, in zcdp only"
    )
    repetitions: int | None = Field(None, ge=2, le=10_000, description="of a repetition, on average (default: twice the settings)")

    @field_validator("grid")
    @classmethod
    def _small(cls, value: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for name, values in value.items():
            if not re.fullmatch(VARIED, name):
                raise ValueError(f"{name} cannot be searched: use model.loss, model.penalty, method or fields of it such as method.steps")
            if not values or any(one in values[:place] for place, one in enumerate(values)):
                raise ValueError(f"{name} needs a list of different values")
        if "method" in value and any(name.startswith("method.") for name in value):
            raise ValueError("vary method as a whole, or fields of it, not both")
        count = math.prod(map(len, value.values()))
        if not 2 <= count <= MOST_SETTINGS:
            raise ValueError(f"a search has from 2 to {MOST_SETTINGS} settings, and this grid has {count}: every one of them costs")
        return value

    @model_validator(mode="after")
    def _budget(self) -> "SearchSection":
        check_budget(self.epsilon, 1e-6)
        return self


class Unsafe(Section):
    """For tests: a release made with this is stamped private: false, and the run needs --unsafe."""

    noise: Literal["seeded", "none"] = Field(description="noise that can be repeated, or none")
    seed: int = Field(0, ge=0, lt=2**64, description="of seeded noise")
