"""Emitter state of one OpenCL C function: names, values, lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import count
from os.path import basename
from typing import Any

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IntegerAttr, VectorType
from xdsl.ir import Block, Operation, SSAValue

from codegen.opencl.prelude.macros import LIKELY, NO_VISA
from codegen.opencl.reserved_names import KEYWORDS, RULES, is_reserved
from codegen.opencl.source import Declaration, Prototype, predefined_in, split_prototypes
from codegen.opencl.values import Coordinate, Descriptor, Fragment, empty, vector_type, width_of
from xegpu.analysis.register_pressure import fragment_bytes, live_bytes
from xegpu.dialect.block_io import LoadNdOp, StoreNdOp, desc_of
from xegpu.ir.dtypes import i1, of_mlir
from xegpu.ir.matchers import DISABLE_LICM, number
from xegpu.ir.traversal import operations
from xegpu.layout.lane_map import LaneMap
from xegpu.support.errors import BUG, XeError
from xegpu.support.location import Location, author_location
from xegpu.target.grf_mode import requested_registers
from xegpu.target.targets import Target

Rule = Callable[["Emitter", Any], None]
COLUMNS_OF_ROW = "const uint columns = (uint)y < (uint)height ? (uint)width : 0;"
"""Declaration of how many columns row ``y`` has: one number, where a condition of each lane would mask the row, too."""
NO_UNROLL = "__attribute__((opencl_unroll_hint(1)))"
"""Attribute of a loop that is not unrolled: unrolled loops take most of the compile time."""
MOST_INLINED = 256
"""Words of a CPU's lanes that a kernel accesses without calls: Intel's compiler takes 2.5 ms for each."""
_MOST_BY_ROWS = 64
"""The same of blocks of several rows, with masks at edges: a product's 128 take a third of its compiler's time."""

_SHORT_FUNCTIONS = frozenset({"absf", "fma", "exp", "exp2", "ceil", "floor", "rint", "round", "trunc", "ctpop", "absi"})
"""Functions of the dialect ``math`` of which a vector takes few registers; others, and quotients, take many."""
_CROWDED = 0.5
"""Fraction of the registers in fragments above which accesses of single elements go in loops: addresses of eight words
at a time spilled 0.2 to 1 KB on dg2."""

_KEPT = f"""static uint xetile_kept_in_lanes(uint number)
{{
#ifdef {NO_VISA}
  return number;
#else
  uint kept;
  __asm__("mov (M1_NM, 16) %0(0,0)<1> %1(0,0)<1;1,0>" : "=rw"(kept) : "rw"(number));
  return kept;
#endif
}}
"""
"""Function of a number that the compiler cannot see through, for subgroups of 16 lanes."""


class Emitter:
    """Emitter of one function; rules read values and append lines."""

    def __init__(self, rules: Mapping[type[Operation], Rule], target: Target, subgroup: int,
                 taken: Collection[str] = ()) -> None:
        self.rules, self.target, self.subgroup = rules, target, subgroup
        self.values: dict[SSAValue, Any] = {}
        self.split: dict[SSAValue, tuple[str, ...]] = {}
        self.lines: list[str] = []
        self.lane_constants: dict[tuple[str, str], str] = {}
        self.declarations: dict[str, Sequence[Declaration]] = {}
        self.predefined: set[str] = set()
        self.fused_store_operands: dict[SSAValue, tuple[Any, ...]] = {}
        self.has_microkernels = True
        self.shared: dict[tuple[Any, ...], str] = {}
        self.carried_pointers: dict[Operation, Any] = {}
        self.slm_addresses: dict[tuple[SSAValue, type[Operation]], dict[int, str]] = {}
        self.slm_halves: dict[Operation, list[Any]] = {}
        self.payload_groups: dict[Operation, Any] = {}
        self.slm_flips: dict[Operation, dict[int, str]] = {}
        self.split_barriers: set[SSAValue] = set()
        self.needs_named_barriers = False
        self.producer_consumer_barriers: Mapping[SSAValue, tuple[int, int]] = {}
        self.assertions: tuple[Any, ...] = ()
        self.inlined_words = self.branches = 0
        self.kernel: func.FuncOp | None = None
        self.in_bounds: dict[Operation, str] = {}
        self.known_values: set[SSAValue] | None = None
        self.pending_stores: list[Any] = []
        self.lane_barriers: Collection[Operation] = ()
        self.depth = 1
        self._author_line = self._printed_line = ""
        self._names: set[str] = {*KEYWORDS, *RULES, *taken}
        self._claimed: set[str] = set()
        self._tried: dict[str, int] = {}  # numbers below these are taken

    @cached_property
    def is_crowded(self) -> bool:
        """Whether fragments or long functions take most registers of a GPU without block IO: few are for addresses."""
        if self.kernel is None or self.target.is_cpu or self.target.block_io:
            return False
        if any(operation.name == "arith.divf" or operation.name.removeprefix("math.") not in _SHORT_FUNCTIONS
               for operation in operations(self.kernel) if operation.name.startswith(("arith.divf", "math."))):
            return True
        registers = requested_registers(self.kernel) or min(self.target.registers)
        return fragment_bytes(self.kernel) * self.subgroup > _CROWDED * registers * self.target.register_bytes

    @cached_property
    def live_registers(self) -> float:
        """Registers that the fragments of a GPU's kernel take at once, in the order in which it is written."""
        assert self.kernel is not None
        return live_bytes(self.kernel) * self.subgroup / self.target.register_bytes

    def line(self, text: str) -> None:
        """Append a line, preceded by a comment with the author's line if that changed."""
        if self._author_line != self._printed_line:
            self.lines.append("  " * self.depth + f"// {self._author_line}")
            self._printed_line = self._author_line
        self.lines.append("  " * self.depth + text)

    def name(self, hint: str | None) -> str:
        """Unique name of a variable or function based on ``hint``, with a numeric suffix if in use or reserved.

        A name of a reserved family (``intel_sub_group_...``) and one that begins with a digit get ``v_`` in front.
        Letters that are not of ASCII, which ocloc does not take in the name of a kernel, become underscores.
        """
        stem = re.sub(r"[^A-Za-z0-9_]", "_", hint or "v").strip("_") or "v"
        if stem[0].isdigit() or is_reserved(f"{stem}1"):
            stem = f"v_{stem}"
        joint = "_" if stem[-1].isdigit() else ""
        number = self._tried.get(stem, 0)
        while self._is_in_use(candidate := f"{stem}{joint}{number}" if number else stem):
            number += 1
        self._tried[stem] = number
        self._names.add(candidate)
        return candidate

    def _is_in_use(self, name: str) -> bool:
        return name in self._names or name in self._claimed or is_reserved(name)

    def names(self, hint: str | None, derived: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
        """Unique names of the variables of one value.

        Args:
            hint: as in :meth:`name`.
            derived: the variables' names from their stem; the stem alone stays as it is.
        """
        while True:  # an author may have called another value what a variable of this one would be called
            stem = self.name(hint)
            names = derived(stem)
            if names == (stem,) or not any(map(self._is_in_use, names)):
                self._claimed.update(names)
                return names

    def define(self, value: SSAValue, c_type: str, expression: str) -> str:
        """Declare a variable for a scalar."""
        name = self.name(value.name_hint)
        self.line(f"const {c_type} {name} = {expression};")
        self.values[value] = name
        return name

    def common(self, block: Block | None, hint: str, c_type: str, expression: str) -> str:
        """A variable for a subexpression, which several operations of a block share."""
        key = block, c_type, expression
        if key not in self.shared:
            self.shared[key] = self.name(hint)
            self.line(f"const {c_type} {self.shared[key]} = {expression};")
        return self.shared[key]

    def lane_constant(self, hint: str, expression: str) -> str:
        """A variable in front of all statements for a ``uint`` that depends on nothing but the lane.

        It is a copy by virtual assembly, where there is any: Intel's compiler computes such numbers anew in every step
        of a loop, to save a register.
        """
        if (hint, expression) not in self.lane_constants:
            self.function(_KEPT)
            self.lane_constants[hint, expression] = self.name(hint)
        return self.lane_constants[hint, expression]

    def constant_lines(self) -> list[str]:
        """The statements that come first: of :meth:`lane_constant`."""
        return [f"  const uint {name} = xetile_kept_in_lanes({expression});"
                for (_, expression), name in self.lane_constants.items()]

    def assign(self, value: SSAValue, fragment: Fragment, expressions: Sequence[str]) -> None:
        """Declare the variables of a fragment."""
        for name, expression in zip(fragment.names, expressions, strict=True):
            self.line(f"{fragment.c_type} {name} = {expression};")
        self.values[value] = fragment

    def assign_words(self, value: SSAValue, words: Sequence[str]) -> None:
        """Declare a vector value by its words: on a CPU a variable for each (:meth:`by_words`)."""
        if self.target.is_cpu:
            fragment = self.fresh(value, scalars=len(words) > 1)
            self.assign(value, fragment, words)
            self.set_words(value, fragment)
            return
        fragment = self.fresh(value)
        groups = [words[i:i + fragment.width] for i in range(0, len(words), fragment.width)]
        self.assign(value, fragment, [f"({fragment.c_type})({', '.join(group)})" for group in groups])

    def fresh(self, value: SSAValue, *, scalars: bool = False) -> Fragment:
        """Fragment with fresh names for a vector value; with ``scalars`` of a variable for each word."""
        type_ = value.type
        assert isinstance(type_, VectorType)
        *array, units, per_lane = shape if len(shape := type_.get_shape()) > 1 else (*shape, 1)
        blocks = array[0] if array else 1

        def of(stem: str) -> Fragment:
            fragment = empty(of_mlir(type_.element_type), units * blocks, per_lane, stem, blocks)
            if not scalars or fragment.width == 1:
                return fragment
            return fragment.renamed(tuple(f"{name}_{i:x}" for name in fragment.names for i in range(fragment.width)))

        return of("").renamed(self.names(value.name_hint, lambda stem: of(stem).names))

    def fragment(self, value: SSAValue) -> Fragment:
        """Fragment of a vector value."""
        fragment = self.values[value]
        assert isinstance(fragment, Fragment)
        return fragment

    def by_words(self, value: SSAValue) -> Fragment:
        """Fragment of a vector value; on a CPU of a variable for each word.

        A CPU's compiler makes a vector register of what all lanes have in one scalar variable. What is in vectors
        already becomes a row of each lane, and is transposed at every shuffle, scalar and builtin.
        """
        fragment = self.fragment(value)
        return fragment.renamed(self.words(value)) if self.target.is_cpu else fragment

    def rename(self, value: SSAValue, source: SSAValue, start: int = 0, units: int | None = None) -> None:
        """Let a vector value be ``units`` words of another one, from ``start`` on, by default all."""
        whole = self.fragment(source)
        units = whole.units if units is None else units
        if source in self.split:
            words = self.split[source][start:start + units]
            self.set_words(value, Fragment(whole.dtype, units, whole.per_lane, words))
        else:
            self.values[value] = whole if units == whole.units else whole.slice(start, units)

    def words(self, value: SSAValue) -> tuple[str, ...]:
        """Expressions of the words of a vector value: its scalar variables, if it is scalarized."""
        return self.split[value] if value in self.split else tuple(self.fragment(value).words())

    def set_words(self, value: SSAValue, fragment: Fragment) -> None:
        """Record a vector value as scalarized; other rules see vectors built from its variables."""
        width, words = width_of(fragment.units), fragment.names
        groups = [words[i:i + width] for i in range(0, len(words), width)]
        self.split[value] = words
        self.values[value] = fragment if width == 1 else fragment.renamed(
            tuple(f"(({vector_type(fragment.word, width)})({', '.join(group)}))" for group in groups))

    def coordinate(self, value: SSAValue) -> Coordinate:
        """Coordinate of an index value; added constants are folded into its constant part."""
        owner = value.owner
        if isinstance(owner, arith.AddiOp) and any(number(side) is not None for side in owner.operands):
            return self.coordinate(owner.lhs).plus(self.coordinate(owner.rhs))
        if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
            return Coordinate((), owner.value.value.data)
        return Coordinate((self.values[value],))

    def function(self, text: str, name: str = "") -> None:
        """Define a helper function, once: by its name, or by the text up to its parameters."""
        self.declarations[name or text.partition("(")[0]] = (f"{text}\n",)

    def function_named(self, name: str, rest: str) -> str:
        """Define a helper procedure, once: its text behind the name; numbered where another one has the name."""
        for others in count():
            unique = f"{name}_{others}" if others else name
            text = (f"static void {unique}{rest}\n",)
            if self.declarations.setdefault(unique, text) == text:
                return unique
        raise AssertionError  # count() is endless

    def external(self, name: str, prototype: str) -> None:
        """Declare an overload of a function that the device's compiler knows, once."""
        self.declarations[prototype] = (Prototype(name, f"{prototype}\n"),)

    def author_text(self, text: str, declarations: str = "") -> None:
        """Take in OpenCL C that an author wrote: the builtins that it calls, and file-scope declarations, once."""
        self.predefined |= predefined_in(text)
        if declarations:
            self.declarations[text] = split_prototypes(declarations)

    def builtin(self, name: str) -> str:
        """Name of a builtin or feature macro of the compiler, which is recorded as used."""
        self.predefined.add(name)
        return name

    @property
    def identifiers(self) -> frozenset[str]:
        """Names of variables so far, and those that no variable may have."""
        return frozenset(self._names | self._claimed)

    def emit(self, operation: Operation) -> None:
        """Emit one operation by its rule."""
        rule = self.rules.get(type(operation))
        if rule is None:
            raise XeError("XT9401", f"{operation.name} cannot be emitted as OpenCL C", BUG)
        location = author_location(operation)
        self._author_line = line_mark(location) or self._author_line
        if operation in self.lane_barriers:
            self.line("sub_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")
        try:
            rule(self, operation)
        except XeError as error:
            raise error.at(location) from None


@lru_cache(maxsize=4096)
def line_mark(location: Location | None) -> str:
    """Comment with the author's file and line; without the folder, since the text is a cache key."""
    positions = [] if location is None else Location(location.chain[:1], location.fixed).positions
    return f"{basename(positions[0].file)}:{positions[0].line}" if positions else ""


def atom(expression: str) -> str:
    """Primary expression: a name unchanged, anything else in parentheses."""
    return expression if re.fullmatch(r"[\w.]+", expression) else f"({expression})"


def wrapping(at: Coordinate) -> str:
    """Coordinate as C that wraps around in 32 bits, for bounds checks: signed overflow is undefined in C."""
    if len(at.terms) + (at.offset != 0) <= 1:
        return str(at)
    first, *others = (f"(uint){atom(term)}" for term in at.terms)
    return f"(int)({Coordinate((first, *others), at.offset)})"


def likely_in_bounds(emitter: Emitter, operation: LoadNdOp | StoreNdOp) -> str:
    """Condition, on a CPU, that the block of a load or store is entirely in bounds, which it mostly is."""
    if operation not in emitter.in_bounds:
        desc, type_ = emitter.values[operation.desc], desc_of(operation.desc)
        emitter.in_bounds[operation] = bounds_check(emitter, desc, type_.shape[0],
                                                    type_.shape[1] * type_.block.array_length)
    return f"{LIKELY}({emitter.in_bounds[operation]})"


def is_by_rows(emitter: Emitter, value: SSAValue, lanes: LaneMap) -> bool:
    """Whether the rows of a block on a CPU are accessed one by one, in bounds and masked, without calls."""
    type_ = value.type
    assert isinstance(type_, VectorType)
    words, dtype = type_.element_count(), of_mlir(type_.element_type)
    return emitter.target.is_cpu and lanes.wi_layout == (1, emitter.subgroup) and lanes.per_lane == 1 and words > 1 \
        and dtype is not i1 and emitter.inlined_words + words <= _MOST_BY_ROWS


def masks_row(emitter: Emitter, fragment: Fragment, lanes: LaneMap) -> bool:
    """Whether an access of one row on a CPU is masked where it is not in bounds; others are called.

    It is counted among those that are not called, if so.
    """
    is_row = lanes.wi_layout == (1, emitter.subgroup) and fragment.width == 1 and fragment.per_lane == 1
    words = len(fragment.names)
    if not emitter.target.is_cpu or not is_row or emitter.inlined_words + words > MOST_INLINED:
        return False
    emitter.inlined_words += words
    return True


def bounds_check(emitter: Emitter, desc: Descriptor, rows: int, columns: int) -> str:
    """Name of a new variable that says whether ``rows`` x ``columns`` elements at a descriptor are all in bounds.

    It is one number without short circuits, which the vectorizer would make masks of; and where the compiler knows the
    other way as the rarer one, it saves registers around calls there alone.
    """
    name = emitter.name("inside")
    emitter.line(f"const int {name} = {bounds_condition(desc, (0, 0), rows, columns)};")
    return name


def bounds_condition(desc: Descriptor, at: tuple[int, int], rows: int, columns: int) -> str:
    """C condition that ``rows`` x ``columns`` elements, ``at`` a row and a column of a descriptor, are in bounds."""
    y, x = (atom(wrapping(first.plus(Coordinate((), offset))))
            for first, offset in zip((desc.row, desc.column), at, strict=True))
    return f"({y} >= 0) & ({x} >= 0) & ({y} <= {desc.height} - {rows}) & ({x} <= {desc.width} - {columns})"


def zero_in_step(emitter: Emitter, operation: Operation) -> Coordinate:
    """Zero where an operation is in no loop that is marked so; else a variable of which Intel's compiler does not know
    that it is zero in all steps.

    The compiler would make addresses of all blocks, and compare all their columns, in front of the loop, and spill
    them.
    """
    around = operation.parent_op()
    while around is not None and DISABLE_LICM not in around.attributes:
        around = around.parent_op()
    if around is None or emitter.target.is_cpu:
        return Coordinate()
    move = f'"mov (M1_NM, {emitter.subgroup}) %0(0,0)<1> %1(0,0)<0;1,0>"'
    emitter.function(f"static int xetile_zero_in_step(void)\n{{\n  int zero = 0;\n  #ifndef {NO_VISA}\n"
                     f'  __asm__ volatile({move} : "=rw"(zero) : "rw.u"(zero));\n'
                     "  zero = sub_group_broadcast(zero, 0);\n  #endif\n  return zero;\n}\n")
    name = emitter.name("zero")  # of its own for each descriptor, whose addresses have nothing in common then
    emitter.line(f"const int {name} = xetile_zero_in_step();")
    return Coordinate((name,))
