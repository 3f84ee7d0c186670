"""Sums of clipped gradients of rows of whole numbers. Imports kernels, rows and below.

A row q contributes A q, with a whole factor A of its slope and its norm (`Formulas.whole`). So rows that are kept as codes need not be made
dense where paid centres turn the zeros of their indicators into other numbers: see `coded_rows.whole_gradient_sum_loop`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nightfit.numerics.coded_rows import whole_gradient_sum_loop
from nightfit.numerics.fused_loops import UNGROUPED, gradient_sum_loop
from nightfit.problem.losses import Loss
from nightfit.queries.boundings import Formulas
from nightfit.queries.kernels import NO_GROUPS
from nightfit.queries.rows import RESOLUTION, Rows
from nightfit.records.coded_rows import CodedBlock, StagedBlock
from nightfit.types import Array, Integers

WHOLE = 2.0**RESOLUTION
Formula = tuple[Callable[..., Any], tuple[float, ...]]


def whole_gradient_sums(
    block: StagedBlock, rows: Rows, weights: Array, loss: Loss, formulas: Formulas, groups: npt.NDArray[np.int64] | None, count: int
) -> Integers:
    """The sums of A q over each group's records, in grid steps.

    Parameters
    ----------
    block : Block or CodedBlock
        Records, each of which is a unit, with their targets less `rows.level`.
    rows : Rows
        How they become whole numbers q.
    weights : array of float64, one per column
        Of scaled rows, q / 2^16.
    loss : Loss
        One with a formula.
    formulas : Formulas
        Of a bounding that has one for whole numbers.
    groups : array of int64, one per record, or None
        As in `kernels.gradient_sums`.
    count : int
        The number of groups.

    Returns
    -------
    array of int64, count x columns

    Raises
    ------
    ValueError
        If a record has no group below `count`, or there is no formula.
    """
    if groups is not None and len(groups) != block.units:
        raise ValueError(UNGROUPED)
    formula, factor = loss.formula(), formulas.whole
    if formula is None or factor is None:
        raise ValueError("neither this loss nor this bounding makes whole contributions")
    of_rows, scaled = NO_GROUPS if groups is None else groups, weights / WHOLE
    if isinstance(block, CodedBlock):
        return _of_codes(block, rows, scaled, formula, (factor, formulas.parameters), of_rows, count)
    slope, parameters = formula
    loop, sums = gradient_sum_loop(slope, factor, formulas.steps), np.zeros((count, len(weights)), dtype=np.int64)
    for place, q in rows.tiles(block, len(block)):
        loop(q, block.y[place], scaled, of_rows[place] if len(of_rows) else of_rows, parameters, formulas.parameters, sums)
    return sums


def _of_codes(block: CodedBlock, rows: Rows, weights: Array, slope: Formula, factor: Formula, groups: Integers, count: int) -> Integers:
    order, numbers = block.layout.order, len(block.layout.numbers)
    first, levels = order[:numbers], order[numbers + 1 :]
    others, ones = (rows.of_value(value)[levels] for value in (0.0, 1.0))
    none, added = np.array([weights[levels] @ others, others @ others]), np.zeros((len(order), 2))
    added[numbers + 1 :] = np.column_stack([weights[levels] * (ones - others), ones**2 - others**2])
    scaling = np.stack([rows.centre[first], 1 / rows.scale[first], rows.reach[first], weights[first]])
    found = np.zeros((count, len(order) + 1), dtype=np.int64)
    stored = block.numbers, block.codes, len(block.layout.categories), block.y
    loop = whole_gradient_sum_loop(slope[0], factor[0])
    loop(*stored, scaling, WHOLE, none, added, groups, slope[1], factor[1], found)
    sums = np.empty((count, len(weights)), dtype=np.int64)
    sums[:, first] = found[:, :numbers]
    of_rows, of_levels = found[:, -1:], found[:, numbers + 1 : -1]
    sums[:, levels] = of_rows * others.astype(np.int64) + of_levels * (ones - others).astype(np.int64)  # modulo 2^64, as all sums
    return sums
