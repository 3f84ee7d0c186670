"""The section `notify`: who is told what about a night. Imports pydantic.

No secret is written here: addresses that hold one, and passwords, come from environment variables or files.
"""

from typing import Literal

from pydantic import Field, model_validator

from nightfit.config.sections.base import Place, Section
from nightfit.config.sections.secret import Secret

Occasion = Literal["failure", "refusal", "budget", "drop", "data", "missed", "overlap", "completion"]
TROUBLE: tuple[Occasion, ...] = ("failure", "refusal", "budget", "drop", "data", "missed", "overlap")


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
        list(TROUBLE),
        description="failure, refusal, budget (few nights left), drop (of the paid metric), data (paid checks changed), missed, overlap; "
        "and, only where it is named, completion (every night that ended well)",
    )
    nights: int = Field(7, ge=0, description="budget: told when fewer nights than this are left")
    command: list[str] | None = Field(None, min_length=1, description="a program and its arguments; it reads an alert as JSON")
    webhook: Webhook | None = Field(None, description="an address that alerts are posted to as JSON")
    email: Email | None = Field(None, description="a mail for each alert")
    prometheus: Place | None = Field(None, description="a text file for Prometheus' node exporter, written after each night")
