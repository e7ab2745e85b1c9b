"""Findings of the simulator as errors at the author's line, found by the compiler's line table."""

from __future__ import annotations

import re
from collections.abc import Callable

from xdsl.dialects import func
from xdsl.ir import Operation

from codegen.opencl.emitter import line_mark
from codegen.runtime.program_source import Program
from codegen.simulator.findings import Finding
from codegen.simulator.launch.source_lines import source_line
from codegen.toolchain.compile_error import author_line
from xegpu.ir.memref import is_shared
from xegpu.ir.use_def import array_of
from xegpu.support.errors import CheckError, XeError
from xegpu.support.location import Location, author_location
from xetile.compiler.compiled import CompiledKernel
from xetile.dialect.stage import only_function

_ACCESSES = {"reads": "load|gather", "writes": "store|scatter", "updates": "atomic", "prefetches": "prefetch",
             "waits": "wait|barrier"}
"""Names of the operations that access memory so, or that wait."""


def check_error(finding: Finding, compiled: CompiledKernel, with_lines: Callable[[], bytes],
                program: Program) -> CheckError:
    """The error for a finding.

    Args:
        finding: the finding.
        compiled: the kernel.
        with_lines: builds it with a line table, which leaves its code as it is.
        program: what was built.
    """
    message = finding.message
    if finding.group is not None:  # the author's order of axes is the reverse
        message = f"subgroup {finding.subgroup} of work-group {finding.group[::-1]} {message}"
    return CheckError(finding.code, message, finding.hint, _location(finding, compiled, with_lines, program))


def _location(finding: Finding, compiled: CompiledKernel, with_lines: Callable[[], bytes],
              program: Program) -> Location | None:
    """The author's location of the instruction; that of the kernel where nothing tells more."""
    if finding.offset is None or not isinstance(program.source, str):
        return compiled.location
    try:
        line = source_line(with_lines(), program.name, finding.offset, _first_line(program.source, program.name))
    except XeError:  # the compiler fails with a line table: the finding matters more
        return compiled.location
    mark = author_line(program.source, line) if line else ""
    return _operation_at(only_function(compiled.final), mark, finding) or compiled.location


def _operation_at(function: func.FuncOp, mark: str, finding: Finding) -> Location | None:
    """Location of the operation of a line that accesses memory as the finding has it, or of the nearest one.

    Inline assembly has no line of its own in the compiler's table: it gets that of what stands before or behind it.
    """
    operations = [(operation, location) for operation in function.walk()
                  if (location := author_location(operation)) is not None]
    here = [number for number, (_, location) in enumerate(operations) if line_mark(location) == mark]
    if not here:
        return None
    fitting = [number for number, (operation, _) in enumerate(operations) if _fits(operation, finding)]
    nearest = min(fitting or here, key=lambda number: min(abs(number - other) for other in here))
    return operations[nearest][1]


def _fits(operation: Operation, finding: Finding) -> bool:
    """Whether an operation accesses the memory that a finding is about, in that way."""
    if not finding.access or not re.search(_ACCESSES[finding.access], operation.name):
        return False
    return finding.access == "waits" or finding.in_shared_memory == any(
        is_shared(array_of(operand).type) for operand in operation.operands)


def _first_line(text: str, name: str) -> int:
    """Line of the kernel's signature, behind the helper functions."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"kernel void {name}("))
