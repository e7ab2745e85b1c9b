"""``scf.if`` in OpenCL C: what it gives are variables, declared before it and assigned in its branches.

A value that the second branch leaves as it was is the variable's first value, so that most conditions need no ``else``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from codegen.emitter import Emitter, Rule
from codegen.fragments import Coordinate, Descriptor, Fragment, Scattered
from codegen.loops import carried, parts, types
from xegpu.ir.use_def import makings


def _branches(emitter: Emitter, operation: scf.IfOp) -> None:
    blocks = [region.block for region in operation.regions if region.blocks]
    texts = [_text(emitter, block) for block in blocks]
    ends = [list(block.last_op.operands) if block.last_op is not None else [] for block in blocks]
    for results in zip(operation.results, *ends, strict=True):
        _result(emitter, results[0], results[1:], blocks[-1], texts)
    condition = emitter.values[operation.cond]
    emitter.line(f"if ({condition}) {{")
    emitter.lines += texts[0]
    if len(texts) > 1 and texts[1]:
        emitter.line("} else {")
        emitter.lines += texts[1]
    emitter.line("}")


def _text(emitter: Emitter, block: Block) -> list[str]:
    """The lines of a branch."""
    before, emitter.lines = emitter.lines, []
    emitter.depth += 1
    for operation in block.ops:
        if not isinstance(operation, scf.YieldOp):
            emitter.emit(operation)
    emitter.depth -= 1
    lines, emitter.lines = emitter.lines, before
    return lines


def _result(emitter: Emitter, result: SSAValue, yielded: tuple[SSAValue, ...], last: Block,
            texts: list[list[str]]) -> None:
    """Declare the variables of a result, and let the branches assign what they yield."""
    moves, values = len(makings(result)) > 1, [emitter.values[value] for value in yielded]
    stays = not _is_inside(yielded[-1], last)
    emitter.values[result], names = carried(emitter, result, values[-1] if stays else _blank(values[-1], moves), moves)
    indent = "  " * (emitter.depth + 1)
    for value, text in zip(values[:-1] if stays else values, texts, strict=False):
        assert types(value, moves) == types(values[-1], moves), "both branches keep a value in variables alike"
        text += [f"{indent}{name} = {part};" for name, part in zip(names, parts(value, moves), strict=True)]


def _is_inside(value: SSAValue, block: Block) -> bool:
    """Whether a value is made in a block, or further in."""
    above = value.owner if isinstance(value.owner, Block) else value.owner.parent
    while above is not None and above is not block:
        above = above.parent_block()
    return above is block


def _blank(value: Any, moves: bool) -> Any:
    """A value in the same variables, all zero: what stands there until a branch assigns them."""
    if isinstance(value, Fragment):
        return value.renamed((f"({value.c_type})(0)",) * len(value.names))
    if isinstance(value, Scattered):
        return replace(value, offset="0", base="0" if moves else value.base)
    if isinstance(value, Descriptor):
        return replace(value.placed(("0",) * 5) if moves else value, row=Coordinate(), column=Coordinate())
    return "0"


BRANCH_RULES: dict[type[Operation], Rule] = {scf.IfOp: _branches}
