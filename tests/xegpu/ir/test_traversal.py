"""Pre-order walks as lists, operations by class, and operations that are made without xDSL's constructors."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IndexType, VectorType, bf16, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

import xetile as xt
from benchmarks.kernels import work_group_gemm
from xegpu.dialect.dpas import DpasOp, ProductOp
from xegpu.ir.create import append, create, for_loop, index_constant
from xegpu.ir.traversal import is_a, of_kind, operations
from xetile.dialect.stage import only_function


def test_a_walk_lists_what_xdsl_walks() -> None:
    matrix = xt.Spec((None, None), xt.bf16)
    kernel = work_group_gemm.lower(matrix, matrix, xt.Spec((None, None), xt.f32), target="pvc")
    for module in kernel.modules.values():
        assert operations(module) == [*module.walk()]
        assert of_kind(module, scf.ForOp) == [each for each in module.walk() if isinstance(each, scf.ForOp)]
    function = only_function(kernel.final)
    products = [each for each in function.walk() if isinstance(each, ProductOp)]
    assert products
    assert of_kind(function, ProductOp) == products
    assert is_a(products[0], (scf.ForOp, ProductOp))
    assert not is_a(products[0], (scf.ForOp,))


def test_a_made_operation_is_as_its_constructor_makes_it() -> None:
    one, two = index_constant(1), index_constant(2)
    for kind in (arith.AddiOp, arith.FloorDivSIOp):
        made: Operation = create(kind, (one.result, two.result), (IndexType(),))
        usual = kind(one.result, two.result)
        assert (made.properties, made.attributes, made.regions) == (usual.properties, usual.attributes, usual.regions)
        assert [*made.operands] == [*usual.operands]
        assert made.results[0].type == usual.results[0].type
    assert [use.operation.name for use in one.result.uses] == ["arith.floordivsi"] * 2 + ["arith.addi"] * 2
    assert [use.index for use in two.result.uses] == [1] * 4
    block, body = Block(), Block(arg_types=[IndexType(), IndexType()])
    append(body, create(scf.YieldOp, (body.args[1],), ()))
    loop = for_loop(one.result, two.result, one.result, [two.result], body)
    for operation in (one, two, loop):
        append(block, operation)
    assert [*block.ops] == [one, two, loop]
    assert [*loop.body.block.ops] == [body.last_op]
    assert block.last_op is loop
    assert loop.prev_op is two
    assert loop.next_op is None
    loop.verify()
    with pytest.raises(ValueError, match="already attached"):
        append(block, one)


def test_a_form_that_fits_hides_none_that_does_not() -> None:
    block = Block(arg_types=[VectorType(type_, shape) for type_, shape in (
        (bf16, (8, 16)), (bf16, (8, 16, 2)), (f32, (8, 16)))])
    a, b, acc = block.args
    DpasOp(a, b, acc).verify_()
    for operands in ((a,), (a, b, index_constant(1).result), (a, b, acc, acc)):
        with pytest.raises(VerifyException):
            _dpas(*operands).verify_()
    wrong = _dpas(a, b, acc)
    wrong.properties["unknown"] = IndexType()
    with pytest.raises(VerifyException):
        wrong.verify_()


def _dpas(*operands: SSAValue) -> DpasOp:
    return create(DpasOp, operands, (VectorType(f32, (8, 16)),))
