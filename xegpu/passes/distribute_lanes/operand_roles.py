"""Operand roles: lane maps of blocks by their uses, and of copies to a transposed array in shared local memory.

    %v = load_nd %d : tensor_desc<16x16xbf16> -> vector<16x16xbf16>
    store_nd %v, %s : tensor_desc<16x16xbf16, memory_scope = slm>          on the array's sizes and strides, exchanged

In words of several rows, as operand B, a lane holds a column, whose elements are neighbours in the transpose.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation, SSAValue, Use

from xegpu.analysis.memory_access import access_kind, geometry
from xegpu.analysis.register_pressure import VIEWS
from xegpu.analysis.webs import Webs
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DpasOp, DpasScaledOp
from xegpu.dialect.gather_scatter import LoadColumnsOp
from xegpu.dialect.vector import PackOp
from xegpu.ir.dtypes import DType, bf16, e4m3, e5m2, f16, i8, of_mlir, tf32, u8
from xegpu.ir.use_def import arrays_of, root_definitions
from xegpu.layout.lane_map import LaneMap, operand_a, operand_b, unaligned_copy
from xegpu.mlir.arith import SIToFPOp, UIToFPOp
from xegpu.mlir.vector import ExtractOp, ExtractStridedSliceOp, values_of
from xegpu.target.targets import Target


def transposes(webs: Webs, desc: SSAValue, target: Target) -> bool:
    """Whether all that is loaded, or all that is stored, through a descriptor's web is copied so, and nothing else.

    Args:
        webs: the descriptors of the kernel.
        desc: one of them.
        target: has messages that load words of several rows.
    """
    return webs.note("transposes", desc, lambda desc: _transposes(webs, desc, target))


def _transposes(webs: Webs, desc: SSAValue, target: Target) -> bool:
    users = [use.operation for use in webs.uses(desc)
             if not isinstance(use.operation, (UpdateNdOffsetOp, PrefetchNdOp))]
    if users and all(isinstance(user, StoreNdOp) for user in users):
        loads = [_load_of(user.operands[0]) for user in users]
        return _is_transposed(desc) and all(load is not None and transposes(webs, load.desc, target) for load in loads)
    return bool(users) and all(isinstance(user, LoadNdOp) and _comes_in_words(user, target) and _is_stored(user.result)
                               for user in users)


def _comes_in_words(load: LoadNdOp, target: Target) -> bool:
    """Whether a message loads a block in words of several rows."""
    desc = desc_of(load.desc)
    return desc.sg_map is None and load.packed is None and not load.transposes and len(desc.shape) == 2 and \
        desc.block.memory_scope != "slm" and \
        target.has_block("read_transform", desc.dtype.bits, *desc.shape, desc.block.array_length)


def is_copyable(dtype: DType) -> bool:
    """Whether operands of DPAS of an element type are copied by words of rows of any alignment."""
    return dtype.bits in (8, 16) or dtype is tf32


def copied_operand(webs: Webs, desc: SSAValue, target: Target, kinds: Mapping[Any, str]) -> str:
    """Operand of DPAS, ``a`` or ``b``, of which blocks are copied as they lie from an array without 2D block IO to
    shared local memory; empty for other descriptors.

    Args:
        webs: the descriptors of the kernel.
        desc: one that such blocks are loaded or stored through.
        target: its lanes.
        kinds: access kinds of the arrays.
    """
    return webs.note("copied", desc, lambda desc: _copied_operand(webs, desc, target, kinds))


def _copied_operand(webs: Webs, desc: SSAValue, target: Target, kinds: Mapping[Any, str]) -> str:
    parameters = desc_of(desc)
    has_map = parameters.sg_map is not None or len(parameters.shape) != 2
    if has_map or target.is_cpu or not is_copyable(parameters.dtype):
        return ""
    users = [use.operation for use in webs.uses(desc) if not isinstance(use.operation, UpdateNdOffsetOp)]
    if parameters.block.memory_scope == "slm":
        loads = [_load_of(user.operands[0]) if isinstance(user, StoreNdOp) else None for user in users]
        found = {"" if load is None else copied_operand(webs, load.desc, target, kinds) for load in loads}
        return found.pop() if len(found) == 1 else ""
    makers = [making.owner for making in root_definitions(desc)]
    if not users or not all(isinstance(maker, CreateNdTdescOp) and access_kind(maker, kinds) == "rows"
                            for maker in makers):
        return ""
    stores = [store for user in users if isinstance(user, LoadNdOp) and not user.transposes
              for store in _stores_of(user.result)]
    sides_ = {_side_of_copy(webs, store) for store in stores}
    if len(sides_) != 1 or not all(isinstance(user, LoadNdOp) and not user.transposes for user in users):
        return ""
    side, (rows, columns) = sides_.pop(), parameters.shape
    down, across = copied_map(side, parameters.dtype.bits, target).unit
    return side if side and rows % down == 0 and columns % across == 0 else ""


def copied_map(side: str, bits: int, target: Target) -> LaneMap:
    """Lane map in which blocks of an operand, ``a`` or ``b``, are copied; without 2D block IO that of the operand."""
    if target.block_io or not side:
        return unaligned_copy(side, bits)
    return operand_a(target.subgroup_size, bits) if side == "a" else operand_b(target.subgroup_size, bits)


def _stores_of(value: SSAValue) -> list[StoreNdOp | None]:
    """The stores that take a value or one of its blocks; None for another use."""
    found: list[StoreNdOp | None] = []
    for use in value.uses:
        if isinstance(use.operation, ExtractOp):
            found += _stores_of(use.operation.result)
        else:
            found.append(use.operation if isinstance(use.operation, StoreNdOp) else None)
    return found


def _side_of_copy(webs: Webs, store: StoreNdOp | None) -> str:
    """DPAS operand that all loads from an array in shared local memory become; empty if they differ."""
    if store is None or desc_of(store.desc).block.memory_scope != "slm":
        return ""
    arrays = arrays_of(store.desc)
    makers = [use.operation for array in arrays for use in array.uses]
    if len(arrays) != 1 or not all(isinstance(maker, CreateNdTdescOp) and geometry(maker) == "own" for maker in makers):
        return ""
    used = {side for maker in makers for side in _loaded_sides(webs, maker.results[0])}
    return used.pop() if used in ({"a"}, {"b"}) else ""


def _loaded_sides(webs: Webs, desc: SSAValue) -> set[str]:
    """Roles of the loads of a descriptor's web; empty without loads."""
    return {side for use in webs.uses(desc) if isinstance(use.operation, LoadNdOp)
            for side in uses_of_value(webs, use.operation.result)}


