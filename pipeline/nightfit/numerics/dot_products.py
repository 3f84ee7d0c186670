"""The dot products of a row that every query needs, added up in one order on every machine. Imports numba, llvmlite."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

LANES = 8
DOUBLE, SINGLE, SIZE, NUMBER = ir.DoubleType(), ir.FloatType(), ir.IntType(64), ir.IntType(32)
SUMS, PLACES, MASK = ir.VectorType(DOUBLE, LANES), ir.VectorType(SIZE, LANES), ir.VectorType(ir.IntType(1), LANES)


@intrinsic
def row_products(context: Any, X: Any, start: Any, weights: Any, columns: Any) -> Any:
    """x . weights and x . x of the row x that starts at the number `start` of a contiguous array, in one reading.

    Lane l of eight adds columns l, l + 8, ... one after the other, each product fused into its sum; then lanes 4 to 7 are added to 0 to 3,
    2 and 3 to 0 and 1, and 1 to 0. So a row's products are its own: other rows, where it lies and the processor do not enter. Each errs by
    less than (columns + 8) 2^-53 of the sum of its terms' sizes.
    """
    if X.layout != "C" or weights.layout != "C" or weights.dtype != types.float64:
        raise TypingError("a row's products need contiguous rows and contiguous weights of 8 bytes")

    def generate(target: Any, builder: Any, signature: Any, words: Any) -> Any:
        held, first, factors, length = words
        row = builder.gep(target.make_array(signature.args[0])(target, builder, held).data, [first])
        weight = target.make_array(signature.args[2])(target, builder, factors).data
        nothing = ir.Constant(SUMS, [0.0] * LANES)
        product, square = (cgutils.alloca_once_value(builder, nothing) for _ in range(2))

        def add(x: Any, w: Any) -> None:
            x = x if x.type == SUMS else builder.fpext(x, SUMS)
            for total, other in ((product, w), (square, x)):
                builder.store(call(builder, "llvm.fma.v8f64", SUMS, [x, other, builder.load(total)]), total)

        whole = builder.and_(length, SIZE(-LANES))
        with cgutils.for_range_slice(builder, SIZE(0), whole, SIZE(LANES), inc=True) as (j, _):
            add(_loaded(builder, row, j), _loaded(builder, weight, j))
        rest = builder.sub(length, whole)
        with builder.if_then(builder.icmp_unsigned(">", rest, SIZE(0))):
            mask = builder.icmp_unsigned("<", ir.Constant(PLACES, list(range(LANES))), _repeated(builder, rest))
            add(_loaded(builder, row, whole, mask), _loaded(builder, weight, whole, mask))
        totals = [_total(builder, builder.load(lanes)) for lanes in (product, square)]
        return target.make_tuple(builder, signature.return_type, totals)

    return types.UniTuple(types.float64, 2)(X, types.uintp, weights, types.uintp), generate


def _loaded(builder: Any, data: Any, place: Any, mask: Any = None) -> Any:
    """Eight numbers from a place on; zeros where the mask says no, and nothing is read there."""
    element, align = data.type.pointee, 8 if data.type.pointee == DOUBLE else 4
    eight = ir.VectorType(element, LANES)
    pointer = builder.bitcast(builder.gep(data, [place]), eight.as_pointer())
    if mask is None:
        found = builder.load(pointer)
        found.align = align
        return found
    name = f"llvm.masked.load.v8{'f64' if element == DOUBLE else 'f32'}.p0"
    return call(builder, name, eight, [pointer, NUMBER(align), mask, ir.Constant(eight, [0.0] * LANES)])


def call(builder: Any, name: str, gives: Any, words: list[Any]) -> Any:
    kind = ir.FunctionType(gives, [word.type for word in words])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), words)


def _repeated(builder: Any, number: Any) -> Any:
    lanes = ir.Constant(PLACES, ir.Undefined)
    for lane in range(LANES):
        lanes = builder.insert_element(lanes, number, NUMBER(lane))
    return lanes


def _total(builder: Any, lanes: Any) -> Any:
    half = LANES // 2
    while half:
        low, high = (
            builder.shuffle_vector(lanes, lanes, ir.Constant(ir.VectorType(NUMBER, half), list(range(start, start + half))))
            for start in (0, half)
        )
        lanes, half = builder.fadd(low, high), half // 2
    return builder.extract_element(lanes, NUMBER(0))
