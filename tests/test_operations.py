"""Operations of vector, XeGPU, XeTile and SuperVector: each has NumPy semantics, and is emitted or lowered."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest
from xdsl.ir import Operation

import xegpu.passes
import xetile.passes
from codegen.opencl import RULES as OPENCL
from xegpu.dialect import Vector, XeGPU
from xetile.dialect import XeTile
from xetile.dialect.supervector import SuperVector
from xetile.interpreter.semantics import SEMANTICS

REFUSED = {"vector.bitcast", "vector.create_mask", "vector.fma", "vector.insert", "vector.load", "vector.maskedload",
           "vector.maskedstore", "vector.print", "vector.reduction", "vector.store", "vector.transfer_read",
           "vector.transfer_write"}
"""Operations of the vector dialect that no execution has: the reader lowers some of them, and refuses the rest."""
OPERATIONS: list[type[Operation]] = [operation for dialect in (Vector, XeGPU, XeTile, SuperVector)
                                     for operation in dialect.operations]


def _modules(package: ModuleType) -> list[ModuleType]:
    return [importlib.import_module(found.name)
            for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]


LOWERED = {operation for package in (xegpu.passes, xetile.passes) for module in _modules(package)
           for name, table in vars(module).items() if name.endswith("RULES") and isinstance(table, dict)
           for operation in table}
"""Operations for which a pass has a rule."""


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_an_operation_has_semantics_and_is_emitted_or_lowered(operation: type[Operation]) -> None:
    assert (operation in SEMANTICS) == (operation.name not in REFUSED)
    if operation.name not in REFUSED:
        assert operation in OPENCL or operation in LOWERED


def test_no_refused_operation_is_of_another_dialect() -> None:
    assert {operation.name for operation in OPERATIONS} >= REFUSED
