"""What reading LLVM's XeGPU shares, whichever form it is converted to: arrays, offsets, positions, fences.

    %d = xegpu.create_nd_tdesc %A : memref<1024x1024xf16> -> !xegpu.tensor_desc<8x16xf16>
    %v = xegpu.load_nd %d[%i, %j]
A descriptor becomes a note of its array, kept until an offset is known; where one is moved or carried by a loop, as up
to LLVM 22, its two offsets are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.dialects import arith, gpu, memref
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseIntOrFPElementsAttr,
    MemRefType,
    StridedLayoutAttr,
    VectorType,
)
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from xegpu.dialect.sync import NAMED
from xegpu.dialect.sync import FenceOp as OurFenceOp
from xegpu.interop.llvm import ops
from xegpu.interop.llvm.descriptors import CreateNdTdescOp, UpdateNdOffsetOp
from xegpu.interop.llvm.export_vector import is_neutral
from xegpu.interop.llvm.types import Desc, desc_of
from xegpu.interop.llvm.vector import FenceOp, InsertStridedSliceOp, MultiReductionOp
from xegpu.ir.combining_kind import combined
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.matchers import number
from xegpu.ir.memref import exchanged, static_form
from xegpu.mlir.vector import InsertStridedSliceOp as OurInsertOp
from xegpu.mlir.vector import values_of
from xegpu.rewrite.rewriter import Rebuilder, Rule
from xegpu.support.errors import TextError

# Addresses that a kernel computes of its arrays: one of the array itself, or of one of its matrices.
#
#     %p = memref.extract_aligned_pointer_as_index %A : memref<?x?x?xbf16, ...> -> index
#     %q = arith.addi %p, (%b * %stride) * 2
#     %a = arith.index_cast %q : index to i64
# is matrix %b of %A. That is how kernels for LLVM's lowering reach batches, since its descriptors have two dimensions.


_CAST = "arith.index_cast"


@dataclass(frozen=True)
class Place:
    """A matrix of an array.

    Attributes:
        array: the memref.
        lead: for each dimension before the last two, its index; None for the first.
    """

    array: SSAValue
    lead: tuple[SSAValue | None, ...]


def place_of(address: SSAValue) -> Place | None:
    """The matrix that an address is that of, None for any other address."""
    steps: list[SSAValue] = []
    while isinstance(owner := address.owner, Operation) and owner.name in (_CAST, arith.AddiOp.name):
        steps += owner.operands[1:]
        address = owner.operands[0]
    if not isinstance(owner, memref.ExtractAlignedPointerAsIndexOp):
        return None
    array, type_ = owner.source, owner.source.type
    assert isinstance(type_, MemRefType)
    lead: list[SSAValue | None] = [None] * (len(type_.get_shape()) - 2)
    for step in steps:
        found = _index(step, array, of_mlir(type_.element_type).bytes)
        if found is None or found[0] >= len(lead):
            return None
        lead[found[0]] = found[1]
    return Place(array, tuple(lead))


def _index(step: SSAValue, array: SSAValue, element_bytes: int) -> tuple[int, SSAValue] | None:
    """The dimension and the index whose distance in bytes ``step`` is."""
    elements = step
    if isinstance(step.owner, arith.MuliOp) and number(step.owner.rhs) == element_bytes:
        elements = step.owner.lhs
    elif element_bytes != 1:
        return None
    if not isinstance(elements.owner, arith.MuliOp):
        return None
    stride = elements.owner.rhs
    metadata = stride.owner
    if not isinstance(metadata, memref.ExtractStridedMetaDataOp) or metadata.source is not array:
        return None
    return next(axis for axis, own in enumerate(metadata.strides) if own is stride), elements.owner.lhs


LANES = 16
"""Lanes of a subgroup on every device that LLVM's lowering knows; threads of a launch count lanes."""


