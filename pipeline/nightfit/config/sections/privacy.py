"""The section `privacy`: what a refit and all refits together may cost. Imports pydantic and packages below."""

from typing import Literal

from pydantic import Field, model_validator

from nightfit.config.sections.base import Section
from nightfit.ledger.policy import Period
from nightfit.privacy.accounting import Currency, check_budget, epsilon_for
from nightfit.types import Adjacency, NightfitError


class Lifetime(Section):
    epsilon: float = Field(description="all refits of this data set together, for ever")
    delta: float = Field(description="at which epsilon holds; of all refits together")
    currency: Currency = Field(
        Currency.GAUSSIAN, strict=False, description="gaussian (exact for this release), zcdp, approximate or (local reports) pure"
    )
    per: Period = Field("life", description="life, or year: a budget that is renewed every year, and protects per year only")

    @model_validator(mode="after")
    def _budget(self) -> "Lifetime":
        check_budget(self.epsilon, self.delta)
        return self


class Discovery(Section):
    epsilon: float = Field(description="what `nightfit discover` may cost, for all columns with `levels: discover` together")


class Privacy(Section):
    epsilon: float | None = Field(None, description="what this refit may cost; there is no default")
    rho: float | None = Field(None, description="the same as zero-concentrated privacy, instead of epsilon")
    pace: int | None = Field(None, ge=1, description="instead of epsilon: a refit costs the lifetime budget divided by this number")
    delta: float = Field(description="below 1 / (number of units); there is no default")
    adjacency: Adjacency = Field(Adjacency.REPLACE_ONE, strict=False, description="replace_one, zero_out or add_remove")
    trust: Literal["central", "local"] = Field(
        "central", description="central: noise is added to sums; local: every record is randomised before anything is collected"
    )
    lifetime: Lifetime | None = Field(None, description="the data set's whole budget, if the ledger has no policy for it yet")

    discover: Discovery | None = Field(None, description="what `nightfit discover` may cost, at delta; there is no default")

    @model_validator(mode="after")
    def _budget(self) -> "Privacy":
        if self.discover is not None:
            check_budget(self.discover.epsilon, self.delta)
        stated = [name for name in ("epsilon", "rho", "pace") if getattr(self, name) is not None]
        if not stated:
            raise ValueError(
                "privacy.epsilon is missing: what this refit may cost (or privacy.rho, zero-concentrated, or privacy.pace, of how many "
                "refits the lifetime budget is); there is no default"
            )
        if len(stated) > 1:
            raise ValueError(f"give {' or '.join(stated)}, not both: each says what this refit may cost")
        for currency in (Currency.GAUSSIAN, Currency.ZCDP):
            check_budget(1.0 if self.pace is not None else self.epsilon_in(currency), self.delta)
        return self

    def epsilon_in(self, currency: Currency) -> float:
        """What this refit may cost, at delta: as stated, or the epsilon of a budget that holds rho in this currency."""
        if self.epsilon is not None:
            return self.epsilon
        assert self.rho is not None
        if currency.adds_epsilons:
            raise NightfitError(f"privacy.rho is for the currencies gaussian and zcdp, and this is {currency}: state privacy.epsilon")
        return epsilon_for(self.rho, self.delta, currency)
