"""Sizes that divide nothing, and memory of every kind: pitches, strides, offsets, edges, empty arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_dpnp
from tests.kernels import (
    DEVICE,
    EXECUTIONS,
    LANES,
    NUMPY,
    Array,
    Bordered,
    Execution,
    Types,
    gemm,
    integers,
    operands,
    product,
    run_gemm,
    wide,
)

pytestmark = pytest.mark.unoptimised

BF16 = Types(xt.bf16, xt.bf16, xt.f32)
F32 = Types(xt.f32, xt.f32, xt.f32)
I8 = Types(xt.i8, xt.i8, xt.i32)
SIZES = [(1, 1, 1), (1, 7, 13), (13, 100, 7), (100, 1, 52), (7, 52, 1), (33, 31, 100), (16, 32, 64), (17, 33, 65),
         (64, 100, 1016)]


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("types", [BF16, I8], ids=str)
def test_any_size_gives_the_product_and_touches_nothing_else(types: Types, execution: Execution) -> None:
    rng = np.random.default_rng(1)
    for m, n, k in SIZES:
        a, b = operands(rng, types, m, n, k)
        c = Bordered(types.acc, (m, n))
        run_gemm(execution, types, a, b, c.array)
        c.check(product(a, b, types.acc))


@pytest.mark.parametrize("execution", [NUMPY, *LANES], ids=str)
@pytest.mark.parametrize("size", [(1016, 1016, 40), (40, 1016, 1016), (1016, 7, 1016)], ids=str)
def test_large_odd_sizes(size: tuple[int, int, int], execution: Execution) -> None:
    a, b = operands(np.random.default_rng(2), BF16, *size)
    c = np.full(size[:2], 9, np.float32)
    run_gemm(execution, BF16, a, b, c, bm=64, bn=64, bk=32)
    np.testing.assert_array_equal(c, product(a, b, xt.f32))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
@pytest.mark.parametrize("size", [(20, 30, 0), (0, 30, 20), (20, 0, 20), (0, 0, 0)], ids=str)
def test_empty_sizes(size: tuple[int, int, int], execution: Execution) -> None:
    m, n, k = size
    a, b = operands(np.random.default_rng(3), F32, m, n, k)
    c = Bordered(xt.f32, (m, n))
    run_gemm(execution, F32, a, b, c.array)
    c.check(np.zeros((m, n)))


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_a_grid_that_is_too_large_does_no_harm(execution: Execution) -> None:
    a, b = operands(np.random.default_rng(4), F32, 20, 36, 20)
    c = Bordered(xt.f32, (20, 36))
    execution.bind(gemm)[5, 6](a, b, c.array, BM=16, BN=16, BK=16)
    c.check(product(a, b, xt.f32))


VIEWS: dict[str, Callable[[Array], Array]] = {
    "a pitch of 52 bytes": lambda whole: whole.reshape(-1)[:20 * 26].reshape(20, 26)[:, :24],
    "32 bytes wide": lambda whole: whole[:20, :16],
    "every second column": lambda whole: whole[:20, :48:2],
    "every third row": lambda whole: whole[:60:3, :24],
    "transposed": lambda whole: whole[:24, :20].T,
    "rows backwards": lambda whole: whole[20:0:-1, :24],
    "columns backwards": lambda whole: whole[:20, 24:0:-1],
    "both backwards, with steps": lambda whole: whole[60:0:-3, 72:0:-3],
    "Fortran order": lambda whole: np.asfortranarray(whole[:20, :24]),
    "an odd offset": lambda whole: whole[1:21, 3:27],
    "one row repeated": lambda whole: np.broadcast_to(whole[4, :24], (20, 24)),
}
WRITABLE = {name: view for name, view in VIEWS.items() if "repeated" not in name and "Fortran" not in name}
VIEWED_AT = [NUMPY, *LANES[::2], *DEVICE]


def memory(rng: np.random.Generator, dtype: Any, view: Callable[[Array], Array]) -> Array:
    return view(integers(rng, dtype, 64, 80))


@pytest.mark.parametrize("execution", VIEWED_AT, ids=str)
def test_operands_may_lie_anyhow_in_memory(execution: Execution) -> None:
    rng = np.random.default_rng(5)
    for name, view in VIEWS.items():
        a = memory(rng, xt.bf16, view)
        b = memory(rng, xt.bf16, view).T[:, :19]
        c = np.full((a.shape[0], b.shape[1]), 9, np.float32)
        run_gemm(execution, BF16, a, b, c)
        np.testing.assert_array_equal(c, product(a, b, xt.f32), err_msg=name)


@pytest.mark.parametrize("execution", VIEWED_AT, ids=str)
def test_results_may_lie_anyhow_in_memory(execution: Execution) -> None:
    rng = np.random.default_rng(6)
    for name, view in WRITABLE.items():
        c = np.full((64, 80), 77, np.float32)
        expected = c.copy()
        a, b = operands(rng, BF16, *view(c).shape, 20)
        view(expected)[...] = product(a, b, xt.f32)
        run_gemm(execution, BF16, a, b, view(c))
        np.testing.assert_array_equal(c, expected, err_msg=name)


def block_io(text: str) -> bool:
    return "intel_sub_group_2d_block_read" in text


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_the_way_to_memory_is_chosen_for_each_array(target: str) -> None:
    aligned, odd = xt.Spec((64, 64), xt.bf16), xt.Spec((64, 26), xt.bf16)
    c = xt.Spec((64, 64), xt.f32)
    strided = xt.Spec((64, 64), xt.bf16, strides=(128, 2))
    narrow = xt.Spec((64, 16), xt.bf16, strides=(64, 1))

    def text(a: xt.Spec, b: xt.Spec = aligned) -> str:
        return gemm.lower(a, b, c, target=target).opencl

    assert block_io(text(aligned))
    assert "intel_sub_group_2d_block_write" in text(aligned)
    for other in (odd, strided, narrow):
        both, only_b = text(other, other), text(other)
        assert not block_io(both)
        assert "intel_sub_group_2d_block_read_transform" in only_b
        assert "intel_sub_group_2d_block_write" in both
    assert text(strided) != text(odd) != text(aligned)


@pytest.mark.parametrize("target", ["dg2", "arl", "cpu"])
def test_targets_without_block_io_never_use_it(target: str) -> None:
    spec = xt.Spec((64, 64), xt.bf16)
    assert "2d_block" not in gemm.lower(spec, spec, xt.Spec((64, 64), xt.f32), target=target).opencl


@pytest.mark.parametrize("offset", [0, 1, 2, 8, 16, 32])
def test_usm_memory_at_any_address(offset: int) -> None:
    """One kernel object, launched on arrays whose base is aligned and on others: block IO where it may be used."""
    dpnp = require_dpnp()
    rng = np.random.default_rng(7)
    m, n, k = 32, 48, 64
    a, b = integers(rng, xt.f16, m, k), integers(rng, xt.f16, k, n)
    memory = dpnp.zeros(m * k + 64, dtype="f2", device="opencl:cpu")
    memory[offset:offset + m * k] = dpnp.asarray(a.reshape(-1), device="opencl:cpu")
    on_device = memory[offset:offset + m * k].reshape(m, k)
    other = dpnp.asarray(b, device="opencl:cpu", sycl_queue=memory.sycl_queue)
    c = dpnp.full((m, n), 9, dtype="f4", sycl_queue=memory.sycl_queue)
    gemm.on(memory.sycl_queue, target="pvc")[2, 3](on_device, other, c, BM=16, BN=16, BK=32)
    np.testing.assert_array_equal(wide(dpnp.asnumpy(c)), wide(a) @ wide(b))
    address = on_device.__sycl_usm_array_interface__
    pointer = address["data"][0] + 2 * address.get("offset", 0)
    lowered = gemm.lower(on_device, other, c, target="pvc", BM=16, BN=16, BK=32)
    assert ("2d_block_read_16b_16r16x2c(A," in lowered.opencl) == (pointer % 64 == 0)
    assert block_io(lowered.opencl)


@pytest.mark.optimised  # lanes run side by side, as a GPU's do
@pytest.mark.parametrize("execution", [NUMPY, *DEVICE], ids=str)
def test_an_array_may_be_operand_and_result(execution: Execution) -> None:
    """Each work-group reads only what it writes itself, so the order of work-groups does not matter."""
    a, b = operands(np.random.default_rng(8), F32, 40, 16, 16)
    expected = product(a, b, xt.f32)
    run_gemm(execution, F32, a, b, a, kernel=xt.kernel(gemm.function, may_alias=True))
    np.testing.assert_array_equal(a, expected)


def test_host_arrays_that_overlap_are_copied_as_they_lie() -> None:
    require_device()
    whole = integers(np.random.default_rng(9), xt.f32, 60, 40)
    a, b, c = whole[:20, :40], whole[5:45, 3:23], whole[40:, 20:]
    b = b[:35].copy()
    expected = whole.copy()
    expected[40:, 20:] = product(a[:, :35], b, xt.f32)
    run_gemm(Execution("opencl:cpu", "pvc"), F32, a[:, :35], b, c)
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("execution", [Execution("numpy:xegpu", "pvc"), Execution("opencl:cpu", "cpu")], ids=str)
def test_an_offset_of_more_than_32_bits(execution: Execution) -> None:
    """Devices would lose its upper bits, and read rows that are inside."""
    @xt.kernel
    def far(A, C, *, row):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (row, 0), (8, 16))), xt.init_tile(C, (0, 0), (8, 16)))

    a, c = np.ones((64, 64), np.float32), np.full((8, 16), 7, np.float32)
    execution.bind(far)[1](a, c, row=2**31 - 8)
    assert not c.any()
    with pytest.raises(xt.TargetError, match="XT4115"):
        execution.bind(far)[1](a, c, row=2**40)
