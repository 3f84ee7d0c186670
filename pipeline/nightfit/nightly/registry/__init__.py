"""Private releases in an MLflow tracking server and its registry of models. Imports config, release and ledger.

- `rest`: the calls of MLflow's REST interface, over plain HTTP; mlflow itself is not needed here
- `model`: a release as a folder that `mlflow.pyfunc.load_model` loads without nightfit
- `logging`: what is told of a release, and the alias that follows promotion

Guarantee: only a private release that the ledger binds is told, with its guarantee, its paid numbers and its report; no error of the server
reaches the night, and no secret a message. Broken by test_a_release_that_is_not_private_is_not_logged and
test_a_registry_that_fails_warns_and_fails_no_night.
"""

from nightfit.nightly.registry.logging import follow_promotion, log_release

__all__ = ["follow_promotion", "log_release"]
