"""Shared local memory (SLM) allocations: verification, size, and choice of their panel layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, NoneAttr, i64
from xdsl.dialects.memref import AllocOp
from xdsl.ir import Operation, SSAValue

from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.memory_access import geometry
from xegpu.analysis.webs import Webs
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, StoreNdOp, desc_of
from xegpu.dialect.gather_scatter import BlockElementsOp, CreateTdescOp
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import is_shared, shared_argument, static_form
from xegpu.ir.traversal import of_kind
from xegpu.ir.use_def import array_of, arrays_of, root_definitions
from xegpu.layout.slm_panels import MESSAGE, RUN, Panels
from xegpu.support.errors import Invalid, ShapeError, TargetError
from xegpu.support.notes import defined_at, notes_at
from xegpu.target.targets import Target

PANELS = "xegpu.panels"
"""Attribute of an allocation: interleaved rows, columns of a panel, and rows of a slab where there are several."""


def verify_memory(operation: Operation) -> None:
    """Verify the memory space and form of an allocation, or of a kernel's arguments."""
    if isinstance(operation, func.FuncOp):
        for argument in operation.body.block.args if operation.body.blocks else ():
            if is_shared(argument.type):
                raise shared_argument(argument.type)
    if isinstance(operation, AllocOp):
        _verify_allocation(operation)


_MOST_BYTES = 1 << 24
"""Bytes of shared local memory that no target has, which are refused before anything allocates them."""


def _verify_allocation(operation: AllocOp) -> None:
    type_, above = operation.memref.type, operation.parent_op()
    assert isinstance(type_, MemRefType)
    if not is_shared(type_):
        raise Invalid("XT3040", f"a kernel allocates shared local memory only, and {type_} is not\n"
                      "give it the memory space 3, as in memref<256x32xbf16, 3>")
    if static_form(type_) is None or not isinstance(type_.layout, NoneAttr):
        raise Invalid("XT3041", f"the shape of {type_} is not static and row-major\n"
                      "shared local memory is allocated when the kernel is compiled")
    if (fault := excess(operation)) is not None:
        raise Invalid("XT4107", "\n".join(fault), alone=True, kind=TargetError)
    if above is not None and above.name not in ("func.func", "gpu.func"):
        raise Invalid("XT3042", "shared local memory is allocated at the head of a kernel, not in a loop or a branch\n"
                      "move it out: it is one array however often the loop runs")


def excess(operation: AllocOp) -> tuple[str, str] | None:
    """Message and hint for an allocation larger than that of any device; None for others."""
    if bytes_of(operation) <= _MOST_BYTES:
        return None
    return (f"this allocates {bytes_of(operation)} bytes of shared local memory, which no device has",
            "make the array smaller: fewer stages, or smaller tiles")


def allocations(function: func.FuncOp) -> list[AllocOp]:
    """SLM allocations of a kernel."""
    return of_kind(function, AllocOp)


def bytes_of(operation: AllocOp) -> int:
    """Size of an SLM allocation in bytes."""
    type_ = operation.memref.type
    assert isinstance(type_, MemRefType)
    return prod(type_.get_shape()) * of_mlir(type_.element_type).bytes


def check_bytes(function: func.FuncOp, target: Target) -> None:
    """Check that a kernel's SLM allocations fit a work-group of the target.

    Raises:
        TargetError: at the line of the allocation that exceeds it.
    """
    allocated: list[AllocOp] = []
    for operation in allocations(function):
        allocated.append(operation)
        total = sum(map(bytes_of, allocated))
        if total > target.slm_bytes:
            at = defined_at(operation.memref)
            raise TargetError("XT4107",
                              f"this allocates {total} bytes of shared local memory, and a work-group of {target.name} "
                              f"has {target.slm_bytes}",
                              "make the arrays smaller: fewer stages, or smaller tiles", at,
                              notes_at(at, ((f"{bytes_of(other)} bytes are allocated here", defined_at(other.memref))
                                             for other in allocated[:-1])))


def panels_of(operation: AllocOp) -> Panels:
    """Panel layout of an allocation's matrices, as set by :func:`choose_panels`."""
    type_ = operation.memref.type
    assert isinstance(type_, MemRefType)
    height, width = (1, *type_.get_shape())[-2:]
    panels = operation.attributes.get(PANELS)
    if not isinstance(panels, ArrayAttr):
        return Panels.row_major(height, width)
    return Panels(height, width, *(number.value.data for number in panels))


def choose_panels(function: func.FuncOp, webs: Webs) -> Mapping[AllocOp, ArrayAttr[Any]]:
    """Choose panel layouts for the allocations where they take fewer messages than row-major order.

    Args:
        function: a kernel of fragments, each descriptor with its lane map.
        webs: its descriptors.
    """
    found: dict[AllocOp, ArrayAttr[Any]] = {}
    makers = [operation for operation in function.walk() if isinstance(operation, CreateNdTdescOp)]
    scattered = {array for operation in function.walk() if isinstance(operation, (CreateTdescOp, BlockElementsOp))
                 for array in arrays_of(operation.operands[0])}
    for allocation in allocations(function):
        if allocation.memref in scattered:  # scattered offsets assume row-major order
            continue
        mine = [maker for maker in makers if array_of(maker.source) is allocation.memref]
        panels = _best(allocation, mine, webs)
        if panels is not None and not panels.is_row_major:
            numbers = (panels.rows, panels.columns, *([panels.slab] if panels.slab else []))
            found[allocation] = ArrayAttr([IntegerAttr(number, i64) for number in numbers])
    return found


