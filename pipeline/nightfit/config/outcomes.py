"""Whether a target and a kind of model go together. Imports the sections and packages below."""

import math

import numpy as np

from nightfit.config.sections.model import Model
from nightfit.config.sections.target import TargetSection
from nightfit.problem.losses import LOG_MEANS
from nightfit.records.targets import Target

TWO = 2  # labels of a logistic model


def check_target(model: Model, target: TargetSection) -> None:
    """Refuse what is said of a target and does not go with the kind of model, with the cure."""
    loss, kind = model.loss_of(), model.kind
    labelled = loss.target in (Target.LABELS, Target.CLASSES)
    declared = target.positive is not None or target.classes is not None
    if declared and not labelled:
        raise ValueError(f"data.target declares labels, and model.kind {kind} predicts numbers: use kind logistic or multinomial")
    if labelled and target.bounds is not None:
        raise ValueError(f"data.target.bounds are for numbers, and model.kind {kind} predicts labels: remove them")
    if kind == "multinomial" and (target.classes is None or len(target.classes) <= TWO):
        raise ValueError(
            "model.kind multinomial needs the public labels of three or more classes, as in target: {column: "
            f"{target.column}, classes: [home, transferred, died]}}; for two use kind logistic"
        )
    if kind == "multinomial" and model.start == "previous":
        raise ValueError("model.start previous is for models of one score, and kind multinomial has one for each class: remove it")
    if kind == "multinomial" and set(model.penalty) - {"l2"}:
        raise ValueError("kind multinomial takes no penalty or l2, which treat all classes alike: change model.penalty")
    if loss.target is Target.LABELS and target.classes is not None and len(target.classes) != TWO:
        raise ValueError("this model tells two labels apart, and data.target.classes has more: use kind multinomial, or positive: LABEL")
    if target.transform != "none" and not loss.scalable:
        raise ValueError(
            f"data.target.transform is for numbers on a straight scale, and model.kind {kind} has a scale of its own: remove it, or use "
            "kind linear or quantile"
        )
    if target.exposure is not None and loss.estimand not in LOG_MEANS:
        raise ValueError(f"data.target.exposure is for kind counts and amounts, and this model has kind {kind}: remove it")
    if target.bounds is not None and not all(map(math.isfinite, target.outcome().transformed(np.array(target.bounds)))):
        raise ValueError(f"data.target.bounds {list(target.bounds)} lie outside of what {target.transform} is defined for")
