"""Fused stores in NumPy: their bodies are what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.ir import Operation

from xegpu.dialect.fused_store import LoadMadStoreOp

MEANINGS: Mapping[type[Operation], Callable[..., Any]] = {
    LoadMadStoreOp: lambda machine, operation, operands: machine.run(operation.body.block)}
