"""``xt.matmul``: matrix products of NumPy and dpnp arrays, with fused epilogues."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, ShapeError
from xegpu.target.gemm_microkernel import MicrokernelShape
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import AtTheCall
from xetile.library.activations import Activation, find_activation
from xetile.library.array_operands import (
    Operand,
    check_same_device,
    check_shapes,
    copied_where_shared,
    empty_like_input,
    engine_type,
    folded,
    one_number,
    result_for,
    result_type,
)
from xetile.library.call_plans import planned
from xetile.library.matmul_kernels import product, sum_of_parts
from xetile.library.padding import copied_where_cheaper
from xetile.library.remainder import ALL, parts
from xetile.library.stacked_products import launch_stacked, stacked_product, stacks
from xetile.library.streamk import streamed_product, sum_of_shares
from xetile.library.tile_heuristics import Tiling, choose, plans, tilings, with_one_subgroup


@planned
def matmul(a: Any, b: Any, *, out: Any = None, bias: Any = None, activation: str | Activation | None = None,
           alpha: float = 1, beta: float = 0, out_dtype: Any = None, copies: bool = True,
           target: str | Target | None = None) -> Any:
    """Matrix product ``activation(alpha * (a @ b) + beta * out + bias)``, by NumPy's rules for shapes and types.

    Operands of one dimension are a row (a) or a column (b) whose dimension the result lacks; leading dimensions are
    batches and broadcast. Transposed and sliced views are used in place; on a GPU an operand that block messages cannot
    reach, such as one of odd rows, is copied first if that saves time by a model. dpnp arrays give a dpnp array on the
    same queue, asynchronously; NumPy arrays are multiplied by NumPy.

    16-bit floats are added up in f32 and rounded once; f32 is multiplied as f32, and in tf32 where an operand is viewed
    as such (``xt.view(a, xt.tf32)``). 8-bit integers are added up in i32. Without ``out_dtype`` the result has the type
    that NumPy gives it (8-bit integers wrap around); where a scale, a bias or an activation makes floats of integers,
    it is f32.

    Args:
        a, b: arrays of NumPy or dpnp, both of the same kind, of one dimension or more. bfloat16 in dpnp travels as
            uint16: ``xt.view(array, xt.bf16)``.
        out: where the result goes; it may be a view. An operand that shares its memory is copied first.
        bias: an array or a number that broadcasts to the result, usually one row of N.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, ``"sigmoid"``, ``"tanh"``, or a function of a
            vector written with the language's functions.
        alpha, beta: factors of the product and of the old values of ``out``.
        out_dtype: element type of the result; with ``out`` it is that of ``out``, and may be omitted.
        copies: whether operands may be copied. A copy takes as much memory as the operand, rows rounded up to 64
            bytes, until the product is done.
        target: the device that code is generated for, by default that of the arrays.

    Returns:
        ``out``, or a new array.

    Raises:
        ShapeError: the shapes do not multiply, or ``out`` or ``bias`` has another shape than the result.
        ElementTypeError: elements of these types are not multiplied.
        ArgumentError: no such activation, ``beta`` without ``out``, or ``out_dtype`` is not that of ``out``.
        DeviceError: arrays on different devices.
    """
    with AtTheCall():
        left, right = Operand.of("a", a), Operand.of("b", b)
        check_same_device(left, right)
        bias = array_of_number(bias, left)
        epilogue = epilogue_of(activation, alpha, beta)
        padded = _two_dimensions(left, right)
        batch = check_shapes(*padded)
        shape = (*batch, padded[0].shape[-2], padded[1].shape[-1])
        kind = result_dtype(left.dtype, right.dtype, epilogue, bias, out_dtype)
        result = _output_of(out, left, right, out_dtype, kind, shape, epilogue)
        _multiply(*padded, _expanded(result, left, right), batch, bias_operand(bias, left, shape), epilogue, target,
                  copies=copies)
        return out if out is not None else result.array


@dataclass(frozen=True)
class Epilogue:
    """Epilogue of a product: operations on the result before it is stored."""

    alpha: float
    beta: float
    activation: Activation | None

    @property
    def constants(self) -> dict[str, object]:
        """Constants of the kernel."""
        return {"scaled": self.alpha != 1, "added": self.beta != 0, "activation": self.activation}

    def factors(self, sums: DType) -> tuple[float, float]:
        """Alpha and beta as run-time arguments; a beta of one that is a whole number leaves sums of integers exact."""
        return self.alpha, 1 if self.beta == 1 and not sums.is_float else self.beta

    @property
    def is_identity(self) -> bool:
        """Whether the result is the product as it is."""
        return self.alpha == 1 and self.beta == 0 and self.activation is None

    @property
    def makes_floats(self) -> bool:
        """Whether the epilogue converts integers to floats."""
        return self.alpha != 1 or self.beta not in (0, 1) or self.activation is not None


def epilogue_of(activation: str | Activation | None, alpha: float, beta: float) -> Epilogue:
    """Epilogue of an author's options.

    Raises:
        ArgumentError: no such activation, or a factor that is no number.
    """
    return Epilogue(_factor("alpha", alpha), _factor("beta", beta), find_activation(activation))


def _factor(name: str, value: Any) -> float:
    """``alpha`` or ``beta``: one number, checked."""
    return one_number(name, value, "the complete product",
                      "scale the rows of a or the columns of b before the product, as in a * scales[:, None]")


def _two_dimensions(a: Operand, b: Operand) -> tuple[Operand, Operand]:
    for operand in (a, b):
        if not operand.shape:
            raise ShapeError("XT7001",
                             f"{operand.name} has no dimensions, and a product needs one or more of each operand",
                             f"to scale by a number, write {operand.name} * ...")
    return a.as_row() if len(a.shape) == 1 else a, b.as_column() if len(b.shape) == 1 else b


def _final_shape(a: Operand, b: Operand, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Result shape without the dimensions that 1D operands got."""
    rows = shape[-2:-1] if len(a.shape) > 1 else ()
    columns = shape[-1:] if len(b.shape) > 1 else ()
    return (*shape[:-2], *rows, *columns)


