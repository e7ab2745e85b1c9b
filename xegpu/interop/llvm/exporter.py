"""Exporter base for LLVM's XeGPU dialect, common to both levels: descriptors, offsets, ``gpu.module``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.dialects import arith, func, memref, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    MemRefType,
    ModuleOp,
    UnrealizedConversionCastOp,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue

from xegpu.analysis.memory_access import access_kind
from xegpu.analysis.webs import view_webs
from xegpu.dialect.scalar import LoadScalarOp
from xegpu.interop.llvm.dialect.descriptors import CreateNdTdescOp
from xegpu.interop.llvm.dialect.matrix import (
    CreateMemDescOp,
    LoadMatrixOp,
    MemDesc,
    MemDescType,
    MemLayout,
    MemLayoutAttr,
    StoreMatrixOp,
)
from xegpu.interop.llvm.dialect.ops import LoadNdOp, StoreNdOp
from xegpu.interop.llvm.dialect.types import Desc, DescType, Mixed
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import DescribedOp, exchanged, is_shared, static_form
from xegpu.ir.region_branch import for_loops
from xegpu.mlir.gpu import GpuFuncOp, GpuModuleOp, GpuReturnOp
from xegpu.rewrite.dce import erase, erase_dead
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule
from xegpu.rewrite.verifier import verify
from xegpu.support.errors import TargetError
from xegpu.target.targets import Target, listed

_OURS = ("xegpu", "xetile")
_BLOCK_ACCESS = ("block", "block-columns")


@dataclass(frozen=True)
class DescWithOffsets:
    """Encoding of a tile or descriptor: two offsets on LLVM's descriptor of the array.

    Attributes:
        desc: LLVM's descriptor.
        transposed: whether it describes the transpose of the tile's array, in memory order.
    """

    desc: SSAValue
    transposed: bool = False

    def __str__(self) -> str:
        return "a tile of one array"


class Export(Rewriter):
    """Export of one kernel.

    Args:
        rules: operation to rule.
        target: the target, which LLVM must know.
        function: the kernel.
        access: access kind of each argument of it.
    """

    def __init__(self, rules: Mapping[type[Operation], Rule], target: Target, function: func.FuncOp,
                 access: Sequence[str]) -> None:
        super().__init__({memref.CastOp: Rewriter.forward, UnrealizedConversionCastOp: Rewriter.forward,
                          LoadScalarOp: _load_scalar, **rules})
        self.target = target
        self.access_kinds: Mapping[Any, str] = dict(zip(function.body.block.args, access, strict=True))
        self.webs = view_webs(function)

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation; an XeGPU or XeTile operation without a rule has no equivalent in LLVM's dialect."""
        if operation.name.split(".")[0] in _OURS and type(operation) not in self.rules:
            self.refuse("XT3654", f"LLVM's XeGPU dialect has no form of {operation.name}",
                        "print the kernel in our own form: .xegpu or .stages")
        super().visit(operation)

    def refuse(self, code: str, message: str, hint: str) -> NoReturn:
        """Raise an error at the author's line: LLVM's dialect or lowering lacks a feature."""
        raise TargetError(code, message, hint, self.where())

    def annotate(self, new: Operation, old: SSAValue) -> None:
        """Attach the layout of an old result to a new operation; a subgroup's vectors have none."""

    def emit_annotated(self, new: Operation, old: SSAValue) -> SSAValue:
        """Emit a new operation with the layout of an old result."""
        self.annotate(new, old)
        return self.emit(new)

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """Refuse a tile that a loop or a condition puts on another descriptor: LLVM's are no values that merge."""
        if parts.encoding != like.encoding and isinstance(like.encoding, DescWithOffsets):
            self.refuse("XT3653",
                        "a loop or a condition rebinds this tile to another array, to other bounds or to another "
                        "order, and LLVM's descriptors have one of each",
                        "load both tiles, and choose between the vectors; or print the kernel in our own form: .xegpu "
                        "or .stages")
        return super().match(parts, like)

    def check_store(self, desc: SSAValue) -> None:
        """Check that a store through a tile or descriptor does not transpose."""
        if self.lookup(desc).encoding.transposed:
            self.refuse("XT2403", "LLVM's stores do not transpose", "pass an output whose rows are contiguous")

    def describe(self, operation: DescribedOp, result: DescType, by_address: bool, transposed: bool) -> SSAValue:
        """Emit LLVM's descriptor of the last two dimensions of a tile's or descriptor's array."""
        if is_shared(operation.source.type):
            return self._matrix(operation, transposed)
        self._check_memory(operation)
        sizes, strides = self._numbers(operation)
        source, where = self._source(operation, strides, by_address)
        if transposed:
            sizes, strides = exchanged(sizes), exchanged(strides)
        key = ("describe", source, where, tuple(sizes), tuple(strides), result)
        return self.shared(key, lambda: self.emit(CreateNdTdescOp(source, sizes[-2:], strides[-2:], result)))

    def _matrix(self, operation: DescribedOp, transposed: bool) -> SSAValue:
        """Emit LLVM's matrix of an array in shared local memory."""
        type_ = operation.source.type
        assert isinstance(type_, MemRefType)
        source = self.single(operation.source)
        sizes, strides = ([number(value) for value in values] for values in (operation.shape, operation.strides))
        static = static_form(source.type)
        layout = MemLayoutAttr(MemLayout(tuple(strides))) if strides[:1] == [1] else None  # type: ignore[arg-type]
        shape = () if static is None else static[0][::-1] if layout else static[0]
        if static is None or transposed or len(shape) != 2 or sizes not in ([], list(shape)) \
                or strides not in ([], [1, static[0][1]], [static[0][1], 1]):
            self.refuse("XT3655", "LLVM's matrices in shared local memory are whole arrays or their transposes",
                        "print the kernel in our own form: .xegpu or .stages")
        matrix = MemDescType(MemDesc(tuple(shape), type_.element_type, layout))
        return self.shared(("matrix", source, matrix), lambda: self.emit(CreateMemDescOp(source, matrix)))

    def load_block(self, desc: SSAValue, starts: Mixed, type_: VectorType[Any],
                   layout: Attribute | None = None) -> LoadNdOp | LoadMatrixOp:
        """Load of a block through LLVM's descriptor, or of a part of a matrix."""
        kind = LoadMatrixOp if isinstance(desc.type, MemDescType) else LoadNdOp
        return kind(desc, starts, type_, layout=layout)

    def store_block(self, value: SSAValue, desc: SSAValue, starts: Mixed,
                    layout: Attribute | None = None) -> StoreNdOp | StoreMatrixOp:
        """Store of a block through LLVM's descriptor, or to a matrix."""
        kind = StoreMatrixOp if isinstance(desc.type, MemDescType) else StoreNdOp
        return kind(value, desc, starts, layout=layout)

    def _check_memory(self, operation: DescribedOp) -> None:
        kind = access_kind(operation, self.access_kinds)
        if kind not in _BLOCK_ACCESS:
            reached = _REACHED.get(kind, kind)
            self.refuse("XT3656", f"this array can only be reached {reached}, and LLVM's form has block loads only",
                        "pass arrays on 64-byte boundaries whose rows are contiguous and a multiple of 16 bytes")

    def _numbers(self, operation: DescribedOp) -> tuple[list[SSAValue | int], list[SSAValue | int]]:
        static = static_form(operation.source.type)
        if not operation.shape and static is not None:
            return list(static[0]), list(static[1])
        sizes = [literal(self.single(value)) for value in operation.shape]
        strides = [literal(self.single(value)) for value in operation.strides]
        axis = -2 if access_kind(operation, self.access_kinds) == "block-columns" else -1
        strides[axis] = 1  # unit stride was checked above; LLVM requires a literal 1
        return sizes, strides

    def _source(self, operation: DescribedOp, strides: Sequence[SSAValue | int],
                by_address: bool) -> tuple[SSAValue, Any]:
        """Base of the descriptor: the memref, or a matrix's address if it is batched or read as another type."""
        source = self.single(operation.source)
        lead = [self.single(offset) for offset in operation.offsets[:-2]]
        element = getattr(operation.source.type, "element_type", None)
        as_is = not lead and not by_address and getattr(source.type, "element_type", None) == element
        if as_is or not isinstance(source.type, MemRefType):
            return source, None
        return self.shared(("address", source, *lead), lambda: self._address(source, lead, strides)), tuple(lead)

    def _address(self, source: SSAValue, lead: Sequence[SSAValue], strides: Sequence[SSAValue | int]) -> SSAValue:
        address = self.emit(memref.ExtractAlignedPointerAsIndexOp.get(source))
        bytes_ = of_mlir(source.type.element_type).bytes  # type: ignore[attr-defined]
        for offset, stride in zip(lead, strides, strict=False):
            step = self.constant(stride) if isinstance(stride, int) else stride
            elements = self.index(arith.MuliOp, offset, step)
            address = self.add(address, self.index(arith.MuliOp, elements, self.constant(bytes_)))
        return self.emit(arith.IndexCastOp(address, i64))

    def create_descriptor(self, operation: DescribedOp, result: DescType, by_address: bool = False,
                          transposed: bool = False) -> None:
        """Rule of init operations: create a descriptor of the array, and two offsets.

        Args:
            operation: the init operation.
            result: type of LLVM's descriptor.
            by_address: whether its base is the array's address instead of the memref.
            transposed: whether it describes the transpose.
        """
        offsets = [self.single(offset) for offset in operation.offsets[-2:]]
        form = DescWithOffsets(self.describe(operation, result, by_address, transposed), transposed)
        self.set(operation.result,  # type: ignore[attr-defined]
                 tuple(exchanged(offsets) if transposed else offsets), form)

    def move(self, operation: Any) -> None:
        """Rule of offset updates: offsets are added."""
        old = self.lookup(operation.operands[0])
        steps = [self.single(offset) for offset in operation.offsets]
        steps = exchanged(steps) if old.encoding.transposed else steps
        self.set(operation.result, tuple(self.add(start, by) for start, by in zip(old.values, steps, strict=True)),
                 old.encoding)

    def block_at(self, value: SSAValue, row: int = 0, column: int = 0) -> tuple[SSAValue, list[SSAValue | int]]:
        """LLVM's descriptor of a tile, and the offsets of its block at (row, column)."""
        tile = self.lookup(value)
        row, column = (column, row) if tile.encoding.transposed else (row, column)
        starts = [self.add(start, by) for start, by in zip(tile.values, (row, column), strict=True)]
        return tile.encoding.desc, [literal(start) for start in starts]


