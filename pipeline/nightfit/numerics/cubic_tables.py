"""Cubics of a table, one by one and four at a time. Imports numba, products."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nightfit.numerics.dot_products import NUMBER, call

PAIR, FOUR = (ir.VectorType(ir.DoubleType(), count) for count in (2, 4))
PLACE = ir.IntType(64)


@intrinsic
def cubic(context: Any, pieces: Any, place: Any, t: Any) -> Any:
    """(c0 + t^2 c2) + t (c1 + t^2 c3) for c = pieces[place : place + 4], a contiguous array; products are fused into sums.

    Reading the table is what it costs; a compiler that is left alone reads the four coefficients one by one.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, t = arguments
        data = target.make_array(signature.args[0])(target, builder, array).data
        low, high = (_loaded(builder, data, builder.add(start, start.type(offset)), PAIR) for offset in (0, 2))
        square = builder.fmul(t, t)
        both = ir.Constant(PAIR, ir.Undefined)
        for lane in (0, 1):
            both = builder.insert_element(both, square, NUMBER(lane))
        sums = call(builder, "llvm.fma.v2f64", PAIR, [both, high, low])
        return builder.fma(t, builder.extract_element(sums, NUMBER(1)), builder.extract_element(sums, NUMBER(0)))

    return types.float64(pieces, place, t), generate


@intrinsic
def four_cubics(context: Any, pieces: Any, places: Any, values: Any, first: Any) -> Any:
    """values[j] = cubic(pieces, places[j], values[j]) for the four j from `first` on, to the last bit.

    Each cubic's coefficients are read at once, and the four vectors c of a cubic are turned into four of a coefficient.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, at, numbers = (
            target.make_array(kind)(target, builder, array).data for kind, array in zip(signature.args[:3], arguments[:3], strict=True)
        )
        first = arguments[3]
        starts = [builder.load(builder.gep(at, [builder.add(first, PLACE(lane))])) for lane in range(4)]
        a, b, c, d = (_loaded(builder, table, start, FOUR) for start in starts)

        def picked(one: Any, other: Any, lanes: list[int]) -> Any:
            return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(NUMBER, 4), lanes))

        even, odd = ((picked(a, b, lanes), picked(c, d, lanes)) for lanes in ([0, 4, 2, 6], [1, 5, 3, 7]))
        c0, c2, c1, c3 = (picked(low, high, lanes) for low, high in (even, odd) for lanes in ([0, 1, 4, 5], [2, 3, 6, 7]))
        t = _loaded(builder, numbers, first, FOUR)
        square = builder.fmul(t, t)
        low, high = (call(builder, "llvm.fma.v4f64", FOUR, [square, upper, lower]) for upper, lower in ((c2, c0), (c3, c1)))
        found = call(builder, "llvm.fma.v4f64", FOUR, [t, high, low])
        builder.store(found, builder.bitcast(builder.gep(numbers, [first]), FOUR.as_pointer())).align = 8
        return target.get_dummy_value()

    return types.none(pieces, places, values, types.uintp), generate


def _loaded(builder: Any, data: Any, place: Any, kind: Any) -> Any:
    found = builder.load(builder.bitcast(builder.gep(data, [place]), kind.as_pointer()))
    found.align = 8
    return found
