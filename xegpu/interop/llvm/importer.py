"""Importer base for LLVM's XeGPU dialect, common to both levels: arrays, offsets, ids, fences.

    %d = xegpu.create_nd_tdesc %A : memref<1024x1024xf16> -> !xegpu.tensor_desc<8x16xf16>
    %v = xegpu.load_nd %d[%i, %j]
A descriptor becomes an encoding of its array, until the offsets of a use are known; where one is updated or
loop-carried, as up to LLVM 22, its two offsets are.

Addresses computed from arrays are matched, as kernels for LLVM's lowering reach batches by them, whose descriptors have
two dimensions:

    %p = memref.extract_aligned_pointer_as_index %A : memref<?x?x?xbf16, ...> -> index
    %q = arith.addi %p, (%b * %stride) * 2
    %a = arith.index_cast %q : index to i64
is matrix %b of %A.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.dialects import arith, func, gpu, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    MemRefType,
    StridedLayoutAttr,
)
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from xegpu.analysis.dataflow.integer_range import Ranges
from xegpu.dialect.sync import CompileHintOp
from xegpu.interop.llvm.dialect import ops
from xegpu.interop.llvm.dialect.descriptors import CreateNdTdescOp, UpdateNdOffsetOp
from xegpu.interop.llvm.dialect.types import Desc, desc_of
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.interop.llvm.export_vector import is_neutral
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import exchanged, static_form
from xegpu.mlir.combining_kind import combined
from xegpu.rewrite.rewriter import ConvertedValues, Rewriter, Rule
from xegpu.support.errors import TextError

_CAST = "arith.index_cast"


@dataclass(frozen=True)
class BatchedMatrix:
    """Matrix of a batched array.

    Attributes:
        array: the memref.
        lead: index of each leading dimension, before the last two; None for the first.
    """

    array: SSAValue
    lead: tuple[SSAValue | int | None, ...]


def matrix_at(address: SSAValue) -> BatchedMatrix | None:
    """Match the address of an array's matrix; None for any other address."""
    steps: list[SSAValue] = []
    while isinstance(owner := address.owner, Operation) and owner.name in (_CAST, arith.AddiOp.name):
        steps += owner.operands[1:]
        address = owner.operands[0]
    if not isinstance(owner, memref.ExtractAlignedPointerAsIndexOp):
        return None
    array, type_ = owner.source, owner.source.type
    assert isinstance(type_, MemRefType)
    lead: list[SSAValue | int | None] = [None] * (len(type_.get_shape()) - 2)
    for step in steps:
        if (known := number(step)) is not None and (static := static_form(type_)) is not None:
            for axis, stride in enumerate(static[1][:-2]):
                at, known = divmod(known, stride * of_mlir(type_.element_type).bytes)
                lead[axis] = lead[axis] or at or None
            if known:
                return None
            continue
        found = _index(step, array, of_mlir(type_.element_type).bytes)
        if found is None or found[0] >= len(lead):
            return None
        lead[found[0]] = found[1]
    return BatchedMatrix(array, tuple(lead))


def _index(step: SSAValue, array: SSAValue, element_bytes: int) -> tuple[int, SSAValue] | None:
    """Match ``step``, an offset in bytes, as an index times the stride of a dimension."""
    elements = step
    if isinstance(step.owner, arith.MuliOp) and number(step.owner.rhs) == element_bytes:
        elements = step.owner.lhs
    elif element_bytes != 1:
        return None
    if not isinstance(elements.owner, arith.MuliOp):
        return None
    stride = elements.owner.rhs
    if (known := number(stride)) is not None and (static := static_form(array.type)) is not None and \
            known in static[1]:
        return static[1].index(known), elements.owner.lhs
    metadata = stride.owner
    if not isinstance(metadata, memref.ExtractStridedMetaDataOp) or metadata.source is not array:
        return None
    return next(axis for axis, own in enumerate(metadata.strides) if own is stride), elements.owner.lhs


LANES = 16
"""Subgroup size of every device that LLVM's lowering knows; thread ids of a launch count lanes."""


