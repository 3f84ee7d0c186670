"""Nightly, differentially private refits of statistical models, out of core.

The public interface; each name is imported from its own module when it is first used, so that `import nightfit` is cheap.

- `PrivateLinearRegression`, `PrivateRidge`, `PrivateLasso`, `PrivateLogisticRegression`, `PrivatePoissonRegression`,
  `PrivateGammaRegression`, `PrivateQuantileRegression`: estimators with scikit-learn's interface
- `load_config`: read a `refit.yaml`
- `plan`, `refit`, `predict`: the steps of the `nightfit` command as functions, without Prefect
- `Plan`, `Release`: what will be asked and what it costs; what was released and its guarantee
- `Ledger`, `Policy`: the record of what was spent, and the lifetime budget of a data set

`docs/explanation/architecture.md` lists the packages below this one.

>>> from nightfit import PrivateRidge
>>> PrivateRidge(epsilon=1.0, delta=1e-6).epsilon
1.0
"""

import importlib
from typing import TYPE_CHECKING, Any

from nightfit._version import __version__

__all__ = [
    "Ledger",
    "Plan",
    "Policy",
    "PrivateGammaRegression",
    "PrivateLasso",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
    "PrivateQuantileRegression",
    "PrivateRidge",
    "Release",
    "__version__",
    "load_config",
    "plan",
    "predict",
    "refit",
]

if TYPE_CHECKING:
    from nightfit.api import load_config, plan, predict, refit
    from nightfit.estimators import (
        PrivateGammaRegression,
        PrivateLasso,
        PrivateLinearRegression,
        PrivateLogisticRegression,
        PrivatePoissonRegression,
        PrivateQuantileRegression,
        PrivateRidge,
    )
    from nightfit.ledger import Ledger, Policy
    from nightfit.planning.plan import Plan
    from nightfit.release import Release
else:
    _MODULES = {
        "Ledger": "nightfit.ledger",
        "Plan": "nightfit.planning.plan",
        "Policy": "nightfit.ledger",
        "PrivateGammaRegression": "nightfit.estimators",
        "PrivateLasso": "nightfit.estimators",
        "PrivateLinearRegression": "nightfit.estimators",
        "PrivateLogisticRegression": "nightfit.estimators",
        "PrivatePoissonRegression": "nightfit.estimators",
        "PrivateQuantileRegression": "nightfit.estimators",
        "PrivateRidge": "nightfit.estimators",
        "Release": "nightfit.release",
        "load_config": "nightfit.api",
        "plan": "nightfit.api",
        "predict": "nightfit.api",
        "refit": "nightfit.api",
    }

    def __getattr__(name: str) -> Any:
        """The public name `name`, imported now (PEP 562)."""
        if name not in _MODULES:
            raise AttributeError(f"module 'nightfit' has no attribute {name!r}")
        value = getattr(importlib.import_module(_MODULES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
