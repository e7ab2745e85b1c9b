"""Control flow in machine code: lanes and threads that go separate ways, barriers, shuffles, work-groups with tails."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.simulator.run_opencl import SIMD, TARGETS, run_opencl

_ITEMS = 150

_DIVERGENT = """
kernel SIMD void f(global const int *a, global int *o, int n) {
    int i = get_global_id(0);
    if (i >= n) return;
    int x = a[i], sum = 0;
    for (int k = 0; k < x; k++) {
        if (k % 3 == 1) continue;
        if (sum > 40) break;
        int j = 0;
        while (j < (i & 3)) { sum += k; j++; if (sum == 17) { sum += 100; break; } }
    }
    switch (x & 7) { case 0: sum += 5; break; case 3: sum = -sum; break; case 5: sum ^= x; default: sum += 1; }
    o[i] = sum;
}"""


def _divergent(i: int, x: int) -> int:
    total = 0
    for k in range(x):
        if k % 3 == 1:
            continue
        if total > 40:
            break
        for _ in range(i & 3):
            total += k
            if total == 17:
                total += 100
                break
    case = x & 7
    return total + 5 if case == 0 else -total if case == 3 else (total ^ x) + 1 if case == 5 else total + 1


@pytest.mark.parametrize("target", ["pvc", "bmg", "lnl", "dg2", "arl"])
def test_lanes_that_diverge(target: str) -> None:
    a = np.random.default_rng(1).integers(0, 30, _ITEMS).astype(np.int32)
    out = np.full(_ITEMS, 99, np.int32)
    run_opencl(_DIVERGENT, "f", target, a, out, np.int32(_ITEMS), items=192)
    np.testing.assert_array_equal(out, [_divergent(i, int(x)) for i, x in enumerate(a)])


_GROUPS = """
kernel SIMD void f(global const int *a, global int *o) {
    local int shared_values[64];
    int l = get_local_id(0), g = get_group_id(0);
    int sum = 0;
    for (int k = 0; k <= g % 3; k++) {
        shared_values[l] = a[get_global_id(0)] + k;
        barrier(CLK_LOCAL_MEM_FENCE);
        sum += shared_values[63 - l];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    o[get_global_id(0)] = sum;
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_work_groups_that_wait_differently_often(target: str) -> None:
    """More threads than run side by side, and a last batch that is smaller."""
    groups = 70
    a = np.random.default_rng(2).integers(0, 1000, (groups, 64)).astype(np.int32)
    out = np.full((groups, 64), 99, np.int32)
    run_opencl(_GROUPS, "f", target, a, out, items=groups * 64)
    times = np.arange(groups)[:, None] % 3
    np.testing.assert_array_equal(out, a[:, ::-1] * (times + 1) + times * (times + 1) // 2)


_SUBGROUPS = """
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
kernel SIMD void f(global const int *a, global int *o) {
    int i = get_global_id(0), x = a[i];
    o[i * 5] = intel_sub_group_shuffle(x, x & (get_sub_group_size() - 1));
    o[i * 5 + 1] = sub_group_reduce_add(x);
    o[i * 5 + 2] = sub_group_scan_inclusive_max(x);
    o[i * 5 + 3] = sub_group_any(x > 90);
    o[i * 5 + 4] = sub_group_broadcast(x, 3) + get_sub_group_id();
}"""


@pytest.mark.parametrize("target", TARGETS)
def test_lanes_that_exchange_values(target: str) -> None:
    width = SIMD[target]
    a = np.random.default_rng(3).integers(0, 100, (2, 64 // width, width)).astype(np.int32)
    out = np.full((a.size, 5), 99, np.int32)
    run_opencl(_SUBGROUPS, "f", target, a, out, items=a.size)
    shuffled = np.take_along_axis(a, a & (width - 1), 2)
    totals = np.broadcast_to(a.sum(2, keepdims=True), a.shape)
    some = np.broadcast_to((a > 90).any(2, keepdims=True), a.shape)
    third = np.broadcast_to(a[:, :, 3:4] + np.arange(64 // width)[None, :, None], a.shape)
    expected = np.stack([shuffled, totals, np.maximum.accumulate(a, 2), some, third], 3)
    np.testing.assert_array_equal(out, expected.reshape(-1, 5))


@pytest.mark.parametrize("target", TARGETS)
def test_groups_that_no_subgroup_divides(target: str) -> None:
    """The last subgroup of a work-group has fewer work-items."""
    source = "kernel SIMD void f(global int *o) { int i = get_global_id(0); o[i] = 3 * i + get_local_id(0); }"
    out = np.full(5 * 21 + 1, -1, np.int32)
    run_opencl(source, "f", target, out, items=5 * 21, group=21)
    number = np.arange(5 * 21)
    np.testing.assert_array_equal(out, [*(3 * number + number % 21), -1])


@pytest.mark.parametrize("target", TARGETS)
def test_atomics(target: str) -> None:
    source = "kernel SIMD void f(global int *o, global const int *a) { int i = get_global_id(0);\n" \
             "atomic_add(o, a[i]); atomic_max(o + 1, a[i]); int old = atomic_inc(o + 2); o[3 + old] = 1; }"
    a = np.random.default_rng(4).integers(-100, 100, 192).astype(np.int32)
    out = np.zeros(3 + 192, np.int32)
    run_opencl(source, "f", target, out, a, items=192)
    np.testing.assert_array_equal(out, [a.sum(), max(a.max(), 0), 192, *[1] * 192])


@pytest.mark.parametrize("target", TARGETS)
def test_constants_of_the_program(target: str) -> None:
    """A table in a data section of the binary, whose address is a relocation in the code."""
    table = np.random.default_rng(5).integers(-1000, 1000, 300).astype(np.int32)
    source = f"constant int table[300] = {{{', '.join(map(str, table))}}};\n" \
             "kernel SIMD void f(global const int *a, global int *o) {\n" \
             "int i = get_global_id(0); o[i] = table[a[i]]; }"
    a = np.random.default_rng(6).integers(0, 300, 128).astype(np.int32)
    out = np.zeros(128, np.int32)
    run_opencl(source, "f", target, a, out, items=128)
    np.testing.assert_array_equal(out, table[a])


@pytest.mark.parametrize("target", TARGETS)
def test_a_single_work_item(target: str) -> None:
    """Registers of lanes that do not run are never written, and messages read them."""
    source = "kernel void f(global uchar *o, uchar v) { o[0] = v; o[2] = v + 1; }"
    out = np.full(4, 9, np.uint8)
    run_opencl(source, "f", target, out, np.uint8(200), items=1, group=1)
    np.testing.assert_array_equal(out, [200, 9, 201, 9])
