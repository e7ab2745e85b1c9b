"""``xt.vector.contract``: products of matrices with indexing maps (XeTile.md, Appendix 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import VectorType

from xegpu.support.errors import ElementTypeError, RankError, ShapeError
from xetile.dialect.contractions import ITERATORS, MATMUL
from xetile.dialect.ops import text
from xetile.dialect.permutations import Permutation, map_of_permutation
from xetile.dialect.supervector import NAME, ContractOp
from xetile.distribution import WgMap
from xetile.given import need, text_of
from xetile.parties import notes
from xetile.products import accumulator
from xetile.tracer import current
from xetile.values import Vector


def contract(a: Vector, b: Vector, acc: Vector | None = None, *, indexing_maps: Any = MATMUL,
             iterator_types: Sequence[str] = ITERATORS, wg_map: WgMap | None = None) -> Vector:
    """The sum of products along an iterator, plus ``acc`` (``vector.contract``).

    Args:
        a, b: vectors of two dimensions, of element types that ``xt.tile_mma`` takes.
        acc: of the result's shape; without it the result is float32, or int32 for integers.
        indexing_maps: for a, b and the result, the iterator that each dimension runs along; by default those of a
            product of matrices, ``((0, 2), (2, 1), (0, 1))``. Exchange two numbers to take an operand transposed.
        iterator_types: ``"parallel"`` or ``"reduction"``, for each iterator.
        wg_map: how the result is dealt to the subgroups, by default as ``acc`` is.

    Raises:
        ShapeError: sizes along one iterator differ, or the maps are not those of a product of two matrices.
        RankError: not three maps, or maps of another rank than the vectors.
        ElementTypeError: no target multiplies these types.
    """
    tracer = current("xt.vector.contract")
    for operand in (a, b) if acc is None else (a, b, acc):
        need(operand, Vector, "vector.contract", any_rank=True)
    tracer.stage = NAME
    maps, dtype = _maps(indexing_maps), accumulator(a, b, acc)
    _check_ranks(maps, (a, b, *([acc] if acc is not None else [])))
    shape = _shape(maps, a, b)
    map_ = wg_map or (acc.wg_map if acc is not None else None)
    if map_ is None and (dealt := a.wg_map or b.wg_map) is not None:
        raise ShapeError("XT1520", f"an operand is dealt out as {dealt}, and nothing says how the result is",
                         f"give the contraction a wg_map, which deals out {text(shape)}", tracer.location(),
                         notes(tracer.location(), a=a, b=b))
    count = 1 + max(axis for map_of in maps for axis in map_of if axis is not None)
    operation = ContractOp(a.ssa, b.ssa, None if acc is None else acc.ssa, VectorType(dtype.mlir, shape),
                           [map_of_permutation(axes, count) for axes in maps], list(iterator_types), map_)
    return Vector(tracer.emit(operation), map_)


def _maps(given: Any) -> list[Permutation]:
    listed = isinstance(given, (tuple, list)) and all(isinstance(axes, (tuple, list)) for axes in given)
    if not listed or not all(type(axis) is int and axis >= 0 for axes in given for axis in axes):
        raise ElementTypeError("XT1521", f"indexing_maps={text_of(given)} is no tuple of maps",
                               "give the iterators of a, b and the result: ((0, 2), (2, 1), (0, 1))",
                               current().location())
    if len(given) != 3:
        raise RankError("XT1522", f"there are {len(given)} indexing maps, and a contraction has three",
                        "give those of a, b and the result: ((0, 2), (2, 1), (0, 1))", current().location())
    return [tuple(axes) for axes in given]


def _check_ranks(maps: Sequence[Permutation], vectors: Sequence[Vector]) -> None:
    location = current().location()
    for axes, vector in zip(maps, vectors, strict=False):
        if len(axes) != len(vector.shape):
            raise RankError("XT1523", f"the indexing map {axes} has {len(axes)} entries, and the {vector.describe()} "
                            f"{len(vector.shape)} dimensions", "give an iterator for each dimension",
                            location, notes(location, it=vector))


def _shape(maps: Sequence[Permutation], a: Vector, b: Vector) -> tuple[int, ...]:
    """The result's shape, by the sizes that the operands give the iterators."""
    sizes = dict(zip((*maps[0], *maps[1]), (*a.shape, *b.shape), strict=True))
    if missing := [axis for axis in maps[2] if axis not in sizes]:
        raise ShapeError("XT1524", f"no operand runs along iterator {missing[0]} of the result",
                         f"the operands run along {', '.join(map(str, sizes))}: take the result's iterators from "
                         "these, without the reductions", current().location())
    return tuple(sizes[axis] for axis in maps[2])
