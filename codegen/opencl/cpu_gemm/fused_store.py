"""Loops of products whose sums are only stored: one call makes them, along all of K, and stores them into C itself.

    #ifdef XETILE_WHOLE
      if (all of it lies inside, and C apart from A and B) {
        if (lane == 0) product_call(&C[row * pitch + column], pitch, &A[row * pitch], pitch, &B[column], pitch, K, ...);
      } else
    #endif
      {
        for (int k = 0; k < K; k += 512) { ... }
        store(C, row, column, c0); ...
      }

The sums start from zero in registers, and leave them for C. By the loop they would go through memory three times more:
to the function and back, and from there into C, one lane's numbers at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from codegen.opencl.cpu_gemm import WHOLE, Shape, define
from codegen.opencl.cpu_gemm.macrokernel import FENCE
from codegen.opencl.cpu_gemm.microkernel import LANES
from codegen.opencl.emitter import Emitter, atom
from codegen.opencl.values import Coordinate, Descriptor
from xegpu.dialect.block_io import CreateNdTdescOp, StoreNdOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.dpas import LoadMadOp
from xegpu.ir.dtypes import f32
from xegpu.ir.matchers import number

_PAST = 1 << 22
"""Numbers of C, 16 MB of them, from which on it goes past the caches: half of a processor's last one, or more."""
_IS_LAST = "(get_sub_group_id() + 1 == get_num_sub_groups())"
_APART = """static bool xetile_apart(ulong first, ulong end, ulong other, ulong other_end)
{
  return end <= other || other_end <= first;
}
"""


@dataclass(frozen=True)
class Stored:
    """A loop with one product, and where its sums go.

    Attributes:
        loop, product: the two.
        stores: what stores the results of the loop, in their order.
    """

    loop: scf.ForOp
    product: LoadMadOp
    stores: tuple[StoreNdOp, ...]

    @property
    def shape(self) -> Shape:
        """What the function depends on."""
        m, n, _ = self.product.sizes
        return Shape(m, n, desc_of(self.product.a).dtype, desc_of(self.product.b).dtype)


def stored(loop: scf.ForOp, lanes: int) -> Stored | None:
    """The product of a loop that does nothing else, from zero, and whose sums are stored, once, all in one place."""
    body = list(loop.body.block.ops)
    products = [operation for operation in body if isinstance(operation, LoadMadOp)]
    if len(products) != 1 or lanes != LANES or not _is_plain(loop, products[0], body):
        return None
    stores = tuple(use.operation for result in loop.results for use in result.uses
                   if isinstance(use.operation, StoreNdOp))
    if len(stores) != len(loop.results) or any(result.uses.get_length() != 1 for result in loop.results):
        return None
    found = Stored(loop, products[0], stores)
    fits = found.shape.fits and not found.shape.is_few
    return found if fits and _follow(loop, stores) and _is_one_tile(found) else None


def _is_plain(loop: scf.ForOp, product: LoadMadOp, body: list[Operation]) -> bool:
    """Whether a loop adds a product to sums that were zero, in steps as long as the product, along contiguous rows."""
    if any(not isinstance(operation, (LoadMadOp, UpdateNdOffsetOp, scf.YieldOp)) for operation in body):
        return False
    arguments, counter = loop.body.block.args[1:], loop.body.block.args[0]
    if list(product.acc) != list(arguments) or list(body[-1].operands) != list(product.results):
        return False
    if number(loop.step) != product.sizes[2] or not all(_is_zero(value) for value in loop.iter_args):
        return False
    return _moves(product.a, (0, counter)) and _moves(product.b, (counter, 0))


def _is_zero(value: SSAValue) -> bool:
    made = value.owner
    if not isinstance(made, BroadcastOp) or not isinstance(made.source.owner, arith.ConstantOp):
        return False
    constant = made.source.owner.value
    return isinstance(constant, FloatAttr) and constant.value.data == 0


