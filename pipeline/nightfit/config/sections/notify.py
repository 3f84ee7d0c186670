"""The section `notify`: who is told what about a night. Imports pydantic.

No secret is written here: addresses that hold one, and passwords, come from environment variables or files.
"""

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from nightfit.config.sections.base import Place, Section
from nightfit.types import NightfitError

Occasion = Literal["failure", "refusal", "budget", "drop", "missed", "overlap"]
EVERY: tuple[Occasion, ...] = ("failure", "refusal", "budget", "drop", "missed", "overlap")


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
                raise NightfitError(f"notify: {where} cannot be read ({type(error).__name__})") from None
        if not found:
            raise NightfitError(f"notify: {where} is empty or not set")
        return found


class Webhook(Section):
    """Each alert is posted as JSON."""

    url: Secret = Field(description="where its address is, which is a secret: whoever knows it can post")


class Email(Section):
    """Each alert is a mail, by SMTP."""

    host: str = Field(min_length=1, description="of the mail server")
    port: int = Field(587, ge=1, le=65535, description="of the mail server")
    security: Literal["starttls", "tls", "none"] = Field("starttls", description="none only for a server on this machine")
    sender: str = Field(pattern=r"^[^\s@]+@[^\s@]+$", description="address that mails come from")
    to: list[str] = Field(min_length=1, description="addresses that mails go to")
    user: str | None = Field(None, description="with password: the user at the mail server")
    password: Secret | None = Field(None, description="where the password is")

    @model_validator(mode="after")
    def _password_is_protected(self) -> "Email":
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password go together: give both, or neither")
        if self.security == "none" and self.host not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError("security none is for a mail server on this machine: use starttls or tls")
        return self


class Notify(Section):
    """Who is told what about a night."""

    on: list[Occasion] = Field(
        list(EVERY), description="failure, refusal, budget (few nights left), drop (of the paid metric), missed, overlap"
    )
    nights: int = Field(7, ge=0, description="budget: told when fewer nights than this are left")
    command: list[str] | None = Field(None, min_length=1, description="a program and its arguments; it reads an alert as JSON")
    webhook: Webhook | None = Field(None, description="an address that alerts are posted to as JSON")
    email: Email | None = Field(None, description="a mail for each alert")
    prometheus: Place | None = Field(None, description="a text file for Prometheus' node exporter, written after each night")
