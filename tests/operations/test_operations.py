"""Every block operation of every element type in every execution, on bits that hurt; and what its record leaves out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

import xetile as xt
from tests.kernels import EXECUTIONS, Execution, viewed
from tests.operations import block_io, gather_scatter, memory, mma, reduction, sync, vector, work_group
from tests.operations.case import Case, Operands, operands
from tests.operations.coverage import seen
from tests.operations.text import texts
from tests.test_operations import OPERATIONS, REFUSED
from xegpu.ir.dtypes import STORED, DType
from xegpu.ir.record import record_of
from xegpu.target.targets import find_target
from xetile.compiler.compiled import CompiledKernel

FAMILIES = {module.__name__.rpartition(".")[2]: module
            for module in (vector, block_io, reduction, gather_scatter, mma, memory, work_group, sync)}
MACHINES = [Execution(f"machine:{gpu}", gpu) for gpu in ("pvc", "bmg")]
SWEPT = [*EXECUTIONS, Execution("numpy:xegpu", "cri"), *MACHINES]
LOWERED = ("pvc", "cpu", "cri", "dg2")
"""Targets whose lowered kernels together have every operation, those first that have the most of their own."""
ELSEWHERE = {
    "vector.shuffle": "xegpu/passes/test_interleave_rows.py", "xegpu.load_rows":
    "xetile/lang/gather_scatter/test_coalesced_rows.py", "supervector.contract": "xetile/text/test_supervector_ops.py",
    "xegpu.print": "xetile/lang/test_debug.py", "xegpu.assert": "xetile/lang/test_debug.py",
    "xegpu.inline": "xetile/lang/math/test_inline.py", "xegpu.in_bounds": "xegpu/passes/test_loop_stages.py",
    "xegpu.no_alias": "xegpu/passes/test_collapse_batch.py", "xegpu.convert_layout": "xetile/text/test_simt.py",
    "xegpu.get_nd_offsets": "xegpu/passes/test_loop_stages.py",
    "xegpu.alloc_nbarrier": "xetile/lang/sync/test_named_barriers.py",
    "xegpu.subgroup_barrier": "xetile/passes/test_slm_transpose.py",
    "xegpu.compile_hint": "xetile/text/test_mlir_extensions.py",
    "vector.transpose": "xegpu/interop/llvm/test_exporter.py",
    "xetile.load_columns": "xetile/passes/test_transpose_gathers.py",
    "xegpu.load_columns": "xetile/passes/test_transpose_gathers.py",
}
"""Operations that only some programs are lowered to, or whose operands have no elements: the file of their tests."""
MADE_FOR_PREFETCHES = ("xegpu.prefetch_nd", "xegpu.set_nd_offsets", "xegpu.payload_create", "xegpu.payload_set",
                       "xegpu.payload_prefetch")
"""Operations that are made for block prefetches, which 64-bit elements and truth values do not get."""
pytestmark = pytest.mark.unoptimised


def kernel(family: ModuleType, cases: list[Case]) -> Any:
    """One kernel for all cases of a family."""

    @xt.kernel(subgroups=getattr(family, "SUBGROUPS", (1, 1)))
    def sweep(arrays, outputs):  # type: ignore[no-untyped-def]
        for case, out in zip(cases, outputs, strict=True):
            value = case.build(Operands(*arrays, out))
            if value is not None:
                xt.store_tile(value, xt.init_tile(out, (0, 0), value.shape))

    return sweep


def arguments(dtype: DType, cases: list[Case]) -> tuple[list[np.ndarray[Any, Any]], tuple[Any, ...], tuple[Any, ...]]:
    """Output arrays; arguments of the kernel: operands, and views of the outputs."""
    outputs = [case.output() for case in cases]
    return outputs, tuple(viewed(array, dtype) for array in operands(dtype)), \
        tuple(viewed(out, case.element) for out, case in zip(outputs, cases, strict=True))


def has(execution: Execution, dtype: DType) -> bool:
    """Whether the execution's target computes in an element type."""
    return dtype not in find_target(execution.target).unsupported_types


def cases_of(family: str, dtype: DType, execution: Execution) -> list[Case]:
    """Cases of a family that an execution has."""
    return [case for case in FAMILIES[family].cases(dtype) if case.runs(execution.where, find_target(execution.target))]


def swept() -> Iterator[Any]:
    """Cases: families with element types, in every execution that has them."""
    for family, dtype, execution in itertools.product(FAMILIES, STORED, SWEPT):
        if has(execution, dtype) and cases_of(family, dtype, execution):
            yield pytest.param(family, dtype, execution, id=f"{family}-{dtype}-{execution}")


@pytest.mark.parametrize(("family", "dtype", "execution"), [*swept()])
def test_a_family(family: str, dtype: DType, execution: Execution) -> None:
    cases = cases_of(family, dtype, execution)
    outputs, arrays, views = arguments(dtype, cases)
    with np.errstate(all="ignore"):
        execution.bind(kernel(FAMILIES[family], cases))[1](arrays, views)
    for case, out in zip(cases, outputs, strict=True):
        case.check(out)


