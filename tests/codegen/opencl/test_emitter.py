"""The emitted OpenCL C: what Intel's compiler says to it, target by target, and what it looks like."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import VectorType, f32
from xdsl.utils.test_value import create_ssa_value

import xetile as xt
from codegen.opencl.emitter import Emitter
from tests.conftest import require_ocloc
from xegpu.target.targets import find_target
from xetile.compiler.compiled import CompiledKernel

TARGETS = ("pvc", "bmg", "dg2")


def at(array):
    """A tile of 8 x 16 elements at the start of an array."""
    return xt.init_tile(array, (0, 0), (8, 16))


@xt.kernel
def conversions(F, H, B, T, S, U):
    """Every floating-point type to every other, and to integers and back."""
    f, h, b = xt.load_tile(at(F)), xt.load_tile(at(H)), xt.load_tile(at(B))
    total = h.to(xt.f32) + b.to(xt.f32) + f.to(xt.bf16).to(xt.f32) + f.to(xt.f16).to(xt.f32)
    total = total + h.to(xt.bf16).to(xt.f32) + b.to(xt.f16).to(xt.f32) + f.to(xt.tf32).to(xt.f32)
    xt.store_tile(total, at(F))
    xt.store_tile(total.to(xt.f16), at(H))
    xt.store_tile(total.to(xt.bf16), at(B))
    xt.store_tile(total.to(xt.tf32), at(T))
    xt.store_tile(total.to(xt.i8), at(S))
    xt.store_tile(total.to(xt.u8).to(xt.f32).to(xt.u8), at(U))


@xt.kernel
def arithmetic(F, H, B, T):
    """Floating-point operators, minimum and maximum included, in each type."""
    for array in (F, H, B, T):
        x = xt.load_tile(at(array))
        y = x * x + x - x / 3.0
        xt.store_tile(xt.maximum(xt.minimum(y, x), -x), at(array))


@xt.kernel
def integers(W, S, U):
    """Integer operators, division of both kinds included."""
    for array in (W, S, U):
        x = xt.load_tile(at(array))
        y = (x // 3) + (x % 3) * 2 - (x & 6) + (x | 1) + (x ^ x)
        xt.store_tile(xt.maximum(xt.minimum(y << 1, x >> 1), x), at(array))


@xt.kernel
def half_product(A, B, C):
    """A product that accumulates in f16."""
    acc = xt.tile_mma(xt.load_tile(at(A)), xt.load_tile(xt.init_tile(B, (0, 0), (16, 16))), xt.zeros((8, 16), xt.f16))
    xt.store_tile(acc, at(C))


@xt.kernel
def rounded_product(A, B, C):
    """A float32 product in tf32, whose operands are rounded by the kernel."""
    a, b = xt.load_tile(at(A)).to(xt.tf32), xt.load_tile(xt.init_tile(B, (0, 0), (16, 16))).to(xt.tf32)
    xt.store_tile(xt.tile_mma(a, b), at(C))


def lowered(kernel, target: str, *types: str) -> CompiledKernel:
    return kernel.lower(*(xt.Spec((64, 128), dtype) for dtype in types), target=target)


def compiled(kernel, target: str, *types: str) -> CompiledKernel:
    """A kernel that ocloc took, and that keeps nothing in memory."""
    require_ocloc()
    low = lowered(kernel, target, *types)
    report = low.report()
    assert (report.spill_size, report.private_size) == (0, 0)
    return low


@pytest.mark.parametrize("target", TARGETS)
def test_conversions_compile(target: str) -> None:
    text = compiled(conversions, target, "f32", "f16", "bf16", "tf32", "i8", "u8").opencl
    for part in ("intel_convert_bfloat168_as_ushort8", "intel_convert_as_bfloat168_float8", "0x7f800000u", "_sat_rtz"):
        assert part in text


@pytest.mark.parametrize("target", TARGETS)
def test_arithmetic_compiles(target: str) -> None:
    assert "isnan" in compiled(arithmetic, target, "f32", "f16", "bf16", "tf32").opencl


@pytest.mark.parametrize("target", TARGETS)
def test_integers_compile(target: str) -> None:
    compiled(integers, target, "i32", "i8", "u8")


@pytest.mark.parametrize("target", ["pvc", "bmg"])
def test_products_of_converted_values_compile(target: str) -> None:
    half = compiled(half_product, target, "f16", "f16", "f16")
    assert "half8" in half.opencl
    assert half.report().loop["dpas"] == 1
    assert compiled(rounded_product, target, "f32", "f32", "f32").report().loop["dpas"] == 2


def test_the_authors_lines_stand_above_the_text_that_they_became() -> None:
    text = lowered(half_product, "pvc", "f16", "f16", "f16").opencl
    assert "// test_emitter.py:" in text
    assert "/test_opencl.py" not in text  # no folder: the text is a key of caches


def test_a_work_group_that_large_registers_leave_no_room_for() -> None:
    @xt.kernel
    def crowded(A, B, C):
        sg = (8, 8)
        a = xt.init_tile(A, (0, 0), (256, 32), wg_map=xt.wg_map(sg, (32, 32)))
        b = xt.init_tile(B, (0, 0), (32, 512), wg_map=xt.wg_map(sg, (32, 64)))
        map_c = xt.wg_map(sg, (32, 64))
        acc = xt.zeros((256, 512), xt.f32, wg_map=map_c)
        for _ in xt.range(0, A.shape[1], 32):
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
            a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
        xt.store_tile(acc, xt.init_tile(C, (0, 0), (256, 512), wg_map=map_c))

    with pytest.raises(xt.XeError, match="XT4050"):
        _ = lowered(crowded, "pvc", "bf16", "bf16", "f32").opencl


def test_variables_of_a_value_have_names_of_their_own() -> None:
    """Also those that are derived from a stem: each word of a sum, the blocks of a vector."""
    emitter = Emitter({}, find_target("cpu"), 16)
    value = create_ssa_value(VectorType(f32, [4]))
    value.name_hint = "total"
    words = emitter.fresh(value, scalars=True).names
    assert len({*words, emitter.name("total_1"), emitter.name("total_2")}) == 6
    emitter.name("other_1")
    assert "other_1" not in emitter.names("other", lambda stem: (f"{stem}_0", f"{stem}_1"))
