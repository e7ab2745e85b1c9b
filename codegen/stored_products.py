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

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import FloatAttr
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import Pure

from codegen.emitter import Emitter, atom
from codegen.fragments import Descriptor
from codegen.product_text import LANES
from codegen.whole_products import WHOLE, Shape, define
from xegpu.constants import number
from xegpu.dialect.block_io import StoreNdOp
from xegpu.dialect.descriptors import CreateNdTdescOp, UpdateNdOffsetOp, desc_of
from xegpu.dialect.loaded_products import LoadMadOp
from xegpu.dtypes import f32

_PAST = 1 << 22
"""Numbers of C, 16 MB of them, from which on it goes past the caches: half of a processor's last one, or more."""
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
    return found if found.shape.fits and not found.shape.is_few and _follow(loop, stores) and _is_one_tile(found) else None


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


class _Call:
    """The call, and when it is made."""

    def __init__(self, emitter: Emitter, found: Stored) -> None:
        self.emitter, self.shape = emitter, found.shape
        self.a: Descriptor = emitter.values[found.product.a.owner.desc]  # type: ignore[union-attr]
        self.b: Descriptor = emitter.values[found.product.b.owner.desc]  # type: ignore[union-attr]
        self.c: Descriptor = emitter.values[found.stores[0].desc]
        self.first, self.end = (atom(str(emitter.values[bound])) for bound in (found.loop.lb, found.loop.ub))
        self.step = found.product.sizes[2]

    def write(self, lane: str) -> None:
        """Write it."""
        emitter, a, b, c = self.emitter, self.a, self.b, self.c
        rows, columns, depth = (emitter.name(hint) for hint in ("rows", "columns", "depth"))
        starts = [emitter.name(hint) for hint in ("c_first", "a_first", "b_first")]
        emitter.line(f"const int {rows} = min({c.height} - ({c.row}), {self.shape.rows}), "
                     f"{columns} = min({c.width} - ({c.column}), {self.shape.columns});")
        emitter.line(f"const int {depth} = min(({self.end} - {self.first} + {self.step - 1}) / {self.step} * {self.step}, "
                     f"{a.width} - ({a.column}) - {self.first});")
        for name, place, along in zip(starts, (c, a, b), (("0", "0"), ("0", self.first), (self.first, "0")), strict=True):
            emitter.line(f"global {place.array.dtype.opencl} *{name} = {place.array.name} + "
                         f"({place.row} + {along[0]}) * (long){place.pitch} + {place.column} + {along[1]};")
        conditions = [
            f"{rows} > 0 && {columns} > 0 && {depth} > 0",
            f"{c.row} >= 0 && {c.column} >= 0 && {a.row} >= 0 && {b.column} >= 0",
            f"{a.column} + {self.first} >= 0 && {b.row} + {self.first} >= 0",
            f"{a.row} + {rows} <= {a.height} && {b.column} + {columns} <= {b.width}",
            f"{b.row} + {self.first} + {depth} <= {b.height}",
            f"{c.pitch} >= {columns} && {a.pitch} >= 0 && {b.pitch} >= 0",
            self._apart(starts[0], c, rows, columns, starts[1], a, rows, depth),
            self._apart(starts[0], c, rows, columns, starts[2], b, depth, columns),
        ]
        joined = ("\n" + "  " * emitter.depth + "    && ").join(conditions)
        emitter.line(f"if ({joined}) {{")
        emitter.line(f"  if ({lane} == 0) {self.shape.name}_call({starts[0]}, {c.pitch}, {starts[1]}, {a.pitch}, "
                     f"{starts[2]}, {b.pitch}, {depth}, {rows}, {columns}, {b.height} - ({b.row} + {self.first}), 0, "
                     f"(long){c.height} * {c.width} > {_PAST});")
        emitter.line("} else")

    def _apart(self, c_first: str, c: Descriptor, rows: str, columns: str, first: str, other: Descriptor, height: str,
               width: str) -> str:
        """Whether no byte between the first and the last of an operand is between those of C."""
        end, other_end = (f"(ulong)({start} + ({down} - 1) * (long){place.pitch} + {right})" for start, place, down, right
                          in ((c_first, c, rows, columns), (first, other, height, width)))
        return f"xetile_apart((ulong){c_first}, {end}, (ulong){first}, {other_end})"