@pytest.mark.parametrize(("dtype", "execution"), [
    pytest.param(dtype, execution, id=f"{dtype}-{execution}") for dtype in STORED for execution in SWEPT
    if has(execution, dtype)])
def test_texts(dtype: DType, execution: Execution) -> None:
    for text in texts(dtype):
        out = np.zeros_like(text.expected)
        execution.bind(xt.parse(text.text(dtype))["case"])[1](viewed(text.given, dtype), viewed(out, dtype))
        np.testing.assert_array_equal(out.view(np.uint8), text.expected.view(np.uint8), text.name)


def test_every_operation_has_a_record() -> None:
    """Operations that no execution has need none."""
    assert {operation.name for operation in OPERATIONS if record_of(operation) is None} == REFUSED
    tests = Path(__file__).parent.parent
    assert all((tests / file).is_file() for file in ELSEWHERE.values())
    assert set(ELSEWHERE) <= {operation.name for operation in OPERATIONS}


REFUSALS: dict[str, Callable[[Any, Any], Any]] = {
    "xetile.iota": lambda value, array: xt.iota((8, 16), 0, value.dtype),
    "xetile.tile_reduce": lambda value, array: xt.tile_reduce("max" if value.dtype is not xt.i1 else "or", value, 1),
    "xetile.init_scattered_tile": lambda value, array: xt.load_gather(
        xt.init_tile(array, offsets=xt.iota((8, 16), 1, xt.index))),
    "xetile.atomic_rmw_tile": lambda value, array: xt.atomic_rmw_tile(
        "exchange", value, xt.init_tile(array, (0, 0), (8, 16))),
    "xegpu.load_scalar": lambda value, array: xt.full((8, 16), xt.load_scalar(array, (0, 0)), value.dtype),
    "xegpu.extract_scalar": lambda value, array: value + value[:1, :1].item(),
    "xegpu.pad": lambda value, array: xt.load_tile(xt.init_tile(array, (35, 0), (8, 16)), padding=1),
    "xetile.tile_mma": lambda value, array: xt.tile_mma(
        value, xt.tile_transpose(value), xt.zeros((8, 8), MULTIPLIED.get(value.dtype, xt.f32))),
}
"""Constructs of operations that not all element types have."""
MULTIPLIED = {xt.f64: xt.f64, xt.i8: xt.i32, xt.u8: xt.i32}
"""Accumulators; f32 where nothing is said."""


@pytest.mark.parametrize("dtype", STORED, ids=str)
@pytest.mark.parametrize("name", REFUSALS)
def test_the_element_types_of_a_record_are_taken_and_no_others(name: str, dtype: DType) -> None:
    @xt.kernel
    def once(A):  # type: ignore[no-untyped-def]
        REFUSALS[name](xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), A)

    operation = next(operation for operation in OPERATIONS if operation.name == name)
    record = record_of(operation)
    assert record is not None
    array = viewed(operands(dtype)[0], dtype)
    if dtype in record.elements and not (name == "xetile.tile_mma" and dtype is xt.i32):  # which is an accumulator
        once.lower(array, target="cri" if dtype.kind == "s" else "pvc")
    else:
        with pytest.raises(xt.XeError):
            once.lower(array)


@pytest.mark.everything
def test_the_cases_have_every_operation_of_every_element_type() -> None:
    """In the IR of all stages; operations without elements occur. Targets and families follow until none is missing."""
    missing = set[tuple[type[Operation], DType | None]]()
    for operation in OPERATIONS:
        record = record_of(operation)
        if record is None or operation.name in ELSEWHERE:
            continue
        elements = [element for element in record.elements
                    if operation.name not in MADE_FOR_PREFETCHES or not (element is xt.i1 or element.bits == 64)]
        missing |= {(operation, element) for element in (None, *elements)}
    for compiled in lowered():
        missing -= seen(compiled)
        if not missing:
            return
    assert not [f"{operation.name}:{element}" for operation, element in missing]


def lowered() -> Iterator[CompiledKernel]:
    """The kernels of all families and texts, lowered: for each target those first of which others have the least."""
    for target, family in itertools.product(LOWERED, ("mma", *(name for name in FAMILIES if name != "mma"), "texts")):
        for dtype in STORED:
            if not has(execution := Execution("numpy:xegpu", target), dtype):
                continue
            if family == "texts":
                for text in texts(dtype):
                    yield xt.parse(text.text(dtype))["case"].lower(
                        viewed(text.given, dtype), viewed(text.expected, dtype), target=target)
            elif cases := cases_of(family, dtype, execution):
                _, arrays, views = arguments(dtype, cases)
                yield kernel(FAMILIES[family], cases).lower(arrays, views, target=target)
