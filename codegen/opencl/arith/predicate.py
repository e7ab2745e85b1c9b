"""Representation of predicates (``i1``) in OpenCL C.

In memory and as a scalar (``char``) one is a byte of 0 or 1. In a fragment it is a ``short`` of 0 or -1, which is what
OpenCL's comparisons of vectors give, narrowed at once and widened again where a selection wants it as wide as what it
selects: Intel's compiler sees through both, and keeps a flag register. Where it cannot, as in a mask that a loop
carries, shorts cost it half the instructions of bytes, and half the registers of ints.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue
from xdsl.utils.type import get_element_type_or_self

from codegen.opencl.emitter import Emitter
from codegen.opencl.values import SIGNED, Fragment, vector_type
from xegpu.ir.dtypes import DType, i1, i8, index, of_mlir


def in_memory(fragment: Fragment) -> Fragment:
    """Fragment of the elements' memory representation; only predicates differ."""
    return replace(fragment, dtype=i8) if fragment.dtype is i1 else fragment


def from_memory(emitter: Emitter, value: SSAValue) -> None:
    """Convert loaded bytes to predicates; every nonzero byte is true."""
    if of_mlir(get_element_type_or_self(value.type)) is not i1:
        return
    loaded, result = emitter.fragment(value), emitter.fresh(value)
    zero = f"({loaded.c_type})(0)"
    emitter.assign(value, result, [from_condition(f"{name} != {zero}", result.width) for name in loaded.names])


def to_memory(emitter: Emitter, fragment: Fragment) -> Fragment:
    """Convert a fragment to its memory representation: bytes 0 and 1 for predicates."""
    if fragment.dtype is not i1:
        return fragment
    count = len(fragment.names)
    variables = emitter.names("bytes", lambda stem: tuple(f"{stem}_{i}" for i in range(count)))
    result = in_memory(fragment.renamed(variables))
    for name, truth in zip(result.names, fragment.names, strict=True):
        emitter.line(f"const {result.c_type} {name} = {numbers(truth, i8, fragment.width)};")
    return result


def from_condition(condition: str, width: int, *, opposite: bool = False) -> str:
    """Convert the result of a C comparison (0 or 1 for scalars, 0 or -1 for vectors) to a predicate."""
    if width == 1:
        return f"(short)-{'!' if opposite else ''}({condition})"
    return f"{'~' if opposite else ''}convert_{vector_type('short', width)}({condition})"


def numbers(truth: str, dtype: DType, width: int, *, signed: bool = False) -> str:
    """Convert predicates to 0 and 1 of an integer or float type, or if they are signed to 0 and -1."""
    return f"convert_{vector_type(dtype.opencl, width)}({'' if signed else '-'}{truth})"


def as_wide_as(truth: str, dtype: DType, width: int) -> str:
    """Sign-extend predicates to the width of the operands of ``select``."""
    wide = vector_type(SIGNED[register_bits(dtype)], width)
    return truth if wide.startswith("short") else f"convert_{wide}({truth})"


def register_bits(dtype: DType) -> int:
    """Register width of an element in bits; an index is an ``int``."""
    return {i1: 16, index: 32}.get(dtype, dtype.bits)
