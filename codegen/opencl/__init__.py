"""Emitter of OpenCL C from lowered XeGPU: one rule for each operation.

The text uses the official Intel extension builtins only, and it is the same for every device: what a device lacks, a
prelude supplies (:mod:`codegen.opencl.prelude`). Fragments are named vector variables in straight-line code, since
arrays of accumulators may end up in memory. Each kind of operation has its rules in a file of its own.
"""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import chain

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation

from codegen.opencl import arith, block_io, control_flow, debug, dpas, gather_scatter, kernel, sync, vector
from codegen.opencl.arith import compare, inline
from codegen.opencl.block_io import payload, slm
from codegen.opencl.cpu_gemm import fused_store, simt
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.gather_scatter import scalar
from codegen.opencl.kernel import build_options
from codegen.opencl.prelude.macros import fallbacks
from codegen.opencl.source import Source
from codegen.opencl.vector import convert_layout, dequantize, padding, reduction, shuffle, shuffle_rows, widen
from xegpu.analysis import barriers, lane_hazards
from xegpu.dialect.debug import prints
from xegpu.ir.kernel_attributes import subgroup_count, subgroup_size
from xegpu.target.targets import Target


def emit(function: func.FuncOp, target: Target, *, large_buffers: bool = False) -> Source:
    """Emit a fully lowered kernel as OpenCL C.

    Args:
        function: the last stage of the pipeline.
        target: the device that build options are chosen for.
        large_buffers: whether an array is beyond a surface state (:mod:`xegpu.target.surface_state`).
    """
    taken: frozenset[str] = frozenset()
    while True:  # once, but for an author's name that is a helper function's
        source, hidden = _emit(function, target, taken, large_buffers=large_buffers)
        if not hidden:
            return source
        taken |= hidden


def _emit(function: func.FuncOp, target: Target, taken: frozenset[str], *,
          large_buffers: bool) -> tuple[Source, frozenset[str]]:
    """Emit a kernel.

    Args:
        function: the kernel.
        target: as in :func:`emit`.
        taken: names that no variable may have.
        large_buffers: as in :func:`emit`.

    Returns:
        the text, and names of helper functions that a variable of it hides.
    """
    subgroup, subgroups = subgroup_size(function), subgroup_count(function)
    emitter = Emitter(RULES, target, subgroup, taken)
    emitter.kernel = function
    emitter.split_barriers = barriers.workgroup_barriers(function, subgroups, target)
    if target.is_cpu:
        emitter.lane_barriers = lane_hazards.barriers(function)
    emitter.producer_consumer_barriers = barriers.producer_consumer(function)
    name = emitter.name(function.sym_name.data)
    reported = debug.parameter(emitter, function)
    parameters = [*kernel.of_function(emitter, function), *reported]
    for operation in function.body.block.ops:
        if not isinstance(operation, func.ReturnOp):
            emitter.emit(operation)
    assert not emitter.pending_stores
    body = "\n".join([*emitter.constant_lines(), *emitter.lines]) + "\n"
    ranks = tuple(len(a.type.get_shape()) if isinstance(a.type, MemRefType) else None
                  for a in function.body.block.args)
    source = Source(name, tuple(parameters), body, build_options(function, target, large_buffers), subgroups,
                    subgroup, ranks,
                    declarations=tuple(chain(*emitter.declarations.values())),
                    predefined=frozenset(emitter.predefined), identifiers=emitter.identifiers,
                    divergent_barriers=bool(barriers.divergent_operations(function)),
                    assertions=emitter.assertions, prints=prints(function))
    functions = {match[0] for each in emitter.declarations if (match := re.search(r"\w+$", each))}
    return replace(source, macros=_macros(source.text, emitter)), emitter.identifiers & functions - taken


def _macros(text: str, emitter: Emitter) -> str:
    """Pragmas and optional macros that a kernel's text uses."""
    pragma = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n" if "half" in text else ""
    return f"{pragma}{fallbacks(text)}{sync.MACROS if emitter.needs_named_barriers else ''}"


RULES: dict[type[Operation], Rule] = {
    operation: rule
    for family in (arith, compare, inline, vector, reduction, convert_layout, shuffle, shuffle_rows, widen, dequantize,
                   dpas, simt, block_io, padding, scalar, slm,
                   gather_scatter, sync, debug, control_flow, kernel, fused_store, payload)
    for operation, rule in family.RULES.items()
}
"""Emission rules by operation, from the module of each family."""
