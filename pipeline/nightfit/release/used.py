"""How many units counted in a fit, with which labels and levels, in words, from paid numbers in its release. Imports the document."""

from collections.abc import Sequence
from typing import Any

from nightfit.records.columns.category import OTHER
from nightfit.release.document import Release

WARNING = "Warning:"  # begins a sentence about what is probably wrong
DEVIATIONS = 1.96  # of a normal 95% interval
NEARLY_NONE = 0.2  # the largest end of an interval at which a label is said to be missing: where noise is larger, only the interval is said
HIDDEN = 0.5  # half-width of an interval that says next to nothing
FEW, TOO_MANY = 0.5, 1.02  # fewer than half is seldom meant; beyond one by more than rounding, the stated number is wrong
MOSTLY_OTHER = 0.9  # of a category's values: a list of levels that misses so many is seldom meant
EXACTLY = "matched exactly, with case and spaces (Died is not died)"


def used_in_words(release: Release, names: Sequence[str] = ()) -> list[str]:
    """How many units counted, the shares of labels, and categories most of whose values are undeclared; nothing of a release that is not
    private. `names` are the labels whose numbers a release of arrays has.
    """
    return [*_units(release), *_labels(release, names), *_levels(release)] if release.private else []


def warnings_of(release: Release, names: Sequence[str] = ()) -> list[str]:
    """The sentences that say what is probably wrong."""
    return [sentence for sentence in used_in_words(release, names) if sentence.startswith(WARNING)]


def _units(release: Release) -> list[str]:
    """The share of units that counted and, where it is surely small or above one, what to check; nothing where noise hides it."""
    used = release.content.get("used")
    if used is None:
        return []
    low, high, hidden = _range(used)
    if hidden:
        return []
    whom, target = _whom(release), release.preprocessing.target
    if low > TOO_MANY:
        return [
            f"{WARNING} {low:.0%} to {high:.0%} as many {whom} came as were stated. Sums were divided by the stated number, so the fit is "
            "wrong: check data.units."
        ]
    without = "a column that drops is missing" if target is None else f"{target} is no value that this kind of model can read"
    said = f"Used: {low:.0%} to {min(high, 1.0):.0%} of the {whom}. A record does not count where {without}."
    warning = f"{WARNING} few {whom} counted, and the fit is of those alone: check what data.target says of {target}, and data.units."
    return [said, warning] if high < FEW else [said]


def _labels(release: Release, names: Sequence[str]) -> list[str]:
    """The share of each label, and a warning of one that no record may have: a misspelt label is no error, because values are not."""
    shares, said = release.content.get("labels", {}), []
    for stored, paid in shares.items():
        label = names[int(stored)] if names else stored
        low, high, hidden = _range(paid)
        if hidden:
            continue
        few, nearly_all = low <= 0 and high <= NEARLY_NONE, len(shares) == 1 and high >= 1 and low >= 1 - NEARLY_NONE
        said.append(f"Label {label}: {low:.1%} to {min(high, 1.0):.1%} of the {_whom(release)} that count.")
        if few or nearly_all:
            seen = f"within the noise no record has {'the label' if few else 'another label than'} {label}"
            declared = f"what data.target declares of {release.preprocessing.target} is {EXACTLY}"
            said.append(f"{WARNING} {seen}: {declared}. Check it if this is not meant.")
    return said


def _levels(release: Release) -> list[str]:
    """A warning for each category whose paid mean of `other` is nearly one."""
    shape, centres = release.preprocessing, dict(zip(release.preprocessing.features, release.preprocessing.centre, strict=True))
    found = {name: centres.get(f"{name}={OTHER}", 0.0) for name, column in shape.encoded.columns if column.one_hot}
    return [
        f"{WARNING} about {min(share, 1.0):.0%} of the values of {name} are missing or none of its declared levels, which are {EXACTLY}: "
        f"check data.columns.{name}.levels."
        for name, share in found.items()
        if share >= MOSTLY_OTHER
    ]


def _range(paid: dict[str, Any]) -> tuple[float, float, bool]:
    """The ends of a 95% interval of a share, from zero on, and whether it is so wide that it says next to nothing."""
    away = DEVIATIONS * paid["deviation"]
    return max(0.0, paid["share"] - away), max(0.0, paid["share"] + away), away > HIDDEN


def _whom(release: Release) -> str:
    return "records" if release.preprocessing.unit is None else "persons"
