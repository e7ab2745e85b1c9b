"""Predicated loads and stores: one message a register, with no branch around it.

The SPIR-V extension ``SPV_INTEL_predicated_io`` has such loads and stores, which Intel's compiler takes under their
SPIR-V names. Where a device lacks them the prelude supplies them.
"""

from __future__ import annotations

from typing import Any

from codegen.opencl.emitter import Emitter, atom
from codegen.opencl.values import Scattered
from xegpu.ir.dtypes import DType

LOAD, STORE = "__spirv_PredicatedLoadINTEL", "__spirv_PredicatedStoreINTEL"


def bits_of(emitter: Emitter, operand: Any) -> str:
    """Single word of a fragment with one element a lane."""
    (word,) = emitter.fragment(operand).words()
    return word


def condition_of(emitter: Emitter, mask: Any) -> str:
    """C condition of a mask; nonzero is true."""
    return f"{atom(bits_of(emitter, mask))} != 0"


def declare_predicated(emitter: Emitter, dtype: DType) -> None:
    """Declarations of the predicated load and store builtins of an element type."""
    type_ = dtype.opencl
    declare_predicated_load(emitter, type_)
    emitter.external(STORE, f"void __attribute__((overloadable)) {STORE}(global {type_} *, {type_}, bool);")


def declare_predicated_load(emitter: Emitter, type_: str) -> None:
    """Declaration of the predicated load builtin of a C type."""
    emitter.external(LOAD, f"{type_} __attribute__((overloadable)) {LOAD}(global const {type_} *, bool, {type_});")


def addresses_of(desc: Scattered, chunk: int) -> list[str]:
    """Pointers to a lane's elements."""
    return [f"{desc.base} + {desc.offset}" + (f" + {i}" if i else "") for i in range(chunk)]