@dataclass(frozen=True)
class Described:
    """The form of a descriptor.

    Attributes:
        source: the memref or address.
        sizes, strides: of the array; empty where the memref's type tells them.
        desc: the descriptor's parameters.
    """

    source: SSAValue
    sizes: tuple[SSAValue, ...]
    strides: tuple[SSAValue, ...]
    desc: Desc

    def __str__(self) -> str:
        return f"a tensor_desc of {'x'.join(map(str, self.desc.shape))} on one array"


class Import(Rebuilder):
    """The conversion of one kernel.

    Args:
        rules: operation to rule, beside those here.
        threads: threads of a work-group, None if nothing says it.
    """

    def __init__(self, rules: Mapping[type[Operation], Rule], threads: int | None) -> None:
        super().__init__({**RULES, **rules})
        self.threads = threads

    def refuse(self, code: str, message: str, hint: str) -> NoReturn:
        """Raise an error at the text's line: this cannot be read."""
        raise TextError(code, message, hint, self.where())

    def fill(self, scalar: SSAValue, old: SSAValue) -> None:
        """Make a vector of one number of an old one that was that."""
        self.set(old, self.emit(BroadcastOp(scalar, old.type)))  # type: ignore[arg-type]

    def check_reduction(self, operation: MultiReductionOp) -> None:
        """Raise unless a reduction is one of those that are read."""
        if len(operation.axes) != 1 or len(operation.source.type.get_shape()) != 2:  # type: ignore[attr-defined]
            self.refuse("XT3631", "only one of two dimensions is reduced", "reduce along [0] or [1]")

    def onto(self, operation: MultiReductionOp, reduced: SSAValue) -> SSAValue:
        """A reduction with its accumulator, which has both dimensions here, too; a neutral one is left out."""
        if is_neutral(operation):
            return reduced
        acc = self.one(operation.acc)
        if acc.type != reduced.type:
            self.refuse("XT3632", f"the accumulator is {acc.type} of a block, and what is left {reduced.type}",
                        "start from the neutral element, or from another reduction")
        return self.emit(combined(operation.kind.data, reduced, acc))

    def mixed(self, values: Sequence[SSAValue | int]) -> list[SSAValue]:
        """Indices, literal ones as constants."""
        return [self.constant(value) if isinstance(value, int) else self.one(value) for value in values]

    def spelled_out(self, form: Described) -> tuple[SSAValue, Sequence[SSAValue], Sequence[SSAValue]]:
        """Source, sizes and strides as operands; a static memref's numbers as constants."""
        type_, static = form.source.type, static_form(form.source.type)
        if form.sizes or static is None or not isinstance(type_, MemRefType):
            return form.source, form.sizes, form.strides
        rank = len(type_.get_shape())
        dynamic = MemRefType(type_.element_type, [DYNAMIC_INDEX] * rank, StridedLayoutAttr([None] * rank))
        cast = self.shared(("cast", form.source), lambda: self.emit(memref.CastOp.get(form.source, dynamic)))
        sizes, strides = ([self.constant(value) for value in numbers] for numbers in static)
        return cast, sizes, strides

    def starts(self, operation: ops.MovementOp) -> list[SSAValue]:
        """Where a load, store or prefetch takes place: the descriptor's own offsets and the operation's."""
        mine, given = list(self.get(operation.desc).values), self.mixed(operation.starts)
        if len(given) > len(mine):
            self.refuse("XT3605", f"{len(given)} offsets on an array of {len(mine)} dimensions", "give one a dimension")
        given = [self.constant(0)] * (len(mine) - len(given)) + given
        return [self.add(start, by) for start, by in zip(mine, given, strict=True)]


