"""Regions, indirect registers, predicates and flags: assembled instructions against loops over lanes and bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.codegen.simulator.machine import THREADS, Machine
from tests.conftest import require_simulator


@pytest.fixture(params=["pvc", "bmg", "dg2"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    require_simulator()
    return Machine(request.param, tmp_path)


_REGIONS = [
    (16, "ud", 0, (1, 1, 0), 1), (16, "ud", 0, (0, 1, 0), 1), (8, "ud", 1, (8, 4, 2), 1), (8, "ud", 3, (4, 4, 1), 1),
    (16, "uw", 0, (2, 1, 0), 1), (16, "uw", 1, (2, 1, 0), 2), (8, "uw", 0, (4, 1, 0), 2), (4, "ub", 5, (4, 1, 0), 4),
    (8, "q", 0, (1, 1, 0), 1), (4, "q", 1, (2, 1, 0), 1), (4, "d", 2, (0, 4, 1), 1), (2, "d", 7, (1, 1, 0), 1),
    (8, "d", 0, (2, 2, 0), 1), (1, "uw", 3, (0, 1, 0), 1), (8, "ub", 0, (2, 2, 1), 2),
]
_WIDEST = {"d": 4, "ud": 4, "uw": 2, "ub": 1, "q": 8}


@pytest.mark.parametrize(("machine", "case"), [  # Xe-HPG has no 64-bit integers
    pytest.param(target, case, id=f"{target}-{case}") for target in ("pvc", "bmg", "dg2") for case in _REGIONS
    if not (target == "dg2" and case[1] == "q")], indirect=["machine"])
def test_regions(machine: Machine, case: Any) -> None:
    count, kind, start, (vertical, width, horizontal), stride = case
    size, register = _WIDEST[kind], machine.threads.register_bytes
    source = start if (start + 1) * size <= register else 0
    after = machine.run(f"(W) mov ({count}|M0) r20.0<{stride}>:{kind} "
                        f"r10.{source}<{vertical};{width},{horizontal}>:{kind}")
    old = machine.before.copy()
    for thread in range(THREADS):
        for lane in range(count):
            element = source + lane // width * vertical + lane % width * horizontal
            at, to = 10 * register + element * size, 20 * register + lane * stride * size
            machine.before[thread, to:to + size] = old[thread, at:at + size]
    np.testing.assert_array_equal(after, machine.before)


def test_masks_and_predicates(machine: Machine) -> None:
    """A lane is written where it runs and its predicate holds; (W) ignores who runs."""
    width = machine.threads.register_bytes
    flag, lanes = machine.threads.flag.copy(), machine.execution.lanes.copy()
    after = machine.run("(~f1.0) add (8|M8) r20.0<1>:d r10.0<1;1,0>:d 5:w\n"
                        "(W&f0.1) mov (8|M0) r22.0<1>:d r10.0<1;1,0>:d\n")
    for thread in range(THREADS):
        for lane in range(8):
            old = machine.element(10 * width + 4 * lane, "d", thread)
            if not flag[1, thread, 8 + lane] and lanes[thread, 8 + lane]:
                machine.expect(20 * width + 4 * lane, old + np.int32(5), "d", thread)
            if flag[0, thread, 16 + lane]:
                machine.expect(22 * width + 4 * lane, old, "d", thread)
    np.testing.assert_array_equal(after, machine.before)


def test_predicates_of_any_and_all(machine: Machine) -> None:
    kind = "8h" if machine.target == "dg2" else ""
    machine.threads.flag[0, 0, :8] = False
    machine.threads.flag[0, 1, :8] = True
    machine.threads.flag[0, 2, :8] = [True] * 7 + [False]
    width = machine.threads.register_bytes
    after = machine.run(f"(W&f0.0.any{kind}) mov (8|M0) r20.0<1>:d 7:w\n(W&~f0.0.any{kind}) mov (8|M0) r21.0<1>:d 8:w\n"
                        f"(W&f0.0.all{kind}) mov (8|M0) r22.0<1>:d 9:w\n")
    for thread in range(THREADS):
        for lane in range(8):
            if thread > 0:
                machine.expect(20 * width + 4 * lane, 7, "d", thread)
            else:
                machine.expect(21 * width + 4 * lane, 8, "d", thread)
            if thread == 1:
                machine.expect(22 * width + 4 * lane, 9, "d", thread)
    np.testing.assert_array_equal(after, machine.before)


@pytest.mark.parametrize("machine", ["dg2"], indirect=True)  # later devices have no such predicates
def test_predicates_of_more_lanes_than_run(machine: Machine) -> None:
    """A scalar instruction under the flags of all lanes of its group, as of a store by one lane."""
    machine.threads.flag[1, :, :8] = [[False] * 8] + [[False] * 5 + [True] + [False] * 2] * (THREADS - 1)
    machine.threads.flag[1, :, 8:16] = True
    width = machine.threads.register_bytes
    after = machine.run("(W&f1.0.any8h) mov (1|M0) r20.0<1>:d 7:w\n(W&~f1.0.any8h) mov (1|M0) r21.0<1>:d 8:w\n"
                        "(W&f1.0.all8h) mov (1|M0) r22.0<1>:d 9:w\n(W&f1.0.all8h) mov (1|M8) r23.0<1>:d 10:w\n")
    for thread in range(THREADS):
        machine.expect((20 if thread else 21) * width, 7 if thread else 8, "d", thread)
        machine.expect(23 * width, 10, "d", thread)
    np.testing.assert_array_equal(after, machine.before)


def test_conditions_set_the_flags_of_lanes_that_run(machine: Machine) -> None:
    width = machine.threads.register_bytes
    flag, lanes = machine.threads.flag.copy(), machine.execution.lanes.copy()
    machine.run("cmp (8|M0) (lt)f1.1 null<1>:d r10.0<1;1,0>:d r12.0<1;1,0>:d\n")
    for thread in range(THREADS):
        for lane in range(8):
            smaller = machine.element(10 * width + 4 * lane, "d", thread) < \
                machine.element(12 * width + 4 * lane, "d", thread)
            if lanes[thread, lane]:
                flag[1, thread, 16 + lane] = smaller
    np.testing.assert_array_equal(machine.threads.flag, flag)


def test_flags_as_words(machine: Machine) -> None:
    width, flag = machine.threads.register_bytes, machine.threads.flag.copy()
    after = machine.run("(W) mov (1|M0) r20.0<1>:ud f0.0<0;1,0>:ud\n(W) mov (1|M0) f1.1<1>:uw 0x8005:uw\n"
                        "(W) not (1|M0) f0.1<1>:uw f0.0<0;1,0>:uw\n")
    for thread in range(THREADS):
        word = sum(int(bit) << position for position, bit in enumerate(flag[0, thread]))
        machine.expect(20 * width, word, "ud", thread)
        flag[1, thread, 16:] = [bool(0x8005 >> bit & 1) for bit in range(16)]
        flag[0, thread, 16:] = ~flag[0, thread, :16]
    np.testing.assert_array_equal(after, machine.before)
    np.testing.assert_array_equal(machine.threads.flag, flag)


def test_indirect_registers(machine: Machine) -> None:
    """An address for all lanes, an address for each lane, and an indirect destination."""
    width = machine.threads.register_bytes
    random = np.random.default_rng(2)
    words = machine.threads.address[0].view(np.uint16)
    words[:, :8] = random.integers(4, 8, (THREADS, 8)) * width + random.integers(0, width // 4, (THREADS, 8)) * 4
    words[:, 8] = np.arange(THREADS) * 4 + 20 * width
    after = machine.run("(W) mov (8|M0) r16.0<1>:d r[a0.0,8]<1;1,0>:d\n(W) mov (8|M0) r18.0<1>:d r[a0.0,4]<1,0>:d\n"
                        "(W) mov (4|M0) r[a0.8,16]<2>:d r3.0<1;1,0>:d\n")
    old = machine.before.copy()
    for thread in range(THREADS):
        for lane in range(8):
            for at, to in ((int(words[thread, 0]) + 8 + 4 * lane, 16 * width + 4 * lane),
                           (int(words[thread, lane]) + 4, 18 * width + 4 * lane)):
                machine.before[thread, to:to + 4] = old[thread, at:at + 4]
        for lane in range(4):
            to = int(words[thread, 8]) + 16 + 8 * lane
            machine.before[thread, to:to + 4] = old[thread, 3 * width + 4 * lane:3 * width + 4 * lane + 4]
    np.testing.assert_array_equal(after, machine.before)


def test_packed_immediates(machine: Machine) -> None:
    width = machine.threads.register_bytes
    after = machine.run("(W) mov (8|M0) r20.0<1>:w 0x87654321:v\n(W) mov (8|M0) r21.0<1>:uw 0x87654321:uv\n"
                        "(W) mov (4|M0) r22.0<1>:f 0x40B03000:vf\n")
    for thread in range(THREADS):
        for lane in range(8):
            machine.expect(20 * width + 2 * lane, lane + 1 if lane < 7 else -8, "w", thread)
            machine.expect(21 * width + 2 * lane, lane + 1, "uw", thread)
        for lane, value in enumerate((0.0, 1.0, -1.0, 2.0)):
            machine.expect(22 * width + 4 * lane, value, "f", thread)
    np.testing.assert_array_equal(after, machine.before)


def test_modifiers_saturation_and_selection(machine: Machine) -> None:
    width = machine.threads.register_bytes
    random = np.random.default_rng(3)
    machine.threads.grf[10:14].view(np.float32)[...] = random.integers(-8, 8, (4, THREADS, width // 4)) / 4
    machine.before = machine.bytes()
    machine.execution.lanes[:, :16] = True
    after = machine.run("add (8|M0) (sat)r20.0<1>:f -r10.0<1;1,0>:f (abs)r12.0<1;1,0>:f\n"
                        "sel (8|M0) (lt)f0.0 r21.0<1>:f r10.0<1;1,0>:f r12.0<1;1,0>:f\n"
                        "csel (8|M0) (ge)f0.0 r22.0<1>:f r10.0<1;0>:f r12.0<1;0>:f r10.0<1>:f\n"
                        "cmp (8|M0) (gt)f1.0 r23.0<1>:f r10.0<1;1,0>:f r12.0<1;1,0>:f\n")
    for thread in range(THREADS):
        for lane in range(8):
            x, y = (float(machine.element(r * width + 4 * lane, "f", thread)) for r in (10, 12))
            machine.expect(20 * width + 4 * lane, min(max(-x + abs(y), 0), 1), "f", thread)
            machine.expect(21 * width + 4 * lane, min(x, y), "f", thread)
            machine.expect(22 * width + 4 * lane, x if x >= 0 else y, "f", thread)
            machine.expect(23 * width + 4 * lane, -1 if x > y else 0, "d", thread)
    np.testing.assert_array_equal(after, machine.before)


@pytest.mark.parametrize("table", [0x96, 0xF8, 0xD8, 0x1B])
def test_truth_tables(machine: Machine, table: int) -> None:
    width = machine.threads.register_bytes
    after = machine.run(f"(W) bfn.{table:#x} (8|M0) r20.0<1>:ud r10.0<1;0>:ud r12.0<1;0>:ud r14.0<1>:ud\n")
    for thread in range(THREADS):
        for lane in range(8):
            a, b, c = (int(machine.element(r * width + 4 * lane, "ud", thread)) for r in (10, 12, 14))
            bits = [table >> ((a >> k & 1) | (b >> k & 1) << 1 | (c >> k & 1) << 2) & 1 for k in range(32)]
            machine.expect(20 * width + 4 * lane, sum(bit << k for k, bit in enumerate(bits)), "ud", thread)
    np.testing.assert_array_equal(after, machine.before)


@pytest.mark.parametrize("kind", ["d", "ud"])
def test_products_in_parts(machine: Machine, kind: str) -> None:
    """The low and the high half of a 64-bit product, through the accumulator."""
    width = machine.threads.register_bytes
    high = "{AccWrEn}" if machine.target == "dg2" else ""
    low = "mach" if machine.target == "dg2" else "macl"
    multiply = f"(W) mul (8|M0) acc0.0<1>:{kind} r10.0<1;1,0>:{kind} r12.0<2;1,0>:uw\n"
    after = machine.run(f"{multiply}(W) {low} (8|M0) r20.0<1>:{kind} r10.0<1;1,0>:{kind} r12.0<1;1,0>:{kind}\n"
                        f"{multiply}(W) mach (8|M0) r21.0<1>:{kind} r10.0<1;1,0>:{kind} r12.0<1;1,0>:{kind} {high}\n")
    for thread in range(THREADS):
        for lane in range(8):
            x, y = (int(machine.element(r * width + 4 * lane, kind, thread)) for r in (10, 12))
            machine.expect(20 * width + 4 * lane, np.uint32(x * y % 2**32), "ud", thread)
            machine.expect(21 * width + 4 * lane, np.uint32((x * y >> 32) % 2**32), "ud", thread)
    np.testing.assert_array_equal(after, machine.before)


def test_an_immediate_that_is_a_signaling_nan_keeps_its_bits(machine: Machine) -> None:
    """The compiler writes -641:w as a half float, to have the move in another pipe."""
    found = machine.run("(W) mov (16|M0) r4.0<1>:hf 0xFD7F:hf\n")
    for thread in range(THREADS):
        for lane in range(16):
            machine.expect(4 * (32 if machine.target == "dg2" else 64) + 2 * lane, -641, "w", thread)
    np.testing.assert_array_equal(found, machine.before)
