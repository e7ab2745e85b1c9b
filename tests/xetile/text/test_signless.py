"""Integer operations of text against Python's integers: the operation says how bits are read, and results wrap."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import DEVICE, NUMPY, Execution, chosen
from tests.references import BINARY, EITHER, PREDICATES, SIGNED, read
from xegpu.ir import dtypes
from xegpu.mlir.elementwise import RECORDS

Array = np.ndarray[Any, Any]
EXECUTIONS = [NUMPY, Execution("numpy:xegpu", "pvc"), *DEVICE]
ELEMENTS = ("i8", "i16", "i32", "i64")
SHAPES = {"tile of vectors": 8, "tile of 3 scalars": 3, "scalar": 0}
"""Rows of the tile, whose words are an OpenCL vector if they are 8; 0 is a scalar that ``load_scalar`` loads."""
COLUMNS = 16
Program = tuple[Sequence[str], str]
"""Lines that compute ``%r``, and its element type."""


def width_of(element: str) -> int:
    """Bits of an element; devices compute an index in 32."""
    return 32 if element == "index" else int(element[1:])


def edges(element: str, count: int, seed: int) -> list[int]:
    """Integers that hurt, and random ones."""
    width = width_of(element)
    least = -(1 << (width - 1))
    ends = [0, 1, -1, 2, -2, 3, 7, least, -1 - least, least + 1, 1 << (width - 2)]
    random = np.random.default_rng(seed)
    return [read(value, width, "s") for value in
            [*ends, *(int.from_bytes(random.bytes(8), "little") for _ in range(count - len(ends)))]]


def pairs(element: str, of: str, count: int) -> tuple[list[int], list[int]]:
    """Operands of an operation, of all pairs of edges first; divisors are not 0, and shifts less than the width."""
    width = width_of(element)
    values = edges(element, 11, 0)
    both = [*itertools.product(values, values)]
    both += [*zip(edges(element, count + 11, 1)[11:], edges(element, count + 11, 2)[11:], strict=True)]
    left, right = [a for a, _ in both[:count]], [b for _, b in both[:count]]
    if "div" in of or "rem" in of:
        right = [b or 1 for b in right]
    if of.startswith("sh"):
        right = [b % width for b in right]
    return left, right


def kernel(programs: Sequence[Program], rows: int, inputs: dict[str, str]) -> Any:
    """A kernel that loads ``%a``, ``%b`` ..., runs each program's lines, and stores its ``%r`` to an array of its own.

    ``@i8@`` in a line is the type of a value of i8.
    """
    block = max(rows, 1)
    wide = {name: "i32" if not rows and element in ("i8", "i16") else element for name, element in inputs.items()}
    results = {f"c{number}": result for number, (_, result) in enumerate(programs)}
    arrays = {**wide, **results}
    text = ["%zero = arith.constant 0 : index", f"%rows = arith.constant {block} : index",
            '%group = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index',
            "%row = arith.muli %group, %rows : index"]

    def tile(name: str) -> str:
        return f"!xetile.tile<{block}x{COLUMNS}x{arrays[name]}>"

    for name, element in arrays.items():
        memref = f"memref<4096x{COLUMNS}x{element}>"
        if rows or name in results:
            text.append(f"%t_{name} = xetile.init_tile %p_{name}[%row, %zero] : {memref} -> {tile(name)}")
        if name in inputs:
            narrows = element != inputs[name]
            loaded = f"%wide_{name}" if narrows else f"%{name}"
            text.append(f"%{name} = xetile.load_tile %t_{name} : {tile(name)} -> vector<{block}x{COLUMNS}x{element}>"
                        if rows else f"{loaded} = xegpu.load_scalar %p_{name}, [%row, %zero] : {memref} -> {element}")
            if narrows:
                text.append(f"%{name} = arith.trunci {loaded} : {element} to {inputs[name]}")
    for number, (lines, result) in enumerate(programs):
        text += [_typed(_numbered(line, number, inputs), rows) for line in lines]
        stored = f"%r_{number}"
        if not rows:
            text.append(f"%spread_{number} = vector.broadcast {stored} : {result} to vector<1x{COLUMNS}x{result}>")
            stored = f"%spread_{number}"
        at = f"c{number}"
        text.append(f"xetile.store_tile {stored}, %t_{at} : vector<{block}x{COLUMNS}x{result}>, {tile(at)}")
    parameters = ", ".join(f"%p_{name}: memref<4096x{COLUMNS}x{element}>" for name, element in arrays.items())
    return xt.parse(f"func.func @signless({parameters}) {{\n" + "\n".join(text) + "\nfunc.return\n}")["signless"]


def _numbered(line: str, number: int, inputs: Iterable[str]) -> str:
    """A line of a program whose values have names of their own, but for the inputs."""
    return re.sub(r"%(\w+)", lambda name: name[0] if name[1] in inputs else f"{name[0]}_{number}", line)


def _typed(line: str, rows: int) -> str:
    """A line with the types of its values: vectors, or scalars without rows."""
    return re.sub(r"@(\w+)@", lambda name: f"vector<{rows}x{COLUMNS}x{name[1]}>" if rows else name[1], line)


def run(execution: Execution, programs: Sequence[Program], rows: int,
        inputs: Mapping[str, tuple[str, Sequence[Any]]]) -> list[list[Any]]:
    """Results of each program for columns of numbers, one for each input; all are in one kernel."""
    count = len(next(iter(inputs.values()))[1])
    arrays = []
    for element, numbers in inputs.values():
        memory = "i32" if not rows and element in ("i8", "i16") else element  # load_scalar loads 32 bits or more
        array = np.zeros((4096, COLUMNS), dtypes.BY_NAME[memory].numpy)
        if rows:
            array.reshape(-1)[:count] = numbers
        else:
            array[:count] = np.asarray(numbers, array.dtype)[:, None]
        arrays.append(array)
    results = [np.zeros((4096, COLUMNS), dtypes.BY_NAME[result].numpy) for _, result in programs]
    groups = -(-count // (rows * COLUMNS)) if rows else count
    compiled = kernel(programs, rows, {name: element for name, (element, _) in inputs.items()})
    execution.bind(compiled)[groups](*arrays, *results)
    return [(c.reshape(-1)[:count] if rows else c[:count, 7]).tolist() for c in results]


def count_of(shape: str) -> int:
    """Pairs of operands that a case computes: those of all edges, and random ones."""
    return 240 if SHAPES[shape] else 150


BINARY_CASES = [
    (group, element, shape) for group in ("divide", "order", "wrap") for element in (*ELEMENTS, "index")
    for shape in SHAPES if element != "index" or not (SHAPES[shape] or group == "wrap")]  # no tiles, no overflow


@pytest.mark.parametrize(("group", "element", "shape", "execution"), [
    (*case, execution) for case, execution in chosen(BINARY_CASES, EXECUTIONS, lambda case, execution: True)])
def test_binary(group: str, element: str, shape: str, execution: Execution) -> None:
    """Every binary operation; those of a group that take the same operands are in one kernel."""
    names = [name for name in BINARY if group == ("divide" if "div" in name or "rem" in name else
                                                  "order" if name[:3] in ("max", "min", "shr") else "wrap")]
    width = width_of(element)
    memory = "i32" if element == "index" else element
    for _, alike in itertools.groupby(sorted(names, key=_operands_of), _operands_of):
        same = list(alike)
        left, right = pairs(element, same[0], count_of(shape))
        if element == "index":
            left = [max(a, 1 - (1 << 31)) for a in left]
        lines = [f"%r = arith.{{name}} %a, %b : @{element}@"]
        if element == "index":
            lines = ["%x = arith.index_cast %a : i32 to index", "%y = arith.index_cast %b : i32 to index",
                     "%z = arith.{name} %x, %y : index", "%r = arith.index_cast %z : index to i32"]
        programs = [([line.format(name=name) for line in lines], memory) for name in same]
        results = run(execution, programs, SHAPES[shape], {"a": (memory, left), "b": (memory, right)})
        for name, found in zip(same, results, strict=True):
            sign = "s" if name in SIGNED else "u"
            expected = [read(BINARY[name](read(a, width, sign), read(b, width, sign)), width, "s")
                        for a, b in zip(left, right, strict=True)]
            wrong = [each for each in zip(left, right, found, expected, strict=True) if each[2] != each[3]]
            assert not wrong, (name, wrong[:5])


def _operands_of(name: str) -> str:
    """Kind of the operands of an operation: of divisions, shifts, and others."""
    return "div" if "div" in name or "rem" in name else name[:2] if name.startswith("sh") else ""


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_comparisons_absolute_values_and_counts_of_bits(element: str, shape: str, execution: Execution) -> None:
    left, right = pairs(element, "", count_of(shape))
    operands, width = {"a": (element, left), "b": (element, right)}, width_of(element)
    predicates = ("eq", "slt", "sge", "ult", "ule", "ugt", "uge")
    compared = [([f"%c = arith.cmpi {predicate}, %a, %b : @{element}@", "%r = arith.extui %c : @i1@ to @i8@"], "i8")
                for predicate in predicates]
    unary = [([f"%r = math.{name} %a : @{element}@"], element) for name in ("absi", "ctpop", "ctlz")]
    *found, absolute, ones, zeros = run(execution, [*compared, *unary], SHAPES[shape], operands)
    for predicate, results in zip(predicates, found, strict=True):
        expected = [int(PREDICATES[predicate](read(a, width, predicate[0]), read(b, width, predicate[0])))
                    for a, b in zip(left, right, strict=True)]
        assert results == expected, predicate
    assert absolute == [read(abs(a), width, "s") for a in left]
    assert ones == [read(bin(a % 2**width).count("1"), width, "s") for a in left]
    assert zeros == [read(width - (a % 2**width).bit_length(), width, "s") for a in left]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_truth_values_are_integers_modulo_2(shape: str, execution: Execution) -> None:
    """As signed integers, truth values are 0 and -1; ``trunci`` takes the lowest bit, whatever the others are."""
    left, right = [0, 2, 1, -1, 0, 2, 3, 5], [0, 4, 0, 0, 1, -1, 1, 7]
    inputs = {"a": ("i8", left), "b": ("i8", right), "d": ("i8", [2 * b for b in right])}
    names = [name for name in BINARY if name in EITHER or name[:3] in ("max", "min")]
    programs = [(["%x = arith.trunci %a : @i8@ to @i1@",
                  f"%y = arith.trunci {'%d' if name == 'shli' else '%b'} : @i8@ to @i1@",
                  f"%z = arith.{name} %x, %y : @i1@", "%r = arith.extui %z : @i1@ to @i8@"], "i8") for name in names]
    for name, found in zip(names, run(execution, programs, SHAPES[shape], inputs), strict=True):
        sign, second = "s" if name in SIGNED else "u", inputs["d" if name == "shli" else "b"][1]
        assert found == [BINARY[name](read(a, 1, sign), read(b, 1, sign)) & 1
                         for a, b in zip(left, second, strict=True)], name


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_integer_conversions(shape: str, execution: Execution) -> None:
    conversions = [(name, source, target) for source, target in itertools.permutations((1, 8, 16, 32, 64), 2)
                   for name in (("extsi", "extui") if target > source else ("trunci",))]
    for memory in (8, 16, 32, 64):
        here = [each for each in conversions if max(each[1], 8) == memory]
        numbers = edges(f"i{memory}", 40, 3)
        programs = [(["%x = arith.trunci %a : @i8@ to @i1@"] * (source == 1)
                     + [f"{'%w' if target == 1 else '%r'} = arith.{name} {'%x' if source == 1 else '%a'} "
                        f": @i{source}@ to @i{target}@"]
                     + ["%r = arith.extui %w : @i1@ to @i8@"] * (target == 1), f"i{max(target, 8)}")
                    for name, source, target in here]
        results = run(execution, programs, SHAPES[shape], {"a": (f"i{memory}", numbers)})
        for (name, source, target), found in zip(here, results, strict=True):
            expected = [read(read(a, source, "s" if name == "extsi" else "u"), target, "u" if target == 1 else "s")
                        for a in numbers]
            assert found == expected, (name, source, target)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["sitofp", "uitofp"])
def test_integers_to_floats(name: str, shape: str, execution: Execution) -> None:
    for widths in ((1, 8), (16,), (32,), (64,)):
        numbers = edges(f"i{widths[-1]}", 40, 4)
        programs = [(["%x = arith.trunci %a : @i8@ to @i1@"] * (width == 1)
                     + [f"%r = arith.{name} {'%x' if width == 1 else '%a'} : @i{width}@ to @f32@"], "f32")
                    for width in widths]
        results = run(execution, programs, SHAPES[shape], {"a": (f"i{widths[-1]}", numbers)})
        for width, found in zip(widths, results, strict=True):
            assert found == [nearest_float(read(a, width, name[0])) for a in numbers], width


def nearest_float(number: int) -> float:
    """A float of 24 bits nearest to an integer, ties to even."""
    shift = max(abs(number).bit_length() - 24, 0)
    whole, rest = divmod(abs(number), 1 << shift)
    half = 1 << shift >> 1
    whole += shift > 0 and (rest > half or (rest == half and whole % 2 == 1))
    return math.copysign(float(whole << shift), number)


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["fptosi", "fptoui"])
def test_floats_to_integers(name: str, shape: str, execution: Execution) -> None:
    """Toward zero, saturated at the limits of the signedness; NaN is 0."""
    numbers = [0.0, -0.0, 0.5, 1.0, -0.5, -1.0, 1.5, -1.5, 127.9, 128.0, 200.0, 255.5, 256.0, -128.0, -129.0, 32768.0,
               65535.0, 65536.0, 2.0**31, 2.0**32, -2.0**31, 3e9, 2.0**63, 2.0**64, -2.0**63, -2.0**64, 1e30, -1e30,
               math.inf, -math.inf, math.nan, 1e-40]
    widths = (1, 8, 16, 32, 64)
    programs = [([f"{'%w' if width == 1 else '%r'} = arith.{name} %a : @f32@ to @i{width}@"]
                 + ["%r = arith.extui %w : @i1@ to @i8@"] * (width == 1), f"i{max(width, 8)}") for width in widths]
    results = run(execution, programs, SHAPES[shape], {"a": ("f32", numbers)})
    for width, found in zip(widths, results, strict=True):
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if name == "fptosi" else (0, (1 << width) - 1)
        rounded = [0 if math.isnan(a) else low if a < low else high if a > high else int(a)
                   for a in np.asarray(numbers, np.float32).tolist()]
        assert found == [read(a, width, "u" if width == 1 else "s") for a in rounded], width


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("divisor", [3, -5, 8, -1, 1])
def test_constant_divisors(divisor: int, shape: str, execution: Execution) -> None:
    names = ("divsi", "remsi", "floordivsi", "ceildivsi", "divui", "remui", "ceildivui")
    for element in ("i8", "i32"):
        width, numbers = width_of(element), edges(element, 40, 5)
        constant = f"dense<{divisor}> : @{element}@" if SHAPES[shape] else f"{divisor} : {element}"
        programs = [([f"%d = arith.constant {constant}", f"%r = arith.{name} %a, %d : @{element}@"], element)
                    for name in names]
        for name, found in zip(names, run(execution, programs, SHAPES[shape], {"a": (element, numbers)}), strict=True):
            sign = "s" if name in SIGNED else "u"
            assert found == [read(BINARY[name](read(a, width, sign), read(divisor, width, sign)), width, "s")
                             for a in numbers], (name, element)


def test_every_integer_operation_is_in_this_file() -> None:
    """An operation that enters the table enters this file."""
    here = {f"arith.{name}" for name in (*BINARY, "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui",
                                         "index_cast")} | {"math.absi", "math.ctpop", "math.ctlz"}
    assert {kind.name for kind, record in RECORDS.items() if record.operands or record.result or record.truth} | \
        {"arith.trunci"} == here


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("rows", [8, 3])
def test_overflow_from_python(rows: int, execution: Execution) -> None:
    """The optimiser may not conclude that ``v + 1 > v``, and ``(-x) // y`` of the smallest number does not trap."""
    @xt.kernel
    def overflowing(A, B, C, *, rows):
        v = xt.load_tile(xt.init_tile(A, (0, 0), (rows, 16)))
        y = xt.load_tile(xt.init_tile(B, (0, 0), (rows, 16)))
        results = (xt.where(v + 1 > v, 1, 0), (v * 2) // 2, xt.where(-v > 0, 1, 0), (-v) // y, xt.abs(v))
        for i, result in enumerate(results):
            xt.store_tile(result, xt.init_tile(C, (i * rows, 0), (rows, 16)))

    numbers = (edges("i32", 16, 6) * rows)[:rows * 16]
    divisors = ([-1, 1, -7, -1, 2] * rows * 4)[:rows * 16]
    a, b = (np.array(side, np.int32).reshape(rows, 16) for side in (numbers, divisors))
    c = np.zeros((5 * rows, 16), np.int32)
    execution.bind(overflowing)[1](a, b, c, rows=rows)

    def wrapped(number: int) -> int:
        return read(number, 32, "s")

    each = [[int(wrapped(v + 1) > v), wrapped(v * 2) // 2, int(wrapped(-v) > 0), wrapped(wrapped(-v) // y),
             wrapped(abs(v))] for v, y in zip(numbers, divisors, strict=True)]
    np.testing.assert_array_equal(c.reshape(5, -1), np.array(each).T)


@pytest.mark.unoptimised
@pytest.mark.parametrize("elements", [8, 16, 32])
@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_vectors_of_one_dimension_are_divided(execution: Execution, elements: int) -> None:
    """Also of more elements than a subgroup has lanes; a division is not pure, and still element by element."""
    desc, vector = f"!xegpu.tensor_desc<{elements}xi32>", f"vector<{elements}xi32>"
    loads = "".join(f"  %d{name} = xegpu.create_nd_tdesc %{name}, [%c0] : memref<64xi32> -> {desc}\n"
                    f"  %{name.lower()} = xegpu.load_nd %d{name} : {desc} -> {vector}\n" for name in "AB")
    text = "func.func @f(%A: memref<64xi32>, %B: memref<64xi32>, %C: memref<64xi32>, %D: memref<64xi32>) {\n" \
           "  %c0 = arith.constant 0 : index\n" + loads + "".join(
               f"  %v{name} = {operation} %a, %b : {vector}\n"
               f"  %d{name} = xegpu.create_nd_tdesc %{name}, [%c0] : memref<64xi32> -> {desc}\n"
               f"  xegpu.store_nd %v{name}, %d{name} : {vector}, {desc}\n"
               for name, operation in (("C", "arith.divsi"), ("D", "arith.divui"))) + "  func.return\n}\n"
    rng = np.random.default_rng(elements)
    a, b = rng.integers(-90, 90, 64).astype(np.int32), rng.integers(1, 9, 64).astype(np.int32)
    c, d = np.full(64, 7, np.int32), np.full(64, 7, np.int32)
    execution.bind(xt.parse(text)["f"])[1](a, b, c, d)
    signed = np.where(a < 0, -(-a // b), a // b)
    unsigned = (a.view(np.uint32) // b.view(np.uint32)).view(np.int32)
    for found, expected in ((c, signed), (d, unsigned)):
        np.testing.assert_array_equal(found[:elements], expected[:elements])
        assert (found[elements:] == 7).all()


FLAGS = {
    "arith.divui %a, %a{} : vector<8x16xi32>": " exact", "arith.shrsi %a, %a{} : vector<8x16xi32>": " exact",
    "arith.ori %a, %a{} : vector<8x16xi32>": " disjoint", "arith.cmpf olt, %f, %f{} : vector<8x16xf32>":
    " fastmath<nnan, ninf>", "arith.extui %a{} : vector<8x16xi32> to vector<8x16xi64>": " nneg",
    "arith.uitofp %a{} : vector<8x16xi32> to vector<8x16xf32>": " nneg",
    "arith.trunci %a{} : vector<8x16xi32> to vector<8x16xi16>": " overflow<nsw, nuw>",
    "arith.truncf %f{} : vector<8x16xf32> to vector<8x16xf16>": " to_nearest_even fastmath<contract>",
}
"""Flags that MLIR's printer puts behind operands."""


@pytest.mark.parametrize("line", FLAGS)
def test_flags_promise_and_change_nothing(line: str) -> None:
    head = "\n".join(f"%t{name} = xetile.init_tile %{name.upper()}[0, 0] : memref<8x16x{type_}> -> "
                     f"!xetile.tile<8x16x{type_}>\n%{name} = xetile.load_tile %t{name} : !xetile.tile<8x16x{type_}> -> "
                     f"vector<8x16x{type_}>" for name, type_ in (("a", "i32"), ("f", "f32")))
    with_flags, without = (str(xt.parse(
        f"func.func @k(%A: memref<8x16xi32>, %F: memref<8x16xf32>) {{\n{head}\n%r = {line.format(flags)}\n"
        "func.return\n}")) for flags in (FLAGS[line], ""))
    assert with_flags == without
