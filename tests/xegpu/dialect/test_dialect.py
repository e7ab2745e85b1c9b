"""The XeGPU dialect as text and back, what its verifiers refuse, and webs of values."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest
from xdsl.dialects import func, scf
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError, VerifyException

from xegpu.analysis.webs import Webs
from xegpu.dialect import context
from xegpu.dialect.block_io import LoadNdOp, PrefetchNdOp, StoreNdOp, UpdateNdOffsetOp
from xegpu.ir.op_definition import format_of
from xegpu.ir.use_def import array_of, written_arguments
from xegpu.support.errors import error_parts

KERNEL = """
func.func @product(%A: memref<?x?xbf16>, %B: memref<?x?xbf16>, %C: memref<?x?xf32>, %m: index, %k: index, %s: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %a = xegpu.create_nd_tdesc %A, [%c0, %c0], [%m, %k], [%s, %c16] : memref<?x?xbf16> -> !xegpu.tensor_desc<8x16xbf16>
  %b = xegpu.create_nd_tdesc %B, [%c0, %c0], [%k, %m], [%s, %c16] : memref<?x?xbf16>
       -> !xegpu.tensor_desc<16x16xbf16, #xegpu.block_tdesc_attr<array_length = 2, access = rows>>
  %c = xegpu.create_nd_tdesc %C, [%c0, %c0], [%m, %m], [%s, %c16] : memref<?x?xf32> -> !xegpu.tensor_desc<8x16xf32>
  %zero = xegpu.load_nd %c : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>
  %total, %end = scf.for %i = %c0 to %k step %c16 iter_args(%sum = %zero, %at = %a)
      -> (vector<8x16xf32>, !xegpu.tensor_desc<8x16xbf16>) {
    xegpu.prefetch_nd %at : !xegpu.tensor_desc<8x16xbf16>
    %x = xegpu.load_nd %at : !xegpu.tensor_desc<8x16xbf16> -> vector<8x16xbf16>
    %ys = xegpu.load_nd %b {packed} :
      !xegpu.tensor_desc<16x16xbf16, #xegpu.block_tdesc_attr<array_length = 2, access = rows>> -> vector<2x8x16x2xbf16>
    %y = vector.extract %ys[0] : vector<8x16x2xbf16> from vector<2x8x16x2xbf16>
    %next = xegpu.dpas %x, %y, %sum : vector<8x16xbf16>, vector<8x16x2xbf16>, vector<8x16xf32> -> vector<8x16xf32>
    %moved = xegpu.update_nd_offset %at, [%c0, %c16] : !xegpu.tensor_desc<8x16xbf16> -> !xegpu.tensor_desc<8x16xbf16>
    scf.yield %next, %moved : vector<8x16xf32>, !xegpu.tensor_desc<8x16xbf16>
  }
  xegpu.store_nd %total, %c : vector<8x16xf32>, !xegpu.tensor_desc<8x16xf32>
  func.return
}
"""
D = "!xegpu.tensor_desc"
MAP = "#xegpu.sg_map<wi_layout = [1, 16], wi_data = [1, 1]>"


def parsed(text: str) -> Operation:
    module = Parser(context(), text).parse_module()
    module.verify()
    return module


def test_a_kernel_prints_and_parses_back_unchanged() -> None:
    module = parsed(KERNEL)
    again = parsed(str(module))
    assert module.is_structurally_equivalent(again)
    assert str(again) == str(module)


@pytest.mark.parametrize("floor", ["xegpu.dialect", "xegpu.interop.llvm.dialect.gather_scatter",
                                   "xegpu.interop.v1.dialect", "xetile.dialect"])
def test_every_assembly_format_is_one(floor: str) -> None:
    """A format is parsed when its operation is first read or printed, so that a wrong one could go unseen."""
    import_module(floor)
    kinds = [kind for kind in IRDLOperation.__subclasses__() if kind.__module__.startswith(floor)
             and getattr(kind.get_irdl_definition(), "assembly_format", None) is not None]
    assert kinds
    for kind in kinds:
        assert format_of(kind).stmts, kind


@pytest.mark.parametrize("type_", [
    f"{D}<8x16xf16>", f"{D}<32x16xbf16, #xegpu.block_tdesc_attr<array_length = 2>>", f"{D}<8x16xf32, {MAP}>",
    f"{D}<8x16xtf32, #xegpu.block_tdesc_attr<memory_scope = slm, boundary_check = false>, {MAP}>", f"{D}<32x16xui8>"])
def test_types_print_and_parse_back(type_: str) -> None:
    text = str(Parser(context(), type_).parse_attribute())
    assert Parser(context(), text).parse_attribute() == Parser(context(), type_).parse_attribute()


@pytest.mark.parametrize(("line", "code"), [
    (f'%r = "xegpu.load_nd"(%d) : ({D}<8x16xbf16>) -> vector<16x8xbf16>', "XT3107"),
    (f'%r = "xegpu.load_nd"(%e) <{{packed}}> : ({D}<8x16xf32>) -> vector<8x16xf32>', "XT3106"),
    (f'%r = "xegpu.load_nd"(%f) <{{packed}}> : ({D}<16x16xbf16, {MAP}>) -> vector<16x1xbf16>', "XT3505"),
    (f'"xegpu.store_nd"(%v, %e) : (vector<8x16xbf16>, {D}<8x16xf32>) -> ()', "XT3108"),
    ('%r = "xegpu.dpas"(%v, %v) : (vector<8x16xbf16>, vector<8x16xbf16>) -> vector<8x16xf32>', "XT3202"),
    ('%r = "xegpu.dpas"(%v, %w, %v) : (vector<8x16xbf16>, vector<16x16xbf16>, vector<8x16xbf16>) -> vector<8x16xf32>',
     "XT3201"),
    ('%r = "xegpu.pack"(%u) : (vector<8x16xf32>) -> vector<8x16x1xf32>', "XT3207"),
    (f'%r = "xegpu.update_nd_offset"(%d, %i) : ({D}<8x16xbf16>, index) -> {D}<8x16xbf16>', "XT3010"),
    ('%r = "vector.extract_strided_slice"(%v) <{offsets = [4, 0], sizes = [8, 16], strides = [1, 1]}> : '
     "(vector<8x16xbf16>) -> vector<8x16xbf16>", "XT3220"),
    ('%r = "vector.insert_strided_slice"(%v, %w) <{offsets = [-1, 0], strides = [1, 1]}> : '
     "(vector<8x16xbf16>, vector<16x16xbf16>) -> vector<16x16xbf16>", "XT3220"),
    ('%r = "arith.extsi"(%s) : (vector<8x16xi32>) -> vector<8x16xi16>', "XT3231"),
    ('%r = "arith.trunci"(%s) : (vector<8x16xi32>) -> vector<8x16xi64>', "XT3232"),
    ('%r = "arith.sitofp"(%s) : (vector<8x16xi32>) -> vector<16x8xf32>', "XT3230")])
def test_what_contradicts_itself_is_refused(line: str, code: str) -> None:
    text = f"""
    func.func @f(%d: {D}<8x16xbf16>, %e: {D}<8x16xf32>, %f: {D}<16x16xbf16, {MAP}>, %v: vector<8x16xbf16>,
                 %w: vector<16x16xbf16>, %u: vector<8x16xf32>, %s: vector<8x16xi32>, %i: index) {{
      {line}
      func.return
    }}"""
    with pytest.raises((VerifyException, ParseError), check=lambda error: error_parts(error)[0] == code):
        parsed(text)


@pytest.mark.parametrize("line", [
    '%r = "arith.extsi"(%s) : (vector<8x16xi8>) -> vector<8x16xi32>',
    "%r = arith.extui %s : vector<8x16xi8> to vector<8x16xi16>",
    "%r = arith.sitofp %s : vector<8x16xi8> to vector<8x16xbf16>", "%r = arith.extsi %i : i8 to i64"])
def test_conversions_take_vectors_as_well_as_scalars(line: str) -> None:
    text = f"func.func @f(%s: vector<8x16xi8>, %i: i8) {{\n  {line}\n  func.return\n}}"
    assert parsed(str(parsed(text))).is_structurally_equivalent(parsed(text))


def function_of(text: str) -> func.FuncOp:
    return next(op for op in parsed(text).walk() if isinstance(op, func.FuncOp))


def moves(operation: Operation) -> Iterator[SSAValue]:
    if isinstance(operation, UpdateNdOffsetOp):
        yield from (operation.desc, operation.result)


def test_a_web_holds_what_a_loop_carries() -> None:
    function = function_of(KERNEL)
    loop = next(op for op in function.walk() if isinstance(op, scf.ForOp))
    webs = Webs(function, moves)
    total, at = loop.iter_args
    block = loop.body.block
    last = block.last_op
    assert last is not None
    assert set(webs.members(at)) == {at, block.args[2], last.operands[1], loop.results[1]}
    assert set(webs.members(total)) == {total, block.args[1], last.operands[0], loop.results[0]}
    assert {type(use.operation) for use in webs.uses(loop.results[1])} == \
        {PrefetchNdOp, LoadNdOp, UpdateNdOffsetOp}
    assert [type(use.operation) for use in webs.uses(total)].count(StoreNdOp) == 1


def test_a_descriptor_leads_back_to_its_array() -> None:
    function = function_of(KERNEL)
    a, _, c, *_ = function.body.block.args
    loads = [op for op in function.walk() if isinstance(op, LoadNdOp)]
    store = next(op for op in function.walk() if isinstance(op, StoreNdOp))
    assert array_of(loads[1].desc) is a
    assert array_of(store.desc) is c
    assert written_arguments(function) == (2,)


@pytest.mark.parametrize(("field", "code"), [("access = foo", "XT3004"),
                                             ("memory_scope = slm", "XT3005")])
def test_descriptors_that_nothing_lowers_are_refused(field: str, code: str) -> None:
    with pytest.raises(VerifyException, check=lambda error: error_parts(error)[0] == code):
        parsed(KERNEL.replace("access = rows", field)).verify()