def _moves(desc: SSAValue, along: tuple[SSAValue | int, SSAValue | int]) -> bool:
    """Whether a descriptor of contiguous rows is one from outside the loop, moved by its counter."""
    if desc_of(desc).block.access != "rows" or not isinstance(desc.owner, UpdateNdOffsetOp):
        return False
    return isinstance(desc.owner.desc.owner, CreateNdTdescOp) and all(
        offset is step if isinstance(step, SSAValue) else number(offset) == step
        for offset, step in zip(desc.owner.offsets, along, strict=True))


def _follow(loop: scf.ForOp, stores: tuple[StoreNdOp, ...]) -> bool:
    """Whether stores come behind the loop with nothing between them that reads or writes memory."""
    left, following = set(stores), loop.next_op
    while left and following is not None and (following in left or following.has_trait(Pure)):
        left.discard(following)  # type: ignore[arg-type]
        following = following.next_op
    return not left


def _ends(found: Stored) -> bool:
    """Whether all else that a kernel does is done when its sums are stored: nothing of it can wait for these stores."""
    block, after = found.loop.parent, found.loop.next_op
    while after is not None and (after in found.stores or after.has_trait(Pure)):
        after = after.next_op
    return isinstance(after, func.ReturnOp) and isinstance(block.parent_op(), func.FuncOp)  # type: ignore[union-attr]


