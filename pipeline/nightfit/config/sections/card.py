"""The section `card`: what only people can say of a model. Imports pydantic."""

from pydantic import Field

from nightfit.config.sections.base import Section


class Card(Section):
    """What a model card says that no file knows."""

    use: str | None = Field(None, min_length=1, description="what the model is for, in a sentence or two")
    limits: str | None = Field(None, min_length=1, description="what it must not be used for, and for whom it may not hold")
    contact: str | None = Field(None, min_length=1, description="who answers questions about it")
