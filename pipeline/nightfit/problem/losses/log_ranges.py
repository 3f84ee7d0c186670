"""The range of a mean whose logarithm is linear: what the losses with a log link share. Imports numerics."""

from numba.extending import register_jitable

from nightfit.numerics.exact import decay

MOST = 2.0**30  # a mean above a thousand million is of another unit: state the target in thousands
LEAST = 2.0**-30
LARGEST_MARGIN = 700.0  # exp(700) is still finite


@register_jitable
def mean_at(z: float, low: float, high: float) -> float:
    """exp(z) clamped to [low, high], with the same bits on every machine."""
    t = LARGEST_MARGIN if z > LARGEST_MARGIN else (-LARGEST_MARGIN if z < -LARGEST_MARGIN else z)
    e = decay(-abs(t))
    return clamped(1.0 / e if t > 0.0 else e, low, high)


@register_jitable
def clamped(value: float, low: float, high: float) -> float:
    """min(max(value, low), high); what is not a number stays so."""
    return high if value > high else (low if value < low else value)


def check_range(name: str, low: float, high: float) -> None:
    """Refuse a range of means that is empty or not finite."""
    if not 0.0 <= low < high <= MOST:
        raise ValueError(
            f"{name}: the range of the mean must be two numbers, low < high, from 0 to {MOST:g}, got {low!r} and {high!r}; "
            "state the target in another unit"
        )
