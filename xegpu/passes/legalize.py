"""Legalization of descriptors: an access kind for each, from the target and the arrays of a launch.

    %d = create_nd_tdesc %A, ... -> tensor_desc<32x16xbf16, #xegpu.sg_map<...>>
becomes, where %A or the target does not allow 2D block IO,
    %d = create_nd_tdesc %A, ... -> tensor_desc<32x16xbf16, #xegpu.block_tdesc_attr<access = rows>, #xegpu.sg_map<...>>

A descriptor of which any load or store has no block message on the target, or stands on a column that is not surely a
multiple of four bytes, is reached element by element too. What prefetches it is dropped, since a prefetch has no effect
on results; but on targets with 2D block IO, where a loop of products moves it along its rows or columns, it becomes a
message with an address for each lane.

In shared local memory a descriptor surely inside its array says so, by ``boundary_check = false``.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StridedLayoutAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from xegpu.analysis.block_position import moving_axis
from xegpu.analysis.dataflow.divisibility import multiple_of
from xegpu.analysis.dataflow.integer_range import Ranges
from xegpu.analysis.memory_access import access_kind
from xegpu.analysis.webs import view_webs
from xegpu.dialect.block_io import CreateNdTdescOp, LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.gather_scatter import PrefetchOp
from xegpu.dialect.hints import keeps_nothing
from xegpu.dialect.types import TensorDescType, repeats_row
from xegpu.ir.matchers import number
from xegpu.ir.memref import is_shared, static_form
from xegpu.ir.use_def import root_definitions
from xegpu.rewrite.rewriter import Rewriter, Rule, rewrite
from xegpu.target.block2d import COLUMN_ALIGNMENT
from xegpu.target.targets import Target

_FROM_BEST = ("block", "rows", "strided")
"""Ways to memory, each of which serves what those before it serve."""


@dataclass(frozen=True)
class Legalize:
    """Pass ``legalize``.

    Attributes:
        target: whose block messages there are.
        access: for each argument of the kernel, how it may be reached (:func:`xegpu.target.block2d.access`), empty for
            numbers.
    """

    target: Target
    access: tuple[str, ...]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with an access in every descriptor."""
        return rewrite(module, self._rewrite_function)

    def _rewrite_function(self, function: func.FuncOp) -> func.FuncOp:
        webs = view_webs(function)
        arguments = function.body.block.args
        access_kinds = dict(zip(arguments, self.access, strict=True))
        ranges = Ranges.of_function(function)

        def create(rewriter: Rewriter, operation: CreateNdTdescOp) -> None:
            if is_shared(operation.source.type):
                inside = all(_is_inside(ranges, use.operation) for use in webs.uses(operation.result))
                kind = _message_access(access_kind(operation, access_kinds))
                checked = _desc_type(operation).data.block.boundary_check and not inside
                rewriter.retyped(operation, _desc_type(operation).with_(access=kind, boundary_check=checked))
                return
            # where a loop or branch carries it to another array, both are reached in the way that serves both
            makers = [member.owner for member in webs.members(operation.result)]
            kind = max((_message_access(access_kind(maker, access_kinds)) for maker in makers
                        if isinstance(maker, CreateNdTdescOp)), key=_FROM_BEST.index)
            if kind == "block" and not all(self._has_message(use.operation) for use in webs.uses(operation.result)):
                kind = "rows"
            rewriter.retyped(operation, _desc_type(operation).with_(access=kind))

        rules: dict[type[Operation], Rule] = {CreateNdTdescOp: create, PrefetchNdOp: self._prefetch_nd,
                                              PrefetchOp: _prefetch}
        new = Rewriter(rules).function(function, [_argument_type(a.type, kind) for a, kind in access_kinds.items()])
        new.attributes["xegpu.access"] = ArrayAttr([StringAttr(kind) for kind in self.access])
        new.attributes["xegpu.target"] = StringAttr(self.target.name)
        return new

    def _has_message(self, operation: object) -> bool:
        if isinstance(operation, LoadNdOp) and operation.transposes:
            return self._transposes(operation.desc)
        if isinstance(operation, LoadNdOp):
            return self._message("read_transform" if operation.packed is not None else "read", operation.desc)
        return self._message("write", operation.desc) if isinstance(operation, StoreNdOp) else True

    def _transposes(self, desc: SSAValue) -> bool:
        """Whether a 32-bit transposing message gives a lane its row: one row a lane, eight words of it."""
        parameters, lanes = desc_of(desc), desc_of(desc).sg_map
        (rows, columns), bits = parameters.shape, parameters.dtype.bits
        fits = lanes is not None and lanes.wi_layout == (rows, 1) and lanes.wi_data[0] == 1 and columns * bits == 8 * 32
        aligned = multiple_of(desc) * parameters.dtype.bytes % COLUMN_ALIGNMENT == 0
        return fits and aligned and self.target.has_block("read_transpose", 32, rows, 8, 1)

    def _message(self, kind: str, desc: SSAValue) -> bool:
        parameters = desc_of(desc)
        (rows, columns), bits = parameters.shape, parameters.dtype.bits
        if multiple_of(desc) * parameters.dtype.bytes % COLUMN_ALIGNMENT:
            return False
        if kind != "read_transform" and parameters.sg_map is not None and not _matches(kind, bits, columns, desc):
            return False
        return self.target.has_block(kind, bits, rows, columns, parameters.block.array_length)

    def _prefetch_nd(self, rewriter: Rewriter, operation: PrefetchNdOp) -> None:
        desc = rewriter.single(operation.desc)
        if keeps_nothing(operation):
            return
        access = desc_of(desc).block.access
        if (access == "block" and self._message("prefetch", operation.desc)) or (
                access == "rows" and self.target.block_io and _moves_with_products(operation)):
            rewriter.emit(PrefetchNdOp(desc, operation.properties))


