"""GEMM loop fused with the store of C, in OpenCL C: one call accumulates a tile over all of K and stores it.

    #ifdef XETILE_WHOLE
      if (all of it lies inside, and C apart from A and B) {
        if (lane == 0) product_call(&C[row * pitch + column], pitch, &A[row * pitch], pitch, &B[column], pitch, K, ...);
      } else if (C has elements of the tile)
    #endif
      {
        for (int k = 0; k < K; k += 512) { ... }
        store(C, row, column, c0); ...
      }

Where the call is not made, and for every compiler but that for CPUs, the loop does it (``xegpu.load_mad_store``).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation

from codegen.opencl.cpu_gemm import define, function_name
from codegen.opencl.cpu_gemm.macrokernel import FENCE
from codegen.opencl.emitter import Emitter, Rule, atom, wrapping
from codegen.opencl.prelude.macros import WHOLE
from codegen.opencl.values import Coordinate, Descriptor
from xegpu.dialect.block_io import desc_of
from xegpu.dialect.fused_store import LoadMadStoreOp
from xegpu.target.gemm_microkernel import MicrokernelShape

_PAST = 1 << 22
"""Numbers of C, 16 MB of them, from which on it goes past the caches: half of a processor's last one, or more."""
_IS_LAST = "(get_sub_group_id() + 1 == get_num_sub_groups())"
_DISJOINT = """static bool xetile_apart(ulong first, ulong end, ulong other, ulong other_end)
{
  return end <= other || other_end <= first;
}
"""


def _load_mad_store(emitter: Emitter, operation: LoadMadStoreOp) -> None:
    """Emit the micro-kernel call, and as its fallback the loop with its stores."""
    m, n, _ = operation.sizes
    shape = MicrokernelShape(m, n, desc_of(operation.a).dtype, desc_of(operation.b).dtype)
    define(emitter, shape)
    emitter.functions["xetile_apart"] = _DISJOINT
    lane = emitter.name("lane")
    emitter.lines.append(f"#ifdef {WHOLE}")
    emitter.line(f"const int {lane} = get_sub_group_local_id();")
    _Call(emitter, operation, shape).write(lane)
    emitter.lines.append("#endif")
    emitter.line("{")
    emitter.depth += 1
    for inner in operation.body.block.ops:
        emitter.emit(inner)
    emitter.depth -= 1
    emitter.line("}")


@dataclass(frozen=True)
class _Operand:
    """Operand of the call: the block of an array that it reads or writes.

    Attributes:
        name: of a pointer to its first element.
        place: the array.
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


class _Call:
    """Micro-kernel call and its precondition."""

    def __init__(self, emitter: Emitter, operation: LoadMadStoreOp, shape: MicrokernelShape) -> None:
        self.emitter, self.shape = emitter, shape
        self.rows, self.columns, self.depth = (emitter.name(hint) for hint in ("rows", "columns", "depth"))
        self.ends = operation.ends_kernel is not None
        self.step, self.end = operation.sizes[2], emitter.coordinate(operation.end)
        self.k = k = emitter.coordinate(operation.first)
        a, b, c = (emitter.values[desc] for desc in (operation.a, operation.b, operation.c))
        self.c = _Operand(emitter.name("c_first"), c, c.row, c.column, self.rows, self.columns)
        self.a = _Operand(emitter.name("a_first"), a, a.row, a.column.plus(k), self.rows, self.depth)
        self.b = _Operand(emitter.name("b_first"), b, b.row.plus(k), b.column, self.depth, self.columns)

    def write(self, lane: str) -> None:
        """Emit the call."""
        line, c, step = self.emitter.line, self.c, self.step
        line(f"const int {self.rows} = min({c.desc.height} - max({wrapping(c.row)}, 0), {self.shape.rows}), "
             f"{self.columns} = min({c.desc.width} - max({wrapping(c.column)}, 0), {self.shape.columns});")
        line(f"const int {self.depth} = min(({self.end} - ({self.k}) + {step - 1}) / {step} * {step}, "
             f"{self.a.desc.width} - max({wrapping(self.a.column)}, 0));")
        for part in (c, self.a, self.b):
            line(part.declaration())
        called = self.emitter.name("called")
        line(f"const bool {called} = {self._conditions()};")
        if self.ends:  # the last subgroup waits for what the others stored, though nothing of its own is inside
            line(f"if (!{called} && {lane} == 0 && {self._is_large()} && {_IS_LAST}) {FENCE}();")
        line(f"if ({called}) {{")
        line(f"  if ({lane} == 0) {function_name(self.shape)}_call({self._arguments()});")
        line(f"}} else if ({self.rows} > 0 && {self.columns} > 0)")  # else there is nothing to store

    def _conditions(self) -> str:
        """C condition of the direct-to-C path: in bounds, rows of C do not overlap, C aliases neither A nor B."""
        found = [f"{self.rows} > 0 && {self.columns} > 0 && {self.depth} > 0",
                 *(part.is_inside() for part in (self.a, self.b)),
                 *self.c.starts(),
                 f"{self.c.desc.pitch} >= {self.columns}",
                 *(f"xetile_apart({self.c.bounds()}, {part.bounds()})" for part in (self.a, self.b))]
        return ("\n" + "  " * (self.emitter.depth + 2) + "&& ").join(found)

    def _is_large(self) -> str:
        """Whether C is stored with non-temporal stores."""
        return f"(long){self.c.desc.height} * {self.c.desc.width} > {_PAST}"

    def _arguments(self) -> str:
        b = self.b
        operands = [part for of in (self.c, self.a, b) for part in (of.name, of.desc.pitch)]
        past = f"{self._is_large()} ? 1 + {_IS_LAST} : 0" if self.ends else "0"
        return ", ".join([*operands, self.depth, self.rows, self.columns, f"{b.desc.height} - ({b.row})", "0", past])


RULES: dict[type[Operation], Rule] = {LoadMadStoreOp: _load_mad_store}