@dataclass(frozen=True)
class Described:
    """Encoding of a descriptor without offsets.

    Attributes:
        source: the memref or address.
        sizes, strides: of the array; empty where the memref's type has them.
        desc: type parameters of the descriptor.
    """

    source: SSAValue
    sizes: tuple[SSAValue, ...]
    strides: tuple[SSAValue, ...]
    desc: Desc

    def __str__(self) -> str:
        return f"a tensor_desc of {'x'.join(map(str, self.desc.shape))} on one array"


class Import(Rewriter):
    """Import of one kernel.

    Args:
        rules: operation to rule, in addition to those here.
        threads: threads of a work-group, None if unknown.
    """

    def __init__(self, rules: Mapping[type[Operation], Rule], threads: int | None) -> None:
        super().__init__({**RULES, **rules})
        self.threads = threads

    def function(self, old: func.FuncOp, arguments: Sequence[Attribute] | None = None) -> func.FuncOp:
        """Kernel of ours; its arguments are arrays, addresses, numbers and vectors."""
        self.ranges = Ranges.of_function(old)
        return super().function(old, arguments)

    def refuse(self, code: str, message: str, hint: str) -> NoReturn:
        """Raise an error at the text's line: an unsupported feature."""
        raise TextError(code, message, hint, self.where())

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """Check that both branches, or all steps of a loop, have one array's descriptor."""
        if parts.encoding != like.encoding and isinstance(parts.encoding, Described):
            self.refuse("XT3648", "a loop or a condition gives descriptors of different arrays, or of different blocks",
                        "load from or store to each of them where it is described")
        return super().match(parts, like)

    def fill(self, scalar: SSAValue, old: SSAValue) -> None:
        """Replace a splat by a broadcast of its scalar."""
        self.set(old, self.emit(BroadcastOp(scalar, old.type)))  # type: ignore[arg-type]

    def check_reduction(self, operation: MultiReductionOp) -> None:
        """Check that a reduction is supported: one of two dimensions."""
        if len(operation.axes) != 1 or len(operation.source.type.get_shape()) != 2:  # type: ignore[attr-defined]
            self.refuse("XT3631", "only one of two dimensions is reduced", "reduce along [0] or [1]")

    def onto(self, operation: MultiReductionOp, reduced: SSAValue) -> SSAValue:
        """Combine a reduction with its accumulator, which keeps both dimensions; a neutral one is omitted."""
        if is_neutral(operation):
            return reduced
        return self.combine(operation, reduced, self.single(operation.acc))

    def combine(self, operation: MultiReductionOp, reduced: SSAValue, acc: SSAValue) -> SSAValue:
        """Combine a reduction with its accumulator, which has the type of its result."""
        return self.emit(combined(operation.kind.data, reduced, acc))

    def mixed(self, values: Sequence[SSAValue | int]) -> list[SSAValue]:
        """Index values, with literals as constants."""
        return [self.constant(value) if isinstance(value, int) else self.single(value) for value in values]

    def spelled_out(self, form: Described) -> tuple[SSAValue, Sequence[SSAValue], Sequence[SSAValue]]:
        """Source, sizes and strides as SSA values; those of a static memref as constants, its type dynamic."""
        type_, static = form.source.type, static_form(form.source.type)
        if static is None or not isinstance(type_, MemRefType):
            return form.source, form.sizes, form.strides
        rank = len(type_.get_shape())
        dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * rank, StridedLayoutAttr([None] * rank))
        cast = self.shared(("cast", form.source), lambda: self.emit(memref.CastOp.get(form.source, dynamic)))
        if form.sizes:
            return cast, form.sizes, form.strides
        sizes, strides = ([self.constant(value) for value in numbers] for numbers in static)
        return cast, sizes, strides

    def starts(self, operation: ops.MovementOp) -> list[SSAValue]:
        """Offsets of a load, store or prefetch: the descriptor's plus the operation's."""
        base, offsets = list(self.lookup(operation.desc).values), self.mixed(operation.starts)
        if len(offsets) > len(base):
            self.refuse("XT3605", f"{len(offsets)} offsets on an array of {len(base)} dimensions",
                        "give one a dimension")
        offsets = [self.constant(0)] * (len(base) - len(offsets)) + offsets
        return [self.add(start, by) for start, by in zip(base, offsets, strict=True)]