def _moves_with_products(prefetch: PrefetchNdOp) -> bool:
    """Whether a loop of products moves a prefetched tile along its rows, or along its columns."""
    loop = prefetch.parent_op()
    return isinstance(loop, scf.ForOp) and moving_axis(prefetch.desc, loop) is not None and (
        number(loop.step) or 0) > 0 and any(isinstance(operation, DpasOp) for operation in loop.body.block.ops)


def _prefetch(rewriter: Rewriter, operation: PrefetchOp) -> None:
    if not keeps_nothing(operation):
        rewriter.copy(operation)


def _desc_type(operation: CreateNdTdescOp) -> TensorDescType:
    assert isinstance(operation.result.type, TensorDescType)
    return operation.result.type


def _is_inside(ranges: Ranges, operation: Operation) -> bool:
    """Whether a load or a store of shared local memory is known to lie inside its array."""
    if not isinstance(operation, (LoadNdOp, StoreNdOp)):
        return isinstance(operation, UpdateNdOffsetOp)
    desc = desc_of(operation.desc)
    covered = (desc.shape[0], desc.shape[1] * desc.block.array_length)
    return all(_covers(ranges, operation.desc, making, covered) for making in root_definitions(operation.desc))


def _covers(ranges: Ranges, desc: SSAValue, making: SSAValue, covered: tuple[int, int]) -> bool:
    maker = making.owner
    if not isinstance(maker, CreateNdTdescOp):
        return False
    static = static_form(maker.source.type)
    sizes = [number(size) for size in maker.shape] or (static[0] if static else [None])
    extents = (*[1] * (len(sizes) - 2), *covered)
    return all(size is not None and ranges.of(maker.offsets[axis] if axis < len(sizes) - 2 else desc,
                                              axis - len(sizes)).within(0, size - extent)
               for axis, (size, extent) in enumerate(zip(sizes, extents, strict=True)))


def _message_access(kind: str) -> str:
    """The access of a descriptor, whose rows are contiguous or nothing is."""
    return "strided" if kind.endswith("columns") else kind


def _matches(kind: str, bits: int, columns: int, desc: SSAValue) -> bool:
    """Whether a message spreads its elements over the lanes as the descriptor's map says."""
    lanes = desc_of(desc).sg_map
    assert lanes is not None
    if kind == "prefetch":
        return True
    per_lane = 2 if bits == 8 and columns == 32 else 1
    rows = 1 if columns != 8 or (kind == "read" and repeats_row(desc_of(desc))) else 2
    return lanes.wi_data == (1, per_lane) and lanes.wi_layout == (rows, columns // per_lane)


def _argument_type(type_: Attribute, kind: str) -> Attribute:
    """An array argument's type; elements next to each other along rows are visible in it."""
    if not isinstance(type_, MemRefType) or not kind or static_form(type_) is not None:
        return type_
    rank = len(type_.get_shape())
    last = 1 if kind in ("block", "rows") else None
    layout = StridedLayoutAttr([*[None] * (rank - 1), last])
    return MemRefType(type_.element_type, type_.shape, layout, type_.memory_space)


