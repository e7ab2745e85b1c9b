"""The tables of devices, and the rules of 2D block IO (hardware.md)."""

from __future__ import annotations

import pytest

from xegpu.ir.dtypes import BY_NAME
from xegpu.support.errors import TargetError
from xegpu.target import block2d
from xegpu.target.targets import TARGETS, find_target

WITH_BLOCKS = ["pvc", "bmg", "lnl", "ptl", "cri"]
WITHOUT = ["dg2", "arl", "cpu"]


def test_subgroups_and_block_io_of_each_device() -> None:
    """Of those that are named here; another has its facts in its record."""
    for name in (*WITH_BLOCKS, *WITHOUT):
        assert TARGETS[name].block_io == (name in WITH_BLOCKS)
        assert TARGETS[name].subgroup_size == (8 if name in ("dg2", "arl") else 16)


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "cpu"])
@pytest.mark.parametrize(("a", "b", "depth"), [("f16", "f16", 16), ("bf16", "bf16", 16), ("tf32", "tf32", 8),
                                               ("i8", "u8", 32), ("u8", "u8", 32)])
def test_depths_of_dpas_are_32_bytes_of_a_row(target: str, a: str, b: str, depth: int) -> None:
    device, types = find_target(target), (BY_NAME[a], BY_NAME[b])
    if a == "tf32" and target in ("dg2", "arl"):
        with pytest.raises(TargetError, match="no matrix product of tf32 by tf32"):
            device.mma_shape(*types)
        return
    form = device.mma_shape(*types)
    assert (form.k, form.engine) == (depth, "dpas")
    assert form.k * form.a.bits == 256


@pytest.mark.parametrize(("target", "a", "acc", "takes"), [
    ("pvc", "f16", "f16", True), ("pvc", "bf16", "bf16", True), ("dg2", "f16", "f32", True),
    ("dg2", "f16", "f16", False), ("arl", "bf16", "bf16", False), ("pvc", "bf16", "f16", False),
    ("pvc", "i8", "f32", False), ("cpu", "f32", "f32", True), ("pvc", "f32", "f32", True)])
def test_accumulators(target: str, a: str, acc: str, takes: bool) -> None:
    device, types = find_target(target), (BY_NAME[a], BY_NAME[a], BY_NAME[acc])
    if takes:
        assert device.mma_shape(*types).a is BY_NAME[a]
    else:
        with pytest.raises(TargetError, match="XT4102"):
            device.mma_shape(*types)


def test_types_that_nothing_multiplies_are_refused_with_advice() -> None:
    with pytest.raises(TargetError, match="XT4101"):
        find_target("pvc").mma_shape(BY_NAME["bf16"], BY_NAME["f16"])
    with pytest.raises(TargetError, match="XT4104"):
        find_target("gpu")


@pytest.mark.parametrize(("rows", "count"), [(1, 1), (2, 2), (6, 2), (8, 8), (12, 4), (24, 8), (7, 1)])
def test_repeat_counts_divide_the_rows(rows: int, count: int) -> None:
    assert find_target("pvc").repeat(rows) == count


@pytest.mark.parametrize(("kind", "bits", "columns", "shape", "message"), [
    ("read", 16, 16, (32, 32), (32, 16, 2)), ("read", 16, 16, (32, 16), (32, 16, 1)),
    ("read", 16, 16, (24, 64), (8, 16, 2)), ("read", 8, 32, (64, 64), (32, 32, 2)),
    ("read", 32, 8, (16, 16), (16, 8, 2)),
    ("read_transform", 16, 16, (16, 32), (16, 16, 2)), ("read_transform", 8, 16, (32, 64), (32, 16, 4)),
    ("read_transform", 8, 16, (16, 16), None), ("read", 16, 16, (8, 24), None), ("write", 32, 16, (32, 16), (8, 16, 1)),
    ("write", 16, 16, (3, 16), (1, 16, 1)), ("read", 8, 16, (8, 32), None), ("read", 64, 16, (8, 16), None)])
def test_the_largest_message_divides_the_tile(kind: str, bits: int, columns: int, shape: tuple[int, int],
                                              message: tuple[int, int, int] | None) -> None:
    device = find_target("bmg")
    found = device.largest_block(kind, bits, columns, shape)
    assert (None if found is None else (found.rows, found.columns, found.blocks)) == message
    if found is not None:
        assert device.has_block(kind, bits, *message)  # type: ignore[misc]
        assert not find_target("dg2").has_block(kind, bits, *message)  # type: ignore[misc]


LEGAL = {"pointer": 1 << 12, "shape": (7, 40), "strides": (48, 1), "itemsize": 2}


def test_a_surface_that_keeps_every_rule() -> None:
    assert block2d.block_io_fault(**LEGAL) == ""
    assert block2d.block_io_fault(None, (None, None), (None, None), 2) == ""


@pytest.mark.parametrize(("change", "says"), [
    ({"pointer": (1 << 12) + 2}, "2 bytes off a 64-byte boundary"),
    ({"shape": (7, 31)}, "62 bytes is not between 64 bytes and 16 MB"),
    ({"shape": (7, 41)}, "82 bytes is not a multiple of 4"),
    ({"shape": (0, 40)}, "0 rows"),
    ({"shape": ((1 << 24) + 1, 40)}, "16777217 rows"),
    ({"shape": (7, 1 << 23), "strides": (1 << 24, 1)}, "pitch of 33554432 bytes"),
    ({"shape": (7, (1 << 23) + 8), "strides": ((1 << 23) + 8, 1)}, "is not between"),
    ({"strides": (26, 1), "shape": (7, 26), "itemsize": 4}, "pitch of 104 bytes is not a multiple of 16"),
    ({"strides": (-48, 1)}, "pitch of -96 bytes"),
    ({"strides": (0, 1)}, "pitch of 0 bytes"),
    ({"strides": (32, 1)}, "pitch of 32 elements is less than the width of 40"),
    ({"strides": (48, 2)}, "2 apart"),
    ({"strides": (1, 48)}, "48 apart"),
    ({"shape": (40,), "strides": (1,)}, "1 dimensions")])
def test_surfaces_that_break_a_rule(change: dict[str, object], says: str) -> None:
    assert says in block2d.block_io_fault(**{**LEGAL, **change})  # type: ignore[arg-type]


def test_ways_to_memory() -> None:
    pvc, dg2 = find_target("pvc"), find_target("dg2")
    arguments = tuple(LEGAL.values())
    assert block2d.access(pvc, *arguments) == "block"  # type: ignore[arg-type]
    assert block2d.access(dg2, *arguments) == "rows"  # type: ignore[arg-type]
    assert block2d.access(pvc, 2, (7, 40), (48, 1), 2) == "rows"
    assert block2d.access(pvc, 0, (7, 40), (96, 2), 2) == "strided"
    assert block2d.access(dg2, 0, (7, 40), (1, 7), 2) == "columns"
    assert block2d.access(pvc, 0, (40, 7), (1, 48), 2) == "block-columns"
    assert block2d.access(pvc, 0, (40, 7), (2, 96), 2) == "strided"
