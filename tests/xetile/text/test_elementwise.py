"""A sweep of all element-wise operations of text: element types, vectors and scalars, executions, on data that hurt."""

from __future__ import annotations

import functools
import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import math as math_dialect

import xetile as xt
from codegen.opencl.arith import RULES
from codegen.opencl.arith.compare import RULES as COMPARE_RULES
from codegen.opencl.arith.text import TEXT
from tests.kernels import EXECUTIONS, Execution
from tests.references import (
    ANALYSIS,
    BINARY,
    COMPARED,
    CONVERSIONS,
    FLOATS,
    FORMATS,
    PREDICATES,
    SIGNED,
    compare_floats,
    nearest,
    read,
    rounded,
    spacing,
    to_integer,
)
from xegpu.interpreter.semantics import SEMANTICS
from xegpu.ir import dtypes
from xegpu.mlir.arith import Arith, CmpFOp, CmpIOp
from xegpu.mlir.combining_kind import FLOAT_KINDS, INTEGER_KINDS, operation_of
from xegpu.mlir.elementwise import RECORDS
from xegpu.target.targets import find_target

Array = np.ndarray[Any, Any]
INTEGERS, UNSIGNED = ("i8", "i16", "i32", "i64"), ("u8", "u16", "u32", "u64")
FLOATING = ("f16", "bf16", "tf32", "f32", "f64")
SHAPES = {"vectors": 8, "scalars of a tile": 3, "scalar": 0}
"""Rows of the tile, whose words are OpenCL vectors if they are 8; 0 is a scalar that ``load_scalar`` loads."""
COLUMNS, COUNT = 16, 256
MEMORY_ROWS = 16384
"""Rows of every array in memory: enough for all results of one element type, each of which takes up to ``COUNT``."""
SWEPT = [execution for execution in EXECUTIONS if str(execution) != "numpy:xegpu-bmg"]
"""Executions of the sweep: bmg's lanes are pvc's but for its matrix products."""
pytestmark = pytest.mark.unoptimised
REFUSED = {"arith.addui_extended", "arith.mului_extended", "arith.mulsi_extended", "arith.negf", "arith.constant",
           "math.acosh", "math.asinh", "math.atanh", "math.cttz", "math.fpowi", "math.ipowi", "math.round"}
"""Operations of the dialects that have no record: no execution has them (the reader makes a product of ``negf``)."""


def width_of(element: str) -> int:
    """Bits of an element type."""
    return 32 if element == "tf32" else int(element.lstrip("btfiu"))


def mlir(element: str) -> str:
    """Name of an element type in MLIR: ``ui8``."""
    return f"ui{element[1:]}" if element in UNSIGNED else element


def in_type(number: Any, element: str) -> Any:
    """A signed integer as an element of an unsigned type."""
    return number % (1 << width_of(element)) if element in UNSIGNED else number


