"""A cubic of a table by two loads of two coefficients each. Imports numba."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

PAIR = ir.VectorType(ir.DoubleType(), 2)
NUMBER = ir.IntType(32)
FUSED = ("contract",)


@intrinsic
def cubic(context: Any, pieces: Any, place: Any, t: Any) -> Any:
    """(c0 + t^2 c2) + t (c1 + t^2 c3) for c = pieces[place : place + 4], a contiguous array.

    Reading the table is what it costs; a compiler that is left alone reads the four coefficients one by one.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, start, t = arguments
        data = target.make_array(signature.args[0])(target, builder, array).data

        def two_from(offset: int) -> Any:
            found = builder.load(builder.bitcast(builder.gep(data, [builder.add(start, start.type(offset))]), PAIR.as_pointer()))
            found.align = 8
            return found

        def plus_times(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(a, builder.fmul(b, c, flags=FUSED), flags=FUSED)

        square = builder.fmul(t, t)
        both = ir.Constant(PAIR, ir.Undefined)
        for lane in (0, 1):
            both = builder.insert_element(both, square, NUMBER(lane))
        sums = plus_times(two_from(0), both, two_from(2))
        return plus_times(builder.extract_element(sums, NUMBER(0)), t, builder.extract_element(sums, NUMBER(1)))

    return types.float64(pieces, place, t), generate