def result_dtype(a: DType, b: DType, epilogue: Epilogue, bias: Any, wanted: Any) -> DType:
    """Element type of a product's result: the wanted one, else by NumPy's rules and the epilogue."""
    engine = engine_type(a, b)
    if wanted is not None:
        return dtypes.byte_addressable(dtypes.of(wanted))
    if engine.is_float:
        return result_type(a, b)
    floats = epilogue.makes_floats or (bias is not None and Operand.of("bias", bias).dtype.is_float)
    return dtypes.f32 if floats else result_type(a, b)


def check_beta(beta: Any) -> None:
    """Check the factor of the old values of ``out`` where there is no ``out``.

    Raises:
        ArgumentError: it is not 0.
    """
    if beta:
        raise ArgumentError("XT7005", f"beta = {beta} scales the old values of out, and there is no out",
                            "pass out=..., or leave beta at 0")


def _output_of(out: Any, a: Operand, b: Operand, wanted: Any, dtype: DType, shape: tuple[int, ...],
            epilogue: Epilogue) -> Operand:
    final = _final_shape(a, b, shape)
    if out is None:
        check_beta(epilogue.beta)
        return empty_like_input(a, final, dtype)
    result = result_for(out, a, final, dtype)
    if wanted is not None and result.dtype is not dtype:
        raise ArgumentError("XT7012",
                            f"out has elements of type {result.dtype}, and out_dtype={dtype} asks for another type",
                            "leave out_dtype out: with out= the result has the type that out has")
    return result


def _expanded(out: Operand, a: Operand, b: Operand) -> Operand:
    """View of ``out`` with the dimensions of one that 1D operands got."""
    array = out.array
    if len(a.shape) == 1:
        array = array[..., None] if len(b.shape) == 1 else array[..., None, :]
    if len(b.shape) == 1:
        array = array[..., None]
    return replace(out, array=array)


def array_of_number(bias: Any, beside: Operand) -> Any:
    """Scalar bias as a 0D array in the operands' memory; any other bias is unchanged."""
    if isinstance(bias, bool) or not isinstance(bias, numbers.Real):
        return bias
    value = np.asarray(bias, np.int32 if isinstance(bias, numbers.Integral) else np.float32)
    return value if beside.library is np else beside.library.asarray(value, sycl_queue=beside.array.sycl_queue)