def _is_one_tile(found: Stored) -> bool:
    """Whether the blocks of sums lie in C as they do in the product, from one descriptor on."""
    first, (rows, columns) = found.stores[0].desc, found.product.block
    across = found.product.sizes[1] // columns
    return desc_of(first).dtype is f32 and desc_of(first).block.access == "rows" and all(
        _place(store.desc, first) == (position // across * rows, position % across * columns)
        for position, store in enumerate(found.stores))


def _place(desc: SSAValue, first: SSAValue) -> tuple[int | None, ...] | None:
    """How far a descriptor was moved from the first one."""
    if desc is first:
        return 0, 0
    moved = desc.owner
    return tuple(number(offset) for offset in moved.offsets) \
        if isinstance(moved, UpdateNdOffsetOp) and moved.desc is first else None


def emit(emitter: Emitter, found: Stored, loop: Callable[[], None]) -> None:
    """Write the call, and beside it the loop and what stores its sums.

    Args:
        emitter: the function's text.
        found: what to write.
        loop: writes the loop.
    """
    for operation in _needed(found):
        emitter.emit_ahead(operation)
    define(emitter, found.shape)
    emitter.functions["xetile_apart"] = _APART
    lane = emitter.name("lane")
    emitter.lines.append(f"#ifdef {WHOLE}")
    emitter.line(f"const int {lane} = get_sub_group_local_id();")
    _Call(emitter, found).write(lane)
    emitter.lines.append("#endif")
    emitter.line("{")
    emitter.depth += 1
    loop()
    for store in found.stores:
        emitter.emit_ahead(store)
    emitter.depth -= 1
    emitter.line("}")


def _needed(found: Stored) -> list[Operation]:
    """What stands behind the loop and says where the sums are stored, in its order."""
    needed: set[Operation] = set()
    wanted = [store.desc for store in found.stores]
    while wanted:
        owner = wanted.pop().owner
        if isinstance(owner, Operation) and owner.parent is found.loop.parent and owner not in needed \
                and found.loop.is_before_in_block(owner):
            needed.add(owner)
            wanted += owner.operands
    return [operation for operation in found.loop.parent.ops if operation in needed]  # type: ignore[union-attr]


@dataclass(frozen=True)
class _Part:
    """A part of an array that the call reads or writes.

    Attributes:
        name: of a pointer to its first element.
        place: the array.
        row, column: where it begins.
        rows, columns: how large it is, as expressions.
    """

    name: str
    place: Descriptor
    row: Coordinate
    column: Coordinate
    rows: str
    columns: str

    def declaration(self) -> str:
        """Declares the pointer."""
        array = self.place.array
        return f"global {array.dtype.opencl} *{self.name} = {array.name} + {atom(str(self.row))} * " \
               f"(long){self.place.pitch} + {self.column};"

    def is_inside(self) -> str:
        """Whether it lies inside its array, whose rows do not go backwards."""
        starts = [f"{at} >= 0" for at in (self.row, self.column) if at.base or at.offset < 0]
        return " && ".join([*starts, f"{self.row} + {self.rows} <= {self.place.height}",
                            f"{self.column} + {self.columns} <= {self.place.width}", f"{self.place.pitch} >= 0"])

    def bounds(self) -> str:
        """The addresses of its first byte and of that behind its last one."""
        return (f"(ulong){self.name}, "
                f"(ulong)({self.name} + ({self.rows} - 1) * (long){self.place.pitch} + {self.columns})")


class _Call:
    """The call, and when it is made."""

    def __init__(self, emitter: Emitter, found: Stored) -> None:
        self.emitter, self.shape = emitter, found.shape
        self.rows, self.columns, self.depth = (emitter.name(hint) for hint in ("rows", "columns", "depth"))
        self.ends = _ends(found)
        self.step, self.end = found.product.sizes[2], emitter.coordinate(found.loop.ub)
        self.k = k = emitter.coordinate(found.loop.lb)
        c: Descriptor = emitter.values[found.stores[0].desc]
        a, b = (emitter.values[moved.owner.desc]  # type: ignore[union-attr]
                for moved in (found.product.a, found.product.b))
        self.c = _Part(emitter.name("c_first"), c, c.row, c.column, self.rows, self.columns)
        self.a = _Part(emitter.name("a_first"), a, a.row, a.column.plus(k), self.rows, self.depth)
        self.b = _Part(emitter.name("b_first"), b, b.row.plus(k), b.column, self.depth, self.columns)

    def write(self, lane: str) -> None:
        """Write it."""
        line, c, step = self.emitter.line, self.c, self.step
        line(f"const int {self.rows} = min({c.place.height} - ({c.row}), {self.shape.rows}), "
             f"{self.columns} = min({c.place.width} - ({c.column}), {self.shape.columns});")
        line(f"const int {self.depth} = min(({self.end} - ({self.k}) + {step - 1}) / {step} * {step}, "
             f"{self.a.place.width} - ({self.a.column}));")
        for part in (c, self.a, self.b):
            line(part.declaration())
        called = self.emitter.name("called")
        line(f"const bool {called} = {self._conditions()};")
        if self.ends:  # the last subgroup waits for what the others stored, though nothing of its own is inside
            line(f"if (!{called} && {lane} == 0 && {self._is_large()} && {_IS_LAST}) {FENCE}();")
        line(f"if ({called}) {{")
        line(f"  if ({lane} == 0) {self.shape.name}_call({self._arguments()});")
        line("} else")

    def _conditions(self) -> str:
        """When all of it can be done so."""
        found = [f"{self.rows} > 0 && {self.columns} > 0 && {self.depth} > 0",
                 *(part.is_inside() for part in (self.a, self.b)),
                 *(f"{at} >= 0" for at in (self.c.row, self.c.column) if at.base or at.offset < 0),
                 f"{self.c.place.pitch} >= {self.columns}",
                 *(f"xetile_apart({self.c.bounds()}, {part.bounds()})" for part in (self.a, self.b))]
        return ("\n" + "  " * (self.emitter.depth + 2) + "&& ").join(found)

    def _is_large(self) -> str:
        """Whether C is stored past the caches."""
        return f"(long){self.c.place.height} * {self.c.place.width} > {_PAST}"

    def _arguments(self) -> str:
        b = self.b
        operands = [part for of in (self.c, self.a, b) for part in (of.name, of.place.pitch)]
        past = f"{self._is_large()} ? 1 + {_IS_LAST} : 0" if self.ends else "0"
        return ", ".join([*operands, self.depth, self.rows, self.columns, f"{b.place.height} - ({b.row})", "0", past])
