"""XeGPU to OpenCL C: one small rule an operation.

The text uses the official Intel extension builtins only, and it is the same for every device: what a device lacks, a
prelude supplies (:mod:`codegen.prelude`). Fragments are named vector variables in straight-line code, since arrays of
accumulators may end up in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import arith, func, gpu, memref, scf, ub
from xdsl.dialects import vector as xvector
from xdsl.dialects.builtin import ArrayAttr, MemRefType, UnrealizedConversionCastOp, VectorType
from xdsl.ir import Attribute, Operation, SSAValue

from codegen import (
    addresses,
    block_vectors,
    branches,
    cache_hints,
    comparisons,
    diagnostics,
    elementwise,
    hints,
    lanes,
    loaded_products,
    loops,
    padding,
    positions,
    products,
    rows,
    scalars,
    scattered,
    shared_memory,
    shuffles,
    synchronisation,
    truth,
)
from codegen.batches import matrix
from codegen.emitter import CALL, FETCH, FILL, Emitter, Rule, atom
from codegen.fragments import Array, Descriptor, vector_type, width_of
from codegen.pressure import live_bytes
from xegpu import barriers, register_mode
from xegpu.dialect import ops
from xegpu.dialect.attributes import TensorDesc
from xegpu.dialect.vectors import ExtractStridedSliceOp, InsertStridedSliceOp, ShapeCastOp, values_of
from xegpu.dtypes import of_mlir
from xegpu.errors import BUG, TargetError
from xegpu.memrefs import is_address, static_form
from xegpu.rewriting import number
from xegpu.targets import Target

GRID_DIMENSION = {"x": 2, "y": 1, "z": 0}
"""Grid axis to OpenCL dimension: the last axis of a grid runs fastest."""
Names = tuple[str, ...]
LARGE = "-cl-intel-256-GRF-per-thread"
_SMALL_BUDGET = 0.7


@dataclass(frozen=True)
class Source:
    """OpenCL C with what its launch needs.

    Attributes:
        name: the kernel's name in the text.
        text: the whole program.
        options: build options on the device that it was made for.
        subgroups: subgroups of a work-group.
        lanes: work-items of a subgroup.
        arguments: for each argument of the kernel its dimensions, None for a number: an array passes its pointer,
            then its sizes, then its strides, as 32-bit integers.
        apart: whether subgroups wait for each other in places where not all of a work-group come by.
        assertions: the kernel's own, which it reports in a buffer that it gets behind its arguments.
        prints: whether the kernel prints.
    """

    name: str
    text: str
    options: str
    subgroups: int
    lanes: int
    arguments: tuple[int | None, ...]
    apart: bool = False
    assertions: tuple[diagnostics.Assertion, ...] = ()
    prints: bool = False

    @property
    def is_watched(self) -> bool:
        """Whether a launch waits for the kernel, for what it says of itself."""
        return self.prints or bool(self.assertions)

    @property
    def local_size(self) -> int:
        """Work-items of a work-group."""
        return self.subgroups * self.lanes


def emit(function: func.FuncOp, target: Target) -> Source:
    """A fully lowered kernel as OpenCL C.

    Args:
        function: the last stage of the pipeline.
        target: the device that build options are chosen for.

    Raises:
        TargetError: the work-group has more subgroups than the target allows in the register mode that it needs.
    """
    subgroup = function.attributes["xegpu.subgroup_size"].value.data  # type: ignore[attr-defined]
    counts = function.attributes.get("xegpu.subgroups")
    sizes = [size.value.data for size in counts] if isinstance(counts, ArrayAttr) else [1]
    subgroups = sizes[0] * (sizes[1] if len(sizes) > 1 else 1)
    emitter = Emitter(RULES, target, subgroup)
    emitter.split_barriers = barriers.of_all(function, subgroups, target)
    emitter.handed_barriers = barriers.handed(function)
    name = emitter.name(function.sym_name.data)
    reported = diagnostics.parameter(emitter, function)
    parameters = [*_parameters(emitter, function), *reported]
    for operation in function.body.block.ops:
        if not isinstance(operation, func.ReturnOp):
            emitter.emit(operation)
    head = f"__attribute__((intel_reqd_sub_group_size({subgroup})))\n" \
           f"__attribute__((reqd_work_group_size({subgroups * subgroup}, 1, 1)))\n" \
           f"kernel void {name}({', '.join(parameters)})\n{{\n"
    body = "\n".join(emitter.lines) + "\n}\n"
    functions = "".join(f"{text}\n" for text in emitter.functions.values())
    before = _pragmas(functions + head + body) + [synchronisation.MACROS] * emitter.needs_named_barriers
    text = "".join([*before, functions, head, body])
    ranks = tuple(len(a.type.get_shape()) if isinstance(a.type, MemRefType) else None
                  for a in function.body.block.args)
    return Source(name, text, _options(function, target, subgroup, subgroups), subgroups, subgroup, ranks,
                  bool(barriers.apart(function)), emitter.assertions, diagnostics.prints(function))


def _pragmas(text: str) -> list[str]:
    lines = ["#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n"] if "half" in text else []
    defined = [name for word, name in ((CALL, CALL), (FILL, FILL), (FETCH, f"{FETCH}(pointer)")) if word in text]
    lines += [f"#ifndef {name.partition('(')[0]}\n#define {name}\n#endif\n" for name in defined]
    return [*lines, "\n"] if defined else lines


def _parameters(emitter: Emitter, function: func.FuncOp) -> list[str]:
    parameters = []
    for argument in function.body.block.args:
        type_, name = argument.type, emitter.name(argument.name_hint or "arg")
        if not isinstance(type_, MemRefType):
            emitter.values[argument] = name
            parameters.append(f"{of_mlir(type_).opencl} {name}")
            continue
        rank, dtype = len(type_.get_shape()), of_mlir(type_.element_type)
        sizes = tuple(emitter.name(f"{name}_size{axis}") for axis in range(rank))
        strides = tuple(emitter.name(f"{name}_stride{axis}") for axis in range(rank))
        emitter.values[argument] = Array(name, dtype, *_known(type_, sizes, strides))
        parameters += [f"global {dtype.opencl} *{name}", *(f"int {size}" for size in (*sizes, *strides))]
    return parameters


def _known(type_: MemRefType, sizes: Names, strides: Names) -> tuple[Names, Names]:
    """Sizes and strides of an argument: the numbers that its type says, else its parameters."""
    static = static_form(type_)
    return (sizes, strides) if static is None else (tuple(map(str, static[0])), tuple(map(str, static[1])))


def _options(function: func.FuncOp, target: Target, subgroup: int, subgroups: int) -> str:
    small, large = target.registers
    if not large:
        return ""
    said = register_mode.said(function)
    needed = registers_needed(function) * subgroup / target.register_bytes
    if said == small or (said is None and needed <= small * _SMALL_BUDGET):
        return ""
    if subgroups > target.subgroups[1]:
        raise TargetError("XT4050",
            f"{subgroups} subgroups a work-group, {'for which' if said else 'each of which needs'} "
            f"{f'{said} registers a thread are asked' if said else f'about {needed:.0f} registers'}: with more than "
            f"{small} registers a thread, {target.name} has at most {target.subgroups[1]} subgroups",
            f"lower sg_layout (or subgroups=) to {target.subgroups[1]} subgroups, or " +
            (f"ask for registers={small}" if said else "make the subgroup's tile smaller"))
    return LARGE


def registers_needed(function: func.FuncOp) -> int:
    """About the bytes of fragments that a lane keeps alive at once; of a loop all that it carries and loads counts."""
    totals = [live_bytes(function)]
    for operation in function.walk():
        if isinstance(operation, scf.ForOp):
            loaded = [op.results[0] for op in branches.inside(operation.body.block) if isinstance(op, ops.LoadNdOp)]
            totals.append(sum(_bytes(value.type) for value in (*operation.iter_args, *loaded)))
    return max(totals)


def _bytes(type_: Attribute) -> int:
    if not isinstance(type_, VectorType):
        return 0
    count = of_mlir(type_.element_type).bytes
    for size in type_.get_shape():
        count *= size
    return count


def _constant(emitter: Emitter, operation: arith.ConstantOp) -> None:
    dtype = of_mlir(operation.result.type)
    number = operation.value.value.data  # type: ignore[union-attr]
    emitter.values[operation.result] = elementwise.literal(number, dtype)


def _index(symbol: str) -> Rule:
    def rule(emitter: Emitter, operation: Any) -> None:
        if isinstance(operation.results[0].type, VectorType):
            elementwise.binary(emitter, operation)
            return
        left, right = (atom(emitter.values[operand]) for operand in operation.operands)
        dtype = of_mlir(operation.results[0].type)
        emitter.define(operation.results[0], dtype.opencl, f"{left} {symbol} {right}")

    return rule


def _floor_divide(emitter: Emitter, operation: arith.FloorDivSIOp) -> None:
    if isinstance(operation.result.type, VectorType) or of_mlir(operation.result.type).opencl != "int":
        elementwise.binary(emitter, operation)
        return
    size = number(operation.rhs) or 0
    left, right = (atom(emitter.values[operand]) for operand in operation.operands)
    if size > 0 and size & (size - 1) == 0:
        emitter.define(operation.result, "int", f"{left} >> {size.bit_length() - 1}")
        return
    emitter.function("static int floor_divide(int a, int b)\n{\n  const int q = a / b;\n"
                     "  return q - ((a % b != 0) & ((a < 0) != (b < 0)));\n}\n")
    emitter.define(operation.result, "int", f"floor_divide({left}, {right})")


def _position(function: str) -> Rule:
    def rule(emitter: Emitter, operation: Any) -> None:
        dimension = GRID_DIMENSION[operation.dimension.data.value]
        emitter.define(operation.result, "int", f"{function}({dimension})")

    return rule


def _subgroup(emitter: Emitter, operation: gpu.SubgroupIdOp) -> None:
    number = "get_sub_group_id()"
    if emitter.target.loads_operands:  # what follows from it is then known to be the same for all lanes
        number = f"sub_group_broadcast((int){number}, 0)"
    emitter.define(operation.result, "int", number)


def _metadata(emitter: Emitter, operation: memref.ExtractStridedMetaDataOp) -> None:
    array: Array = emitter.values[operation.source]
    emitter.values[operation.base_buffer], emitter.values[operation.offset] = array, "0"
    for value, name in zip((*operation.sizes, *operation.strides), (*array.sizes, *array.strides), strict=True):
        emitter.values[value] = name


def _cast(emitter: Emitter, operation: UnrealizedConversionCastOp) -> None:
    (source,), (result,) = operation.operands, operation.results
    value = emitter.values[source]
    if isinstance(value, Array):
        dtype = of_mlir(result.type.element_type)  # type: ignore[attr-defined]
        value = Array(f"(({value.space} {dtype.opencl} *){value.name})", dtype, value.sizes, value.strides,
                      value.space)
    elif not isinstance(result.type, VectorType):  # a constant of an unsigned type, written as a signed number
        value = f"(({of_mlir(result.type).opencl}){atom(value)})"
    emitter.values[result] = value


def _recast(emitter: Emitter, operation: memref.CastOp) -> None:
    emitter.values[operation.dest] = emitter.values[operation.source]


def _create(emitter: Emitter, operation: ops.CreateNdTdescOp) -> None:
    array: Array = emitter.values[operation.source]
    if is_address(operation.source.type):
        dtype = ops.desc_of(operation.result).dtype
        array = Array(f"((global {dtype.opencl} *)(ulong){atom(emitter.values[operation.source])})", dtype, (), ())
    if operation.shape:
        sizes, strides = (tuple(emitter.values[value] for value in group)
                          for group in (operation.shape, operation.strides))
        array = replace(array, sizes=sizes, strides=strides)
    height, width, pitch, step = (atom(value) for value in (*array.sizes[-2:], *array.strides[-2:]))
    row, column = (emitter.coordinate(offset) for offset in operation.offsets[-2:])
    array, row = matrix(emitter, operation, array, row)
    step = "1" if ops.desc_of(operation.result).block.access == "rows" else step
    emitter.values[operation.result] = Descriptor(array, height, width, pitch, step, row, column)


def _update(emitter: Emitter, operation: ops.UpdateNdOffsetOp) -> None:
    row, column = (emitter.coordinate(offset) for offset in operation.offsets)
    emitter.values[operation.result] = emitter.values[operation.desc].moved(row, column)


def block_builtin(kind: str, desc: TensorDesc) -> str:
    """The name of a 2D block builtin."""
    rows, columns = desc.shape
    return f"intel_sub_group_2d_block_{kind}_{desc.dtype.bits}b_{rows}r{columns}x{desc.block.array_length}c"


def _block_arguments(emitter: Emitter, operand: SSAValue, together: int = 1) -> str:
    """What all block builtins take first; columns count in units of ``together`` elements."""
    desc: Descriptor = emitter.values[operand]
    size = ops.desc_of(operand).dtype.bytes
    scale = f" * {size}" if size > 1 else ""
    x, y = addresses.place_of(emitter, desc)
    column = str(x) if together == 1 else f"({x}) / {together}"
    return (f"{desc.array.name}, {desc.width}{scale}, {desc.height}, {desc.pitch}{scale}, "
            f"(int2)({column}, {y})")


def _load(emitter: Emitter, operation: ops.LoadNdOp) -> None:
    desc = ops.desc_of(operation.desc)
    if desc.block.memory_scope == "slm":
        shared_memory.load(emitter, operation)
        return
    if desc.block.access != "block":
        lanes.load(emitter, operation)
        return
    apart = rows.are_apart(operation)
    fragment = rows.words_of(emitter, operation) if apart else truth.in_memory(emitter.fresh(operation.result))
    array = emitter.name(operation.result.name_hint)
    count = len(fragment.names)
    emitter.line(f"{fragment.c_type} {array}[{count}];")
    if operation.transposes:  # of 32-bit words: a lane gets a row of them
        name = f"intel_sub_group_2d_block_read_transpose_32b_{desc.shape[0]}r8x1c"
        arguments, pointer = _block_arguments(emitter, operation.desc, 32 // desc.dtype.bits), "uint"
    else:
        kind = "read_transform" if operation.packed is not None else "read"
        name, pointer = block_builtin(kind, desc), _pointer_type(kind, desc)
        arguments = _block_arguments(emitter, operation.desc)
    cache = cache_hints.number(emitter, operation)
    cache_hints.block_call(emitter, name, arguments, f"(private {pointer} *){array}", cache)
    if apart:
        rows.take_apart(emitter, operation.result, f"{array}[0]")
        return
    emitter.values[operation.result] = fragment.renamed(tuple(f"{array}[{i}]" for i in range(count)))
    truth.from_memory(emitter, operation.result)


def _pointer_type(kind: str, desc: TensorDesc) -> str:
    if kind == "read_transform" or desc.dtype.bits == 32:
        return "uint"
    return "uchar" if desc.dtype.bits == 8 and desc.shape[1] == 16 else "ushort"


def _store(emitter: Emitter, operation: ops.StoreNdOp) -> None:
    desc = ops.desc_of(operation.desc)
    if desc.block.memory_scope == "slm":
        shared_memory.store(emitter, operation)
        return
    if desc.block.access != "block":
        lanes.store(emitter, operation)
        return
    fragment = truth.to_memory(emitter, emitter.fragment(operation.value))
    array = emitter.name("stored")
    values = ", ".join(fragment.names)
    emitter.line(f"{fragment.c_type} {array}[{len(fragment.names)}] = {{ {values} }};")
    pointer = _pointer_type("write", desc)
    arguments = _block_arguments(emitter, operation.desc)
    cache = cache_hints.number(emitter, operation)
    cache_hints.block_call(emitter, block_builtin("write", desc), arguments, f"(private {pointer} *){array}", cache)


def _prefetch(emitter: Emitter, operation: ops.PrefetchNdOp) -> None:
    desc = ops.desc_of(operation.desc)
    cache = cache_hints.number(emitter, operation) or addresses.CACHED
    if addresses.prefetch(emitter, emitter.values[operation.desc], desc, cache):
        return
    cache_hints.block_call(emitter, block_builtin("prefetch", desc), _block_arguments(emitter, operation.desc), "",
                           0 if cache == addresses.CACHED else cache)


def _extract(emitter: Emitter, operation: xvector.ExtractOp) -> None:
    fragment = emitter.fragment(operation.vector)
    (position,) = operation.static_position.get_values()
    units = fragment.units // operation.vector.type.get_shape()[0]  # type: ignore[attr-defined]
    emitter.values[operation.result] = fragment.slice(position * units, units)


def _slice(emitter: Emitter, operation: ExtractStridedSliceOp) -> None:
    fragment = emitter.fragment(operation.source)
    emitter.values[operation.result] = fragment.slice(values_of(operation.offsets)[0], values_of(operation.sizes)[0])


def _insert(emitter: Emitter, operation: InsertStridedSliceOp) -> None:
    source, dest = emitter.fragment(operation.source), emitter.fragment(operation.dest)
    start = values_of(operation.offsets)[0]
    words = dest.words()
    words[start:start + source.units] = source.words()
    uses = list(operation.result.uses)
    if uses and all(isinstance(use.operation, InsertStridedSliceOp) and use.index == 1 for use in uses):
        emitter.values[operation.result] = dest.renamed(tuple(words))  # put together where the last part comes
        return
    width = width_of(dest.units)
    result = emitter.fresh(operation.result)
    groups = [words[i:i + width] for i in range(0, dest.units, width)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" for group in groups])


def _poison(emitter: Emitter, operation: ub.PoisonOp) -> None:
    fragment = emitter.fresh(operation.result)
    emitter.values[operation.result] = fragment.renamed((f"(({fragment.c_type})(0))",) * len(fragment.names))


def _spread(emitter: Emitter, operation: xvector.BroadcastOp) -> None:
    fragment = emitter.fresh(operation.vector)
    expression = f"({fragment.c_type})({elementwise.stored(emitter.values[operation.source], fragment.dtype)})"
    emitter.assign(operation.vector, fragment, [expression] * len(fragment.names))


def _bitcast(emitter: Emitter, operation: ops.BitcastOp) -> None:
    source, result = emitter.fragment(operation.source), emitter.fresh(operation.result)
    each = result.width * result.dtype.bits // source.dtype.bits
    parts = [source.slice(start, each).names[0] for start in range(0, source.units, each)]
    emitter.assign(operation.result, result, [f"as_{result.c_type}({part})" for part in parts])


def _pack(emitter: Emitter, operation: ops.PackOp) -> None:
    """The elements of a column next to each other: a lane's own registers, read as wider words."""
    source, result = emitter.fragment(operation.source), emitter.fresh(operation.result)
    bits = source.dtype.bits * source.width
    if bits < 32:
        raise TargetError("XT9400", f"a fragment of {source.units} {source.dtype} does not pack into 32-bit words", BUG)
    pieces = [f"as_{vector_type('uint', bits // 32)}({name})" for name in source.names]
    each = len(pieces) // len(result.names)
    groups = [pieces[i:i + each] for i in range(0, len(pieces), each)]
    emitter.assign(operation.result, result, [f"({result.c_type})({', '.join(group)})" for group in groups])


