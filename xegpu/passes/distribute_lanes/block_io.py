"""Lane distribution of block descriptors, loads and stores.

    %v = load_nd %d : tensor_desc<32x16xbf16> -> vector<32x16xbf16>
becomes
    %v = load_nd %d : tensor_desc<32x16xbf16, sg_map<wi_layout = [1, 16], wi_data = [1, 1]>> -> vector<32x1xbf16>
"""

from __future__ import annotations

from xdsl.ir import Operation

from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, desc_of
from xegpu.dialect.hints import hinted
from xegpu.dialect.types import TensorDescType
from xegpu.dialect.vector import PadOp
from xegpu.mlir.vector import ShapeCastOp
from xegpu.passes.distribute_lanes.reduction import transposed, transposed_units
from xegpu.passes.distribute_lanes.rewriter import WORD_BITS, Distributed, DistributeLanesRewriter
from xegpu.rewrite.rewriter import ConvertedValues, Rule


def _create_nd_tdesc(rewriter: DistributeLanesRewriter, operation: CreateNdTdescOp) -> None:
    result = operation.result.type
    assert isinstance(result, TensorDescType)
    typed = result if result.data.sg_map else result.with_(sg_map=rewriter.lanes_of(operation.result))
    assert typed.data.sg_map is not None
    rewriter.fragment((typed.data.shape[0], typed.data.shape[1]), typed.data.sg_map, typed.data.element_type)
    rewriter.retyped(operation, typed)


def _load_nd(rewriter: DistributeLanesRewriter, operation: LoadNdOp) -> None:
    desc = rewriter.single(operation.desc)
    by_words, is_computed = rewriter.goes_by_words(operation.desc), rewriter.computes_words(operation.desc)
    parameters = desc_of(desc)
    assert parameters.sg_map is not None
    packed = operation.packed is not None or (by_words and not operation.transposes)
    width = None if operation.transpose_bit_width is None else operation.transposes
    width = WORD_BITS if by_words or is_computed else width
    shape, lanes = (parameters.shape[0], parameters.shape[1]), parameters.sg_map
    by_rows = bool(operation.transposes) and lanes.wi_layout[1] == 1  # what transposing messages give
    new_op = LoadNdOp(desc, packed=packed, transpose=by_rows, transpose_bit_width=width if by_rows else None)
    value = rewriter.emit(hinted(new_op, operation))
    if not by_rows:
        loaded = ConvertedValues((value,), Distributed(shape, lanes, packed))
        loaded = transposed(rewriter, loaded) if operation.transposes else loaded
        rewriter.set(operation.result, loaded.values[0], loaded.encoding)
        return
    value = transposed_units(rewriter, value, shape, lanes)
    if is_computed:
        form = Distributed(shape[::-1], rewriter.default_map(shape[::-1]))
        rewriter.set(operation.result, rewriter.emit(ShapeCastOp(value, form.lanes.fragment(form.shape))), form)
        return
    form = Distributed(shape[::-1], lanes.transposed, width is not None)
    rewriter.set(operation.result, value, form if by_words else form.of_rank(2))


def _store_nd(rewriter: DistributeLanesRewriter, operation: StoreNdOp) -> None:
    desc = rewriter.single(operation.desc)
    lanes = desc_of(desc).sg_map
    assert lanes is not None
    rewriter.emit(hinted(StoreNdOp(rewriter.converted(rewriter.lookup(operation.value), lanes), desc), operation))


def _pad(rewriter: DistributeLanesRewriter, operation: PadOp) -> None:
    source, desc = rewriter.lookup(operation.value), rewriter.single(operation.desc)
    lanes = rewriter.default_map(source.encoding.shape)
    form = Distributed(source.encoding.shape, lanes)
    rewriter.set(operation.result, rewriter.emit(PadOp(rewriter.converted(source, lanes), desc, operation.padding,
                                                       lanes)), form)


RULES: dict[type[Operation], Rule] = {
    CreateNdTdescOp: _create_nd_tdesc, LoadNdOp: _load_nd, StoreNdOp: _store_nd, PadOp: _pad,
}
"""Rules of :mod:`xegpu.passes.distribute_lanes`."""
