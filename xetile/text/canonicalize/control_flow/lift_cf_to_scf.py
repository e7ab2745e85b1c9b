"""Lifting of control-flow graphs to structured control flow: ``cf`` to ``scf.for`` and ``scf.if``.

      cf.br ^head(%c0, %zero : index, f32)
    ^head(%i: index, %sum: f32):
      %more = arith.cmpi slt, %i, %n : index
      cf.cond_br %more, ^body, ^end
    ^body:
      %next = arith.addf %sum, %x : f32
      %j = arith.addi %i, %c1 : index
      cf.br ^head(%j, %next : index, f32)
    ^end:
becomes
      %end = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %zero) { ... scf.yield %next : f32 }

A natural loop is lifted if its header decides whether to go on, by comparing a counter to a bound that does not change;
each back edge adds the same step to the counter. Branches are lifted up to the block in which both sides meet
(their immediate post-dominator); a block that several branches share is copied into each.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, cf, func, scf
from xdsl.dialects.builtin import IndexType, IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from xegpu.ir.matchers import number
from xegpu.mlir.arith import IndexCastOp
from xegpu.mlir.gpu import GpuFuncOp, GpuReturnOp
from xegpu.support.errors import TextError, error_parts
from xetile.text.canonicalize.control_flow.counted_loop import CountedLoop, counted_loop, edges_of
from xetile.text.canonicalize.control_flow.flow_graph import FlowGraph, terminator
from xetile.text.canonicalize.diagnostics import fail_at

Edge = tuple[Block, list[SSAValue]]
"""A block to go on in, with the values of its arguments."""
_MOST_NESTED = 60
"""Most loops and branches inside each other: each takes frames of Python's stack here and in every pass."""
_MOST_COPIES = 8
"""Limit of a function's growth by blocks that several branches share, as a factor."""


def lift_control_flow(module: ModuleOp) -> None:
    """Lift the functions of a module whose body has several blocks.

    Raises:
        TextError: a graph has a loop with several entries or exits, or one that counts nothing.
    """
    loops = [operation for operation in module.walk() if isinstance(operation, scf.WhileOp)]
    for loop in reversed(loops):  # what is inside a loop first
        _lift_while(loop)
    if loops:  # what is left of attempts uses values of the functions
        body = module.body.block
        for operation in list(body.ops):
            body.insert_op_before(operation.clone(), operation)
            body.erase_op(operation, safe_erase=False)
    for operation in list(module.walk()):
        if isinstance(operation, (func.FuncOp, GpuFuncOp)) and operation.body.first_block is not None and \
                isinstance(operation.body.first_block.last_op, (cf.BranchOp, cf.ConditionalBranchOp)):
            _Lifter(operation).lift()


def _lift_while(loop: scf.WhileOp) -> None:
    """Lift a ``scf.while`` that counts to ``scf.for``; another one stays.

    Its copy becomes the blocks of a function of its own, whose one block then replaces it.
    """
    copy = loop.clone()
    head, body = (region.detach_block(0) for region in (copy.before_region, copy.after_region))
    condition, yielded = head.last_op, body.last_op
    if not isinstance(condition, scf.ConditionOp) or not isinstance(yielded, scf.YieldOp) or \
            [each.type for each in condition.args] != [each.type for each in body.args]:
        return  # the verifier says what is wrong with it
    for argument, passed in zip(list(body.args), condition.args, strict=True):  # the head dominates the body
        argument.replace_all_uses_with(passed)
        body.erase_arg(argument)
    entry, leave = Block(), Block()
    entry.add_op(_at(cf.BranchOp(head, *loop.arguments), loop))
    head.add_op(_at(cf.ConditionalBranchOp(condition.condition, body, (), leave, ()), loop))
    body.add_op(_at(cf.BranchOp(head, *yielded.arguments), loop))
    leave.add_op(func.ReturnOp(*condition.args))
    head.erase_op(condition)
    body.erase_op(yielded)
    around = func.FuncOp("loop", ((), loop.result_types), Region([entry, head, body, leave]))
    try:
        _Lifter(around).lift()
    except TextError:
        return
    lifted = around.body.block
    result = lifted.last_op
    assert isinstance(result, func.ReturnOp)
    for operation in list(lifted.ops):
        if operation is not result:
            lifted.detach_op(operation)
            _block_around(loop).insert_op_before(operation, loop)
    for old, new in zip(loop.results, result.arguments, strict=True):
        old.replace_all_uses_with(new)
    lifted.erase_op(result)
    _block_around(loop).erase_op(loop)


def _block_around(operation: Operation) -> Block:
    assert operation.parent is not None
    return operation.parent