def _create_nd_tdesc(build: Import, operation: CreateNdTdescOp) -> None:
    desc = desc_of(operation.result)
    if len(desc.shape) != 2:
        build.refuse("XT3633", f"a tensor_desc of {len(desc.shape)} dimensions is not read",
                     "describe blocks of two dimensions: !xegpu.tensor_desc<1x32xf32>")
    if desc.block.memory_space != "global":
        build.refuse("XT3634", "block descriptors of shared local memory are not read", "use memory_space = global")
    source, lead = _source(build, operation.source)
    sizes, strides = build.mixed(operation.sizes), build.mixed(_steps(operation))
    if lead or not sizes:
        sizes, strides = _own_numbers(build, source)
    rank = len(sizes) or len(source.type.get_shape())  # type: ignore[attr-defined]
    starts = lead + (build.mixed(operation.starts) or [build.constant(0)] * (rank - len(lead)))
    build.set(operation.result, tuple(starts), Described(source, tuple(sizes), tuple(strides), desc))


def _steps(operation: CreateNdTdescOp) -> list[SSAValue | int]:
    """Strides, a literal 1 as the array's own where all else is the array's own, too: LLVM wants to see that number.

    Then the descriptor is one of the array itself, which may be reached as the array may.
    """
    sizes, steps = operation.sizes, operation.steps
    owner = next((size.owner for size in sizes if isinstance(size, SSAValue)), None)
    if not isinstance(owner, memref.ExtractStridedMetaDataOp) or len(sizes) < 2 or steps[-1] != 1:
        return steps
    own_sizes, own_steps = list(owner.sizes)[-len(sizes):], list(owner.strides)[-len(steps):]
    for seen in (list, exchanged):
        if seen(own_sizes) == sizes and seen(own_steps)[:-1] == steps[:-1]:
            return [*seen(own_steps)]
    return steps


def _source(build: Import, source: SSAValue) -> tuple[SSAValue, list[SSAValue]]:
    """A memref with the indices of one of its matrices, or an address that is an argument."""
    if isinstance(source.type, MemRefType) or isinstance(source, BlockArgument):
        return build.one(source), []
    place = place_of(source)
    if place is None:
        build.refuse("XT3635", "this address is not that of an array or of one of its matrices",
                     "describe the memref, or its address plus an index times its stride and the bytes of an element")
    return build.one(place.array), [build.constant(0) if at is None else build.one(at) for at in place.lead]


def _own_numbers(build: Import, source: SSAValue) -> tuple[list[SSAValue], list[SSAValue]]:
    """Sizes and strides of an array of dynamic shape; a static one tells them by its type."""
    if static_form(source.type) is not None:
        return [], []
    metadata = memref.ExtractStridedMetaDataOp(source)
    build.emit(metadata)
    return list(metadata.sizes), list(metadata.strides)


def _update_nd_offset(build: Import, operation: UpdateNdOffsetOp) -> None:
    old = build.get(operation.desc)
    steps = build.mixed(operation.starts)
    steps = [build.constant(0)] * (len(old.values) - len(steps)) + steps
    build.set(operation.result, tuple(build.add(start, by) for start, by in zip(old.values, steps, strict=True)),
              old.form)


def _fence(build: Import, operation: FenceOp) -> None:
    memory = {"slm": "shared"}.get(operation.memory_kind.data, operation.memory_kind.data)
    build.emit(OurFenceOp(operation.fence_scope.data, memory))


def _insert_strided_slice(build: Import, operation: InsertStridedSliceOp) -> None:
    offsets = values_of(operation.offsets)
    made = OurInsertOp(build.one(operation.source), build.one(operation.dest), offsets)
    build.set(operation.result, build.emit(made))


def _divide(build: Import, operation: arith.DivUIOp) -> None:
    """A division of indices, which are not negative here; of a thread's number by the lanes: its subgroup."""
    asks = operation.lhs.owner
    if isinstance(asks, gpu.ThreadIdOp) and number(operation.rhs) == LANES:
        if asks.dimension.data.value != "x":
            build.refuse("XT3636", "threads along y and z are not told apart by subgroups", "ask for gpu.subgroup_id")
        build.set(operation.result, build.shared("subgroup", lambda: build.emit(gpu.SubgroupIdOp())))  # type: ignore
        return
    build.set(operation.result, build.index(arith.FloorDivSIOp, build.one(operation.lhs), build.one(operation.rhs)))