@functools.cache
def data_of(element: str) -> tuple[list[Any], list[Any], list[Any]]:
    """Three columns of operands: pairs of numbers that hurt first, then random bits."""
    rng, width = np.random.default_rng(17), width_of(element)
    if element in FORMATS:
        digits, largest = FORMATS[element]
        tiny, one = math.ldexp(1.0, 2 - largest - digits), 1.0
        values = [0.0, -0.0, math.inf, -math.inf, math.nan, tiny, -3 * tiny, math.ldexp(1.0, 1 - largest),
                  math.ldexp(2 - math.ldexp(1.0, 1 - digits), largest), 0.5, -2.5, 3.0,
                  one + math.ldexp(1.0, 1 - digits), -one]
        random = [rounded(float(number), element) for number in
                  rng.standard_normal(3 * COUNT) * np.exp2(rng.integers(-12, 12, 3 * COUNT))]
        if element == "tf32":  # is float32 in memory and in arithmetic
            random = [rounded(number, "f32") for number in random]
    else:
        least = -(1 << (width - 1))
        values = [0, 1, -1, 2, -2, 3, 7, least, -1 - least, least + 1, 1 << (width - 2)]
        random = [read(int.from_bytes(rng.bytes(8), "little"), width, "s") for _ in range(3 * COUNT)]
    pairs = [*itertools.product(values, values), *zip(random[:COUNT], random[COUNT:2 * COUNT], strict=True)][:COUNT]
    third = [*(values * COUNT)[:COUNT // 2], *random[2 * COUNT:]][:COUNT]
    return [a for a, _ in pairs], [b for _, b in pairs], third


@functools.lru_cache(maxsize=4)
def sweep(text: str) -> Any:
    """The kernel of a text: one for all executions of a program, whose cases follow each other."""
    return xt.parse(text)["sweep"]


@dataclass
class Program:
    """Many operations in one kernel: each result has rows of its own in the array of its element type."""

    element: str
    rows: int
    lines: list[str] = field(default_factory=list)
    wanted: list[tuple[str, str, Callable[[Any, Any], bool], list[Any]]] = field(default_factory=list)

    def add(self, name: str, lines: Sequence[str], result: str, expected: list[Any],
            accepts: Callable[[Any, Any], bool] | None = None) -> None:
        """Add lines that compute ``%r`` of ``%a``, ``%b`` and ``%c``; ``@f32@`` is a type in the program's shape.

        Truth values go to memory as ``i8``.
        """
        position = len(self.wanted)
        for line in lines:
            while "@" in line:
                before, _, rest = line.partition("@")
                type_, _, after = rest.partition("@")
                type_ = mlir(type_)
                line = before + (f"vector<{self.rows}x{COLUMNS}x{type_}>" if self.rows else type_) + after
            for local in ("%r", "%w", "%x", "%y", "%d", "%e"):
                line = line.replace(local, f"{local}_{position}_")
            self.lines.append(line)
        stored, block, type_ = f"%r_{position}_", max(self.rows, 1), mlir(result)
        if not self.rows:
            self.lines.append(f"%s_{position}_ = vector.broadcast {stored} : {type_} to vector<1x{COLUMNS}x{type_}>")
            stored = f"%s_{position}_"
        start = sum(of == result for _, of, *_ in self.wanted) * self.height
        self.lines += [
            f"%at_{position}_ = arith.constant {start} : index",
            f"%row_{position}_ = arith.addi %row, %at_{position}_ : index",
            f"%t_{position}_ = xetile.init_tile %p_{result}[%row_{position}_, %zero] : {self.memory(result)} -> "
            f"!xetile.tile<{block}x{COLUMNS}x{type_}>",
            f"xetile.store_tile {stored}, %t_{position}_ : vector<{block}x{COLUMNS}x{type_}>, "
            f"!xetile.tile<{block}x{COLUMNS}x{type_}>"]
        self.wanted.append((name, result, accepts or same, expected))

    @property
    def groups(self) -> int:
        """Work-groups; a scalar takes one for each of the first operands."""
        return -(-COUNT // (self.rows * COLUMNS)) if self.rows else COUNT

    @property
    def height(self) -> int:
        """Rows of one result."""
        return self.groups * max(self.rows, 1)

    @staticmethod
    def memory(element: str) -> str:
        """Type of an array in memory."""
        return f"memref<{MEMORY_ROWS}x{COLUMNS}x{mlir(element)}>"

    def text(self, loaded: str) -> str:
        """The kernel; ``loaded`` is the element type of the operands in memory."""
        block, type_ = max(self.rows, 1), mlir(loaded)
        lines = ["%zero = arith.constant 0 : index", f"%height = arith.constant {block} : index",
                 '%group = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index',
                 "%row = arith.muli %group, %height : index"]
        for name in "abc":
            target = f"%{name}" if loaded == self.element else f"%wide_{name}"
            if self.rows:
                lines += [f"%t_{name} = xetile.init_tile %q_{name}[%row, %zero] : {self.memory(loaded)} -> "
                          f"!xetile.tile<{block}x{COLUMNS}x{type_}>",
                          f"{target} = xetile.load_tile %t_{name} : !xetile.tile<{block}x{COLUMNS}x{type_}> -> "
                          f"vector<{block}x{COLUMNS}x{type_}>"]
            else:
                lines.append(f"{target} = xegpu.load_scalar %q_{name}, [%row, %zero] : {self.memory(loaded)} -> "
                             f"{type_}")
            if loaded != self.element:
                narrowing = "truncf" if self.element in FORMATS else "trunci"
                lines.append(f"%{name} = arith.{narrowing} {target} : {type_} to {mlir(self.element)}")
        parameters = [*(f"%q_{name}: {self.memory(loaded)}" for name in "abc"),
                      *(f"%p_{result}: {self.memory(result)}" for result in self.results)]
        body = "\n".join((*lines, *self.lines))
        return f"func.func @sweep({', '.join(parameters)}) {{\n{body}\nfunc.return\n}}"

    @property
    def results(self) -> list[str]:
        """Element types of the results."""
        return list(dict.fromkeys(result for _, result, *_ in self.wanted))

    def check(self, execution: Execution, operands: Sequence[Sequence[Any]]) -> None:
        """Run the kernel and compare every result with what is expected."""
        assert max(Counter(result for _, result, *_ in self.wanted).values()) * self.height <= MEMORY_ROWS
        loaded = self.element
        if not self.rows and loaded not in ("i32", "i64", "u32", "u64", "f32"):  # what load_scalar loads
            loaded = "f32" if loaded in FORMATS else "u32" if loaded in UNSIGNED else "i32"
        inputs = []
        for column in operands:
            numbers = [in_type(number, loaded) for number in column]
            array = np.zeros((MEMORY_ROWS, COLUMNS), dtypes.BY_NAME[loaded].numpy)
            if self.rows:
                array.reshape(-1)[:COUNT] = numbers
            else:
                array[:COUNT] = np.asarray(numbers, array.dtype)[:, None]
            inputs.append(xt.view(array, xt.tf32) if loaded == "tf32" else array)
        outputs = {result: np.zeros((MEMORY_ROWS, COLUMNS), dtypes.BY_NAME[result].numpy) for result in self.results}
        with np.errstate(all="ignore"):
            execution.bind(sweep(self.text(loaded)))[self.groups](
                *inputs, *(xt.view(array, xt.tf32) if name == "tf32" else array for name, array in outputs.items()))
        wrong, seen = [], dict.fromkeys(outputs, 0)
        for name, result, accepts, expected in self.wanted:
            part = outputs[result][seen[result]:seen[result] + self.height]
            seen[result] += self.height
            found = (part.reshape(-1)[:COUNT] if self.rows else part[:, 7]).tolist()
            bad = [i for i, (got, want) in enumerate(zip(found, expected, strict=True))
                   if not accepts(got, in_type(want, result))]
            wrong += [(name, [column[i] for column in operands], found[i], expected[i]) for i in bad[:2]]
        assert not wrong, wrong


def same(got: Any, want: Any) -> bool:
    """Equal integers, or floats with the same sign of zero; any NaN is NaN."""
    if isinstance(want, float):
        return (math.isnan(got) and math.isnan(want)) or \
            (got == want and math.copysign(1, got) == math.copysign(1, want))
    return bool(got == want)


def equal(got: float, want: float) -> bool:
    """Equal floats; zeros are equal whatever their sign, as for maxima and minima."""
    return got == want or (math.isnan(got) and math.isnan(want))


def within(element: str, ulp: float) -> Callable[[float, float], bool]:
    """Whether a float is near enough to a reference in float64."""
    wide = element if element in ("f64", "f32") else "f32"

    def accepts(got: float, want: float) -> bool:
        if math.isnan(want) or math.isnan(got):
            return math.isnan(want) and math.isnan(got)
        nearest_ = rounded(want, element)
        if got == nearest_ or math.isinf(want):
            return got == nearest_
        smallest = math.ldexp(1.0, 1 - FORMATS[wide][1])
        if abs(want) < 2 * smallest and abs(got) <= 2 * smallest:  # subnormal results may count as zero
            return True
        # An infinity counts as the first number that is too large; of f64, as the last that is not.
        largest = sys.float_info.max if element == "f64" else math.ldexp(1.0, FORMATS[element][1] + 1)
        allowed = (ulp + 1) * spacing(want, wide) + (0 if element == wide else spacing(want, element))
        return abs((math.copysign(largest, got) if math.isinf(got) else got) - want) <= allowed

    return accepts


def lacking(execution: Execution) -> frozenset[str]:
    """Element types that the execution's target does not compute in."""
    return frozenset(str(dtype) for dtype in find_target(execution.target).unsupported_types)


def executions(elements: Sequence[str]) -> list[Any]:
    """Cases: element types in all shapes, in every execution whose target has them."""
    found = []
    for element, shape, execution in itertools.product(elements, SHAPES, SWEPT):
        if element not in lacking(execution) and not (element in ("tf32", "f64") and shape == "scalar"):
            # The device's own code runs as users have it; its compiler sees other targets' operations as the same.
            marks = [pytest.mark.optimised] if execution.target == "cpu" and shape == "vectors" else []
            if shape == "scalars of a tile":  # OpenCL's scalars and vectors of a lane are the same in machine code
                marks.append(pytest.mark.on_devices_only)
            found.append(pytest.param(element, shape, execution, id=f"{element}-{shape}-{execution}", marks=marks))
    return found


def shift_or_divide(name: str, width: int, b: int) -> int:
    """A second operand for which the operation is defined."""
    defined = next(record.defined for kind, record in RECORDS.items() if kind.name == f"arith.{name}")
    return b % width if defined == "shift" else (b or 1) if defined == "divisor" else b


@functools.lru_cache(maxsize=2)
def integers(element: str, rows: int) -> tuple[Program, Sequence[Sequence[Any]]]:
    """Operations and comparisons of integers, and their operands."""
    a, b, c = data_of(element)
    program, width = Program(element, rows), width_of(element)
    b = [value or 1 for value in b]
    amounts = [value % width for value in c]
    for name, function in BINARY.items():
        sign, second = "s" if name in SIGNED else "u", amounts if name.startswith("sh") else b
        assert second == [shift_or_divide(name, width, value) for value in second]
        expected = [read(function(read(x, width, sign), read(y, width, sign)), width, "s")
                    for x, y in zip(a, second, strict=True)]
        program.add(name, [f"%r = arith.{name} %a, {'%c' if second is amounts else '%b'} : @{element}@"], element,
                    expected)
    if element in INTEGERS:  # MLIR has no absolute values of unsigned types
        program.add("absi", [f"%r = math.absi %a : @{element}@"], element, [read(abs(x), width, "s") for x in a])
        program.add("ctpop", [f"%r = math.ctpop %a : @{element}@"], element,
                    [read(bin(x % 2**width).count("1"), width, "s") for x in a])
        program.add("ctlz", [f"%r = math.ctlz %a : @{element}@"], element,
                    [read(width - (x % 2**width).bit_length(), width, "s") for x in a])
    for predicate in CmpIOp.PREDICATES:
        holds = [PREDICATES[predicate](*(read(side, width, predicate[0]) for side in pair))
                 for pair in zip(a, b, strict=True)]
        program.add(predicate, [f"%w = arith.cmpi {predicate}, %a, %b : @{element}@",
                                "%r = arith.extui %w : @i1@ to @i8@"], "i8", [int(truth) for truth in holds])
        condition = f"@i1@, @{element}@" if program.rows else mlir(element)
        program.add(f"select {predicate}", [f"%w = arith.cmpi {predicate}, %a, %b : @{element}@",
                                            f"%r = arith.select %w, %a, %b : {condition}"],
                    element, [x if truth else y for truth, x, y in zip(holds, a, b, strict=True)])
    return program, (a, b, amounts)


@pytest.mark.parametrize(("element", "shape", "execution"), executions((*INTEGERS, *UNSIGNED)))
def test_integers(element: str, shape: str, execution: Execution) -> None:
    program, operands = integers(element, SHAPES[shape])
    program.check(execution, operands)


@functools.lru_cache(maxsize=2)
def conversions_of_integers(element: str, rows: int, lacks: frozenset[str]) -> tuple[Program, Sequence[Sequence[Any]]]:
    """Conversions from an integer type and from its last bit, without those to types in ``lacks``."""
    (a, b, c), width = data_of(element), width_of(element)
    program = Program(element, rows)
    for target in INTEGERS:
        wide = width_of(target)
        for name in ("extsi", "extui") if wide > width else ("trunci",) if wide < width else ():
            program.add(f"{name} {target}", [f"%r = arith.{name} %a : @{element}@ to @{target}@"], target,
                        [read(read(x, width, "u" if name == "extui" else "s"), wide, "s") for x in a])
    for target in ("f32", *{"i8": (), "i16": ("f16", "bf16"), "i32": (), "i64": ("f64",)}[element]):
        if target in lacks:
            continue
        for name, sign in (("sitofp", "s"), ("uitofp", "u")):
            numbers = [read(x, width, sign) for x in a]
            program.add(f"{name} {target}", [f"%r = arith.{name} %a : @{element}@ to @{target}@"], target,
                        [nearest(Fraction(x), target) for x in numbers])
        if width_of(target) == width:
            word = dtypes.BY_NAME[target].numpy
            program.add(f"bitcast {target}", [f"%r = arith.bitcast %a : @{element}@ to @{target}@"], target,
                        np.asarray(a, f"i{width // 8}").view(word).astype(np.float64).tolist())
    if element == "i32" and not program.rows:
        program.add("index_cast", ["%w = arith.index_cast %a : i32 to index",
                                   "%r = arith.index_cast %w : index to i32"], "i32", a)
    program.add("trunci i1", [f"%w = arith.trunci %a : @{element}@ to @i1@", "%r = arith.extui %w : @i1@ to @i8@"],
                "i8", [x & 1 for x in a])
    program.add("i1 to i16", [f"%w = arith.trunci %a : @{element}@ to @i1@", "%r = arith.extsi %w : @i1@ to @i16@"],
                "i16", [-(x & 1) for x in a])
    program.add("i1 to f32", [f"%w = arith.trunci %a : @{element}@ to @i1@", "%r = arith.sitofp %w : @i1@ to @f32@"],
                "f32", [-1.0 if x & 1 else 0.0 for x in a])
    for name in ("addi", "subi", "muli", "maxsi", "minsi", "maxui", "minui", "andi", "ori", "xori"):
        sign = "s" if name in SIGNED else "u"
        program.add(f"{name} i1", [f"%x = arith.trunci %a : @{element}@ to @i1@",
                                   f"%y = arith.trunci %b : @{element}@ to @i1@",
                                   f"%w = arith.{name} %x, %y : @i1@", "%r = arith.extui %w : @i1@ to @i8@"], "i8",
                    [BINARY[name](read(x, 1, sign), read(y, 1, sign)) & 1 for x, y in zip(a, b, strict=True)])
    return program, (a, b, c)


@pytest.mark.parametrize(("element", "shape", "execution"), executions(INTEGERS))
def test_conversions_of_integers(element: str, shape: str, execution: Execution) -> None:
    program, operands = conversions_of_integers(element, SHAPES[shape], lacking(execution))
    program.check(execution, operands)


@functools.lru_cache(maxsize=2)
def floats(element: str, rows: int) -> tuple[Program, Sequence[Sequence[Any]]]:
    """Arithmetic is rounded once; f16 and bf16 compute in float32, whose roundings do not show but in ``fma``."""
    columns = data_of(element)
    program, arithmetic = Program(element, rows), "f32" if element == "tf32" else element
    for name, function in FLOATS.items():
        count = function.__code__.co_argcount - 1 if not function.__code__.co_flags & 4 else \
            2 if name.startswith("arith") else 1
        count = {"math.fma": 3, "math.copysign": 2}.get(name, count)
        if name == "math.fma" and element in ("f16", "bf16"):
            expected = [rounded(function("f32", *row), element) for row in zip(*columns, strict=True)]
        else:
            expected = [function(arithmetic, *row[:count]) for row in zip(*columns, strict=True)]
        accepts = equal if name.startswith(("arith.max", "arith.min")) else same
        program.add(name, [f"%r = {name} {', '.join(['%a', '%b', '%c'][:count])} : @{element}@"], element, expected,
                    accepts)
    for predicate in CmpFOp.PREDICATES:
        program.add(predicate, [f"%w = arith.cmpf {predicate}, %a, %b : @{element}@",
                                "%r = arith.extui %w : @i1@ to @i8@"], "i8",
                    [int(compare_floats(predicate, x, y)) for x, y in zip(*columns[:2], strict=True)])
    return program, columns


@pytest.mark.parametrize(("element", "shape", "execution"), executions(FLOATING))
def test_floats(element: str, shape: str, execution: Execution) -> None:
    program, operands = floats(element, SHAPES[shape])
    program.check(execution, operands)


@functools.lru_cache(maxsize=2)
def conversions_of_floats(element: str, rows: int, lacks: frozenset[str]) -> tuple[Program, Sequence[Sequence[Any]]]:
    """Conversions from a float type, without those to types in ``lacks``."""
    columns, width = data_of(element), width_of(element)
    a, program = columns[0], Program(element, rows)
    for target in INTEGERS:
        for name, sign in (("fptosi", "s"), ("fptoui", "u")):
            program.add(f"{name} {target}", [f"%r = arith.{name} %a : @{element}@ to @{target}@"], target,
                        [read(to_integer(x, width_of(target), sign), width_of(target), "s") for x in a])
    for target in FORMATS:
        wider = FORMATS[target][0] > FORMATS[element][0]
        if target != element and target not in lacks and {target, element} != {"f16", "bf16"} and \
                not (target == "tf32" and not program.rows) and {element, target} not in ({"f16", "tf32"},):
            name = "extf" if wider else "truncf"
            program.add(f"{name} {target}", [f"%r = arith.{name} %a : @{element}@ to @{target}@"], target,
                        [rounded(x, target) for x in a])
    if element != "tf32":  # 19 bits in MLIR, which no integer has
        program.add("bitcast", [f"%r = arith.bitcast %a : @{element}@ to @i{width}@"], f"i{width}", [
            None if math.isnan(x) else int(word) for x, word in
            zip(a, np.asarray(a).astype(dtypes.BY_NAME[element].numpy).view(f"i{width // 8}"), strict=True)],
            lambda got, want: want is None or got == want)
    return program, columns


@pytest.mark.parametrize(("element", "shape", "execution"), executions(FLOATING))
def test_conversions_of_floats(element: str, shape: str, execution: Execution) -> None:
    program, operands = conversions_of_floats(element, SHAPES[shape], lacking(execution))
    program.check(execution, operands)


@functools.lru_cache(maxsize=2)
def functions_of_analysis(element: str, rows: int) -> tuple[Program, Sequence[Sequence[Any]]]:
    """Functions whose error has a bound."""
    columns, ulps = data_of(element), {kind.name: record.ulp for kind, record in RECORDS.items()}
    program = Program(element, rows)
    for name, function in ANALYSIS.items():
        count = 2 if name in ("math.atan2", "math.powf") else 1
        with np.errstate(all="ignore"):
            expected = [float(function(*map(np.float64, row[:count]))) for row in zip(*columns, strict=True)]
        program.add(name, [f"%r = {name} {', '.join(['%a', '%b'][:count])} : @{element}@"], element, expected,
                    within(element, ulps[name]))
    return program, columns


@pytest.mark.parametrize(("element", "shape", "execution"), executions(FLOATING))
def test_functions_of_analysis(element: str, shape: str, execution: Execution) -> None:
    program, operands = functions_of_analysis(element, SHAPES[shape])
    program.check(execution, operands)


@xt.kernel
def successor(TABLE, C):
    index = xt.load_scalar(TABLE, 0).to(xt.index)
    xt.store_tile(xt.full((1, 16), (index + 1).to(xt.i32), xt.i32), xt.init_tile(C, (0, 0), (1, 16)))


@pytest.mark.parametrize("where", ["numpy", "numpy:xegpu"])
def test_casts_of_indices_keep_the_lowest_bits(where: str) -> None:
    c = np.zeros((1, 16), np.int32)
    successor.on(where)[1](np.array([2**31 - 1], np.int32), c)
    assert (c == -2**31).all()


def test_every_operation_has_a_record_and_data() -> None:
    """An operation of the dialects without a record, or without a reference for the sweep, fails here."""
    recorded = {kind.name for kind in RECORDS}
    dialects = {operation.name for operation in (*Arith.operations, *math_dialect.Math.operations)}
    assert dialects - recorded == REFUSED
    swept = {*(f"arith.{name}" for name in (*BINARY, *CONVERSIONS, *COMPARED)), "math.absi", "math.ctpop", "math.ctlz",
             *FLOATS, *ANALYSIS}
    assert swept == recorded


def test_every_record_has_semantics_and_text() -> None:
    assert set(RECORDS) <= set(SEMANTICS)
    assert set(RECORDS) <= {*RULES, *COMPARE_RULES}
    assert set(TEXT) == {kind for kind, record in RECORDS.items() if record.family in ("integer", "float")}
    for kinds, dtype in ((FLOAT_KINDS, dtypes.f32), (INTEGER_KINDS, dtypes.i32)):
        assert all(hasattr(RECORDS[operation_of(kind, dtype)].numpy, "reduce") for kind in kinds)
