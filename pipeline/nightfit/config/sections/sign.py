"""The section `sign`. Imports pydantic."""

from pydantic import Field

from nightfit.config.sections.base import Section


class Sign(Section):
    """Releases are signed with this key."""

    key: str = Field(description="file of an Ed25519 private key in PEM, which `nightfit keys new` makes; relative to this file")
