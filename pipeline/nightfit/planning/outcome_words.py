"""What a model predicts, in words: by the target, how it is read, and the loss. Imports records."""

from typing import Any

from nightfit.records.outcomes import UNTRANSFORMED
from nightfit.records.preprocessing import Preprocessing


def outcome_in_words(shape: Preprocessing, loss: dict[str, Any]) -> str:
    """What a prediction is, in the outcome's own units.

    Parameters
    ----------
    shape : Preprocessing
        How the target is read.
    loss : dict
        Name and fields of the loss, as plans store them.

    Examples
    --------
    >>> from nightfit.records.outcomes import Outcome
    >>> shape = Preprocessing(features=("a",), target="stay", centre=(0.0,), scale=(1.0,), intercept=True)
    >>> outcome_in_words(shape, {"kind": "quantile", "quantile": 0.9})
    'the value below which 90% of stay lie'
    """
    target, outcome = shape.target or "", shape.outcome
    if outcome.labels:
        return _of_labels(target, outcome.labels, outcome.rest)
    if outcome.transform != UNTRANSFORMED:
        value = f"{outcome.transform}({target})"
        middle = f"{loss['quantile']:.0%} quantile" if loss["kind"] == "quantile" else "median"
        return f"the {middle} of {target}: {_of_numbers(value, loss)}, taken back from {outcome.transform}"
    if outcome.exposure is not None:
        return f"{_of_numbers(target, loss)} for each unit of {outcome.exposure}; a prediction is for the record's own {outcome.exposure}"
    return _of_numbers(target, loss)


def _of_labels(target: str, labels: tuple[str, ...], rest: bool) -> str:
    if rest:
        return f"the probability that {target} is {labels[0]} and not another value; a record without a value adds nothing"
    *others, last = labels
    named = f"{', '.join(others)} or {last}"
    one = "the probability" if len(labels) == 2 else "the probabilities"
    which = f"{last} and not {others[0]}" if len(labels) == 2 else named
    return f"{one} that {target} is {which}; a record with any other value adds nothing"


def _of_numbers(value: str, loss: dict[str, Any]) -> str:
    words = {
        "squared": f"the mean of {value}",
        "huber": f"the middle of {value}",
        "poisson": f"the mean of {value}, a count",
        "gamma": f"the mean of {value}, an amount above zero",
        "logistic": f"the probability of label 1 of {value}",
        "softmax": f"the probability of each label of {value}",
    }
    if loss["kind"] == "quantile":
        return f"the value below which {loss['quantile']:.0%} of {value} lie"
    return words.get(loss["kind"], value)
