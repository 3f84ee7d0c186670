"""What every section of refit.yaml shares. Imports pydantic."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
MOST_IN_A_NAME = 100  # characters: names become names of files, which have 255 at most
MOST_IN_A_PATH = 4096  # characters: no path of Linux is longer


def _can_be_opened(value: str) -> str:
    """Refuse characters that no path has."""
    if "\0" in value or not value.isprintable():
        raise ValueError("a path has no NUL byte and no other character that cannot be printed")
    return value


Name = Annotated[str, Field(pattern=NAME, max_length=MOST_IN_A_NAME)]
Place = Annotated[str, Field(min_length=1, max_length=MOST_IN_A_PATH), AfterValidator(_can_be_opened)]


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, numbers are numbers, nothing can be changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