def _best(allocation: AllocOp, makers: Sequence[CreateNdTdescOp], webs: Webs) -> Panels | None:
    """Panels in which the loaded blocks are contiguous; None to stay row-major."""
    allocated = panels_of(allocation)
    if any(geometry(maker) == "other" or len(_arrays_of(webs, maker.result)) > 1 for maker in makers):
        return None
    wanted = [_wanted(allocated, maker, webs) for maker in makers if _is_loaded(maker, webs)] or \
        [_wanted(allocated, maker, webs) for maker in makers]
    fitting = [panels for panels in wanted if panels.fits and not panels.is_row_major]
    if not fitting:
        return None
    best = max(fitting, key=lambda panels: (fitting.count(panels), panels.rows))
    if any(panels.rows != best.rows for panels in fitting):
        return Panels(best.height, best.width, 1, best.columns)
    return replace(best, slab=RUN) if len(fitting) == len(wanted) and _in_slabs(best, makers, webs) else best


def _in_slabs(panels: Panels, makers: Sequence[CreateNdTdescOp], webs: Webs) -> bool:
    """Whether all that panels hold is operands A, whose transpose is stored, and lies at multiples of a slab's rows."""
    users = [(maker, use.operation) for maker in makers for use in webs.uses(maker.result)]
    loads = [(maker, user.desc) for maker, user in users if isinstance(user, LoadNdOp)]
    stores = [(maker, user.desc) for maker, user in users if isinstance(user, StoreNdOp)]
    return panels.rows == 1 and panels.height % RUN == 0 and bool(loads) and \
        all(_rows_of_operands(maker, panels) and multiple_of(desc, axis=-2) % RUN == 0 for maker, desc in loads) and \
        all(geometry(maker) == "exchanged" and multiple_of(desc, axis=-1) % RUN == 0 for maker, desc in stores)


def _rows_of_operands(maker: CreateNdTdescOp, panels: Panels) -> bool:
    """Whether a message has as many rows of a descriptor's blocks, side by side in several panels, as an operand A."""
    desc = desc_of(maker.result)
    columns = desc.shape[1] * desc.block.array_length
    return geometry(maker) == "own" and desc.shape[0] % RUN == 0 and columns > panels.columns and \
        RUN * columns * desc.dtype.bytes == MESSAGE


def _arrays_of(webs: Webs, desc: SSAValue) -> set[SSAValue]:
    """Allocations that the descriptors of a web refer to."""
    allocations = {making for member in webs.members(desc) for making in root_definitions(member)}
    return {array_of(making) for making in allocations}


def _is_loaded(maker: CreateNdTdescOp, webs: Webs) -> bool:
    return any(isinstance(use.operation, LoadNdOp) for use in webs.uses(maker.result))


def _wanted(allocated: Panels, maker: CreateNdTdescOp, webs: Webs) -> Panels:
    """Panels in which a descriptor's block is contiguous in the order of its lane map."""
    desc = desc_of(maker.result)
    assert desc.sg_map is not None
    step = 1 if geometry(maker) == "own" else -1
    (_, lanes_across), (data_down, _), (_, unit_columns) = (
        pair[::step] for pair in (desc.sg_map.wi_layout, desc.sg_map.wi_data, desc.sg_map.unit))
    rows, columns = desc.shape[::step]
    loads = [use.operation for use in webs.uses(maker.result) if isinstance(use.operation, LoadNdOp)]
    if lanes_across == 1 and any(load.transposes for load in loads):
        return Panels(allocated.height, allocated.width, 1, columns)  # a lane reads its row
    assert rows % data_down == 0
    return Panels(allocated.height, allocated.width, data_down, min(unit_columns, allocated.width))


def check_webs(function: func.FuncOp, webs: Webs) -> None:
    """Check that every web of descriptors refers to SLM allocations of one shape.

    Raises:
        ShapeError: a loop carries a descriptor from one allocation to one of another shape.
    """
    for operation in function.walk():
        if not isinstance(operation, CreateNdTdescOp) or not is_shared(operation.source.type):
            continue
        others = _arrays_of(webs, operation.result)
        if len({other.type for other in others}) > 1 or (len(others) > 1 and geometry(operation) == "other"):
            at = defined_at(operation.result)
            raise ShapeError("XT3043",
                             "a tile is carried from one array in shared local memory to another of other shape",
                             "make one array with a dimension more, and choose its matrix by an offset", at,
                             notes_at(at, sorted(((f"one of the arrays is {other.type}, made here", defined_at(other))
                                                   for other in others), key=str)))
