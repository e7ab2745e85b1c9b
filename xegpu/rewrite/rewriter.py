"""1:N dialect conversion: builds a new function from an old one; an SSA value may be replaced by several.

A pass is a table from operation to rule. A rule looks up the replacements of the operands, emits new operations, and
sets the replacements of the results. Operations without a rule are cloned, once for each part of their operands, and
their results typed anew: views that move (:class:`xegpu.ir.traits.MovesView`) have the converted type of what they
move, loads and their like infer theirs (:class:`xegpu.ir.traits.InfersResultType`). Loops and branches are rebuilt with
all replacements of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import AnyFloat, IndexType, IntegerType, ModuleOp, VectorType
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from xegpu.ir.create import INDEX, append, copy_name, create, create_like, for_loop, function_like
from xegpu.ir.matchers import number
from xegpu.ir.region_branch import TERMINATORS
from xegpu.ir.traits import moves_view, type_inference
from xegpu.mlir.vector import vector_type
from xegpu.rewrite.builder import INDEX_OPS, Builder
from xegpu.rewrite.dce import erase_dead
from xegpu.rewrite.verifier import known_valid, verify
from xegpu.support.errors import Invalid, error_class, error_parts


@dataclass(frozen=True)
class ConvertedValues:
    """1:N replacement of an SSA value, with the pass's encoding (``form``) of how the parts compose."""

    values: tuple[SSAValue, ...]
    encoding: Any = None


Rule = Callable[[Any, Any], None]
"""Rewrite rule of one operation; its arguments are the pass's rebuilder and the operation."""


