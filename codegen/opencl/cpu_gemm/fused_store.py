"""GEMM loop fused with the store of C, in OpenCL C: one call accumulates a tile over all of K and stores it.

    #ifdef XETILE_MICROKERNELS
      const int rows = ..., columns = ..., depth = ...;
      const bool legal = (all of it lies inside, and C shares no memory with A and B);
      if (legal) {
        if (lane == 0) product_call(&C[row * pitch + column], pitch, &A[row * pitch], pitch, &B[column], pitch, K, ...);
      } else if (C has elements of the tile) {
        (the product in a scratch buffer, and bounds-checked stores)
      }
    #else
      {
        for (int k = 0; k < K; k += 512) { ... }
        store(C, row, column, c0); ...
      }
    #endif

Every compiler but that for CPUs gets the loop (``xegpu.load_mad_store``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from xdsl.ir import Operation

from codegen.opencl.cpu_gemm import define, function_name, guard
from codegen.opencl.cpu_gemm.macrokernel import FENCE
from codegen.opencl.cpu_gemm.scratch_product import ScratchProduct
from codegen.opencl.cpu_gemm.variables import Variables
from codegen.opencl.emitter import NO_UNROLL, Emitter, Rule, atom, wrapping
from codegen.opencl.values import Coordinate, Descriptor
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.fused_store import FusedStoreCheckOp, LoadMadStoreOp
from xegpu.target.gemm_microkernel import LANES, MicrokernelShape

_PAST = 1 << 22
"""Numbers of C, 16 MB of them, from which on it goes past the caches: half of a CPU's last one, or more."""
_IS_LAST = "(get_sub_group_id() + 1 == get_num_sub_groups())"
_DISJOINT = """static bool xetile_disjoint(ulong first, ulong end, ulong other, ulong other_end)
{
  return end <= other || other_end <= first;
}
"""


def _load_mad_store(emitter: Emitter, operation: LoadMadStoreOp) -> None:
    """Emit the micro-kernel call, its fallback, and for other compilers the loop with its stores."""
    m, n, _ = operation.sizes
    shape = MicrokernelShape(m, n, desc_of(operation.a).dtype, desc_of(operation.b).dtype)
    define(emitter, shape)
    emitter.lines.append(f"#ifdef {guard(shape)}")
    _call(emitter, operation, shape)
    emitter.lines.append("#else")
    emitter.line("{")
    emitter.depth += 1
    emitter.has_microkernels = False
    for inner in operation.body.block.ops:
        emitter.emit(inner)
    emitter.has_microkernels = True
    emitter.depth -= 1
    emitter.line("}")
    emitter.lines.append("#endif")


@dataclass(frozen=True)
class _Operand:
    """Operand of the call: the block of an array that it reads or writes.

    Attributes:
        name: of a pointer to its first element.
        desc: the array.
        row, column: where it begins.
        rows, columns: how large it is, as expressions.
    """

    name: str
    desc: Descriptor
    row: Coordinate
    column: Coordinate
    rows: str
    columns: str

    def declaration(self) -> str:
        """Declaration of the pointer to the block."""
        array = self.desc.array
        return f"global {array.dtype.opencl} *{self.name} = {array.name} + {atom(str(self.row))} * " \
               f"(long){self.desc.pitch} + {self.column};"

    def is_inside(self) -> str:
        """C condition: in bounds, with a nonnegative pitch."""
        return " && ".join([*self.starts(), f"{wrapping(self.row)} <= {self.desc.height} - {self.rows}",
                            f"{wrapping(self.column)} <= {self.desc.width} - {self.columns}",
                            f"{self.desc.pitch} >= 0"])

    def starts(self) -> list[str]:
        """C conditions: it begins at no negative row or column."""
        return [f"{wrapping(at)} >= 0" for at in (self.row, self.column) if at.terms or at.offset < 0]

    def bounds(self) -> str:
        """Address range: first byte, and one past the last."""
        return (f"(ulong){self.name}, "
                f"(ulong)({self.name} + ({self.rows} - 1) * (long){self.desc.pitch} + {self.columns})")


def _fused_store_check(emitter: Emitter, operation: FusedStoreCheckOp) -> None:
    """Emit the extents, pointers to the blocks, and the legality of the call."""
    emitter.function(_DISJOINT)
    m, n, _ = operation.sizes
    a, b, c = (emitter.values[desc] for desc in (operation.a, operation.b, operation.c))
    k, end = emitter.coordinate(operation.first), emitter.coordinate(operation.end)
    shape = MicrokernelShape(m, n, desc_of(operation.a).dtype, desc_of(operation.b).dtype)
    emitter.lines.append(f"#ifdef {guard(shape)}")
    rows = emitter.define(operation.rows, "int", f"min({c.height} - max({wrapping(c.row)}, 0), {m})")
    columns = emitter.define(operation.columns, "int", f"min({c.width} - max({wrapping(c.column)}, 0), {n})")
    depth = emitter.define(operation.depth, "int", f"min({_whole_steps(operation, k, end)}, "
                                                   f"{a.width} - max({wrapping(a.column.plus(k))}, 0))")
    blocks = [_Operand(emitter.name("c_first"), c, c.row, c.column, rows, columns),
              _Operand(emitter.name("a_first"), a, a.row, a.column.plus(k), rows, depth),
              _Operand(emitter.name("b_first"), b, b.row.plus(k), b.column, depth, columns)]
    for block in blocks:
        emitter.line(block.declaration())
    emitter.define(operation.legal, "bool", ("\n" + "  " * (emitter.depth + 2) + "&& ").join(_conditions(*blocks)))
    emitter.lines.append("#endif")
    emitter.fused_store_operands[operation.legal] = tuple(blocks)


