"""Inlining of ``func.call``: a kernel is one function, and what it calls becomes a part of it.

    func.func private @twice(%v: vector<8x16xf32>) -> vector<8x16xf32> { %w = arith.addf %v, %v ; return %w }
    func.func @kernel(...) { ... ; %y = func.call @twice(%x) : (vector<8x16xf32>) -> vector<8x16xf32> ; ... }
becomes
    func.func @kernel(...) { ... ; %y = arith.addf %x, %x ; ... }

A function that others call is no kernel, and is dropped.
"""

from __future__ import annotations

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from xegpu.mlir.gpu import GpuFuncOp, GpuModuleOp
from xegpu.rewrite.dce import erase
from xetile.text.canonicalize.diagnostics import fail_at

_MOST_OPERATIONS = 30_000
"""Operations of a text after inlining: functions that call others twice each grow as powers of two."""


def inline_calls(module: ModuleOp) -> None:
    """Inline the calls of all functions of a parsed module.

    Raises:
        TextError: a call is of no function of the text, or of other types; a function calls itself.
    """
    if any(isinstance(operation, func.CallOp) for operation in module.walk()):
        for operation in list(module.body.block.ops):
            if isinstance(operation, GpuModuleOp):
                _Inliner(list(operation.body.block.ops)).inline()
        _Inliner(list(module.body.block.ops)).inline()


class _Inliner:
    """Inlining among the functions of one symbol table."""

    def __init__(self, operations: list[Operation]) -> None:
        self._functions = {operation.sym_name.data: operation for operation in operations
                           if isinstance(operation, func.FuncOp) and operation.body.blocks}
        self._callers = [operation for operation in operations if isinstance(operation, (func.FuncOp, GpuFuncOp))]
        self._done: set[Operation] = set()
        self._called: dict[str, func.FuncOp] = {}
        self._count = 0

    def inline(self) -> None:
        """Inline all calls, and erase the functions that were called."""
        for function in self._callers:
            self._function(function, [])
        for callee in self._called.values():
            erase(callee)

    def _function(self, function: Operation, callers: list[str]) -> None:
        """Inline the calls of a function, after those of the functions that it calls."""
        if function in self._done:
            return
        for call in [operation for operation in function.walk() if isinstance(operation, func.CallOp)]:
            name = call.callee.string_value()  # type: ignore[no-untyped-call]
            callee = self._functions.get(name)
            if callee is None or len(callee.body.blocks) != 1:
                fail_at(call, "XT2086", f"@{name} is no function with a body here",
                        "define it beside the kernel: func.func private @f(...) -> ... { ... }")
            if callee is function or name in callers:
                fail_at(call, "XT2087", f"@{name} calls itself", "repeat with scf.for or scf.while",
                        ("it is here", callee))
            self._function(callee, [*callers, name])
            self._called[name] = callee
            self._replace(call, callee)
        self._done.add(function)

    def _replace(self, call: func.CallOp, callee: func.FuncOp) -> None:
        """Replace a call by the body of its function."""
        type_ = callee.function_type
        if tuple(call.operand_types) != tuple(type_.inputs) or tuple(call.result_types) != tuple(type_.outputs):
            fail_at(call, "XT2086", f"@{callee.sym_name.data} is {type_}, and is called with other types",
                    "pass what it takes, and name the types of what it returns", ("it is here", callee))
        values: dict[SSAValue, SSAValue] = dict(zip(callee.body.block.args, call.operands, strict=True))
        block = call.parent
        assert block is not None
        for operation in callee.body.block.ops:
            if isinstance(operation, func.ReturnOp):
                for old, new in zip(call.results, operation.operands, strict=True):
                    old.replace_all_uses_with(values.get(new, new))
                break
            copy = operation.clone(values)
            for old_part, new_part in zip(operation.walk(), copy.walk(), strict=True):
                new_part.location = old_part.location
                self._count += 1
            block.insert_op_before(copy, call)
            if self._count > _MOST_OPERATIONS:
                fail_at(call, "XT2079", f"functions that are called make more than {_MOST_OPERATIONS} operations",
                        "repeat with scf.for instead of by calls")
        erase(call)