class Rewriter(Builder):
    """Conversion state of one function, the first argument of every rule.

    Attributes:
        keeps_unused: whether DCE is skipped, so that operations without uses are verified too.
    """

    keeps_unused = False

    def __init__(self, rules: Mapping[type[Operation], Rule]) -> None:
        super().__init__()
        self.rules = rules
        self.converted_values: dict[SSAValue, ConvertedValues] = {}

    def match(self, parts: ConvertedValues, like: ConvertedValues) -> ConvertedValues:
        """Convert ``parts`` to the encoding of ``like``; by default the encodings must be equal.

        A loop's yielded values must have the encoding of its initial values, and both branches the same encodings.
        """
        if parts.encoding != like.encoding:
            self.fail("XT9301",
                      f"a loop or a condition has a value as {like.encoding} before and as {parts.encoding} after its "
                      "body, which is a mistake of xetile", "please report it, with the kernel")
        return parts

    def function(self, old: func.FuncOp, arguments: Sequence[Attribute] | None = None) -> func.FuncOp:
        """Rewrite a function; ``arguments`` are its new argument types, by default the old ones."""
        self.entry = Block(arg_types=arguments or [argument.type for argument in old.body.block.args])
        for before, after in zip(old.body.block.args, self.entry.args, strict=True):
            copy_name(before, after)
            self.converted_values[before] = ConvertedValues((after,))
        self.body(old.body.block, self.entry)
        new = function_like(old, self.entry)
        known_valid.operations.add(new)  # its type is that of its block; the verifier looks for values from outside
        if not self.keeps_unused:
            erase_dead(self.entry)
        return new

    def body(self, old: Block, new: Block) -> list[ConvertedValues]:
        """Rewrite the operations of ``old`` into ``new``; returns the replacements of the yielded values."""
        yielded: list[ConvertedValues] = []
        with self.inside(new):
            for operation in old.ops:
                self.location = operation.location
                if type(operation) in TERMINATORS:  # isinstance takes five times as long: operations are ABCs
                    yielded = [self.lookup(value) for value in operation.operands]
                else:
                    self._visit(operation)
        return yielded

    def _visit(self, operation: Operation) -> None:
        """Rewrite one operation; if the new operations do not verify, the error is at its line."""
        try:
            self.visit(operation)
        except Invalid as error:
            code, message, hint = error_parts(error)
            raise error_class(error)(code, f"{operation.name}: {message}", hint, self.where()) from error

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation: by its rule, as a loop or branch, or by cloning."""
        rule = self.rules.get(type(operation))
        if rule is not None:
            rule(self, operation)
        elif operation.regions:
            self._region_branch(operation)
        else:
            for operand in operation.operands:
                if len(self.converted_values[operand].values) != 1:
                    self.each_part(operation)
                    return
            self.copy(operation)

    def _region_branch(self, operation: Operation) -> None:
        """Rewrite a loop or branch."""
        if isinstance(operation, scf.ForOp):
            self.loop(operation)
        elif isinstance(operation, scf.WhileOp):
            self._while(operation)
        else:
            assert isinstance(operation, scf.IfOp)
            self._branches(operation)

    def forward(self, operation: Operation) -> None:
        """Replace the only result of an operation by its only operand."""
        self.converted_values[operation.results[0]] = self.lookup(operation.operands[0])

    def copy(self, operation: Operation) -> None:
        """Clone an operation on 1:1 replacements of its operands; result vectors take their shape."""
        operands = [self.single(operand) for operand in operation.operands]
        kind = type(operation)
        if kind in INDEX_OPS and isinstance(operation.results[0].type, IndexType):
            self.set(operation.results[0], self.index(kind, *operands))
        elif type(operation) is arith.ConstantOp and isinstance(operation.result.type, IndexType):
            self.set(operation.result, self.constant(number(operation.result) or 0))
        else:
            encoded = operation.operands[:1] if keeps_type(operation) else operation.operands
            formed = next((parts for o in encoded if (parts := self.lookup(o)).encoding is not None), None)
            part, form = (None, None) if formed is None else (formed.values[0], formed.encoding)
            copied = self.like(operation, operands, self._result_types(operation, operands, part))
            for before, after in zip(operation.results, copied.results, strict=True):
                copy_name(before, after)
                encoding = form if form is not None and _is_composite(before) else None
                self.converted_values[before] = ConvertedValues((after,), encoding)

    def each_part(self, operation: Operation) -> None:
        """Clone an operation for each part of its operands; an operand with one part is used in every clone."""
        operands = [self.lookup(operand) for operand in operation.operands]
        widest = max(operands, key=lambda parts: len(parts.values))
        if any(len(parts.values) not in (1, len(widest.values)) for parts in operands):
            self.fail("XT9302",
                      f"the operands of {operation.name} are cut up differently, which is a mistake of xetile",
                      "please report it, with the kernel")
        results = []
        for position, part in enumerate(widest.values):
            chosen = [p.values[position] if len(p.values) > 1 else p.values[0] for p in operands]
            results.append(self.like(operation, chosen, self._result_types(operation, chosen, part)).results)
        for number_, result in enumerate(operation.results):
            self.set(result, tuple(clone[number_] for clone in results),
                     widest.encoding if _is_composite(result) else None)

    def _result_types(self, operation: Operation, operands: Sequence[SSAValue],
                      part: SSAValue | None) -> list[Attribute]:
        """Result types of an operation's clone on converted operands; vectors take the shape of ``part``, if any."""
        if keeps_type(operation):
            return [operands[0].type]
        infer = type_inference(type(operation))
        if infer is not None and not _have_types([value.type for value in operands], operation.operands):
            return [infer(operation, operands)]
        return [result.type if part is None else self.part_type(result.type, part.type) for result in operation.results]

    @staticmethod
    def part_type(whole: Attribute, like: Attribute) -> Attribute:
        """Type of a part of a result: the shape of an operand's part, the element type of the result."""
        if isinstance(whole, VectorType) and isinstance(like, VectorType):
            return vector_type(like.get_shape(), whole.element_type)
        return whole

    def retyped(self, operation: Operation, type_: Attribute, form: Any = None) -> None:
        """Clone an operation on 1:1 replacements of its operands, with ``type_`` as its only result's type."""
        copied = self.like(operation, [self.single(operand) for operand in operation.operands], [type_])
        self.set(operation.results[0], copied.results[0], form)

    def like(self, operation: Operation, operands: Sequence[SSAValue], types: Sequence[Attribute]) -> Operation:
        """Emit a copy of an operation with other operands and result types."""
        copied = create_like(operation, operands, types)
        self.emit(copied)
        if _have_types([value.type for value in operands], operation.operands) and \
                _have_types(types, operation.results):
            known_valid.operations.add(copied)
        return copied

    def loop(self, loop: scf.ForOp) -> None:
        """Rewrite a loop: its body, and its loop-carried values in the encodings of their initial values."""
        carried = self.initial_values(loop)
        block = Block(arg_types=[INDEX, *(value.type for parts in carried for value in parts.values)])
        old = loop.body.block
        self.set(old.args[0], block.args[0])
        copy_name(old.args[0], block.args[0])
        self.regroup(old.args[1:], carried, block.args[1:])
        location = self.location
        yielded, self.location = self.body(old, block), location
        self.close(block, yielded, carried)
        start, stop, step = (self.single(value) for value in (loop.lb, loop.ub, loop.step))
        new = for_loop(start, stop, step, [value for parts in carried for value in parts.values], block)
        new.attributes.update(loop.attributes)
        self.emit(new)
        known_valid.operations.add(new)  # arguments and results have the types of the initial values; see `close`
        self.regroup(loop.res, carried, new.res)

    def initial_values(self, loop: scf.ForOp) -> list[ConvertedValues]:
        """Look up a loop's initial values, in the encodings in which its body has them."""
        return [self.lookup(value) for value in loop.iter_args]

    def _while(self, loop: scf.WhileOp) -> None:
        """Rewrite ``scf.while``: carried values in the encodings of the initial ones, results in those forwarded."""
        carried = [self.lookup(value) for value in loop.arguments]
        old, old_after = loop.before_region.block, loop.after_region.block
        before = Block(arg_types=[value.type for parts in carried for value in parts.values])
        self.regroup(old.args, carried, before.args)
        location = self.location
        condition, *forwarded = self.body(old, before)
        before.add_op(scf.ConditionOp(*condition.values, *(value for parts in forwarded for value in parts.values)))
        after = Block(arg_types=[value.type for parts in forwarded for value in parts.values])
        self.regroup(old_after.args, forwarded, after.args)
        yielded, self.location = self.body(old_after, after), location
        self.close(after, yielded, carried)
        new = scf.WhileOp([value for parts in carried for value in parts.values],
                          [argument.type for argument in after.args], Region(before), Region(after))
        new.attributes.update(loop.attributes)
        self.emit(new)
        self.regroup(loop.res, forwarded, new.res)

    def _branches(self, operation: scf.IfOp) -> None:
        """Rewrite both branches; results have the encodings of the else branch, which may forward earlier values."""
        location = self.location
        old = [region.block for region in operation.regions if region.blocks]
        blocks = [Block() for _ in old]
        yielded = [self.body(before, block) for before, block in zip(old, blocks, strict=True)]
        self.location = location
        joined = self.joined_values(yielded)
        for block, parts in zip(blocks, yielded, strict=True):
            self.close(block, parts, joined)
        types = [value.type for parts in joined for value in parts.values]
        second = Region(blocks[1]) if len(blocks) > 1 else None
        new = scf.IfOp(self.single(operation.cond), types, Region(blocks[0]), second)
        self.emit(new)
        new.attributes.update(operation.attributes)
        self.regroup(operation.output, joined, new.output)

    def joined_values(self, branches: Sequence[list[ConvertedValues]]) -> list[ConvertedValues]:
        """Choose the encodings of a condition's results, of what its branches yield."""
        return branches[-1]

    def close(self, block: Block, yielded: Sequence[ConvertedValues], like: Sequence[ConvertedValues]) -> None:
        """Terminate the block of a loop or branch with ``scf.yield``, in the encodings of ``like``."""
        with self.inside(block):
            matched = [self.match(parts, form) for parts, form in zip(yielded, like, strict=True)]
        values, types = ([value for parts in group for value in parts.values] for group in (matched, like))
        for value, other in zip(values, types, strict=True):
            if value.type != other.type:
                self.fail("XT3525",
                          f"a value is {other.type} before the body of a loop or condition and {value.type} after it",
                          "a tile may go to another array only where both are stored in the same order: pass a "
                          "contiguous copy of one", **{"the value before": other, "the value after": value})
        end = create(scf.YieldOp, values, ())
        known_valid.operations.add(end)
        append(block, end)

    def regroup(self, old: Sequence[SSAValue], like: Sequence[ConvertedValues], new: Sequence[SSAValue]) -> None:
        """Set the replacements of several values: ``new`` in order, grouped in the encodings of ``like``."""
        position = 0
        for before, parts in zip(old, like, strict=True):
            values = tuple(new[position:position + len(parts.values)])
            position += len(values)
            for value in values:
                copy_name(before, value)
            self.converted_values[before] = ConvertedValues(values, parts.encoding)

    def lookup(self, value: SSAValue) -> ConvertedValues:
        """Look up the replacement of an old value."""
        return self.converted_values[value]

    def single(self, value: SSAValue) -> SSAValue:
        """Look up the 1:1 replacement of an old value."""
        (new,) = self.converted_values[value].values
        return new

    def set(self, old: SSAValue, new: SSAValue | tuple[SSAValue, ...], form: Any = None) -> None:
        """Set the replacement of an old value; unnamed new values take its name hint."""
        values = new if isinstance(new, tuple) else (new,)
        for value in values:
            if value.name_hint is None and not (type(value) is OpResult and type(value.op) is arith.ConstantOp):
                copy_name(old, value)
        self.converted_values[old] = ConvertedValues(values, form)