class _Lifter:
    """Lifting of one function: blocks are cloned into structured regions."""

    def __init__(self, function: func.FuncOp | GpuFuncOp) -> None:
        self._function = function
        self._entry = function.body.blocks[0]
        for operation in function.walk():
            if isinstance(operation, (cf.BranchOp, cf.ConditionalBranchOp)):
                _check_branch(operation)
        for block in function.body.blocks:
            _check_terminator(function, block)
        self._graph = FlowGraph(self._entry)
        self._values: dict[SSAValue, SSAValue] = {}
        self._return: Operation | None = None
        self._depth = 0
        self._left = _MOST_COPIES * sum(1 for _ in function.walk()) + 1000

    def lift(self) -> None:
        """Replace the function's blocks by one."""
        if self._graph.irreducible is not None:
            first, into = self._graph.irreducible
            fail_at(terminator(first), "XT2601",
                    f"it enters a loop in its middle, at ^{into.name_hint or 'a block'} beside the loop's head",
                    "give the loop one block that all of its entries go to")
        if endless := [block for block in self._graph.order if not self._graph.ends(block)]:
            fail_at(terminator(endless[0]), "XT2602", "no way leads from here to the end of the kernel",
                    "let the loop end: a kernel that runs for ever is stopped by the driver")
        new = Block(arg_types=[argument.type for argument in self._entry.args])
        for before, after in zip(self._entry.args, new.args, strict=True):
            after.name_hint = before.name_hint
        self._sequence((self._entry, list(new.args)), None, new)
        assert self._return is not None, "every path ends with a return"
        new.add_op(self._return)
        old = self._function.detach_region(self._function.body)
        self._function.add_region(Region(new))
        old.drop_all_references()

    def _sequence(self, edge: Edge, stop: Block | None, out: Block) -> list[SSAValue]:
        """Clone what runs from an edge on until ``stop``, or the function's end; returns the values for ``stop``."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            fail_at(terminator(edge[0]), "XT2603", f"more than {_MOST_NESTED} loops and branches are inside each other",
                    "make the kernel simpler, or split it")
        block, values = edge
        while block is not stop:
            loop = self._graph.loops.get(block)
            following = self._loop(block, values, loop, out) if loop else self._block(block, values, out)
            if following is None:
                break
            block, values = following
        self._depth -= 1
        return values

    def _copy(self, block: Block, values: Sequence[SSAValue], out: Block) -> None:
        """Clone the operations of a block but its terminator."""
        for argument, value in zip(block.args, values, strict=True):
            self._values[argument] = value
            value.name_hint = value.name_hint or argument.name_hint
        for operation in block.ops:
            self._left -= 1  # of a terminator, too, which may be all that a block has
            if self._left < 0:
                fail_at(operation, "XT2603", "branches share so many blocks that copying them for each does not end",
                        "let branches meet again before the next ones")
            if operation is not block.last_op:
                out.add_op(operation.clone(self._values))

    def _mapped(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        return [self._values.get(value, value) for value in values]

    def _block(self, block: Block, values: Sequence[SSAValue], out: Block) -> Edge | None:
        """Clone a block and the branch at its end; returns the edge to go on from, None at the function's end."""
        self._copy(block, values, out)
        last = block.last_op
        if isinstance(last, cf.BranchOp):
            return last.successor, self._mapped(last.arguments)
        if not isinstance(last, cf.ConditionalBranchOp):
            assert last is not None
            self._return = self._return or last.clone(self._values)
            return None
        merge = self._graph.merge_of(block)
        sides = ((last.then_block, last.then_arguments), (last.else_block, last.else_arguments))
        blocks, ends = [], []
        for target, arguments in sides:
            blocks.append(Block())
            ends.append(self._sequence((target, self._mapped(arguments)), merge, blocks[-1]))
        types = [argument.type for argument in merge.args] if merge is not None else []
        for side, passed in zip(blocks, ends, strict=True):
            side.add_op(_at(scf.YieldOp(*(passed if merge is not None else ())), last))
        empty = not types and blocks[1].first_op is blocks[1].last_op
        branch = scf.IfOp(self._values.get(last.cond, last.cond), types, Region(blocks[0]),
                          None if empty else Region(blocks[1]))
        out.add_op(_at(branch, last))
        return None if merge is None else (merge, list(branch.results))

    def _loop(self, header: Block, values: Sequence[SSAValue], inside: set[Block], out: Block) -> Edge:
        """Clone a natural loop as ``scf.for``; returns the edge that leaves it."""
        counted = counted_loop(self._graph, header, inside)
        last = header.last_op
        assert isinstance(last, cf.ConditionalBranchOp)
        counter = header.args[counted.position]
        escapes = _is_used_outside(counter, inside) or any(
            _is_used_outside(result, inside) for operation in header.ops for result in operation.results)
        carried = [i for i in range(len(header.args)) if i != counted.position]
        start = self._index(values[counted.position], out, last)
        bound = self._bound(counted, values[counted.position], out, last)
        step = self._index(self._outside(counted.step, inside, out), out, last)
        body = Block(arg_types=[IndexType(), *(header.args[i].type for i in carried),
                                *([counter.type] if escapes else [])])
        inner: list[SSAValue] = list(body.args[1:1 + len(carried)])
        inner.insert(counted.position, self._of_index(body.args[0], counter, body, last))
        body.args[0].name_hint = counter.name_hint
        self._copy(header, inner, body)
        enters = (counted.body, self._mapped(last.then_arguments if counted.body is last.then_block
                                             else last.else_arguments))
        passed = self._sequence(enters, header, body)
        body.add_op(_at(scf.YieldOp(*(passed[i] for i in carried), *([passed[counted.position]] if escapes else ())),
                        last))
        initial = [*(values[i] for i in carried), *([values[counted.position]] if escapes else [])]
        loop = scf.ForOp(start, bound, step, initial, Region(body))
        out.add_op(_at(loop, last))
        after: list[SSAValue] = list(loop.results[:len(carried)])
        after.insert(counted.position, loop.results[-1] if escapes else start)
        if escapes:
            self._copy(header, after, out)
        else:
            self._values.update(zip(header.args, after, strict=True))
        leaves = last.else_block if counted.body is last.then_block else last.then_block
        return leaves, self._mapped(last.else_arguments if leaves is last.else_block else last.then_arguments)

    def _bound(self, counted: CountedLoop, start: SSAValue, out: Block, at: Operation) -> SSAValue:
        """Upper bound of ``scf.for``, which compares as signed and excludes it."""
        value = self._values.get(counted.bound, counted.bound)
        if counted.unsigned and any((known := number(each)) is None or known < 0 for each in (start, value)):
            fail_at(counted.comparison, "XT2607", "it counts as unsigned, and scf.for as signed",
                    "compare with slt or sle, or start and end at constants that are not negative")
        bound = self._index(value, out, at)
        if not counted.inclusive:
            return bound
        one = _at(arith.ConstantOp(IntegerAttr(1, IndexType())), at)
        more = _at(arith.AddiOp(bound, one.results[0]), at)
        out.add_ops([one, more])
        return more.results[0]

    def _outside(self, step: SSAValue, inside: set[Block], out: Block) -> SSAValue:
        """The step of a loop in front of it; a constant inside the loop is cloned."""
        owner = step.owner
        if isinstance(owner, arith.ConstantOp) and owner.parent in inside:
            clone = owner.clone()
            out.add_op(clone)
            return clone.result
        return self._values.get(step, step)

    @staticmethod
    def _index(value: SSAValue, out: Block, at: Operation) -> SSAValue:
        """A bound as an index."""
        if isinstance(value.type, IndexType):
            return value
        cast = _at(IndexCastOp(value, IndexType()), at)
        out.add_op(cast)
        return cast.results[0]

    @staticmethod
    def _of_index(value: SSAValue, counter: SSAValue, out: Block, at: Operation) -> SSAValue:
        """The loop's induction variable in the counter's type."""
        if isinstance(counter.type, IndexType):
            return value
        cast = _at(IndexCastOp(value, counter.type), at)
        out.add_op(cast)
        return cast.results[0]