def _remainder(build: Import, operation: arith.RemUIOp) -> None:
    left, right = build.one(operation.lhs), build.one(operation.rhs)
    whole = build.index(arith.MuliOp, build.index(arith.FloorDivSIOp, left, right), right)
    build.set(operation.result, build.index(arith.SubiOp, left, whole))


def _of_indices(rule: Rule) -> Rule:
    """The rule for operations on indices alone; those on vectors and other integers are copied."""
    def apply(build: Any, operation: Any) -> None:
        if str(operation.results[0].type) == "index":
            rule(build, operation)
        else:
            build.copy(operation)

    return apply


def _thread_id(build: Import, operation: gpu.ThreadIdOp) -> None:
    """A thread's number counts lanes; only what becomes of it can be read."""
    for use in operation.result.uses:
        if not isinstance(use.operation, (arith.DivUIOp, arith.DivSIOp)) or number(use.operation.rhs) != LANES:
            build.refuse("XT3637", "gpu.thread_id counts lanes, and here each line stands for a whole subgroup",
                         f"divide it by {LANES}, or ask for gpu.subgroup_id")
    build.set(operation.result, build.constant(0))


def _block_dim(build: Import, operation: gpu.BlockDimOp) -> None:
    if build.threads is None:
        build.refuse("XT3638", "nothing says how many threads a work-group has",
                     "give the gpu.func known_block_size = array<i32: 512, 1, 1>")
    build.set(operation.result, build.constant(build.threads if operation.dimension.data.value == "x" else 1))


def _num_subgroups(build: Import, operation: gpu.NumSubgroupsOp) -> None:
    if build.threads is None:
        build.refuse("XT3638", "nothing says how many threads a work-group has",
                     "give the gpu.func known_block_size = array<i32: 512, 1, 1>")
    build.set(operation.result, build.constant(build.threads // LANES))


def _constant(build: Import, operation: arith.ConstantOp) -> None:
    """A vector of one number as a broadcast of it."""
    dense = operation.value
    if not isinstance(operation.result.type, VectorType):
        build.copy(operation)
        return
    elements = list(dense.get_attrs()) if isinstance(dense, DenseIntOrFPElementsAttr) else []
    if len(set(elements)) != 1:
        build.refuse("XT3290", "a vector constant whose elements differ is not read", "load the numbers from an array")
    build.fill(build.emit(arith.ConstantOp(elements[0])), operation.result)  # type: ignore[arg-type]


def _pointer(build: Import, operation: Operation) -> None:
    """An array's address; what describes it finds the array itself."""
    build.set(operation.results[0], build.constant(0))


def _lane(build: Import, operation: Operation) -> None:
    build.refuse("XT3637", f"{operation.name} tells lanes apart, and here each line stands for a whole subgroup",
                 "write the kernel at subgroup level")


RULES: dict[type[Operation], Rule] = {
    CreateNdTdescOp: _create_nd_tdesc,
    UpdateNdOffsetOp: _update_nd_offset,
    FenceOp: _fence,
    **dict.fromkeys(NAMED, lambda build, operation: build.copy(operation)),
    InsertStridedSliceOp: _insert_strided_slice,
    arith.ConstantOp: _constant,
    memref.ExtractAlignedPointerAsIndexOp: _pointer,
    arith.DivUIOp: _of_indices(_divide),
    arith.DivSIOp: _of_indices(_divide),
    arith.RemUIOp: _of_indices(_remainder),
    arith.RemSIOp: _of_indices(_remainder),
    gpu.ThreadIdOp: _thread_id,
    gpu.BlockDimOp: _block_dim,
    gpu.NumSubgroupsOp: _num_subgroups,
    gpu.LaneIdOp: _lane,
    gpu.GlobalIdOp: _lane,
    gpu.SubgroupSizeOp: lambda build, operation: build.set(operation.result, build.constant(LANES)),
}
