"""Permutation maps of vector transfers (SuperVector.md): the memory dimension of each vector dimension.

    (d0, d1, d2, d3) -> (d2, 0, d0)

is the permutation (2, None, 0): the vector's first dimension runs along d2, its second is broadcast, its third runs
along d0.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from xegpu.support.errors import Invalid, RankError

Permutation = tuple[int | None, ...]
"""For each dimension of a vector, the dimension of memory that it runs along; None where it repeats."""


def map_of_permutation(permutation: Permutation, rank: int) -> AffineMapAttr:
    """Affine map of a permutation of memory of ``rank`` dimensions."""
    results: list[AffineExpr] = [AffineExpr.constant(0) if axis is None else AffineExpr.dimension(axis)
                                 for axis in permutation]
    return AffineMapAttr(AffineMap(rank, 0, tuple(results)))


def permutation_of(attribute: AffineMapAttr) -> Permutation:
    """The inverse of :func:`map_of_permutation`.

    Raises:
        VerifyException: a result is neither a dimension nor 0.
    """
    affine = attribute.data
    if affine.num_symbols:
        raise Invalid("XT2340", f"the permutation map {affine} has symbols\n"
                      "write it of dimensions alone: (d0, d1) -> (d1)", alone=True)
    return tuple(_axis(affine, result) for result in affine.results)


def _axis(affine: AffineMap, result: AffineExpr) -> int | None:
    """Memory dimension of one result of an affine map; None for a broadcast one."""
    if isinstance(result, AffineDimExpr):
        return result.position
    if isinstance(result, AffineConstantExpr) and result.value == 0:
        return None
    raise Invalid("XT2340", f"{result} is not a result of a permutation map, in {affine}\n"
                  "a result is a dimension, d0, or 0 where the vector repeats", alone=True)


def check_permutation(permutation: Sequence[int | None], rank: int, shape: Sequence[int]) -> None:
    """Verify that a vector of ``shape`` can be transferred by a permutation of memory of ``rank`` dimensions."""
    if len(permutation) != len(shape):
        raise Invalid("XT1511", f"the permutation map has {len(permutation)} results, and the vector {len(shape)} "
                      "dimensions\ngive one for each dimension of the vector: a dimension of memory, or 0 (in Python "
                      "None) where the vector repeats", kind=RankError)
    axes = [axis for axis in permutation if axis is not None]
    if wrong := [axis for axis in axes if not 0 <= axis < rank]:
        raise Invalid("XT2342", f"there is no dimension {wrong[0]} in memory of {rank} dimensions\nuse 0 to {rank - 1}")
    if twice := [axis for axis in axes if axes.count(axis) > 1]:
        raise Invalid("XT2343", f"the permutation map has d{twice[0]} twice\n"
                      "one dimension of memory runs along one of the vector: a diagonal takes xt.load_gather")


def check_indices(count: int, rank: int) -> None:
    """Verify that a transfer has an index for each dimension of memory."""
    if count != rank:
        raise Invalid("XT1508", f"memory of {rank} dimensions takes {rank} indices, not {count}\n"
                      "give the index of the slice's first element along every dimension", kind=RankError)


def check_in_view(permutation: Permutation, shape: Sequence[int], first: Sequence[int | None],
                  sizes: Sequence[int | None]) -> None:
    """Verify that a transfer without padding or mask stays in the bounds of its view.

    Args:
        permutation: of the transfer, of the dimensions of the view.
        shape: of the vector.
        first: the indices of the transfer in the view, None for those known at run time only.
        sizes: of the view, likewise.
    """
    for axis, (start, size) in enumerate(zip(first, sizes, strict=True)):
        extent = shape[permutation.index(axis)] if axis in permutation else 1
        if start is None or size is None or start < 0 or start + extent > size:
            counted, begin = ("an unknown number of" if size is None else size,
                              "an index of the run time" if start is None else start)
            raise Invalid("XT1512", "this transfer may leave the view that it goes through, and not the array: of "
                          f"{counted} elements along dimension {axis} the vector takes {extent}, from {begin} on\n"
                          "make the view as large as the vector, write in_bounds, or go to the array itself",
                          alone=True)


def minor_identity(rank: int, dimensions: int) -> Permutation:
    """Minor identity: the permutation of a vector along the last dimensions of memory, in their order.

    Raises:
        VerifyException: memory has fewer dimensions.
    """
    if dimensions > rank:
        raise Invalid("XT1509", f"a vector of {dimensions} dimensions has more than memory of {rank}\n"
                      "say where it repeats: permutation=(None, 0), in text permutation_map = affine_map<(d0) -> (0, "
                      "d0)>", kind=RankError)
    return tuple(range(rank - dimensions, rank))
