"""Verification of a rewritten function: no operand may be defined outside of it."""

from __future__ import annotations

import pytest
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

import xetile as xt
from xegpu.rewrite.verifier import verify


def constant() -> arith.ConstantOp:
    return arith.ConstantOp(IntegerAttr(1, IndexType()))


def function_of(*operations: Operation) -> func.FuncOp:
    return func.FuncOp("f", ([], []), Region(Block(operations)))


@pytest.mark.parametrize("outside", [constant().result, Block(arg_types=[IndexType()]).args[0]])
def test_a_value_from_outside_is_refused_though_its_user_is_valid(outside: SSAValue) -> None:
    inside = constant()
    total = arith.AddiOp(inside.result, outside)
    function = function_of(inside, total)
    with pytest.raises(xt.XeError, match="defined outside of the function"):
        verify(function, {function, total})


def test_values_of_the_function_are_taken() -> None:
    inside = constant()
    verify(function_of(inside, arith.AddiOp(inside.result, inside.result)))
