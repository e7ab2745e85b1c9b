"""Findings of the simulator as errors at the author's line, found by the compiler's line table."""

from __future__ import annotations

from collections.abc import Callable

from codegen.opencl.emitter import line_mark
from codegen.runtime.program_source import Program
from codegen.simulator.findings import Finding
from codegen.simulator.launch.source_lines import source_line
from codegen.toolchain.compile_error import author_line
from xegpu.support.errors import CheckError, XeError
from xegpu.support.location import Location, author_location
from xetile.compiler.compiled import CompiledKernel, only_function


def check_error(finding: Finding, compiled: CompiledKernel, with_lines: Callable[[], bytes],
                program: Program) -> CheckError:
    """The error for a finding.

    Args:
        finding: the finding.
        compiled: the kernel.
        with_lines: builds it with a line table, which leaves its code as it is.
        program: what was built.
    """
    message = f"{finding.where}: {finding.message}" if finding.where else finding.message
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
    place = author_line(program.source, line) if line else ""
    for operation in only_function(compiled.final).walk():
        location = author_location(operation)
        if location is not None and line_mark(location) == place:
            return location
    return compiled.location


def _first_line(text: str, name: str) -> int:
    """Line of the kernel's signature: what is above are functions that it calls."""
    return next(number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"kernel void {name}("))