def _have_types(types: Sequence[Attribute], values: Sequence[SSAValue]) -> bool:
    """Whether values have these types; lists test identity first, and types are mostly the same objects."""
    return [*types] == [value.type for value in values]


def _is_composite(value: SSAValue) -> bool:
    """Whether a value has an encoding: an element of a vector, taken out as a number, has none."""
    return not _is_number(type(value.type))


@cache
def _is_number(kind: type[Attribute]) -> bool:
    """Whether a class of types is one of numbers; ``AnyFloat`` alone is ten classes, each of which runs Python code."""
    return issubclass(kind, IndexType | IntegerType | AnyFloat)


def keeps_type(operation: Operation) -> bool:
    """Whether the result is a view of the first operand's type: a tile or descriptor at other offsets."""
    return moves_view(type(operation)) and len(operation.results) == 1 \
        and operation.results[0].type == operation.operands[0].type  # a cast may have several results


def rewrite(module: ModuleOp, rebuild: Callable[[func.FuncOp], func.FuncOp]) -> ModuleOp:
    """Rebuild every function of a module and verify the new ones.

    Args:
        module: what a pass is applied to; it stays as it is.
        rebuild: the new function of an old one, or the old one itself where the pass changes nothing.

    Returns:
        the new module, or ``module`` itself if no function changed.

    Raises:
        XeError: a rule failed, or the result does not verify; it points at the author's line.
    """
    functions, changed = [], False
    for function in module.body.block.ops:
        assert isinstance(function, func.FuncOp)
        known_valid.operations = set()
        new = rebuild(function)
        if new is not function:
            verify(new, known_valid.operations)
            changed = True
        functions.append(new)
    known_valid.operations = set()
    if not changed:
        return module
    return ModuleOp([new.clone() if new.parent is not None else new for new in functions], dict(module.attributes))


def copied(function: func.FuncOp) -> func.FuncOp:
    """A copy of a function with dead operations erased and index arithmetic folded, to be changed in place."""
    return Rewriter({}).function(function)
