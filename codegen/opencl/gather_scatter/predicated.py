"""Operands of predicated loads and stores (:mod:`codegen.opencl.prelude.predicated`): addresses and conditions."""

from __future__ import annotations

from typing import Any

from codegen.opencl.emitter import Emitter, atom
from codegen.opencl.prelude.predicated import LOAD, STORE, load_prototype, store_prototype
from codegen.opencl.values import Scattered
from xegpu.ir.dtypes import DType


def bits_of(emitter: Emitter, operand: Any) -> str:
    """Single word of a fragment with one element a lane."""
    (word,) = emitter.fragment(operand).words()
    return word


def condition_of(emitter: Emitter, mask: Any) -> str:
    """C condition of a mask; nonzero is true."""
    return f"{atom(bits_of(emitter, mask))} != 0"


def declare_predicated(emitter: Emitter, dtype: DType) -> None:
    """Declarations of the predicated load and store builtins of an element type."""
    emitter.external(LOAD, load_prototype(dtype.opencl))
    emitter.external(STORE, store_prototype(dtype.opencl))


def addresses_of(desc: Scattered, chunk: int) -> list[str]:
    """Pointers to a lane's elements."""
    return [f"{desc.base} + {desc.offset}" + (f" + {i}" if i else "") for i in range(chunk)]