def create_nd_tdesc(rewriter: Import, operation: CreateNdTdescOp) -> None:
    """Replace a descriptor by an encoding of its array, with the offsets that it has up to LLVM 22."""
    desc = desc_of(operation.result)
    if desc.block.memory_space != "global":
        rewriter.refuse("XT3634", "block descriptors of shared local memory are not read", "use memory_space = global")
    source, lead = _source(rewriter, operation.source)
    sizes, strides = rewriter.mixed(operation.sizes), rewriter.mixed(_steps(operation))
    if lead or not sizes:
        sizes, strides = _array_metadata(rewriter, source)
    rank = len(sizes) or len(source.type.get_shape())  # type: ignore[attr-defined]
    starts = lead + (rewriter.mixed(operation.starts) or [rewriter.constant(0)] * (rank - len(lead)))
    rewriter.set(operation.result, tuple(starts), Described(source, tuple(sizes), tuple(strides), desc))


def _steps(operation: CreateNdTdescOp) -> list[SSAValue | int]:
    """Strides of a descriptor; a literal 1, which LLVM requires, becomes the array's stride if all others are.

    The descriptor then equals the array, and has the array's access kind.
    """
    sizes, steps = operation.sizes, operation.steps
    owner = next((size.owner for size in sizes if isinstance(size, SSAValue)), None)
    if not isinstance(owner, memref.ExtractStridedMetaDataOp) or len(sizes) < 2 or steps[-1] != 1:
        return steps
    array_sizes, array_strides = list(owner.sizes)[-len(sizes):], list(owner.strides)[-len(steps):]
    for permuted in (list, exchanged):
        if permuted(array_sizes) == sizes and permuted(array_strides)[:-1] == steps[:-1]:
            return [*permuted(array_strides)]
    return steps


def _source(rewriter: Import, source: SSAValue) -> tuple[SSAValue, list[SSAValue]]:
    """Base of a descriptor: a memref with leading indices, or an address that is an argument."""
    if isinstance(source.type, MemRefType) or isinstance(source, BlockArgument):
        return rewriter.single(source), []
    matrix = matrix_at(source)
    if matrix is None:
        rewriter.refuse("XT3635", "this address is not that of an array or of one of its matrices",
                     "describe the memref, or its address plus an index times its stride and the bytes of an element")
    lead = rewriter.mixed([0 if at is None else at for at in matrix.lead])
    return rewriter.single(matrix.array), lead


def _array_metadata(rewriter: Import, source: SSAValue) -> tuple[list[SSAValue], list[SSAValue]]:
    """Sizes and strides of an array of dynamic shape, from its metadata; none for a static one."""
    if static_form(source.type) is not None:
        return [], []
    metadata = memref.ExtractStridedMetaDataOp(source)
    rewriter.emit(metadata)
    return list(metadata.sizes), list(metadata.strides)


def update_nd_offset(rewriter: Import, operation: UpdateNdOffsetOp) -> None:
    """Add to the offsets."""
    old = rewriter.lookup(operation.desc)
    steps = rewriter.mixed(operation.starts)
    steps = [rewriter.constant(0)] * (len(old.values) - len(steps)) + steps
    rewriter.set(operation.result, tuple(rewriter.add(start, by) for start, by in zip(old.values, steps, strict=True)),
              old.encoding)


def _divide(rewriter: Import, operation: arith.DivUIOp | arith.DivSIOp) -> None:
    """Lower a division of indices, where they are not negative to one that rounds down, which is folded and shared.

    A thread id by the subgroup size is the subgroup id.
    """
    thread_id = operation.lhs.owner
    if isinstance(thread_id, gpu.ThreadIdOp) and number(operation.rhs) == LANES:
        if thread_id.dimension.data.value != "x":
            rewriter.refuse("XT3636", "threads along y and z are not told apart by subgroups",
                            "ask for gpu.subgroup_id")
        rewriter.set(operation.result, rewriter.shared("subgroup", lambda: rewriter.emit(gpu.SubgroupIdOp())))  # type: ignore
        return
    if not _rounds_down(rewriter, operation):
        rewriter.copy(operation)
        return
    rewriter.set(operation.result, rewriter.index(arith.FloorDivSIOp, rewriter.single(operation.lhs),
                                                  rewriter.single(operation.rhs)))


