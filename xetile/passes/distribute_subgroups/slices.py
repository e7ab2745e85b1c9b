"""Distribution of slices: parts of a work-group's vector along dimensions that each subgroup has in one block.

    %s = vector.extract_strided_slice %v {offsets = [0, 16], sizes = [64, 16], ...}   %v as sg_data = [8, 32] of 64x32
becomes
    %s_part = vector.extract_strided_slice %v_part {offsets = [0, 16], sizes = [8, 16], ...}
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, values_of
from xegpu.rewrite.rewriter import Rewriter
from xegpu.support.errors import ShapeError
from xetile.dialect.wg_map import Pair
from xetile.passes.wg_offsets import Distributed


def extract_slice(rewriter: Rewriter, operation: ExtractStridedSliceOp) -> None:
    """``vector.extract_strided_slice``: each subgroup takes the slice of its blocks."""
    source = rewriter.lookup(operation.source)
    if source.encoding is None:
        rewriter.copy(operation)
        return
    form = _sliced(rewriter, operation.source, operation.result, source.encoding)
    rewriter.set(operation.result, tuple(
        rewriter.emit(ExtractStridedSliceOp(value, values_of(operation.offsets), form.wg_map.sg_data))
        for value in source.values), form)


def insert_slice(rewriter: Rewriter, operation: InsertStridedSliceOp) -> None:
    """``vector.insert_strided_slice``: each subgroup replaces the slice of its blocks."""
    source, dest = rewriter.lookup(operation.source), rewriter.lookup(operation.dest)
    if dest.encoding is None and source.encoding is None:
        rewriter.copy(operation)
        return
    if dest.encoding is None or source.encoding is None \
            or _sliced(rewriter, operation.dest, operation.source, dest.encoding) != source.encoding:
        rewriter.fail("XT1401", f"the slice is distributed as {source.encoding or 'nothing, without a wg_map'}, and "
                      f"the vector as {dest.encoding or 'nothing, without a wg_map'}",
                      "give both maps that differ in the sg_data of the sliced dimension alone",
                      **{"the slice": operation.source, "the vector": operation.dest})
    rewriter.set(operation.result, tuple(
        rewriter.emit(InsertStridedSliceOp(part, whole, values_of(operation.offsets)))
        for part, whole in zip(source.values, dest.values, strict=True)), dest.encoding)


def _sliced(rewriter: Rewriter, whole: SSAValue, part: SSAValue, form: Distributed) -> Distributed:
    """Encoding of a slice of a vector."""
    shape, sizes = shape_of(whole), shape_of(part)
    try:
        map_ = form.wg_map.slice(shape, sizes)
    except ShapeError as error:
        rewriter.fail(error.code, error.message, error.hint, **{"the vector": whole})
    sliced: Pair = sizes[0], sizes[1]
    return Distributed(map_, sliced)