def _at(operation: Operation, like: Operation) -> Operation:
    operation.location = like.location
    return operation


def _check_branch(operation: Operation) -> None:
    """Check that a branch passes the arguments of its target."""
    try:
        operation.verify(verify_nested_ops=False)
    except VerifyException as error:
        code, message, hint = error_parts(error)
        fail_at(operation, code, message, hint)
    for target, arguments in edges_of(operation):
        wanted, passed = ([value.type for value in values] for values in (target.args, arguments))
        if wanted != passed:
            fail_at(operation, "XT2608", f"it passes ({', '.join(map(str, passed))}) to a block that takes "
                    f"({', '.join(map(str, wanted))})", "pass a value of its type for each argument of the block")


def _check_terminator(function: Operation, block: Block) -> None:
    """Check that a block ends with a branch or a return."""
    last = block.last_op
    if not isinstance(last, (cf.BranchOp, cf.ConditionalBranchOp, func.ReturnOp, GpuReturnOp)):
        fail_at(last or function, "XT2609", "a block ends here without a branch or a return" if last is not None
                else "one of its blocks has no operation", "end it with cf.br, cf.cond_br, or the function's return")


def _is_used_outside(value: SSAValue, inside: set[Block]) -> bool:
    """Whether a value of a loop's header is used by blocks that are not the loop's, or passed to them."""
    for use in value.uses:
        block: Block | None = use.operation.parent
        while block is not None and not isinstance(block.parent_op(), (func.FuncOp, GpuFuncOp)):
            above = block.parent_op()
            block = above.parent if above is not None else None
        if block is not None and block not in inside:
            return True
        if any(target not in inside and value in arguments for target, arguments in edges_of(use.operation)):
            return True
    return False

