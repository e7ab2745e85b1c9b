"""One family of operations, one file name, in every layer: declaration, NumPy semantics, OpenCL rule, lane layout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.ir import Operation

from codegen.opencl import RULES as OPENCL
from xegpu.interpreter.interpreter import AcceptsLazy
from xegpu.passes.distribute_lanes import RULES as LANES
from xetile.interpreter.semantics import SEMANTICS

LAYERS = {"NumPy semantics": SEMANTICS, "OpenCL rule": OPENCL, "lane layout": LANES}
PART_OF = {"payload": "block_io", "bounds": "block_io", "fused_store": "dpas", "convert_layout": "vector",
           "inline": "arith", "math": "arith", "ub": "vector", "gpu": "kernel", "memref": "kernel", "builtin": "kernel",
           "scf": "control_flow"}
"""Files of the dialects, and dialects of MLIR, that hold a part of a family."""
ELSEWHERE = {
    ("OpenCL rule", "xegpu.load_mad"): "cpu_gemm",  # loads and products in one, which only CPUs have
    ("OpenCL rule", "xegpu.load_mad_store"): "cpu_gemm",
    ("OpenCL rule", "xegpu.fused_store_check"): "cpu_gemm",
    ("lane layout", "xegpu.pad"): "block_io",  # the layout is that of the load whose padding it is
    ("lane layout", "xegpu.pack"): "dpas",  # the operand of a product decides
    ("lane layout", "xegpu.bitcast"): "dpas",
    ("NumPy semantics", "memref.alloc"): "slm",
    ("OpenCL rule", "memref.alloc"): "slm",
    ("NumPy semantics", "gpu.barrier"): "sync",
    ("OpenCL rule", "gpu.barrier"): "sync",
    ("NumPy semantics", "memref.load"): "supervector",  # scalar accesses beside transfers; xegpu.load_scalar below
    ("NumPy semantics", "memref.store"): "supervector",
    ("lane layout", "arith.extf"): "vector",  # conversions of vectors, one element a lane
    ("lane layout", "arith.sitofp"): "vector",
    ("lane layout", "arith.uitofp"): "vector",
    ("lane layout", "vector.shape_cast"): "dpas",  # words of an operand, which the product decides
    ("lane layout", "vector.transpose"): "reduction",  # of blocks, as reductions are
}
"""Rules that stand with another family, and why."""
CASES = [(layer, operation, rule) for layer, rules in LAYERS.items() for operation, rule in rules.items()
         if rule.__module__ != "xegpu.rewrite.rewriter"]


def _function(rule: Any) -> Any:
    """The function of a rule: behind ``partial``, and behind the wrapper of one that takes deferred products."""
    return _function(rule.semantics) if isinstance(rule, AcceptsLazy) else getattr(rule, "func", rule)


@pytest.mark.parametrize(("layer", "operation", "rule"), CASES,
                         ids=[f"{layer}-{operation.name}" for layer, operation, _ in CASES])
def test_the_rule_stands_in_the_file_of_its_family(layer: str, operation: type[Operation],
                                                   rule: Callable[..., Any]) -> None:
    family = operation.__module__.split(".")[2]
    parts = _function(rule).__module__.split(".")
    expected = ELSEWHERE.get((layer, operation.name), PART_OF.get(family, family))
    assert expected in parts, f"{operation.name}: {'.'.join(parts)}"


def test_every_layer_takes_part() -> None:
    assert {layer for layer, _, _ in CASES} == {*LAYERS}
