"""Arithmetic on several numbers at once, where LLVM does not find it by itself.

exp and log are straight-line float64 arithmetic, no calls, no branches, so that loops over them are vectorised.

The C library's functions are opaque calls, one value at a time; in the sweeps they would be most of the time. Both
functions here are within a few units in the last place of the C library's on the range that the sweeps use, which the
tests hold. The polynomials are the plain series of exp(r) and atanh(s), long enough for float64 after range reduction.

`any_above_N` compares N neighbours with one bound, `weighted_rows_N` adds up N numbers of each row of a matrix: vectors
in LLVM's own terms, which every processor gets in the widths it has.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spansieve.crf.kernels.cpu.jit import vectorised

LOG2_E = 1.4426950408889634
LN2_HIGH = 0.6931471803691238  # the leading bits of ln 2: times a small integer this is exact
LN2_LOW = 1.9082149292705877e-10
ROUNDER = 6755399441055744.0  # 1.5 * 2**52: adding it leaves the nearest integer in the low bits of a double
ROUNDER_BITS = 4843621399236968448  # the same double, as bits
SQRT_HALF_BITS = 4604544271217802189  # bits of sqrt(1/2), so that the mantissa is in [sqrt(1/2), sqrt(2))
SMALLEST_EXPONENT = -708.0  # below this exp leaves the normal range of float64, and is 0 here


@intrinsic
def _bits(typing_context, x):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@intrinsic
def _from_bits(typing_context, bits):
    def codegen(context, builder, signature, args):
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@vectorised
def exp(x):
    """exp(x) for x <= 709; 0 below -708, -inf included."""
    z = x if x > SMALLEST_EXPONENT else SMALLEST_EXPONENT
    shifted = z * LOG2_E + ROUNDER
    k = shifted - ROUNDER
    r = (z - k * LN2_HIGH) - k * LN2_LOW  # |r| <= ln(2) / 2, and exp(x) = 2**k * exp(r)
    r2 = r * r
    r4 = r2 * r2
    # The series by Estrin's scheme: short dependency chains where Horner's rule has one long one.
    low = (1.0 + r) + r2 * (1.0 / 2 + r * (1.0 / 6))
    middle = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040))
    high = (1.0 / 40320 + r * (1.0 / 362880)) + r2 * (1.0 / 3628800 + r * (1.0 / 39916800)) + r4 * (1.0 / 479001600)
    series = low + r4 * (middle + r4 * high)
    result = _from_bits(_bits(series) + (_bits(shifted) << 52))
    return result if x > SMALLEST_EXPONENT else 0.0


@vectorised
def log(x):
    """log(x) for normal positive x; the callers leave zeros out."""
    bits = _bits(x)
    exponent = (bits - SQRT_HALF_BITS) >> 52
    mantissa = _from_bits(bits - (exponent << 52))
    k = _from_bits(exponent + ROUNDER_BITS) - ROUNDER
    s = (mantissa - 1.0) / (mantissa + 1.0)  # log(mantissa) = 2 atanh(s), |s| <= 0.172
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    low = (1.0 / 3 + z * (1.0 / 5)) + z2 * (1.0 / 7 + z * (1.0 / 9))
    high = (1.0 / 11 + z * (1.0 / 13)) + z2 * (1.0 / 15 + z * (1.0 / 17)) + z4 * (1.0 / 19 + z * (1.0 / 21))
    return k * LN2_HIGH + (2.0 * s + (2.0 * s * z * (low + z4 * high) + k * LN2_LOW))


def _any_above(lanes: int):
    """An intrinsic (array, at, bound): is one of array[at] … array[at + lanes - 1] above the bound, or not a number?"""

    @intrinsic
    def any_above(typing_context, array, at, bound):
        def codegen(context, builder, signature, args):
            values = context.make_array(signature.args[0])(context, builder, args[0])
            vector = ir.VectorType(context.get_data_type(signature.args[0].dtype), lanes)
            place = builder.bitcast(builder.gep(values.data, [args[1]]), vector.as_pointer())
            neighbours = builder.load(place, align=signature.args[0].dtype.bitwidth // 8)
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), args[2], ir.IntType(32)(0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            is_above = builder.fcmp_unordered(">", neighbours, builder.shuffle_vector(first, first, everywhere))
            return builder.icmp_unsigned("!=", builder.bitcast(is_above, ir.IntType(lanes)), ir.IntType(lanes)(0))

        return types.boolean(array, types.intp, array.dtype), codegen

    return any_above


any_above_2, any_above_4, any_above_8 = _any_above(2), _any_above(4), _any_above(8)


def _weighted_rows(vectors: int, chains: int):
    """An intrinsic (values, at, step, rows, rows_at, rows_step, count, out, out_at) on flat float64 arrays:
    out[out_at + j] = Σ_p values[at + p·step] · rows[rows_at + p·rows_step + j], for p < count and j < 4 · vectors.

    The sums stay in registers from the first row to the last. Each is `chains` sums over every so manyth row, added in
    the end: one alone would wait for itself.
    """

    @intrinsic
    def weighted_rows(typing_context, values, at, step, rows, rows_at, rows_step, count, out, out_at):
        def codegen(context, builder, signature, args):
            data = [context.make_array(signature.args[k])(context, builder, args[k]).data for k in (0, 3, 7)]
            at, step, rows_at, rows_step, count, out_at = (args[k] for k in (1, 2, 4, 5, 6, 8))
            vector, intp = ir.VectorType(ir.DoubleType(), 4), count.type
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), 4), [0] * 4)
            nothing = ir.Constant(vector, [0.0] * 4)
            sums = [[cgutils.alloca_once_value(builder, nothing) for _ in range(vectors)] for _ in range(chains)]

            def neighbours(base, first, j):
                return builder.bitcast(builder.gep(base, [builder.add(first, intp(4 * j))]), vector.as_pointer())

            def add_row(p, chain):
                value = builder.load(builder.gep(data[0], [builder.add(at, builder.mul(p, step))]))
                value = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
                value = builder.shuffle_vector(value, value, everywhere)
                first = builder.add(rows_at, builder.mul(p, rows_step))
                for j, total in enumerate(chain):
                    row = builder.load(neighbours(data[1], first, j), align=8)
                    more = builder.fmul(value, row, flags=("contract",))
                    builder.store(builder.fadd(builder.load(total), more, flags=("contract",)), total)

            whole = builder.sub(count, builder.srem(count, intp(chains)))
            with cgutils.for_range_slice(builder, intp(0), whole, intp(chains), intp=intp) as (p, _):
                for k, chain in enumerate(sums):
                    add_row(builder.add(p, intp(k)), chain)
            with cgutils.for_range_slice(builder, whole, count, intp(1), intp=intp) as (p, _):
                add_row(p, sums[0])
            for j in range(vectors):
                total = builder.load(sums[0][j])
                for chain in sums[1:]:
                    total = builder.fadd(total, builder.load(chain[j]))
                builder.store(total, neighbours(data[2], out_at, j), align=8)
            return context.get_dummy_value()

        integer = types.intp
        signature = types.void(values, integer, integer, rows, integer, integer, integer, out, integer)
        return signature, codegen

    return weighted_rows


weighted_rows_8, weighted_rows_16, weighted_rows_32 = _weighted_rows(2, 4), _weighted_rows(4, 2), _weighted_rows(8, 1)