def _conditions(c: _Operand, a: _Operand, b: _Operand) -> list[str]:
    """Terms of the legality: in bounds, rows of C do not overlap, C aliases neither A nor B."""
    return [f"{c.rows} > 0 && {c.columns} > 0 && {a.columns} > 0", a.is_inside(), b.is_inside(),
            *c.starts(), f"{c.desc.pitch} >= {c.columns}",
            *(f"xetile_disjoint({c.bounds()}, {block.bounds()})" for block in (a, b))]


def _call(emitter: Emitter, operation: LoadMadStoreOp, shape: MicrokernelShape) -> None:
    """Emit the micro-kernel call where it is legal."""
    c, a, b = blocks = emitter.fused_store_operands[operation.legal]
    legal, lane, line = emitter.values[operation.legal], emitter.name("lane"), emitter.line
    line(f"const int {lane} = get_sub_group_local_id();")
    is_large = f"(long){c.desc.height} * {c.desc.width} > {_PAST}"
    ends = operation.ends_kernel is not None
    if ends:  # the last subgroup waits for what the others stored, though nothing of its own is inside
        line(f"if (!{legal} && {lane} == 0 && {is_large} && {_IS_LAST}) {FENCE}();")
    operands = [part for block in blocks for part in (block.name, block.desc.pitch)]
    past = f"{is_large} ? 1 + {_IS_LAST} : 0" if ends else "0"
    arguments = [*operands, a.columns, c.rows, c.columns, f"{b.desc.height} - ({b.row})", "0", past]
    line(f"if ({legal}) {{")
    line(f"  if ({lane} == 0) {function_name(shape)}_call({', '.join(arguments)});")
    line(f"}} else if ({c.rows} > 0 && {c.columns} > 0) {{")  # else there is nothing to store
    for text in _fallback(emitter, operation, shape):
        line(f"  {text}")
    line("}")


def _fallback(emitter: Emitter, operation: LoadMadStoreOp, shape: MicrokernelShape) -> Iterator[str]:
    """The product in a scratch buffer, along all of K, and checked stores from there."""
    c, a, b = (block.desc for block in emitter.fused_store_operands[operation.legal])
    check, names = operation.legal.owner, Variables.of(emitter)
    assert isinstance(check, FusedStoreCheckOp)
    k, end = emitter.coordinate(check.first), emitter.coordinate(check.end)
    product = ScratchProduct(shape, replace(a, column=a.column.plus(k)), replace(b, row=b.row.plus(k)), names)
    column, lane, i, v = wrapping(product.a.column), names.lane, names.i, names.v
    yield f"const int {lane} = get_sub_group_local_id();"
    yield f"const int {names.first} = max(0, -{atom(column)}), " \
          f"{names.end} = min({_whole_steps(operation, k, end)}, {a.width} - {atom(column)});"
    yield from product.declared()
    yield NO_UNROLL
    yield f"for (int {i} = 0; {i} < {shape.rows * product.across}; ++{i}) {product.element(i)} = 0;"
    yield from product.lines()
    yield "sub_group_barrier(CLK_GLOBAL_MEM_FENCE);  // all is read before C is written, which may lie over A or B"
    yield NO_UNROLL
    yield f"for (int {i} = 0; {i} < {shape.rows}; ++{i})"
    yield f"  for (int {v} = 0; {v} < {product.across}; ++{v}) {{"
    yield f"    const int {names.columns} = {c.column} + {v} * {LANES} + {lane};"
    yield f"    if ((uint){atom(wrapping(c.row))} + {i} < (uint){c.height} && (uint){names.columns} < (uint){c.width})"
    yield f"      {c.array.name}[({c.row} + {i}) * (long){c.pitch} + {names.columns}] = {product.in_row(v)};"
    yield "  }"


def _whole_steps(operation: FusedStoreCheckOp | LoadMadStoreOp, first: Coordinate, end: Coordinate) -> str:
    """C expression of the loop's K: a multiple of its step."""
    step = operation.sizes[2]
    return f"({end} - ({first}) + {step - 1}) / {step} * {step}"


RULES: dict[type[Operation], Rule] = {FusedStoreCheckOp: _fused_store_check, LoadMadStoreOp: _load_mad_store}