def _is_stored(value: SSAValue) -> bool:
    """Whether a value, or each of its blocks, is stored to the transpose of shared local memory and nowhere else."""
    users = [use.operation for use in value.uses]
    return bool(users) and all(_is_stored(user.result) if isinstance(user, ExtractOp) else
                               isinstance(user, StoreNdOp) and _is_transposed(user.desc) for user in users)


def _load_of(value: SSAValue) -> LoadNdOp | None:
    """Block load that defines a value, looked up through extracts; None for others."""
    owner = value.owner
    if isinstance(owner, ExtractOp):
        return _load_of(owner.vector)
    return owner if isinstance(owner, LoadNdOp) else None


def _is_transposed(desc: SSAValue) -> bool:
    """Whether a descriptor views the transpose of an array in shared local memory."""
    makers = [making.owner for making in root_definitions(desc)]
    return desc_of(desc).block.memory_scope == "slm" and all(
        isinstance(maker, CreateNdTdescOp) and geometry(maker) == "exchanged" for maker in makers)


# Uses of a loaded value: which operand of which product it is, traced through slices.


_CONVERTED: dict[type[Operation], tuple[DType, ...]] = {arith.ExtFOp: (e4m3, e5m2), SIToFPOp: (i8,), UIToFPOp: (u8,)}
CONVERSIONS = tuple(_CONVERTED)
"""Conversions to floats; :class:`~xegpu.dialect.convert_layout.WidenOp` has those of certain element types."""
_OPERANDS = "abc"


def is_widened(operation: Operation, source: DType, result: DType) -> bool:
    """Whether a conversion between two element types is one of :class:`~xegpu.dialect.convert_layout.WidenOp`."""
    return source in _CONVERTED[type(operation)] and result in (f16, bf16)


def widened_side(webs: Webs, operation: Operation) -> str:
    """``a`` or ``b`` for a conversion of 8-bit elements to 16-bit floats that is only ever that operand of DPAS, by way
    of shared local memory perhaps; else empty."""
    if not isinstance(operation, CONVERSIONS) or not isinstance(operation.operands[0].type, VectorType):
        return ""
    source, result = (of_mlir(value.type.element_type) for value in (operation.operands[0], operation.results[0]))  # type: ignore
    if not is_widened(operation, source, result) or not _is_aligned(operation.operands[0]):
        return ""
    used = {_operand_of_dpas(webs, use) for use in operation.results[0].uses}
    side = used.pop() if len(used) == 1 else ""
    return side if side in ("a", "b") else ""


def _operand_of_dpas(webs: Webs, use: Use) -> str:
    """``a``, ``b`` or ``c`` for a use by DPAS, also in VNNI form; else empty."""
    if isinstance(use.operation, PackOp):
        return "b"
    if isinstance(use.operation, StoreNdOp) and published_operand(webs, use.operation.desc):
        return "b"
    return _OPERANDS[use.index] if isinstance(use.operation, DpasOp) else ""


def _is_aligned(value: SSAValue) -> bool:
    """Whether a slice begins at whole words of operand A and of operand B in 8 bits."""
    if not isinstance(value.owner, ExtractStridedSliceOp):
        return True
    row, column, *_ = values_of(value.owner.offsets)
    return row % 4 == 0 and column % 16 == 0


