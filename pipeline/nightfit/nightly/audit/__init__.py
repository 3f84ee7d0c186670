"""`nightfit audit`: an attack on a configuration, on small data that are made here, and what it proves of epsilon. Imports packages below.

- `neighbours`: the data sets that the attack compares, and the wild ones that the search draws
- `attack`: many refits on two neighbours through gate and ledger, and an outsider who hears every answer
- `sensitivity`: whether any neighbour moves any query of the plan farther than the gate believes

The plan is the configuration's own: its method, loss, columns, unit, adjacency and budget. No record of the user is read.
"""

from dataclasses import dataclass, replace

from nightfit.config import Config, ConfigError
from nightfit.nightly.audit.attack import Attack, attacked
from nightfit.nightly.audit.sensitivity import Reached, searched
from nightfit.nightly.preparation import evaluation_in, ledger_and_policy
from nightfit.planning.evaluated import why_not_asked
from nightfit.planning.plan import Plan, make
from nightfit.planning.specification import Specification
from nightfit.privacy.accounting import Currency
from nightfit.shards.manifest import scan

__all__ = ["Attack", "Audit", "Reached", "attacked", "audit", "audited_plan", "searched"]

UNITS = 200  # enough for groups and blocks of every method, and few enough for thousands of refits
OF_NEIGHBOURS = 200  # that the search tries for each query


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What an audit found: the attack, and how far each query was moved."""

    plan: Plan
    attack: Attack
    reached: tuple[Reached, ...]

    @property
    def violated(self) -> bool:
        """Whether epsilon or a sensitivity is proved to be larger than claimed."""
        return self.attack.violated or any(query.share > 1 for query in self.reached)


def audit(config: Config, *, runs: int, confidence: float, epsilon: float | None = None, units: int = UNITS) -> Audit:
    """Attack a configuration.

    Parameters
    ----------
    config : Config
        The configuration.
    runs : int
        Refits on each of the two neighbours.
    confidence : float
        With which the bound holds.
    epsilon : float, optional
        Claim this epsilon instead of the configuration's: a larger one shows an error in fewer runs.
    units : int
        Records or persons of the data that are made.

    Raises
    ------
    ConfigError
        If the configuration asks for local reports or for no noise.
    """
    plan = audited_plan(config, epsilon, units)
    return Audit(plan=plan, attack=attacked(plan, runs=runs, confidence=confidence), reached=searched(plan, OF_NEIGHBOURS))


def audited_plan(config: Config, epsilon: float | None, units: int) -> Plan:
    """The configuration's plan, for so few units."""
    if config.privacy.trust == "local":
        raise ConfigError(
            "an audit hears answers of queries, and privacy.trust local asks none: each report is private by itself, and tests of the "
            "randomisers attack those (docs/explanation/audit.md)"
        )
    _, policy = ledger_and_policy(config)
    specification = config.specification(scan(config.data_path), policy.currency if policy else Currency.GAUSSIAN, policy)
    budget = specification.budget
    plan = make(_evaluated(config, replace(specification, budget=replace(budget, epsilon=epsilon or budget.epsilon)), units), units)
    if not plan.procedure.private:
        raise ConfigError("this method is a baseline that is not private: there is no claim to audit")
    return plan


def _evaluated(config: Config, specification: Specification, units: int) -> Specification:
    """With the evaluation of the configuration, however little so few units would tell; by default only where there can be one."""
    evaluate = evaluation_in(config)
    if evaluate is not None and not config.must_evaluate and why_not_asked(specification, make(specification, units).events) is not None:
        evaluate = None
    return replace(specification, evaluate=evaluate)
