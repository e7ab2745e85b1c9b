"""Arrays of more than two dimensions in OpenCL C: which matrix of a batch a descriptor stands on.

The base pointer is displaced to the matrix, in 64-bit arithmetic. Where an index is outside the array, the descriptor
stands on the first matrix, far below its last row: all that it reads is padding, and what it writes is dropped.
"""

from __future__ import annotations

from dataclasses import replace

from codegen.emitter import Emitter, atom
from codegen.fragments import Array, Coordinate
from xegpu.dialect.block_io import CreateNdTdescOp, desc_of

_BELOW = 1 << 28
"""A row that no matrix has (hardware.md: at most 2**24), and which may be moved far without leaving 32 bits."""


def matrix(emitter: Emitter, operation: CreateNdTdescOp, array: Array, row: Coordinate) -> tuple[Array, Coordinate]:
    """The matrix that a descriptor's leading offsets choose, and the row where the descriptor stands on it."""
    lead = [emitter.values[offset] for offset in operation.offsets[:-2]]
    if not lead:
        return array, row
    stem = operation.result.name_hint or array.name
    inside, first, name = (emitter.name(f"{stem}_{part}") for part in ("inside", "first", "matrix"))
    each = [(atom(index), atom(size), atom(stride))
            for index, size, stride in zip(lead, array.sizes[:-2], array.strides[:-2], strict=True)]
    within = " && ".join(f"(uint){index} < (uint){size}" for index, size, _ in each)
    displaced = " + ".join(f"{index} * (long){stride}" for index, _, stride in each)
    if not desc_of(operation.result).block.boundary_check:
        emitter.line(f"{array.space} {array.dtype.opencl} *{name} = {array.name} + {displaced};")
        return replace(array, name=name), row
    emitter.line(f"const bool {inside} = {within};")
    emitter.line(f"{array.space} {array.dtype.opencl} *{name} = {array.name} + ({inside} ? {displaced} : 0);")
    emitter.line(f"const int {first} = {inside} ? {row} : {_BELOW};")
    return replace(array, name=name), Coordinate(first)
