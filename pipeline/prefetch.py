"""A hint to the processor: what it will soon read. Imports numba."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LINE = 64  # bytes that a cache holds together
READ, SECOND_LEVEL, DATA = 0, 2, 1


@intrinsic
def fetch_row(context: Any, X: Any, row: Any) -> Any:
    """Ask for row number `row` of a C-contiguous matrix to be brought near; past its end too, where nothing is read and nothing fails.

    A block is walked in tiles, twice each: the second walk computes and leaves memory idle unless it asks for the tile behind it.
    """

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        matrix = target.make_array(signature.args[0])(target, builder, arguments[0])
        width = cgutils.unpack_tuple(builder, matrix.strides)[0]
        byte, number = ir.IntType(8), ir.IntType(32)
        start = builder.gep(builder.bitcast(matrix.data, byte.as_pointer()), [builder.mul(arguments[1], width)])
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        words = [ir.Constant(number, word) for word in (READ, SECOND_LEVEL, DATA)]
        with cgutils.for_range_slice(builder, width.type(0), width, width.type(LINE)) as (offset, _):
            builder.call(fetch, [builder.gep(start, [offset]), *words])
        return target.get_dummy_value()

    return types.void(X, types.uintp), generate
