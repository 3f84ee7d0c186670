"""The dot products of a row that every query needs, added up in one order on every machine. Imports numba, llvmlite."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

LANES = 8  # one register of AVX-512; other processors use two or four, with the same result
DOUBLE, SIZE, INT32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
SUMS, INDICES = ir.VectorType(DOUBLE, LANES), ir.VectorType(SIZE, LANES)


@intrinsic
def row_products(context: Any, X: Any, start: Any, weights: Any, columns: Any) -> Any:
    """(x . weights, x . x) for the row x of `columns` numbers that begins at X.flat[start], reading it once.

    Lane l of eight adds columns l, l + 8, ... one after the other, with fused multiply-adds; then lanes 4 to 7 are added to 0 to 3,
    2 and 3 to 0 and 1, and 1 to 0. So the result depends on the row and the weights only: not on other rows, on the row's place in
    memory or on the processor. Its error is less than (columns + 8) 2^-53 of the sum of the absolute values of its terms.

    Parameters
    ----------
    X : C-contiguous array of float32 or float64
    start : unsigned integer
    weights : contiguous array of float64
    columns : unsigned integer
    """
    _check(X, weights)

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        totals = [_horizontal_sum(builder, lanes) for lanes in _added(target, builder, signature, arguments)]
        return target.make_tuple(builder, signature.return_type, totals)

    return types.UniTuple(types.float64, 2)(X, types.uintp, weights, types.uintp), generate


@intrinsic
def row_lanes(context: Any, X: Any, start: Any, weights: Any, columns: Any, lanes: Any) -> Any:
    """Write the lanes of `row_products` before they are added to each other: eight of x . weights, then eight of x . x."""
    _check(X, weights)
    if lanes.layout != "C" or lanes.dtype != types.float64:
        raise TypingError("lanes are contiguous numbers of type float64")

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out = target.make_array(signature.args[4])(target, builder, arguments[4]).data
        for place, found in enumerate(_added(target, builder, signature, arguments[:4])):
            pointer = builder.bitcast(builder.gep(out, [SIZE(place * LANES)]), SUMS.as_pointer())
            builder.store(found, pointer).align = 8
        return target.get_dummy_value()

    return types.void(X, types.uintp, weights, types.uintp, lanes), generate


def _check(X: Any, weights: Any) -> None:
    if X.layout != "C" or weights.layout != "C" or weights.dtype != types.float64:
        raise TypingError("a row's dot products need C-contiguous rows and contiguous float64 weights")


def _added(target: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """The lanes of both products."""
    array, first, factors, length = arguments
    row = builder.gep(target.make_array(signature.args[0])(target, builder, array).data, [first])
    weight = target.make_array(signature.args[2])(target, builder, factors).data
    zeros = ir.Constant(SUMS, [0.0] * LANES)
    product, square = (cgutils.alloca_once_value(builder, zeros) for _ in range(2))

    def add(x: Any, w: Any) -> None:
        x = x if x.type == SUMS else builder.fpext(x, SUMS)
        for total, factor in ((product, w), (square, x)):
            builder.store(call(builder, "llvm.fma.v8f64", SUMS, [x, factor, builder.load(total)]), total)

    full = builder.and_(length, SIZE(-LANES))  # the columns that fill all lanes
    with cgutils.for_range_slice(builder, SIZE(0), full, SIZE(LANES), inc=True) as (j, _):
        add(_load(builder, row, j), _load(builder, weight, j))
    rest = builder.sub(length, full)
    with builder.if_then(builder.icmp_unsigned(">", rest, SIZE(0))):
        mask = builder.icmp_unsigned("<", ir.Constant(INDICES, list(range(LANES))), _broadcast(builder, rest))
        add(_load(builder, row, full, mask), _load(builder, weight, full, mask))
    return [builder.load(lanes) for lanes in (product, square)]


def _load(builder: Any, data: Any, index: Any, mask: Any = None) -> Any:
    """Eight numbers from `index` on; where the mask is false it gives zeros and reads nothing."""
    element, align = data.type.pointee, 8 if data.type.pointee == DOUBLE else 4
    eight = ir.VectorType(element, LANES)
    pointer = builder.bitcast(builder.gep(data, [index]), eight.as_pointer())
    if mask is None:
        loaded = builder.load(pointer)
        loaded.align = align
        return loaded
    name = f"llvm.masked.load.v8{'f64' if element == DOUBLE else 'f32'}.p0"
    return call(builder, name, eight, [pointer, INT32(align), mask, ir.Constant(eight, [0.0] * LANES)])


def call(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    """A call of an LLVM intrinsic."""
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _broadcast(builder: Any, number: Any) -> Any:
    """A vector with this number in every lane."""
    lanes = ir.Constant(INDICES, ir.Undefined)
    for lane in range(LANES):
        lanes = builder.insert_element(lanes, number, INT32(lane))
    return lanes


def _horizontal_sum(builder: Any, lanes: Any) -> Any:
    """The sum of all lanes: the upper half is added to the lower one until one lane is left."""
    half = LANES // 2
    while half:
        low, high = (
            builder.shuffle_vector(lanes, lanes, ir.Constant(ir.VectorType(INT32, half), list(range(start, start + half))))
            for start in (0, half)
        )
        lanes, half = builder.fadd(low, high), half // 2
    return builder.extract_element(lanes, INT32(0))