_REACHED = {"rows": "row by row", "columns": "column by column", "strided": "element by element"}


def literal(value: SSAValue) -> SSAValue | int:
    """Integer of a constant index, else the value itself."""
    known = number(value)
    return value if known is None else known


def _load_scalar(rewriter: Export, operation: LoadScalarOp) -> None:
    rewriter.set(operation.result, rewriter.emit(memref.LoadOp.get(
        rewriter.single(operation.array), [rewriter.single(index) for index in operation.indices])))


def desc_type(shape: tuple[int, ...], element_type: Attribute, layout: Any = None) -> DescType:
    """Descriptor type of a block."""
    return DescType(Desc(shape, element_type, layout=layout))


def drop_constant_carries(function: func.FuncOp) -> None:
    """Remove loop-invariant iter_args: offsets that every iteration yields unchanged."""
    for loop in for_loops(function):
        block = loop.body.block
        terminator = block.last_op
        assert isinstance(terminator, scf.YieldOp)
        kept = [i for i, value in enumerate(terminator.operands) if value is not block.args[i + 1]]
        if len(kept) == len(loop.iter_args):
            continue
        _narrow(loop, terminator, kept)


def _narrow(loop: scf.ForOp, terminator: scf.YieldOp, kept: list[int]) -> None:
    block, starts, yielded = loop.body.block, list(loop.iter_args), list(terminator.operands)
    for position, start in enumerate(starts):
        if position not in kept:
            block.args[position + 1].replace_all_uses_with(start)
            loop.results[position].replace_all_uses_with(start)
    block.erase_op(terminator)
    for position in reversed(range(len(starts))):
        if position not in kept:
            block.erase_arg(block.args[position + 1])
    block.add_op(scf.YieldOp(*(yielded[position] for position in kept)))
    body = loop.detach_region(loop.body)
    new = scf.ForOp(loop.lb, loop.ub, loop.step, [starts[position] for position in kept], body)
    parent = loop.parent
    assert parent is not None
    parent.insert_op_before(new, loop)
    for result, position in zip(new.results, kept, strict=True):
        result.name_hint = loop.results[position].name_hint
        loop.results[position].replace_all_uses_with(result)
    erase(loop)


def as_gpu_module(function: func.FuncOp, subgroups: int, lanes: int) -> ModuleOp:
    """Wrap a kernel as ``gpu.module { gpu.func @name(...) kernel { ... gpu.return } }``."""
    verify(function)
    drop_constant_carries(function)
    erase_dead(function.body.block)
    body = function.body
    block = body.block
    if isinstance(block.last_op, func.ReturnOp):
        block.erase_op(block.last_op)
    block.add_op(GpuReturnOp())
    function.detach_region(body)
    size = DenseArrayBase.from_list(i32, [subgroups * lanes, 1, 1])
    kernel = GpuFuncOp(function.sym_name.data, body, True, {"known_block_size": size})
    module = GpuModuleOp("kernels", Region([type(block)([kernel])]), {})
    return ModuleOp([module])


def check_chip(target: Target) -> None:
    """Check that LLVM's lowering knows a target.

    Raises:
        TargetError: it does not.
    """
    if target.llvm_chip is None:
        raise TargetError("XT3657", f"LLVM's lowering of its XeGPU dialect does not know {target.name}",
                          f"choose one of the targets {listed(lambda other: other.llvm_chip, 'or')}")
