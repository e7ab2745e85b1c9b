"""Verifier of ``vector.contract``: indexing maps and iterator types of a matrix-matrix or matrix-vector product.

    C[i, j] = sum over k of A[i, k] * B[k, j] + acc[i, j]

is ``iterators = [parallel, parallel, reduction]`` with the maps (d0, d1, d2) -> (d0, d2), -> (d2, d1) and -> (d0, d1).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from xegpu.support.errors import Invalid, RankError
from xetile.dialect.permutation_map import Permutation
from xetile.dialect.tile_ops import text
from xetile.dialect.types import verify_product_types

MATMUL: tuple[Permutation, Permutation, Permutation] = ((0, 2), (2, 1), (0, 1))
"""The maps of a product of matrices: of A, B and the result."""
_NAMES = ("lhs", "rhs", "result")
ITERATORS = ("parallel", "parallel", "reduction")


def check_contraction(types: Sequence[Attribute], axes: Sequence[Permutation], iterators: Sequence[str]) -> None:
    """Verify that indexing maps and iterator types are those of a product that ``tile_mma`` computes.

    Args:
        types: of lhs, rhs and result.
        axes: the iterators that the dimensions of each run along.
        iterators: ``parallel`` or ``reduction``.
    """
    check_iterators(types, axes, iterators)
    if not is_product(axes, iterators):
        raise Invalid("XT2328", "it is not a product of two matrices, for which there are instructions: one iterator "
                      "is summed, one runs along the rows and one along the columns of the result\n"
                      "multiply element by element and use tile_reduce, or unroll what is a batch")
    verify_product_types(*types)


def check_iterators(types: Sequence[Attribute], axes: Sequence[Permutation], iterators: Sequence[str]) -> None:
    """Verify that indexing maps and iterator types are those of a contraction, of a batch or not."""
    shapes = [() if not isinstance(type_, VectorType) else type_.get_shape() for type_ in types]
    check_ranks(axes, shapes)
    if wrong := [kind for kind in iterators if kind not in ("parallel", "reduction")]:
        raise Invalid("XT2323", f"there is no iterator type {wrong[0]}\nwrite parallel or reduction", alone=True)
    for name, map_ in zip(_NAMES, axes, strict=True):
        _check_map(name, map_, len(iterators))
    _check_sizes(axes, shapes)
    lhs, rhs, result = (set(map_) for map_ in axes)
    if result & summed(iterators) or (lhs | rhs) - result != summed(iterators):
        raise Invalid("XT2327", "the iterators that the result lacks must be the reductions, and no others\n"
                      'a product of matrices has ["parallel", "parallel", "reduction"]')


def summed(iterators: Sequence[str]) -> set[int | None]:
    """Iterators that are summed."""
    return {axis for axis, kind in enumerate(iterators) if kind == "reduction"}


def is_product(axes: Sequence[Permutation], iterators: Sequence[str]) -> bool:
    """Whether the iterators are those of a product of two matrices."""
    lhs, rhs, result = (set(map_) for map_ in axes)
    return len(summed(iterators)) == 1 and summed(iterators) <= lhs & rhs and not lhs & rhs & result \
        and sorted(map(len, axes)) == [2, 2, 2]


def check_ranks(axes: Sequence[Permutation], shapes: Sequence[Sequence[int]]) -> None:
    """Verify that there are three indexing maps, with one result for each dimension of their vectors.

    Args:
        axes: the iterators that the dimensions of each vector run along.
        shapes: of lhs and rhs, and of the result if it is known.
    """
    if len(axes) != 3:
        raise Invalid("XT1522", f"there are {len(axes)} indexing maps, and a contraction has three\n"
                      "give those of lhs, rhs and the result: ((0, 2), (2, 1), (0, 1))", alone=True, kind=RankError)
    for name, map_, shape in zip(_NAMES, axes, shapes, strict=False):
        if len(map_) != len(shape):
            raise Invalid("XT1523", f"the indexing map of {name} has {len(map_)} results, and the vector {len(shape)} "
                          "dimensions\ngive an iterator for each dimension", kind=RankError, about=(name,))


def _check_map(name: str, map_: Permutation, count: int) -> None:
    """Verify one indexing map."""
    if None in map_ or len(set(map_)) != len(map_) or any(axis is not None and axis >= count for axis in map_):
        raise Invalid("XT2325", f"the map of {name} is not one of {count} different iterators\n"
                      "each dimension runs along another iterator: (d0, d1, d2) -> (d0, d2)")


def _check_sizes(axes: Sequence[Permutation], shapes: Sequence[Sequence[int]]) -> None:
    """Verify that each iterator has one extent in all operands."""
    sizes: dict[int | None, int] = {}
    for map_, shape in zip(axes, shapes, strict=True):
        for axis, size in zip(map_, shape, strict=True):
            if sizes.setdefault(axis, size) != size:
                named = ", ".join(f"{name} {text(shape)}" for name, shape in zip(_NAMES, shapes, strict=True))
                raise Invalid("XT2326", f"iterator d{axis} has {sizes[axis]} elements in one vector and {size} in "
                              f"another: {named}\nwhat runs along the same iterator has the same size")
