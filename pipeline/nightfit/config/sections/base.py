"""What every section of refit.yaml shares. Imports pydantic."""

from pydantic import BaseModel, ConfigDict

NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class Section(BaseModel):
    """A part of the configuration: unknown keys are refused, numbers are numbers, nothing can be changed afterwards."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
