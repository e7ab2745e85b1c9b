"""``xt.grouped_matmul``: products of different sizes in one launch."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from xegpu import dtypes
from xegpu.dtypes import DType
from xegpu.errors import ElementTypeError, ShapeError
from xegpu.targets import Target, find_target
from xetile.arguments import AtTheCall
from xetile.conditions import when
from xetile.distribution import WgMap
from xetile.grid import group_id
from xetile.kernel import Kernel
from xetile.language import init_tile, load_tile, store_tile, update_tile_offset, zeros
from xetile.language import tile_mma as multiply
from xetile.library.kernels import converted
from xetile.library.operands import (
    Operand,
    check_places,
    check_shapes,
    copied_where_shared,
    empty_like_input,
    engine_type,
    result_type,
)
from xetile.library.tiling import choose
from xetile.loops import range as device_range

MOST = 8
"""Products in one launch; longer lists take several."""


def grouped_product(*arrays: Any, BM: int, BN: int, BK: int, sg: tuple[int, int], as_type: DType) -> None:
    """Products one after the other along the grid: a work-group finds its product by counting tiles."""
    place = group_id(0)
    for A, B, C in (arrays[i:i + 3] for i in range(0, len(arrays), 3)):
        across = (C.shape[1] + (BN - 1)) // BN
        tiles = (C.shape[0] + (BM - 1)) // BM * across
        with when((place >= 0) & (place < tiles)):
            _one_tile(A, B, C, place // across * BM, place % across * BN, BM, BN, BK, sg, as_type)
        place = place - tiles


def _one_tile(A: Any, B: Any, C: Any, m: Any, n: Any, BM: int, BN: int, BK: int, sg: tuple[int, int],
              as_type: DType) -> None:
    map_c = WgMap(sg, (BM // sg[0], BN // sg[1]))
    a = init_tile(A, (m, 0), (BM, BK), wg_map=WgMap(sg, (BM // sg[0], BK)))
    b = init_tile(B, (0, n), (BK, BN), wg_map=WgMap(sg, (BK, BN // sg[1])))
    x = zeros((BM, BN), dtypes.f32 if as_type.is_float else dtypes.i32, wg_map=map_c)
    for _ in device_range(0, A.shape[1], BK):
        x = multiply(converted(load_tile(a), as_type), converted(load_tile(b), as_type), x)
        a, b = update_tile_offset(a, 0, BK), update_tile_offset(b, BK, 0)
    store_tile(x.to(C.dtype), init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@cache
def kernel_of(count: int) -> Kernel:
    """The kernel for a number of products: arguments A0, B0, C0, A1 and so on."""
    def product(*arrays: Any, **constants: Any) -> None:
        grouped_product(*arrays, **constants)

    arrays = [inspect.Parameter(f"{name}{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD)
              for i in range(count) for name in "ABC"]
    constants = list(inspect.signature(grouped_product).parameters.values())[1:]
    product.__name__ = f"grouped_product_{count}"
    product.__signature__ = inspect.Signature([*arrays, *constants])  # type: ignore[attr-defined]
    return Kernel(product)


def grouped_matmul(a: Sequence[Any], b: Sequence[Any], *, out: Sequence[Any] | None = None, out_dtype: Any = None,
                   target: str | Target | None = None) -> list[Any]:
    """``[x @ y for x, y in zip(a, b)]`` in one launch, or one for each eight products: matrices of any sizes.

    Args:
        a, b: lists of matrices of NumPy or dpnp, (M, K) and (K, N), sizes different from pair to pair, element types
            the same in all of a and in all of b.
        out: where the results go, one each.
        out_dtype, target: as for :func:`xetile.matmul`.

    Returns:
        The products: ``out``, or new arrays.

    Raises:
        ShapeError, ElementTypeError, DeviceError: lists, shapes, types or places do not go together.
    """
    with AtTheCall():
        if len(a) != len(b) or (out is not None and len(out) != len(a)):
            counts = f"{len(a)} and {len(b)} matrices" + ("" if out is None else f" for {len(out)} results")
            raise ShapeError("XT7030", f"a grouped product of {counts}", "pass as many in each list")
        problems = [_problem(i, *pair, None if out is None else out[i], out_dtype)
                    for i, pair in enumerate(zip(a, b, strict=True))]
        if problems:
            check_places(*(operand for problem in problems for operand in problem))
            _check_types(problems)
        if out is not None:
            results = [problem[2] for problem in problems]
            problems = [(_apart(a, results), _apart(b, results), c) for a, b, c in problems]
        work = [problem for problem in problems if 0 not in problem[2].shape]
        for at in range(0, len(work), MOST):
            _launch(work[at:at + MOST], target)
        return list(out) if out is not None else [problem[2].array for problem in problems]


Problem = tuple[Operand, Operand, Operand]


def _problem(index: int, a: Any, b: Any, out: Any, out_dtype: Any) -> Problem:
    left, right = Operand.of(f"a[{index}]", a), Operand.of(f"b[{index}]", b)
    if len(left.shape) != 2 or len(right.shape) != 2:
        raise ShapeError("XT7008", f"{left.name} is {left.shape} and {right.name} {right.shape}",
                         "pass matrices; xt.matmul takes batches of one size")
    check_shapes(left, right)
    shape = left.shape[0], right.shape[1]
    if out is None:
        kind = result_type(left.dtype, right.dtype) if out_dtype is None else dtypes.whole(dtypes.of(out_dtype))
        return left, right, empty_like_input(left, shape, kind)
    result = Operand.of(f"out[{index}]", out)
    if result.shape != shape:
        raise ShapeError("XT7003",
                         f"{result.name} is {result.shape}, and the result {shape}", f"pass an array of {shape}")
    return left, right, result


def _apart(operand: Operand, results: Sequence[Operand]) -> Operand:
    """The operand, or a copy if any of the results may share its memory."""
    for result in results:
        operand = copied_where_shared(operand, result)
    return operand


def _check_types(problems: Sequence[Problem]) -> None:
    for position, name in enumerate(("a", "b", "out")):
        kinds = {problem[position].dtype for problem in problems}
        if len(kinds) > 1:
            raise ElementTypeError("XT7031", f"{name} holds matrices of {' and '.join(sorted(map(str, kinds)))}",
                                   "convert them to one type, or multiply them in two calls")


def _launch(problems: Sequence[Problem], target: str | Target | None) -> None:
    a, b, c = problems[0]
    kernel = kernel_of(len(problems))
    placed = kernel.on(None if c.library is np else c.array.sycl_queue, target=target)
    device = placed.target or find_target("pvc" if target is None else target)
    engine = engine_type(a.dtype, b.dtype)
    sizes = [problem[2].shape for problem in problems]
    rows, columns = max(size[0] for size in sizes), max(size[1] for size in sizes)
    tiling = choose(rows, columns, a.shape[1], len(problems), engine if engine.is_float else dtypes.i8, device)
    tiles = sum(math.prod(tiling.groups(m, n)) for m, n in sizes)
    arrays = [operand.argument for problem in problems for operand in problem]
    placed[tiles,](*arrays, **tiling.constants, as_type=engine)
