"""How many units counted in a fit, in words, from the paid share in its release. Imports the document."""

from nightfit.release.document import Release

DEVIATIONS = 1.96  # of a normal 95% interval
HIDDEN = 0.5  # half-width of an interval that says next to nothing
FEW, TOO_MANY = 0.5, 1.02  # fewer than half is seldom meant; beyond one by more than rounding, the stated number is wrong


def used_in_words(release: Release) -> list[str]:
    """The share of units that counted and, where it is surely small or above one, what to check; nothing where noise hides it.

    Numbers of a release that is not private are not shown.
    """
    used = release.content.get("used")
    if used is None or not release.private:
        return []
    away = DEVIATIONS * used["deviation"]
    low, high = max(0.0, used["share"] - away), max(0.0, used["share"] + away)
    if away > HIDDEN:
        return []
    whom, target = "records" if release.preprocessing.unit is None else "persons", release.preprocessing.target
    if low > TOO_MANY:
        return [
            f"Warning: {low:.0%} to {high:.0%} as many {whom} came as were stated. Sums were divided by the stated number, so the fit is "
            "wrong: check data.units."
        ]
    without = "a column that drops is missing" if target is None else f"{target} is no value that this kind of model can read"
    said = f"Used: {low:.0%} to {min(high, 1.0):.0%} of the {whom}. A record does not count where {without}."
    warning = f"Warning: few {whom} counted, and the fit is of those alone: check what data.target says of {target}, and data.units."
    return [said, warning] if high < FEW else [said]
