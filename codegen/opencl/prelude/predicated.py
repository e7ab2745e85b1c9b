"""Predicated loads and stores: one message a register, with no branch around it.

The SPIR-V extension ``SPV_INTEL_predicated_io`` has such loads and stores, which Intel's compiler takes under their
SPIR-V names. Where a device lacks them the prelude supplies them.
"""

from __future__ import annotations

LOAD, STORE = "__spirv_PredicatedLoadINTEL", "__spirv_PredicatedStoreINTEL"


def load_prototype(type_: str) -> str:
    """Declaration of the load builtin of a C type."""
    return f"{type_} __attribute__((overloadable)) {LOAD}(global const {type_} *, bool, {type_});"


def store_prototype(type_: str) -> str:
    """Declaration of the store builtin of a C type."""
    return f"void __attribute__((overloadable)) {STORE}(global {type_} *, {type_}, bool);"
