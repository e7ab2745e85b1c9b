"""Slices of memory that no tile reaches, element by element: gathers and scatters.

    %v = supervector.transfer_read %A[%i, %j, %k], %p {permutation_map = affine_map<(d0, d1, d2) -> (d2, d0)>}
becomes
    %o = base + iota(0) * stride2 + iota(1) * stride0
    %m = (%k + iota(0) < size2) & (%i + iota(1) < size0) & (%j < size1)
    %v = load_gather (init_scattered_tile %A, %o), %m

A transfer that promises to stay inside has a mask of which nothing is off.
"""

from __future__ import annotations

from functools import reduce

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from xegpu.ir.matchers import number
from xegpu.ir.memref import is_shared
from xegpu.mlir.arith import SelectOp
from xegpu.rewrite.rewriter import Rebuilder
from xetile.dialect.attributes import TileEncoding, TileParameters, TileType
from xetile.dialect.scattered import InitScatteredTileOp, LoadGatherOp, StoreScatterOp
from xetile.passes.slices import Slice


def _elements(build: Rebuilder, slice_: Slice) -> SSAValue:
    """The scattered tile of a slice."""
    assert isinstance(slice_.source.type, MemRefType)
    if is_shared(slice_.source.type):
        build.fail("XT2525",
                   f"this slice of {slice_.source.type} in shared local memory takes single elements, and those cannot "
                   "be gathered there", "let the last two dimensions of the vector run along the last two of memory")
    _, strides = slice_.memory(build)
    products = [build.index(arith.MuliOp, index, stride)
                for index, stride in zip(slice_.indices, strides, strict=True)]
    base = reduce(build.add, products, build.constant(0))
    offsets = slice_.spread(build, base)
    for dimension, axis in enumerate(slice_.moving):
        if axis is not None:
            along, stride = slice_.position(build, dimension), strides[axis]
            if number(stride) != 1:
                along = build.emit(arith.MuliOp(along, slice_.spread(build, stride)))
            offsets = build.emit(arith.AddiOp(offsets, along))
    encoding = TileEncoding(wg_map=slice_.wg_map, scatter=True)
    parameters = TileParameters(slice_.flat, slice_.source.type.element_type, encoding)
    return build.emit(InitScatteredTileOp(slice_.source, offsets, TileType(parameters)))


def _mask(build: Rebuilder, slice_: Slice) -> SSAValue:
    return slice_.inside(build) if slice_.checked else slice_.everywhere(build)


def gather(build: Rebuilder, slice_: Slice) -> SSAValue:
    """The vector of a slice, its rows collapsed."""
    tile, mask = _elements(build, slice_), _mask(build, slice_)
    value = build.emit(LoadGatherOp(tile, mask, slice_.constant_padding))
    if slice_.run_time_padding is None:
        return value
    return build.emit(SelectOp(mask, value, slice_.spread(build, slice_.run_time_padding)))


def masked_scatter(build: Rebuilder, slice_: Slice, value: SSAValue) -> None:
    """A vector, its rows collapsed, to a slice."""
    build.emit(StoreScatterOp(value, _elements(build, slice_), _mask(build, slice_)))