RULES: dict[type[Operation], Rule] = {
    **block_vectors.RULES, **comparisons.RULES, **branches.RULES, **shared_memory.RULES, **synchronisation.RULES,
    **hints.RULES, **diagnostics.RULES, **positions.RULES, **scattered.RULES, **scalars.RULES,
    **elementwise.RULES, **loops.RULES, **padding.RULES, **products.RULES,
    **loaded_products.RULES, **shuffles.RULES, **rows.RULES,
    arith.ConstantOp: _constant,
    arith.AddiOp: _index("+"), arith.SubiOp: _index("-"), arith.MuliOp: _index("*"),
    arith.AndIOp: _index("&"), arith.OrIOp: _index("|"), arith.XOrIOp: _index("^"),
    arith.ShLIOp: _index("<<"), arith.ShRSIOp: _index(">>"),
    arith.FloorDivSIOp: _floor_divide,
    gpu.BlockIdOp: _position("get_group_id"),
    gpu.GridDimOp: _position("get_num_groups"),
    gpu.SubgroupIdOp: _subgroup,
    memref.ExtractStridedMetaDataOp: _metadata,
    UnrealizedConversionCastOp: _cast,
    memref.CastOp: _recast,
    ops.CreateNdTdescOp: _create,
    ops.UpdateNdOffsetOp: _update,
    ops.LoadNdOp: _load,
    ops.StoreNdOp: _store,
    ops.PrefetchNdOp: _prefetch,
    ops.PackOp: _pack,
    ops.BitcastOp: _bitcast,
    xvector.BroadcastOp: _spread,
    xvector.ExtractOp: _extract,
    ExtractStridedSliceOp: _slice,
    InsertStridedSliceOp: _insert,
    ShapeCastOp: lambda emitter, op: emitter.values.update({op.result: emitter.values[op.source]}),
    ub.PoisonOp: _poison,
}
