"""View folding: views of memory become explicit sizes and strides of the tiles and descriptors on them.

    %v = memref.reinterpret_cast %A to offset: [64], sizes: [16, 32], strides: [32, 1] : memref<1024xf32> to memref<...>
    %t = xetile.init_tile %v[%i, %j] : memref<16x32xf32, strided<[32, 1], offset: 64>> -> !xetile.tile<8x16xf32>
becomes
    %t = xetile.init_tile %A, [%i, %j + 64], [16, 32 + 64], [32, 1] : memref<1024xf32> -> !xetile.tile<8x16xf32>

``memref.view``, ``memref.reinterpret_cast``, ``memref.subview``, ``memref.transpose``, ``memref.collapse_shape`` and
``memref.expand_shape`` are resolved; ``memref.memory_space_cast`` is its source. Parts of an array in shared local
memory that do not overlap, as those of different elements in a buffer of bytes, become arrays of their own:

    %b = memref.alloc() : memref<6144xi8, 3>
    %v = memref.view %b[%c4096][] : memref<6144xi8, 3> to memref<16x32xf32, 3>
becomes
    %v = memref.alloc() : memref<16x32xf32, 3>
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from xdsl.dialects import arith, func, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    MemRefType,
    ModuleOp,
    NoneAttr,
    StridedLayoutAttr,
    VectorType,
)
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.utils.exceptions import VerifyException

from xegpu.dialect.block_io import CreateNdTdescOp
from xegpu.dialect.gather_scatter import CreateTdescOp
from xegpu.interop.llvm.dialect.descriptors import CreateNdTdescOp as LlvmCreateNdTdescOp
from xegpu.interop.llvm.dialect.types import split
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import is_shared, row_major, static_form
from xegpu.mlir.gpu import GpuFuncOp
from xegpu.rewrite.dce import erase
from xegpu.support.errors import error_parts
from xetile.dialect.gather_scatter import InitScatteredTileOp
from xetile.dialect.supervector import TransferReadOp, TransferWriteOp
from xetile.dialect.tile_ops import InitTileOp
from xetile.text.canonicalize.diagnostics import fail_at, no_dimension, no_view
from xetile.text.canonicalize.sizes import Size, SizeBuilder, known
from xetile.text.canonicalize.view_forms import View, collapsed, expanded, in_array, mixed, of_all, subview
from xetile.text.memref_ops import TransposeOp

_CHANGES: dict[type[Operation], Callable[[Any, Any, View], View]] = {
    memref.SubviewOp: subview, memref.CollapseShapeOp: collapsed, memref.ExpandShapeOp: expanded}
VIEWS: tuple[type[Operation], ...] = (memref.ViewOp, memref.ReinterpretCastOp, TransposeOp, *_CHANGES)
_TRANSFERS = (TransferReadOp, TransferWriteOp)
"""What folds subviews itself, see :mod:`xetile.text.canonicalize.subviews`."""
Describes = InitTileOp | CreateNdTdescOp | LlvmCreateNdTdescOp


def resolve_views(module: ModuleOp) -> None:
    """Resolve the views of all functions of a parsed module.

    Raises:
        TextError: something takes a view that cannot; or views of shared local memory overlap.
    """
    for cast in [operation for operation in module.walk() if isinstance(operation, memref.MemorySpaceCastOp)]:
        cast.dest.replace_all_uses_with(cast.source)
        erase(cast)
    for function in [operation for operation in module.walk() if isinstance(operation, (func.FuncOp, GpuFuncOp))]:
        views = [operation for operation in function.walk() if isinstance(operation, VIEWS)]
        if views:
            for view in views:
                _verify(view)
            _Resolver(views).resolve()


def _verify(view: Operation) -> None:
    try:
        view.verify(verify_nested_ops=False)
    except VerifyException as error:
        fail_at(view, *error_parts(error))


class _Resolver(SizeBuilder):
    """Resolution of one function's views."""

    def __init__(self, views: Sequence[Operation]) -> None:
        super().__init__(views[0])
        self._views = views
        self._inserted: list[Operation] = []
        self._found: dict[SSAValue, View] = {}

    def insert(self, new: Operation) -> None:
        """Insert an operation; those that nothing uses are erased at the end."""
        super().insert(new)
        self._inserted.append(new)

    def resolve(self) -> None:
        """Rewrite every user of a view, and erase the views."""
        for view in self._views:
            self.at = view
            self._found[view.results[0]] = self._of_operation(view)
        shared = dict.fromkeys(view.array for view in self._found.values() if is_shared(view.array.type))
        arrays = [array.owner for array in shared if isinstance(array.owner, Operation)]
        for array in shared:
            self._share(array)
        casts: list[Operation] = []
        for value in list(self._found):
            casts += self._users(value)
        for operation in [*reversed([*self._views, *casts]), *reversed(self._inserted), *arrays]:
            if not any(result.uses for result in operation.results):
                erase(operation)

    def _users(self, value: SSAValue) -> list[Operation]:
        """Rewrite the users of a view; returns its casts."""
        casts: list[Operation] = []
        for use in list(value.uses):
            user = use.operation
            self.at = user
            if isinstance(user, memref.CastOp):
                self._found[user.results[0]] = self._found[value]
                casts += [user, *self._users(user.results[0])]
            elif isinstance(user, Describes):
                if _is_grouped(user):  # else its verifier says so
                    self._describe(user, self._found[value])
            elif isinstance(user, (InitScatteredTileOp, CreateTdescOp)):
                self._scatter(user, self._found[value])
            elif isinstance(user, memref.DimOp):
                self._size(user, self._found[value])
            elif not isinstance(user, VIEWS) and not _is_folded(use):
                no_view(user, "xetile.init_tile, xegpu.create_nd_tdesc and memref.dim")
        return casts

    # --- what a view is ---------------------------------------------------------------------------------------------

    def _view(self, value: SSAValue) -> View:
        """A memref as a view, if only of all of its array."""
        if value in self._found:
            return self._found[value]
        if isinstance(value.owner, memref.CastOp):
            return self._view(value.owner.source)
        type_ = value.type
        if not isinstance(type_, MemRefType) or not (isinstance(value.owner, (Block, memref.AllocOp))):
            fail_at(self.at, "XT2611", f"{type_} is neither an argument nor an allocation",
                    "take the view of an argument of the kernel, of an allocation, or of another view")
        sizes: Sequence[Size]
        strides: Sequence[Size]
        if (form := static_form(type_)) is not None:
            sizes, strides = form
        else:
            metadata = memref.ExtractStridedMetaDataOp(value)
            self.insert(metadata)
            sizes, strides = metadata.sizes, metadata.strides
        return of_all(value, sizes, strides)

    def _of_operation(self, view: Operation) -> View:
        source = self._view(view.operands[0])
        if isinstance(view, TransposeOp):
            return replace(source, sizes=tuple(source.sizes[axis] for axis in view.axes), corner=None,
                           strides=tuple(source.strides[axis] for axis in view.axes))
        for kind, rule in _CHANGES.items():
            if isinstance(view, kind):
                return rule(self, view, source)
        if isinstance(view, memref.ReinterpretCastOp):
            (offset,) = mixed(view.static_offsets, view.offsets)
            return replace(source, offset=offset, sizes=tuple(mixed(view.static_sizes, view.sizes)),
                           strides=tuple(mixed(view.static_strides, view.strides)), corner=None)
        assert isinstance(view, memref.ViewOp)
        return self._of_bytes(view, source)

    def _of_bytes(self, view: memref.ViewOp, source: View) -> View:
        """``memref.view``: bytes as elements of another type."""
        result = view.results[0].type
        assert isinstance(result, MemRefType)
        if of_mlir(source.element).bits != 8 or len(source.sizes) != 1 or source.strides != (1,) or \
                not isinstance(result.layout, NoneAttr):
            fail_at(view, "XT2612", f"it views a buffer of bytes in one dimension as a row-major array, which "
                    f"{view.operands[0].type} to {result} is not", "write memref<4096xi8> to memref<32x32xf32>")
        if not is_shared(source.array.type) and result.element_type != source.element:
            fail_at(view, "XT2613", f"the argument has elements of {source.element}, and tiles on it are of "
                    f"{result.element_type}", f"declare the argument as an array of {result.element_type}, and pass "
                    "xt.view(array, ...)")
        dynamic = iter(view.sizes)
        sizes = tuple(next(dynamic) if size == DYNAMIC_INDEX else size for size in result.get_shape())
        strides: list[Size] = [1]
        for size in reversed(sizes[1:]):
            strides.append(self.product(strides[-1], size))
        width, shift = of_mlir(result.element_type).bytes, number(view.byte_shift)
        if shift is not None and shift % width:
            fail_at(view, "XT2614", f"it begins at byte {shift}, which is not a multiple of the {width} bytes of "
                    f"{result.element_type}", f"begin at {shift // width * width} or {(shift // width + 1) * width}")
        start: Size = shift // width if shift is not None else self.emit(
            arith.DivUIOp(view.byte_shift, self.value(width)))
        return View(source.array, result.element_type, start, 0, sizes, tuple(strides[::-1]))

    # --- shared local memory ----------------------------------------------------------------------------------------

    def _share(self, array: SSAValue) -> None:
        """Give views of an allocation that do not overlap arrays of their own.

        Where they overlap they must have the same elements; the array then stays one.
        """
        mine = {value: view for value, view in self._found.items() if view.array is array}
        if not isinstance(array.owner, memref.AllocOp):
            fail_at(next(iter(mine)).owner, "XT2611", f"{array.type} is not an allocation of shared local memory",  # type: ignore
                    "allocate it in the kernel: memref.alloc() : memref<4096xi8, 3>")
        used = {value: view for value, view in mine.items()
                if any(not isinstance(use.operation, VIEWS) for use in value.uses)}
        direct = [use.operation for use in array.uses if not isinstance(use.operation, (*VIEWS, memref.CastOp))]
        direct += [use.operation for value in mine for use in value.uses if _is_folded(use)]
        groups = None if direct else _disjoint(used)
        type_ = array.type
        assert isinstance(type_, MemRefType)
        if groups is None:
            if direct and len(type_.get_shape()) == 1:
                fail_at(direct[0], "XT2615", f"{type_} is used here itself, and by views", "take a view here, too")
            elements = {view.element for view in used.values()} | ({type_.element_type} if direct else set())
            if len(elements) > 1:
                names = ", ".join(sorted(map(str, elements)))
                fail_at(next(iter(used)).owner, "XT2616",  # type: ignore[arg-type]
                        f"views of {type_} overlap, and have different elements: {names}",
                        "use bytes of their own for each, at constant offsets")
            groups = [] if direct else [list(used)]
        for group in groups:
            new = self._allocate(array, [used[value] for value in group], whole=len(groups) == 1)
            begin = min((span[0] for value in group if (span := used[value].span) is not None), default=0) \
                if len(groups) > 1 else 0
            for value in group:
                view = used[value]
                moved = begin // of_mlir(view.element).bytes
                start = view.start - moved if isinstance(view.start, int) else view.start
                offset = view.offset
                if isinstance(start, int) and start < 0 and isinstance(offset, int):
                    start, offset = 0, offset + start
                self._found[value] = replace(view, array=new, start=start, offset=offset, corner=None)

    def _allocate(self, array: SSAValue, views: Sequence[View], whole: bool) -> SSAValue:
        """Allocation for views of the same elements: in the shape of one that is all of it, else a row."""
        old, type_, element = array.owner, array.type, views[0].element
        assert isinstance(old, memref.AllocOp)
        assert isinstance(type_, MemRefType)
        spans, width = [view.span for view in views], of_mlir(element).bytes
        begin, end = 0, prod(type_.get_shape()) * of_mlir(type_.element_type).bytes
        if not whole:
            begin, end = (limit(span[side] for span in spans if span) for side, limit in ((0, min), (1, max)))
        shape: tuple[int, ...] = (1, (end - begin) // width)
        for view, span in zip(views, spans, strict=True):
            sizes = tuple(size for size in map(known, view.sizes) if size is not None)
            if span == (begin, end) and len(sizes) > 1 and row_major(sizes) == tuple(map(known, view.strides)):
                shape = sizes
                break
        new = memref.AllocOp([], [], MemRefType(element, shape, memory_space=type_.memory_space))
        new.location = old.location
        new.memref.name_hint = array.name_hint
        assert old.parent is not None
        old.parent.insert_op_before(new, old)
        return new.memref

    # --- users of views ---------------------------------------------------------------------------------------------

    def _describe(self, operation: Describes, view: View) -> None:
        """A tile or descriptor on a view: on its array, with the view's sizes and strides unless it has its own."""
        rank, type_ = len(view.sizes), view.array.type
        assert isinstance(type_, MemRefType)
        offsets, sizes, strides = _stated(operation, rank)
        if len(offsets) not in (rank, 2):
            fail_at(operation, "XT2082", f"it has {len(offsets)} offsets, and the view {rank} dimensions",
                    f"write {rank} offsets")
        if sizes and len(sizes) != len(offsets):
            return  # its verifier says so
        if not sizes and (found := in_array(self, view, offsets)) is not None:
            offsets, (sizes, strides) = found[0], (found[1], list(view.own[1]))
        else:
            sizes, strides = sizes or list(view.sizes), strides or list(view.strides)
            self._begin(operation, self.sum(view.start, view.offset), offsets, sizes, strides)
        source = view.array
        own = static_form(type_)
        is_line = len(type_.get_shape()) == 1 and not isinstance(operation, LlvmCreateNdTdescOp)
        if own is not None and (tuple(map(known, sizes)), tuple(map(known, strides))) == own:
            sizes, strides = [], []
        elif not is_line:
            lead = len(type_.get_shape()) - len(offsets)
            if lead < 0 and len(type_.get_shape()) > 1:
                fail_at(operation, "XT2618", f"the view has {len(offsets)} dimensions, and its array {type_} fewer",
                        "declare the array with as many dimensions, or with one")
            offsets, sizes = [*[0] * lead, *offsets], [*[1] * lead, *sizes]
            strides = strides[:1] * lead + strides
            source = self._dynamic(source, type_, len(offsets))
        self._replace(operation, self._created(operation, source, offsets, sizes, strides))

    def _begin(self, operation: Describes, at: Size, offsets: list[Size], sizes: list[Size],
               strides: list[Size]) -> None:
        """Add where a view begins in its array to an offset, and to the size along it."""
        if known(at) == 0:
            return
        axis = next((axis for axis in reversed(range(len(strides))) if known(strides[axis]) == 1), None)
        if axis is None:
            fail_at(operation, "XT2617", "the view begins inside of its array, and none of its strides is the "
                    "constant 1", "make the last stride of the view 1, or let it begin where the array does")
        offsets[axis], sizes[axis] = self.sum(offsets[axis], at), self.sum(sizes[axis], at)

    def _created(self, operation: Describes, source: SSAValue, offsets: list[Size], sizes: list[Size],
                 strides: list[Size]) -> Operation:
        """A tile or descriptor like another one, of the array ``source``."""
        new: Operation
        if isinstance(operation, LlvmCreateNdTdescOp):
            groups = {name: split(values) for name, values in
                      (("offsets", offsets), ("shape", sizes), ("strides", strides))}
            new = LlvmCreateNdTdescOp.build(
                operands=[source, *(values for values, _ in groups.values())], result_types=[operation.result.type],
                properties={f"const_{name}": literals for name, (values, literals) in groups.items()
                            if values or len(literals)})
        else:
            new = type(operation)(source, [self.value(value) for value in offsets],
                                  [self.value(value) for value in sizes], [self.value(value) for value in strides],
                                  operation.result.type)  # type: ignore[arg-type]
        new.attributes.update(operation.attributes)
        return new

    def _scatter(self, operation: InitScatteredTileOp | CreateTdescOp, view: View) -> None:
        """A scattered tile or descriptor: its offsets count from the view's first element."""
        indices, at = operation.operands[1], self.sum(view.start, view.offset)
        if known(at) != 0 and isinstance(indices.type, VectorType):
            spread = self.emit(BroadcastOp(self.value(at), indices.type))
            indices = self.emit(arith.AddiOp(indices, spread))
        operation.operands = [view.array, indices]

    def _size(self, operation: memref.DimOp, view: View) -> None:
        axis = number(operation.index)
        if axis is None or not 0 <= axis < len(view.sizes):
            no_dimension(operation)
        operation.result.replace_all_uses_with(self.value(view.sizes[axis]))
        erase(operation)

    def _dynamic(self, source: SSAValue, type_: MemRefType[Any], rank: int) -> SSAValue:
        """The array as a memref of dynamic sizes and strides, which may be described otherwise."""
        any_ = MemRefType(type_.element_type, [DYNAMIC_INDEX] * rank, StridedLayoutAttr([None] * rank),
                          type_.memory_space)
        return self.emit(memref.CastOp.get(source, any_))

    @staticmethod
    def _replace(old: Operation, new: Operation) -> None:
        new.location = old.location
        new.results[0].name_hint = old.results[0].name_hint
        assert old.parent is not None
        old.parent.insert_op_before(new, old)
        old.results[0].replace_all_uses_with(new.results[0])
        erase(old)


def _is_grouped(operation: Describes) -> bool:
    """Whether the operands of a tile or descriptor are in as many groups as it has, of as many in all."""
    sizes = operation.properties.get("operandSegmentSizes")
    return isinstance(sizes, DenseArrayBase) and len(sizes) == len(operation.get_irdl_definition().operands) and \
        sum(map(int, sizes.get_values())) == len(operation.operands)


def _is_folded(use: Use) -> bool:
    """Whether a use of a view is a transfer's through ``memref.subview``."""
    return isinstance(use.operation, _TRANSFERS) and isinstance(use.operation.source.owner, memref.SubviewOp)


def _stated(operation: Describes, rank: int) -> tuple[list[Size], list[Size], list[Size]]:
    """Offsets, sizes and strides that a tile or descriptor states."""
    if isinstance(operation, LlvmCreateNdTdescOp):
        return operation.starts or [0] * rank, operation.sizes, operation.steps
    return list(operation.offsets), list(operation.shape), list(operation.strides)


def _disjoint(views: dict[SSAValue, View]) -> list[list[SSAValue]] | None:
    """Views grouped by overlap, each group of the same elements; None if that is not so, or not known."""
    spans = {value: view.span for value, view in views.items()}
    if any(span is None for span in spans.values()):
        return None
    groups: list[list[SSAValue]] = []
    end = -1
    for value in sorted(views, key=lambda value: spans[value] or (0, 0)):
        first, after = spans[value] or (0, 0)
        if first >= end:
            groups.append([])
        groups[-1].append(value)
        end = max(end, after)
    if any(len({views[value].element for value in group}) > 1 for group in groups):
        return None
    return groups