def bias_operand(bias: Any, a: Operand, shape: tuple[int, ...]) -> Operand | None:
    """Bias of a result of this shape, with two dimensions or more.

    Raises:
        ShapeError: it does not broadcast to the result.
        DeviceError: it is not where ``a`` is.
    """
    if bias is None:
        return None
    operand = Operand.of("bias", bias)
    check_same_device(operand, a)
    padded = operand
    while len(padded.shape) < 2:
        padded = padded.as_row()
    try:
        fits = tuple(np.broadcast_shapes(padded.shape, shape)) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError("XT7006", f"a bias of {operand.shape} does not broadcast to the result, {shape}",
                         f"pass one row of {shape[-1]}, one column of {shape[-2]}x1, or all {shape}")
    return padded


def _multiply(a: Operand, b: Operand, c: Operand, batch: tuple[int, ...], bias: Operand | None, epilogue: Epilogue,
              target: str | Target | None, *, copies: bool) -> None:
    if 0 in c.shape:
        return
    a, b, bias = copied_where_shared(a, c), copied_where_shared(b, c), bias and copied_where_shared(bias, c)
    count = math.prod(batch)
    if bias is None or math.prod(bias.shape[:-2]) == 1:
        one = math.prod(b.shape[:-2]) == 1 and (bias is None or bias.shape[-2] == 1) and count > 1
        if flat := folded(a.spread(batch), c) if one else None:
            _launch(flat[0], b.matrix(), flat[1], bias and bias.matrix(), epilogue, target, copies=copies)
            return
    if count == 1:
        a, b, c, bias = a.matrix(), b.matrix(), c.matrix(), bias and bias.matrix()
    else:
        a, b, bias = a.spread(batch), b.spread(batch), bias and bias.spread(batch)
    _launch(a, b, c, bias, epilogue, target, copies=copies)


def _launch(a: Operand, b: Operand, c: Operand, bias: Operand | None, epilogue: Epilogue,
            target: str | Target | None, *, copies: bool) -> None:
    device = product.on(_executor_of(c), target=target).target or find_target(target)
    engine = engine_type(a.dtype, b.dtype)
    # NumPy runs work-groups side by side, which share nothing, and reads any array at the same rate.
    sharing = c.library is not np or target is not None
    if sharing and bias is None and (found := stacks(a, b, c, device)) is not None:
        launch_stacked(found, c.shape[-2], a.shape[-1], epilogue.factors(_sums(engine)), device,
                       stacked_product.on(_executor_of(c), target=target), **epilogue.constants)
        return
    copies = copies and sharing
    for part in parts(a, b, c, engine, device, added=epilogue.beta != 0) if copies else ALL:
        _launch_part(*part.of(a, b, c, bias), epilogue, target, copies=copies, sharing=sharing)


def _sums(engine: DType) -> DType:
    """Accumulator type of products of an element type."""
    return dtypes.f32 if engine.is_float else dtypes.i32


def _launch_part(a: Operand, b: Operand, c: Operand, bias: Operand | None, epilogue: Epilogue,
                 target: str | Target | None, *, copies: bool, sharing: bool) -> None:
    bound = product.on(_executor_of(c), target=target)
    device = bound.target or find_target(target)
    (rows, columns), depth, batch = c.shape[-2:], a.shape[-1], math.prod(c.shape[:-2])
    engine = engine_type(a.dtype, b.dtype)
    sums = _sums(engine)
    size = (rows, columns, depth, batch, engine if engine.is_float else dtypes.i8, device,
            tilings(a.dtype, b.dtype, engine, device, by_rows=a.strides()[-1] == b.strides()[-1] == 1))
    if copies:
        prepared = copied_where_cheaper(a, b, c, plans(*size, sharing=sharing), engine, device, _executor_of(c),
                                        added=epilogue.beta != 0)
        a, b, tiling, inside = prepared.a, prepared.b, prepared.plan.tiling, prepared.inside
    else:
        tiling, inside = choose(*size, sharing=sharing), (False, False)
    if device.fuses_loads and bias is None and epilogue.is_identity and _is_stored_by_microkernel(a, b, c, tiling):
        tiling = with_one_subgroup(tiling, rows, engine)
    spread = None if bias is None else (bias.shape[-2] == 1, bias.shape[-1] == 1)
    ending = {**epilogue.constants, "spread": spread}
    last = ((c if bias is None else bias).argument, *epilogue.factors(sums))
    grid = (*tiling.groups(rows, columns), batch)
    constants = {**tiling.constants, "as_type": engine, "ahead": tiling.ahead}
    if tiling.shared:
        _stream(a, b, c, tiling, grid, sums, last, constants, ending, target)
        return
    if any(inside):
        constants["inside"] = inside
    if tiling.parts == 1:
        bound[grid](a.argument, b.argument, c.argument, *last, **constants, **ending)
        return
    work = empty_like_input(c, (tiling.parts, *c.shape), sums)
    bound[(*grid[:2], batch * tiling.parts)](a.argument, b.argument, work.argument, work.argument, 1.0, 0.0,
                                             **constants, parts=tiling.parts)
    _sum_parts(work, c, last, ending, target)


