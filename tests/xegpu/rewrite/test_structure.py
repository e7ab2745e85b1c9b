"""Structural verification after each pass: a pass that breaks a kernel is named, whatever it breaks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pytest
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Operation

import xetile as xt
from xegpu.rewrite.structure import check_structure
from xetile.compiler import pipeline

TEXT = """
func.func @f(%A: memref<32x16xf32>, %n: index, %m: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %go = arith.cmpi slt, %n, %m : index
  %last, %count = scf.for %i = %c0 to %n step %c8 iter_args(%at = %m, %k = %c0) -> (index, index) {
    %next = arith.addi %at, %i : index
    scf.yield %next, %next : index, index
  }
  %x = scf.if %go -> (index) {
    %sum = arith.addi %last, %m : index
    scf.yield %sum : index
  } else {
    %product = arith.muli %count, %m : index
    scf.yield %product : index
  }
  %t = xetile.init_tile %A[%x, 0] : memref<32x16xf32> -> !xetile.tile<8x16xf32>
  %v = xetile.load_tile %t : !xetile.tile<8x16xf32> -> vector<8x16xf32>
  %w = arith.addf %v, %v : vector<8x16xf32>
  xetile.store_tile %w, %t : vector<8x16xf32>, !xetile.tile<8x16xf32>
  return
}
"""

ARGUMENTS = (xt.Spec((32, 16), xt.f32), 8, 8)


def module() -> ModuleOp:
    lowered = xt.parse(TEXT)["f"].lower(*ARGUMENTS, target="pvc")
    return lowered.module.clone()


Kind = TypeVar("Kind", bound=Operation)


def first(kind: type[Kind], within: Operation) -> Kind:
    return next(operation for operation in within.walk() if isinstance(operation, kind))


def loses_its_end(module: ModuleOp) -> None:
    first(func.ReturnOp, module).detach()


def loses_all_behind_the_condition(module: ModuleOp) -> None:
    condition = first(scf.IfOp, module)
    while (last := first(func.FuncOp, module).body.block.last_op) is not condition:
        assert last is not None
        last.detach()


def yields_what_another_branch_has(module: ModuleOp) -> None:
    condition = first(scf.IfOp, module)
    inside = first(arith.AddiOp, condition)
    end = condition.false_region.block.last_op
    assert end is not None
    end.operands[0] = inside.result


def takes_what_the_loop_has_behind_it(module: ModuleOp) -> None:
    inside = first(arith.AddiOp, first(scf.ForOp, module))
    first(arith.AddiOp, first(scf.IfOp, module)).operands[0] = inside.result


def takes_the_counter_behind_the_loop(module: ModuleOp) -> None:
    first(arith.MuliOp, module).operands[0] = first(scf.ForOp, module).body.block.args[0]


def moves_a_value_behind_its_use(module: ModuleOp) -> None:
    total = first(arith.AddfOp, module)
    end = first(func.ReturnOp, module)
    total.detach()
    first(func.FuncOp, module).body.block.insert_op_before(total, end)


def erases_what_is_used(module: ModuleOp) -> None:
    compared = first(scf.IfOp, module).cond.owner
    assert isinstance(compared, Operation)
    compared.detach()


def yields_too_little(module: ModuleOp) -> None:
    body = first(scf.ForOp, module).body.block
    end = body.last_op
    assert end is not None
    end.operands = end.operands[:1]


def yields_another_type(module: ModuleOp) -> None:
    condition = first(scf.IfOp, module)
    end = condition.true_region.block.last_op
    assert end is not None
    end.operands = [condition.cond]


def ends_in_the_middle(module: ModuleOp) -> None:
    body = first(scf.ForOp, module).body.block
    assert body.first_op is not None
    body.insert_op_before(scf.YieldOp(body.args[1], body.args[2]), body.first_op)


def has_the_end_of_another(module: ModuleOp) -> None:
    body = first(scf.ForOp, module).body.block
    assert body.last_op is not None
    body.last_op.detach()
    body.add_op(func.ReturnOp())


BROKEN = {
    loses_its_end: "a block of func.func ends in xetile.store_tile instead of func.return",
    loses_all_behind_the_condition: "a block of func.func ends in scf.if instead of func.return",
    yields_what_another_branch_has: "scf.yield takes a result of arith.addi that is defined in another region",
    takes_what_the_loop_has_behind_it: "arith.addi takes a result of arith.addi that is defined in another region",
    takes_the_counter_behind_the_loop: "arith.muli takes a block's argument that is defined in another region",
    moves_a_value_behind_its_use: "xetile.store_tile takes a result of arith.addf that is defined later",
    erases_what_is_used: "scf.if takes a result of arith.cmpi that is defined nowhere",
    yields_too_little: r"scf.yield has the types \(index\) where scf.for has \(index, index\)",
    yields_another_type: r"scf.yield has the types \(i1\) where scf.if has \(index\)",
    ends_in_the_middle: "scf.yield stands in the middle of a block",
    has_the_end_of_another: "a block of scf.for ends in func.return instead of scf.yield",
}


@dataclass(frozen=True)
class Breaks:
    """A pass that breaks what it is given."""

    change: Callable[[ModuleOp], None]

    def apply(self, module: ModuleOp) -> ModuleOp:
        """A broken copy."""
        new = module.clone()
        self.change(new)
        return new


@pytest.mark.parametrize("change", BROKEN, ids=lambda change: change.__name__)
def test_a_broken_pass_is_named(change: Callable[[ModuleOp], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "PASSES", tuple(
        (name, lambda options: Breaks(change)) if name == "simplify-indvars" else (name, make)
        for name, make in pipeline.PASSES))
    with pytest.raises(xt.XeError, match=f"the pass simplify-indvars broke the kernel: {BROKEN[change]}") as caught:
        assert xt.parse(TEXT)["f"].lower(*ARGUMENTS, target="pvc").final
    assert caught.value.code == "XT9303"


def test_a_kernel_that_is_well_formed_is_taken() -> None:
    check_structure("none", module())


def test_values_of_several_blocks_are_taken_in_any_order() -> None:
    new = module()
    function = first(func.FuncOp, new)
    constant = arith.ConstantOp(IntegerAttr(1, IndexType()))
    function.body.block.split_before(first(scf.IfOp, new))
    check_structure("none", ModuleOp([function.clone()]))
    last = function.body.blocks[-1]
    assert last.first_op is not None
    last.insert_op_before(arith.AddiOp(constant.result, constant.result), last.first_op)
    with pytest.raises(xt.XeError, match="defined nowhere"):
        check_structure("none", new)
