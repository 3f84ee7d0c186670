"""Evaluate cubic polynomials whose coefficients lie in a table, one or four at a time. Imports numba, llvmlite, dot_products."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nightfit.numerics.dot_products import INT32, SIZE, call

PAIR, FOUR = (ir.VectorType(ir.DoubleType(), count) for count in (2, 4))


@intrinsic
def cubic(context: Any, table: Any, index: Any, t: Any) -> Any:
    """(c0 + t^2 c2) + t (c1 + t^2 c3) for c = table[index : index + 4], with fused multiply-adds; the table is contiguous.

    Most of its cost is reading the table, so it loads two coefficients at a time, where Numba would load them one by one.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, t = arguments
        data = target.make_array(signature.args[0])(target, builder, array).data
        low, high = (_load(builder, data, builder.add(start, start.type(offset)), PAIR) for offset in (0, 2))
        square = builder.fmul(t, t)
        both = ir.Constant(PAIR, ir.Undefined)
        for lane in (0, 1):
            both = builder.insert_element(both, square, INT32(lane))
        sums = call(builder, "llvm.fma.v2f64", PAIR, [both, high, low])
        return builder.fma(t, builder.extract_element(sums, INT32(1)), builder.extract_element(sums, INT32(0)))

    return types.float64(table, index, t), generate


@intrinsic
def four_cubics(context: Any, table: Any, indices: Any, values: Any, first: Any) -> Any:
    """values[j] = cubic(table, indices[j], values[j]) for j = first, ..., first + 3, with the same bits.

    It loads the four coefficients of each cubic at once, then transposes the four vectors into one vector for each coefficient.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        coefficients, at, numbers = (
            target.make_array(kind)(target, builder, array).data for kind, array in zip(signature.args[:3], arguments[:3], strict=True)
        )
        first = arguments[3]
        starts = [builder.load(builder.gep(at, [builder.add(first, SIZE(lane))])) for lane in range(4)]
        a, b, c, d = (_load(builder, coefficients, start, FOUR) for start in starts)

        def shuffle(one: Any, other: Any, lanes: list[int]) -> Any:
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(INT32, 4), lanes))

        even, odd = ((shuffle(a, b, lanes), shuffle(c, d, lanes)) for lanes in ([0, 4, 2, 6], [1, 5, 3, 7]))
        c0, c2, c1, c3 = (shuffle(low, high, lanes) for low, high in (even, odd) for lanes in ([0, 1, 4, 5], [2, 3, 6, 7]))
        t = _load(builder, numbers, first, FOUR)
        square = builder.fmul(t, t)
        low, high = (call(builder, "llvm.fma.v4f64", FOUR, [square, upper, lower]) for upper, lower in ((c2, c0), (c3, c1)))
        result = call(builder, "llvm.fma.v4f64", FOUR, [t, high, low])
        builder.store(result, builder.bitcast(builder.gep(numbers, [first]), FOUR.as_pointer())).align = 8
        return target.get_dummy_value()

    return types.none(table, indices, values, types.uintp), generate


def _load(builder: Any, data: Any, index: Any, kind: Any) -> Any:
    """A vector of this type from `index` on."""
    loaded = builder.load(builder.bitcast(builder.gep(data, [index]), kind.as_pointer()))
    loaded.align = 8
    return loaded
