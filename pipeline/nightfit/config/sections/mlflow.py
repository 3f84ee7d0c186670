"""The section `mlflow`: a tracking server that is told of private releases. Imports pydantic."""

from urllib.parse import urlsplit

from pydantic import Field, model_validator

from nightfit.config.sections.base import Section
from nightfit.config.sections.secret import Secret

OURS = ("localhost", "127.0.0.1", "::1")


class Mlflow(Section):
    """Each private release becomes a run and a version of a registered model, whose alias `current` follows promotion."""

    uri: str = Field(pattern=r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$", description="of the tracking server; http only on this machine")
    experiment: str | None = Field(None, min_length=1, max_length=250, description="where runs are logged (default: the model's name)")
    model: str | None = Field(
        None, min_length=1, max_length=250, pattern=r"^[^/:]+$", description="of the registry (default: the model's name)"
    )
    token: Secret | None = Field(None, description="where the server's token is")

    @model_validator(mode="after")
    def _is_protected(self) -> "Mlflow":
        split = urlsplit(self.uri)
        if split.scheme == "http" and split.hostname not in OURS:
            raise ValueError("mlflow.uri is http, which anyone between may read and change: use https, or a server on this machine")
        return self
