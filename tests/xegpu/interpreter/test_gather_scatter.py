"""Operations on single elements: what their verifiers refuse, which array they write, and their memory in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xegpu.dialect import context
from xegpu.interpreter.memory.elements import Elements, flat
from xegpu.ir import dtypes
from xegpu.ir.use_def import written_arguments
from xegpu.mlir.atomic_kind import KINDS, fault, full_name
from xegpu.support.errors import ShapeError, error_parts

S = "!xegpu.tensor_desc<16xf32, #xegpu.scatter_tdesc_attr<>>"
CHUNK = "!xegpu.tensor_desc<16x4xf32, #xegpu.scatter_tdesc_attr<chunk_size = 4>>"
LANE = "!xegpu.tensor_desc<16xf32, #xegpu.scatter_tdesc_attr<>, #xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>>"
KERNEL = f"""
func.func @f(%A: memref<?xf32>, %B: memref<?x?xf32>, %i: vector<16xindex>, %m: vector<16xi1>, %j: vector<1xindex>,
             %n: vector<1xi1>, %u: i64, %z: index) {{
  %d = xegpu.create_tdesc %A, %i : memref<?xf32>, vector<16xindex> -> {S}
  %e = xegpu.update_offset %d, %i : {S}, vector<16xindex> -> {S}
  xegpu.prefetch %e : {S}
  %v = xegpu.load_gather %e, %m {{padding = 1.5 : f32}} : {S}, vector<16xi1> -> vector<16xf32>
  xegpu.store_scatter %v, %d, %m : vector<16xf32>, {S}, vector<16xi1>
  %w = xegpu.atomic_rmw <maxnumf> %v, %e, %m : vector<16xf32>, {S}, vector<16xi1> -> vector<16xf32>
  %c = xegpu.create_tdesc %A, %i : memref<?xf32>, vector<16xindex> -> {CHUNK}
  %x = xegpu.load_gather %c, %m {{transpose = [1, 0]}} : {CHUNK}, vector<16xi1> -> vector<4x16xf32>
  %l = xegpu.create_tdesc %A, %j : memref<?xf32>, vector<1xindex> -> {LANE}
  %y = xegpu.load_gather %l, %n : {LANE}, vector<1xi1> -> vector<1xf32>
  %b = xegpu.create_nd_tdesc %B, [%z, %z], [%z, %z], [%z, %z] : memref<?x?xf32> -> !xegpu.tensor_desc<8x16xf32>
  %p, %q = xegpu.block_elements %b {{offsets = [3, 0], sizes = [1, 16]}} : !xegpu.tensor_desc<8x16xf32>
    -> {S}, vector<16xi1>
  %r = xegpu.atomic_rmw <addf> %v, %p, %q : vector<16xf32>, {S}, vector<16xi1> -> vector<16xf32>
  // MORE
  func.return
}}
"""


def parsed(text: str) -> Operation:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def test_every_operation_prints_and_parses_back() -> None:
    module = parsed(KERNEL)
    assert str(parsed(str(module))) == str(module)


def test_what_is_written_is_found() -> None:
    function = next(op for op in parsed(KERNEL).walk() if isinstance(op, func.FuncOp))
    assert written_arguments(function) == (0, 1)


@pytest.mark.parametrize(("old", "new", "code"), [
    ("%m {padding = 1.5 : f32} : " + S + ", vector<16xi1> ->", "%n : " + S + ", vector<1xi1> ->",
     "XT3304"),
    ("%m {padding = 1.5 : f32} : " + S + ", vector<16xi1> ->", "%i : " + S + ", vector<16xindex> ->",
     "XT3304"),
    ("vector<16xi1> -> vector<4x16xf32>", "vector<16xi1> -> vector<16x4xf32>", "XT3304"),
    ("update_offset %d, %i : " + S + ", vector<16xindex>", "update_offset %d, %j : " + S + ", vector<1xindex>",
     "XT3304"),
    ("store_scatter %v, %d, %m : vector<16xf32>", "store_scatter %y, %d, %m : vector<1xf32>",
     "XT3304"),
    (" {transpose = [1, 0]}", "", "XT3310"),
    ("%n : " + LANE, "%n {transpose = [1, 0]} : " + LANE, "XT3310"),
    ("offsets = [3, 0]", "offsets = [8, 0]", "XT3312"),
    ("sizes = [1, 16]", "sizes = [2, 16]", "XT3313"),
    ("<maxnumf>", "<maxs>", "XT1450"),
    ("<maxnumf>", "<sub>", "XT3301"),
])
def test_what_does_not_fit_is_refused(old: str, new: str, code: str) -> None:
    assert old in KERNEL
    with pytest.raises((VerifyException, ParseError), check=lambda error: error_parts(error)[0] == code):
        parsed(KERNEL.replace(old, new))


def created(type_: str, offsets: str = "vector<16xindex>", base: str = "%A : memref<?xf32>") -> str:
    name, source = base.split(" : ")
    value = {"vector<16xindex>": "%i", "vector<1xindex>": "%j"}[offsets]
    return KERNEL.replace("// MORE", f"%more = xegpu.create_tdesc {name}, {value} : {source}, {offsets} -> {type_}")


@pytest.mark.parametrize(("text", "code"), [
    (created("!xegpu.tensor_desc<16xf32>"), "XT3305"),
    (created("!xegpu.tensor_desc<12xf32, #xegpu.scatter_tdesc_attr<>>"), "XT3306"),
    (created("!xegpu.tensor_desc<16x5xf32, #xegpu.scatter_tdesc_attr<chunk_size = 5>>"), "XT3307"),
    (created("!xegpu.tensor_desc<16xf32, #xegpu.scatter_tdesc_attr<chunk_size = 4>>"), "XT3309"),
    (created("!xegpu.tensor_desc<16x4xf32, #xegpu.scatter_tdesc_attr<>>"), "XT3309"),
    (created("!xegpu.tensor_desc<16xf32, #xegpu.scatter_tdesc_attr<memory_scope = slm>>"), "XT3005"),
    (created("!xegpu.tensor_desc<16xf32, #xegpu.scatter_tdesc_attr<memory_scope = far>>"), "XT3308"),
    (created("!xegpu.tensor_desc<16xi1, #xegpu.scatter_tdesc_attr<>>"), "XT3302"),
    (created("!xegpu.tensor_desc<16xf16, #xegpu.scatter_tdesc_attr<>>"), "XT3009"),
    (created("!xegpu.tensor_desc<32xf32, #xegpu.scatter_tdesc_attr<>>"), "XT3304"),
    (created(S, "vector<1xindex>"), "XT3304"),
])
def test_descriptors_that_contradict_themselves(text: str, code: str) -> None:
    with pytest.raises((VerifyException, ParseError), check=lambda error: error_parts(error)[0] == code):
        parsed(text)


@pytest.mark.parametrize("line", [
    f"%o = xegpu.atomic_rmw <addf> %x, %c, %m : vector<4x16xf32>, {CHUNK}, vector<16xi1> -> vector<4x16xf32>",
    "xegpu.prefetch %b : !xegpu.tensor_desc<8x16xf32>",
    f"%o, %s = xegpu.block_elements %d {{offsets = [0, 0], sizes = [1, 16]}} : {S} -> {S}, vector<16xi1>",
    f"%o = xegpu.load_nd %d : {S} -> vector<1x16xf32>", f"xegpu.prefetch_nd %d : {S}",
    f"xegpu.store_nd %v, %d : vector<16xf32>, {S}", f"%o = xegpu.update_nd_offset %d, [%z] : {S} -> {S}"])
def test_the_wrong_sort_of_descriptor(line: str) -> None:
    with pytest.raises((VerifyException, ParseError), match=r"this takes a descriptor of|take one element a lane"):
        parsed(KERNEL.replace("// MORE", line))


def test_memory_of_any_array() -> None:
    whole = np.arange(60).reshape(6, 10)
    for array in (whole, whole.T, whole[::-1, ::2], whole[5:0:-2, ::-3], whole[2:2], whole[1, 3]):
        memory, first = flat(array)
        array = np.atleast_1d(array)
        for index in np.ndindex(array.shape):
            at = sum(i * s // array.itemsize for i, s in zip(index, array.strides, strict=True))
            assert memory[first + at] == array[index]


def test_equal_places_take_their_turns() -> None:
    rng = np.random.default_rng(1)
    at, value = rng.integers(0, 7, 200), rng.integers(1, 5, 200)
    mask = rng.integers(0, 2, 200) > 0
    for name, kind in KINDS.items():
        if "i" not in kind.families:
            continue
        memory = rng.integers(1, 100, 7).astype(np.int32)
        expected, olds = memory.copy(), np.zeros(200, np.int32)
        for i in np.flatnonzero(mask):
            olds[i] = expected[at[i]]
            expected[at[i]] = kind.updated(olds[i:i + 1], value[i:i + 1].astype(np.int32), dtypes.i32)[0]
        old = Elements(memory, at).update(kind, value.astype(np.int32), mask, dtypes.i32)
        assert (memory == expected).all(), name
        assert (old == olds).all(), name


def test_wild_places_are_found_unless_masked_off() -> None:
    elements = Elements(np.arange(10.0), np.array([3, 10**12, -1]))
    assert elements.gather(np.array([True, False, False]), 7).tolist() == [3, 7, 7]
    with pytest.raises(ShapeError, match="XT3314"):
        elements.gather(np.array([True, False, True]), 0)


@pytest.mark.parametrize(("kind", "dtype", "name"), [
    ("add", dtypes.f16, "addf"), ("add", dtypes.i8, "addi"), ("max", dtypes.f32, "maximumf"),
    ("min", dtypes.u8, "minu"),
    ("max", dtypes.i64, "maxs"), ("exchange", dtypes.bf16, "assign"), ("xor", dtypes.u16, "xori"),
    ("and", dtypes.f32, "and"), ("minnumf", dtypes.f32, "minnumf")])
def test_short_names(kind: str, dtype: dtypes.DType, name: str) -> None:
    assert full_name(kind, dtype) == name
    assert bool(fault(name, dtype)[0]) == (name == "and")
