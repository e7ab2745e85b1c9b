"""Lane distribution of scattered descriptors, gathers and scatters: one element a lane.

    %v = load_gather %d, %m : tensor_desc<16xf32, #scatter>, vector<16xi1> -> vector<16xf32>
    %w = vector.shape_cast %v : vector<16xf32> to vector<1x16xf32>
becomes
    %v = load_gather %d, %m : tensor_desc<16xf32, #scatter, sg_map<wi_layout = [1, 16]>>, vector<1xi1> -> vector<1xf32>
    %w = vector.shape_cast %v : vector<1xf32> to vector<1x1xf32>
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.ir import Operation

from xegpu.dialect.block_io import desc_of
from xegpu.dialect.gather_scatter import (
    BlockElementsOp,
    CreateTdescOp,
    LoadColumnsOp,
    LoadGatherOp,
    StoreScatterOp,
    scatter_of,
)
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.ir.dtypes import of_mlir
from xegpu.layout import lane_map
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.passes.distribute_lanes.operand_roles import published_columns
from xegpu.rewrite.rewriter import Rule


def cast(rewriter: Any, operation: ShapeCastOp) -> None:
    """Reinterpretation of a block's register as a line of lanes, and back."""
    source, shape = rewriter.lookup(operation.source), shape_of(operation.result)
    line = rewriter.line(shape_of(operation.source)[0] if len(shape) != 1 else shape[0])
    if len(shape) == 1:
        value = rewriter.converted(source, rewriter.default_map(source.encoding.shape))
        rewriter.set(operation.result, rewriter.emit(ShapeCastOp(value, (1,))), line)
        return
    form = replace(line, shape=(shape[0], shape[1]), lanes=rewriter.default_map((shape[0], shape[1])))
    rewriter.set(operation.result, rewriter.emit(ShapeCastOp(source.values[0], (1, 1))), form)


def _create_tdesc(rewriter: Any, operation: CreateTdescOp) -> None:
    result = operation.result.type
    assert isinstance(result, TensorDescType)
    lanes = rewriter.line(result.data.shape[0]).lanes
    chunked = scatter_of(result.data).chunk_size > 1
    rewriter.retyped(operation, result.with_(sg_map=lanes.transposed if chunked else lanes))


def _load_gather(rewriter: Any, operation: LoadGatherOp) -> None:
    new_op = hinted(LoadGatherOp(rewriter.single(operation.desc), rewriter.single(operation.mask), operation.padding),
                    operation)
    desc = desc_of(operation.desc)
    form = rewriter.line(desc.shape[0])
    rewriter.set(operation.result, rewriter.emit(new_op), replace(form, shape=(scatter_of(desc).chunk_size,
                                                                               desc.shape[0])))


def _load_columns(rewriter: Any, operation: LoadColumnsOp) -> None:
    packed = operation.packed is not None or published_columns(rewriter.webs, operation)
    form = rewriter.line(shape_of(operation.offsets)[0])
    offsets, lengths = (rewriter.converted(rewriter.lookup(line), form.lanes)
                        for line in (operation.offsets, operation.lengths))
    new_op = LoadColumnsOp(rewriter.single(operation.source), offsets, lengths, operation.rows,
                           whole=operation.whole is not None, unaligned=operation.unaligned is not None,
                           packed=packed)
    lanes = lane_map.operand_b(form.shape[1], of_mlir(operation.result.type.element_type).bits) \
        if packed else form.lanes  # type: ignore[attr-defined]
    rewriter.set(operation.result, rewriter.emit(new_op),
                 replace(form, shape=(operation.rows, form.shape[1]), lanes=lanes, packed=operation.packed is not None))


def _store_scatter(rewriter: Any, operation: StoreScatterOp) -> None:
    value = rewriter.lookup(operation.value)
    new_op = StoreScatterOp(rewriter.converted(value, rewriter.line(value.encoding.shape[1]).lanes),
                            rewriter.single(operation.desc),
                            rewriter.single(operation.mask))
    rewriter.emit(hinted(new_op, operation))


def _block_elements(rewriter: Any, operation: BlockElementsOp) -> None:
    at, sizes = operation.part()
    line = rewriter.line(sizes[0] * sizes[1])
    new_op = BlockElementsOp(rewriter.single(operation.desc), at, sizes, line.lanes)
    rewriter.emit(new_op)
    rewriter.set(operation.result, new_op.result)
    rewriter.set(operation.inside, new_op.inside, line)


RULES: dict[type[Operation], Rule] = {
    CreateTdescOp: _create_tdesc,
    LoadGatherOp: _load_gather,
    LoadColumnsOp: _load_columns,
    StoreScatterOp: _store_scatter,
    BlockElementsOp: _block_elements,
}
