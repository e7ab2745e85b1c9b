"""Descriptors of single elements to one element a lane, a part of ``distribute``.

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
    AtomicRMWOp,
    BlockElementsOp,
    CreateTdescOp,
    LoadGatherOp,
    StoreScatterOp,
    UpdateOffsetOp,
    scatter_of,
)
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.mlir.vector import ShapeCastOp, shape_of
from xegpu.rewrite.rewriter import Rule, follow


def cast(build: Any, operation: ShapeCastOp) -> None:
    """A register of a block seen as a line of lanes, or the other way round."""
    source, shape = build.get(operation.source), shape_of(operation.result)
    line = build.line(shape_of(operation.source)[0] if len(shape) != 1 else shape[0])
    if len(shape) == 1:
        value = build.converted(source, build.plain(source.form.shape))
        build.set(operation.result, build.emit(ShapeCastOp(value, (1,))), line)
        return
    form = replace(line, shape=(shape[0], shape[1]), lanes=build.plain((shape[0], shape[1])))
    build.set(operation.result, build.emit(ShapeCastOp(source.values[0], (1, 1))), form)


def _create_tdesc(build: Any, operation: CreateTdescOp) -> None:
    result = operation.result.type
    assert isinstance(result, TensorDescType)
    lanes = build.line(result.data.shape[0]).lanes
    chunked = scatter_of(result.data).chunk_size > 1
    build.retyped(operation, result.with_(sg_map=lanes.transposed if chunked else lanes))


def _load_gather(build: Any, operation: LoadGatherOp) -> None:
    made = hinted(LoadGatherOp(build.one(operation.desc), build.one(operation.mask), operation.padding), operation)
    desc = desc_of(operation.desc)
    form = build.line(desc.shape[0])
    build.set(operation.result, build.emit(made), replace(form, shape=(scatter_of(desc).chunk_size, desc.shape[0])))


def _store_scatter(build: Any, operation: StoreScatterOp) -> None:
    value = build.get(operation.value)
    made = StoreScatterOp(build.converted(value, build.line(value.form.shape[1]).lanes), build.one(operation.desc),
                          build.one(operation.mask))
    build.emit(hinted(made, operation))


def _atomic_rmw(build: Any, operation: AtomicRMWOp) -> None:
    value = build.get(operation.value)
    made = AtomicRMWOp(operation.kind.data, value.values[0], build.one(operation.desc), build.one(operation.mask))
    build.set(operation.result, build.emit(made), value.form)


def _block_elements(build: Any, operation: BlockElementsOp) -> None:
    at, sizes = operation.part()
    line = build.line(sizes[0] * sizes[1])
    made = BlockElementsOp(build.one(operation.desc), at, sizes, line.lanes)
    build.emit(made)
    build.set(operation.result, made.result)
    build.set(operation.inside, made.inside, line)


RULES: dict[type[Operation], Rule] = {
    CreateTdescOp: _create_tdesc,
    UpdateOffsetOp: follow,
    LoadGatherOp: _load_gather,
    StoreScatterOp: _store_scatter,
    AtomicRMWOp: _atomic_rmw,
    BlockElementsOp: _block_elements,
}