def widened_operand(webs: Webs, desc: SSAValue, target: Target) -> str:
    """Operand of DPAS, ``a`` or ``b``, that all loads of a descriptor's web become by ``xegpu.widen``; else empty.

    The conversion takes its source in the words of a product of 8-bit elements.
    """
    parameters = desc_of(desc)
    if not target.block_io or parameters.dtype.bits != 8 or len(parameters.shape) != 2 or \
            parameters.block.memory_scope == "slm" or parameters.sg_map is not None:
        return ""
    transposed = {bool(use.operation.transposes) for use in webs.uses(desc) if isinstance(use.operation, LoadNdOp)}
    used, (rows, columns) = sides(webs, desc), parameters.shape
    if transposed != {False}:  # lanes along rows of memory, of which a message loads words
        return "b" if transposed == {True} and used == {"widened b"} and \
            (columns, rows) == (32, target.subgroup_size) else ""
    if used == {"widened a"} and columns == 32:
        return "a"
    return "b" if used == {"widened b"} and (rows, columns) == (32, target.subgroup_size) else ""


def computed_words(webs: Webs, desc: SSAValue, target: Target) -> bool:
    """Whether all loads of a descriptor's web transpose elements of 8 or 16 bits that are computed with: a message
    transposes whole words of them."""
    return webs.note("computed words", desc, lambda desc: _computed_words(webs, desc, target))


def _computed_words(webs: Webs, desc: SSAValue, target: Target) -> bool:
    parameters = desc_of(desc)
    loads = [use.operation for use in webs.uses(desc) if isinstance(use.operation, LoadNdOp)]
    return bool(loads) and target.block_io and parameters.dtype.bits in (8, 16) and parameters.sg_map is None and \
        parameters.block.memory_scope != "slm" and \
        parameters.shape == (target.subgroup_size, 8 * 32 // parameters.dtype.bits) and \
        all(load.transposes and load.transpose_bit_width is None for load in loads) and sides(webs, desc) == {"other"}


def published_operand(webs: Webs, desc: SSAValue) -> bool:
    """Whether what is stored through a descriptor to shared local memory becomes operand B of DPAS, in whole blocks,
    and comes in its words: it is widened, or gathered as columns."""
    return webs.note("published", desc, lambda desc: _published_operand(webs, desc))


def _published_operand(webs: Webs, desc: SSAValue) -> bool:
    parameters = desc_of(desc)
    if parameters.block.memory_scope != "slm" or parameters.dtype.bits != 16 or len(parameters.shape) != 2 or \
            parameters.shape[0] % 16 or parameters.sg_map is not None:
        return False
    users = [use.operation for use in webs.uses(desc) if not isinstance(use.operation, UpdateNdOffsetOp)]
    return bool(users) and all(isinstance(user, StoreNdOp) and _comes_in_operand_b(user.value)
                               and _side_of_copy(webs, user) == "b" for user in users)


def _comes_in_operand_b(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, ExtractStridedSliceOp):
        return isinstance(owner.source.owner, LoadColumnsOp)
    return isinstance(owner, (*CONVERSIONS, LoadColumnsOp))


def published_columns(webs: Webs, load: LoadColumnsOp) -> bool:
    """Whether columns are only stored, to be operand B of DPAS (:func:`published_operand`)."""
    users = [user for use in load.result.uses for user in (
        [each.operation for each in use.operation.results[0].uses]
        if isinstance(use.operation, ExtractStridedSliceOp) else [use.operation])]
    return bool(users) and all(isinstance(user, StoreNdOp) and published_operand(webs, user.desc) for user in users)


def uses_of_value(webs: Webs, value: SSAValue) -> set[str]:
    """Roles of the uses of a value and its slices.

    These are ``a``, ``b``, ``c`` for operands of DPAS, ``widened a`` and ``widened b`` for those that they become by a
    conversion to 16 bits, and ``other``.
    """
    found: set[str] = set()
    for use in value.uses:
        if type(use.operation) in VIEWS:
            found |= uses_of_value(webs, use.operation.results[0])
        elif type(use.operation) is DpasOp or (type(use.operation) is DpasScaledOp and use.index < 3):
            found.add(_OPERANDS[use.index])
        elif side := widened_side(webs, use.operation):
            found.add(f"widened {side}")
        else:
            found.add("other")
    return found


def sides(webs: Webs, desc: SSAValue) -> set[str]:
    """Roles of the loads and stores of a descriptor's web: DPAS operands, or other uses."""
    return webs.note("sides", desc, lambda desc: _sides(webs, desc))


def _sides(webs: Webs, desc: SSAValue) -> set[str]:
    found: set[str] = set()
    for use in webs.uses(desc):
        if isinstance(use.operation, LoadNdOp):
            found |= uses_of_value(webs, use.operation.result)
        elif not isinstance(use.operation, (UpdateNdOffsetOp, PrefetchNdOp)):
            found.add("other")
    return found
