"""``xt.grouped_matmul``: grouped GEMM, any number of products of different sizes in one launch.

The work-groups read their problem from a table: addresses and sizes of its matrices, and the tile to compute. There
are as many work-groups as tiles.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from codegen.runtime.launcher import keep, send
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xegpu.target.block2d import block_io_fault
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.dialect.wg_map import WgMap
from xetile.jit.kernel import kernel
from xetile.lang.grid import group_id, num_groups
from xetile.lang.memory import load_scalar
from xetile.lang.tiles import init_tile, store_tile
from xetile.library.array_operands import (
    Operand,
    check_matrices,
    check_result_shape,
    check_same_device,
    check_shapes,
    check_writable,
    empty_like_input,
    engine_type,
    result_type,
    span,
)
from xetile.library.matmul_kernels import sum_along_k
from xetile.library.tile_heuristics import choose_for_all


@dataclass(frozen=True)
class Access:
    """Access to the matrices of one list: alignment and strides.

    Attributes:
        dtype: their element type.
        order: ``"rows"`` if all have contiguous rows, ``"columns"`` for columns, ``"any"`` for neither.
        aligned: whether 2D block messages may reach them.
    """

    dtype: DType
    order: str
    aligned: bool

    def tiles(self, address: Any, size: tuple[Any, Any], strides: tuple[Any, Any]) -> Callable[..., Any]:
        """Factory of tiles on such a matrix."""
        steps = {"rows": (strides[0], 1), "columns": (1, strides[1]), "any": strides}[self.order]
        tile_order = (0, 1) if self.order == "columns" else (1, 0)
        return lambda row, column, shape, wg_map: init_tile(
            address, (row, column), shape, order=tile_order, wg_map=wg_map, base_shape=size, base_strides=steps,
            dtype=self.dtype, aligned=self.aligned)


FIELDS = 13
"""Numbers of a product in the table: the first of its tiles; M, N and K; address and two strides of A, of B, of C."""


@kernel
def grouped_product(table: Any, *, BM: int, BN: int, BK: int, sg: tuple[int, int], as_type: DType, ahead: int,
                    access: tuple[Access, Access, Access]) -> None:
    """Kernel: C = A @ B, one tile a work-group; the table has the problem of each tile, then the problems."""
    tile = group_id(0)
    row = num_groups(0) + load_scalar(table, tile).to(dtypes.index) * FIELDS
    within, m, n, k = (load_scalar(table, row + field).to(dtypes.index) for field in range(4))
    sizes = (m, k), (k, n), (m, n)
    A, B, C = (how.tiles(load_scalar(table, row + field), size, (load_scalar(table, row + field + 1).to(dtypes.index),
                                                                load_scalar(table, row + field + 2).to(dtypes.index)))
               for how, size, field in zip(access, sizes, (4, 7, 10), strict=True))
    down, within = (m + (BM - 1)) // BM, tile - within
    y, x = within % down * BM, within // down * BN
    total = sum_along_k(A, B, y, x, 0, k, BM=BM, BN=BN, BK=BK, sg=sg, as_type=as_type, ahead=ahead)
    store_tile(total.to(access[2].dtype), C(y, x, (BM, BN), WgMap(sg, (BM // sg[0], BN // sg[1]))))


def grouped_matmul(a: Sequence[Any], b: Sequence[Any], *, out: Sequence[Any] | None = None, out_dtype: Any = None,
                   target: str | Target | None = None) -> list[Any]:
    """``[x @ y for x, y in zip(a, b)]`` in one launch: any number of matrices of any sizes.

    Args:
        a, b: lists of matrices of NumPy or dpnp, (M, K) and (K, N), sizes different from pair to pair, element types
            the same in all of a and in all of b. Views are read in place; where all of a list have contiguous rows, or
            all contiguous columns, that is fastest.
        out: where the results go, one each; no two of them may share memory.
        out_dtype, target: as for :func:`xetile.matmul`.

    Returns:
        The products: ``out``, or new arrays. Of empty lists none, and no launch.

    Raises:
        ShapeError, ElementTypeError, DeviceError: lists, shapes, types or devices do not match.
    """
    with AtTheCall():
        _check_lists(a=a, b=b, **({} if out is None else {"out": out}))
        if len(a) != len(b) or (out is not None and len(out) != len(a)):
            counts = f"{len(a)} and {len(b)} matrices" + ("" if out is None else f" for {len(out)} results")
            raise ShapeError("XT7030", f"a grouped product of {counts}", "pass as many in each list")
        problems = [_problem(i, *pair, None if out is None else out[i], out_dtype)
                    for i, pair in enumerate(zip(a, b, strict=True))]
        if problems:
            operands = [operand for problem in problems for operand in problem]
            check_same_device(*operands)
            _check_types(problems)
            check_writable(*(problem[2] for problem in problems))
        if out is not None:
            outputs = _merged_spans(span(problem[2]) for problem in problems if 0 not in problem[2].shape)
            problems = [(_copied_if_aliased(a, outputs), _copied_if_aliased(b, outputs), c) for a, b, c in problems]
        some = [problem for problem in problems if 0 not in problem[2].shape]
        for left, _, result in some:
            if not left.shape[1]:
                result.array[...] = 0
        if work := [problem for problem in some if problem[0].shape[1]]:
            _launch(work, target)
        return list(out) if out is not None else [problem[2].array for problem in problems]


Problem = tuple[Operand, Operand, Operand]


def _problem(index: int, a: Any, b: Any, out: Any, out_dtype: Any) -> Problem:
    left, right = Operand.of(f"a[{index}]", a), Operand.of(f"b[{index}]", b)
    check_matrices(left, right)
    check_shapes(left, right)
    shape = left.shape[0], right.shape[1]
    if out is None:
        kind = result_type(left.dtype, right.dtype) if out_dtype is None else \
            dtypes.byte_addressable(dtypes.of(out_dtype))
        return left, right, empty_like_input(left, shape, kind)
    result = Operand.of(f"out[{index}]", out)
    check_result_shape(result, shape)
    return left, right, result


def _merged_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted address spans, overlapping ones merged: columns of one array interleave."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if joined and low < joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return joined


def _copied_if_aliased(operand: Operand, outputs: Sequence[tuple[int, int]]) -> Operand:
    """Operand, copied if any of the results may alias it.

    ``outputs`` are the results' addresses in order, none overlapping another, so that the last one that begins before
    the operand's end is the only one to look at.
    """
    low, high = span(operand)
    before = bisect_left(outputs, (high, high))
    shared = before > 0 and outputs[before - 1][1] > low
    return replace(operand, array=operand.array.copy()) if shared else operand


def _check_lists(**lists: Any) -> None:
    for name, value in lists.items():
        if not (hasattr(value, "__len__") and hasattr(value, "__getitem__")):
            raise ElementTypeError("XT7032", f"{name} is of type {type(value).__name__}, not a list of matrices",
                                   f"pass a list: grouped_matmul([x, y], [v, w]); of a generator, list({name})")


def _check_types(problems: Sequence[Problem]) -> None:
    for position, name in enumerate(("a", "b", "out")):
        kinds = {problem[position].dtype for problem in problems}
        if len(kinds) > 1:
            raise ElementTypeError("XT7031", f"{name} holds matrices of {' and '.join(sorted(map(str, kinds)))}",
                                   "convert them to one type, or multiply them in two calls")


def _launch(problems: Sequence[Problem], target: str | Target | None) -> None:
    a, b, c = problems[0]
    queue = None if c.library is np else c.array.sycl_queue
    bound = grouped_product.on("numpy" if queue is None else queue, target=target)
    device = bound.target or find_target(target)
    engine = engine_type(a.dtype, b.dtype)
    sizes = [(c.shape[0], c.shape[1], a.shape[1]) for a, _, c in problems]
    tiling = choose_for_all(sizes, engine if engine.is_float else dtypes.i8, device)
    lists = [[_described_operand(problem[position]) for problem in problems] for position in range(3)]
    access = tuple(_access(operand.dtype, described, device) for operand, described in
                   zip(problems[0], lists, strict=True))
    table = table_of(sizes, [tiling.groups(m, n) for m, n, _ in sizes], [
        [(address, *_strides(how.order, size, strides)) for address, size, strides in described]
        for how, described in zip(access, lists, strict=True)])
    groups = len(table) - FIELDS * len(problems)
    bound[groups,](_on_device(table, c, queue), **tiling.constants, as_type=engine, ahead=tiling.ahead, access=access)
    if queue is not None:
        keep(queue, [operand.array for problem in problems for operand in problem])


Described = tuple[int, tuple[int, int], tuple[int, int]]
"""A matrix: its address, sizes and strides."""


def _described_operand(operand: Operand) -> Described:
    rows, columns = operand.shape
    down, right = operand.strides()
    address = operand.array.ctypes.data if operand.library is np else Argument.of(operand.name, operand.array).pointer
    assert address is not None
    return address, (rows, columns), (down, right)


def _access(dtype: DType, matrices: Sequence[Described], target: Target) -> Access:
    """Access that all matrices of a list allow; a single row or column has any layout."""
    order = "any"
    if all(right == 1 or columns <= 1 for _, (_, columns), (_, right) in matrices):
        order = "rows"
    elif all(down == 1 or rows <= 1 for _, (rows, _), (down, _) in matrices):
        order = "columns"
    step = -1 if order == "columns" else 1
    aligned = target.block_io and order != "any" and not any(
        block_io_fault(address, size[::step], _strides(order, size, strides)[::step], dtype.bytes)
        for address, size, strides in matrices)
    return Access(dtype, order, aligned)


def _strides(order: str, size: tuple[int, int], strides: tuple[int, int]) -> tuple[int, int]:
    """Strides for the access of a matrix; those of a single row or column are arbitrary."""
    (rows, columns), (down, right) = size, strides
    if order == "rows":
        return down if rows > 1 else -(-columns // 64) * 64, 1
    if order == "columns":
        return 1, right if columns > 1 else -(-rows // 64) * 64
    return down, right


def table_of(sizes: Sequence[tuple[int, int, int]], groups: Sequence[tuple[int, int]],
             matrices: Sequence[Sequence[tuple[int, int, int]]]) -> np.ndarray[Any, Any]:
    """Problem table of :func:`grouped_product`.

    Products with a long K come first, so that their tiles do not run alone at the end.

    Args:
        sizes: M, N and K of each product.
        groups: its tiles down and across.
        matrices: for A, B and C, address and strides in each product.
    """
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i][2])
    counts = [math.prod(groups[i]) for i in order]
    rows = [[sum(counts[:position]), *sizes[i], *(number for each in matrices for number in each[i])]
            for position, i in enumerate(order)]
    return np.concatenate([np.repeat(np.arange(len(order)), counts), np.array(rows).reshape(-1)]).astype(np.int64)


def _on_device(table: np.ndarray[Any, Any], like: Operand, queue: Any) -> Any:
    """Problem table in the memory where the kernel runs."""
    if queue is None:
        return table
    there = empty_like_input(like, table.shape, dtypes.i64).array
    send(queue, table, there.get_array().usm_data)
    return there
