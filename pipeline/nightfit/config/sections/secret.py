"""Where a secret is, which is never written in YAML: an environment variable or a file. Imports pydantic."""

import os
from pathlib import Path

from pydantic import Field, model_validator

from nightfit.config.sections.base import Place, Section
from nightfit.types import NightfitError


class Secret(Section):
    """Where a secret is: an environment variable or a file."""

    env: str | None = Field(None, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="name of the environment variable that holds it")
    file: Place | None = Field(None, description="the file that holds it, alone; relative to this file")

    @model_validator(mode="after")
    def _one_place(self) -> "Secret":
        if (self.env is None) == (self.file is None):
            raise ValueError("say where it is by env or by file: one of them")
        return self

    def read(self, folder: Path) -> str:
        """The secret.

        Raises
        ------
        NightfitError
            If it is not there; the message names the place and not what is in it.
        """
        if self.env is not None:
            found = os.environ.get(self.env, "")
            where = f"the environment variable {self.env}"
        else:
            where = f"the file {self.file}"
            try:
                found = (folder / str(self.file)).read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise NightfitError(f"a secret is missing: {where} cannot be read ({type(error).__name__})") from None
        if not found:
            raise NightfitError(f"a secret is missing: {where} is empty or not set")
        return found