def _is_stored_by_microkernel(a: Operand, b: Operand, c: Operand, tiling: Tiling) -> bool:
    """Whether one call of a micro-kernel makes and stores a work-group's tile of C on the queue of C."""
    from codegen.runtime.program_source import has_microkernel  # the emitter, which an import of xetile leaves alone

    shape = MicrokernelShape(tiling.rows, tiling.columns, a.dtype, b.dtype)
    return c.library is not np and c.dtype is shape.accumulator and not shape.is_skinny \
        and has_microkernel(c.array.sycl_queue, shape) and all(x.strides()[-1] == 1 for x in (a, b, c))


def _sum_parts(work: Operand, c: Operand, last: tuple[Any, ...], ending: dict[str, Any],
               target: str | Target | None) -> None:
    """Launch the reduction of a work array (parts, ..., M, N), with the epilogue."""
    small, (rows, columns) = Tiling(32, 64, (4, 2), 1), c.shape[-2:]
    ends = sum_of_parts.on(_executor_of(c), target=target)
    ends[(*small.groups(rows, columns), math.prod(c.shape[:-2]))](
        work.argument, c.argument, *last, BM=small.rows, BN=small.columns, sg=small.layout, parts=work.shape[0],
        **ending)


def finish_sums(sums: Any, *, out: Any, bias: Any = None, activation: str | Activation | None = None,
                alpha: float = 1, beta: float = 0, target: str | Target | None = None) -> None:
    """Epilogue of a product that was summed elsewhere: ``out = activation(alpha * sums + beta * out + bias)``.

    Args:
        sums: f32, or i32 of 8-bit integers, (M, N).
        out: (M, N), in any element type of a result.
        bias, activation, alpha, beta, target: as for :func:`matmul`.

    Raises:
        ArgumentError: no such activation.
        ShapeError: ``bias`` does not broadcast to the result.
        DeviceError: arrays on different devices.
    """
    with AtTheCall():
        work, c = Operand.of("sums", sums), Operand.of("out", out)
        check_same_device(work, c)
        added = bias_operand(array_of_number(bias, c), c, c.shape)
        epilogue = epilogue_of(activation, alpha, beta)
        if 0 in c.shape:
            return
        added = added and copied_where_shared(added, c)
        spread = None if added is None else (added.shape[-2] == 1, added.shape[-1] == 1)
        last = ((c if added is None else added).argument, *epilogue.factors(work.dtype))
        _sum_parts(work.as_row(), c, last, {**epilogue.constants, "spread": spread}, target)


def _stream(a: Operand, b: Operand, c: Operand, tiling: Tiling, grid: tuple[int, ...], sums: DType,
            last: tuple[Any, ...], constants: dict[str, Any], ending: dict[str, Any],
            target: str | Target | None) -> None:
    """Stream-K: launch all tiles, the shared ones into a work array, then a reduction of these."""
    shared, sharers = tiling.shared, tiling.sharers
    work = empty_like_input(c, (2 * sharers, tiling.rows, tiling.columns), sums)
    streams = streamed_product.on(_executor_of(c), target=target)
    streams[sharers + math.prod(grid) - shared,](a.argument, b.argument, c.argument, work.argument, *last, shared,
                                                sharers, **constants, **ending)
    steps = -(-a.shape[-1] // tiling.depth)
    rows, columns = min(tiling.rows, 32), min(tiling.columns, 64)
    blocks = tiling.rows // rows * (tiling.columns // columns)
    ends = sum_of_shares.on(_executor_of(c), target=target)
    ends[blocks, shared](work.argument, c.argument, *last, shared, sharers, steps, BM=tiling.rows, BN=tiling.columns,
                         rows=rows, columns=columns, sg=(rows // 8, columns // 32), **ending)


def _executor_of(operand: Operand) -> Any:
    """Executor of kernels on an operand: its queue, or NumPy."""
    return None if operand.library is np else operand.array.sycl_queue