def _rounds_down(rewriter: Import, operation: arith.DivUIOp | arith.DivSIOp | arith.RemUIOp | arith.RemSIOp) -> bool:
    """Whether a quotient is the same rounded down and toward zero, signed and unsigned."""
    return rewriter.ranges.of(operation.lhs).low >= 0 and rewriter.ranges.of(operation.rhs).low > 0


def _remainder(rewriter: Import, operation: arith.RemUIOp | arith.RemSIOp) -> None:
    if not _rounds_down(rewriter, operation):
        rewriter.copy(operation)
        return
    left, right = rewriter.single(operation.lhs), rewriter.single(operation.rhs)
    multiple = rewriter.index(arith.MuliOp, rewriter.index(arith.FloorDivSIOp, left, right), right)
    rewriter.set(operation.result, rewriter.index(arith.SubiOp, left, multiple))


def _of_indices(rule: Rule) -> Rule:
    """Restrict a rule to operations on indices; those on vectors and other integers are cloned."""
    def apply(rewriter: Any, operation: Any) -> None:
        if str(operation.results[0].type) == "index":
            rule(rewriter, operation)
        else:
            rewriter.copy(operation)

    return apply


def _thread_id(rewriter: Import, operation: gpu.ThreadIdOp) -> None:
    """Drop a thread id; only its division by the subgroup size is supported."""
    for use in operation.result.uses:
        if not isinstance(use.operation, (arith.DivUIOp, arith.DivSIOp)) or number(use.operation.rhs) != LANES:
            rewriter.refuse("XT3637", "gpu.thread_id counts lanes, and this kernel is a program of one subgroup",
                         f"divide it by {LANES}, or ask for gpu.subgroup_id")
    rewriter.set(operation.result, rewriter.constant(0))


def _threads(rewriter: Import) -> int:
    """Threads of a work-group; an error where the kernel does not say how many."""
    if rewriter.threads is None:
        rewriter.refuse("XT3638", "nothing says how many threads a work-group has",
                        "give the gpu.func known_block_size = array<i32: 512, 1, 1>")
    return rewriter.threads


def _block_dim(rewriter: Import, operation: gpu.BlockDimOp) -> None:
    threads = _threads(rewriter)
    rewriter.set(operation.result, rewriter.constant(threads if operation.dimension.data.value == "x" else 1))


def _num_subgroups(rewriter: Import, operation: gpu.NumSubgroupsOp) -> None:
    rewriter.set(operation.result, rewriter.constant(_threads(rewriter) // LANES))


def constant(rewriter: Import, operation: arith.ConstantOp) -> None:
    """A splat as a broadcast; elements that differ stay, for :mod:`xegpu.passes.normalize`."""
    dense = operation.value
    elements = list(dense.get_attrs()) if isinstance(dense, DenseIntOrFPElementsAttr) else []
    if len(set(elements)) != 1:
        rewriter.copy(operation)
        return
    rewriter.fill(rewriter.emit(arith.ConstantOp(elements[0])), operation.result)  # type: ignore[arg-type]


def _pointer(rewriter: Import, operation: Operation) -> None:
    """Drop an array's address; :func:`matrix_at` finds the array at the descriptor."""
    rewriter.set(operation.results[0], rewriter.constant(0))


def _lane(rewriter: Import, operation: Operation) -> None:
    rewriter.refuse("XT3637", f"{operation.name} differs between lanes, and this kernel is a program of one subgroup",
                 "write the kernel at subgroup level")


RULES: dict[type[Operation], Rule] = {
    arith.ConstantOp: constant,
    memref.ExtractAlignedPointerAsIndexOp: _pointer,
    arith.DivUIOp: _of_indices(_divide),
    arith.DivSIOp: _of_indices(_divide),
    arith.RemUIOp: _of_indices(_remainder),
    arith.RemSIOp: _of_indices(_remainder),
    CompileHintOp: lambda rewriter, operation: None,  # the passes schedule what they make themselves
    gpu.ThreadIdOp: _thread_id,
    gpu.BlockDimOp: _block_dim,
    gpu.NumSubgroupsOp: _num_subgroups,
    gpu.LaneIdOp: _lane,
    gpu.GlobalIdOp: _lane,
    gpu.SubgroupSizeOp: lambda rewriter, operation: rewriter.set(operation.result, rewriter.constant(LANES)),
}
"""Rules of other dialects' operations."""
