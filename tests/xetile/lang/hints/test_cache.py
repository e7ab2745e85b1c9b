"""Cache hints: in the machine code, in every execution, in texts of both dialects, and those that are refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import xetile as xt
from codegen.toolchain.ocloc import compile_device, disassemble
from tests.conftest import require_ocloc
from tests.kernels import EXECUTIONS, Execution, integers
from xegpu.target.cache_policy import XE, XE2
from xegpu.target.targets import TARGETS

FLOATS, BF16 = xt.Spec((None, None), "f32"), xt.Spec((None, None), "bf16")


@xt.kernel
def product(A, B, C, *, load=("streaming", "cached"), store=("streaming", "write_back"), fetch=("uncached", "cached")):
    top = xt.group_id(0) * 8
    xt.prefetch_tile(xt.init_tile(A, (top + 8, 0), (8, 16)), l1=fetch[0], l3=fetch[1])
    a = xt.load_tile(xt.init_tile(A, (top, 0), (8, 16)), l1=load[0], l3=load[1])
    b = xt.load_tile(xt.init_tile(B, (0, 0), (16, 16)), l1="uncached", l3="uncached")
    xt.store_tile(xt.tile_mma(a, b), xt.init_tile(C, (top, 0), (8, 16)), l1=store[0], l3=store[1])


@xt.kernel
def elements(A, C, *, load=("streaming", "cached"), store=("write_through", "uncached"), fetch=("cached", "uncached")):
    top, at = xt.group_id(0) * 64, xt.iota((1, 64), 1, xt.index)
    tile = xt.init_tile(A, offsets=at * 3 + top)
    xt.prefetch_tile(tile, l1=fetch[0], l3=fetch[1])
    loaded = xt.load_gather(tile, (at % 3) != 0, padding=5, l1=load[0], l3=load[1])
    xt.store_scatter(loaded, xt.init_tile(C, offsets=63 - at + top), at != 7, l1=store[0], l3=store[1])


@pytest.mark.parametrize("execution", EXECUTIONS, ids=str)
def test_no_hint_changes_a_result(execution: Execution) -> None:
    rng = np.random.default_rng(5)
    a, b, c = integers(rng, xt.bf16, 22, 16), integers(rng, xt.bf16, 16, 16), np.full((24, 16), 7, np.float32)
    execution.bind(product)[3](a, b, c[1:-1])
    np.testing.assert_array_equal(c[1:-1], a.astype(np.float32) @ b.astype(np.float32))
    assert (c[[0, -1]] == 7).all()
    for dtype in (xt.f32, xt.bf16, xt.u8, xt.i64):
        values = integers(rng, dtype, 1, 300)[0]
        wanted = np.full((2, 64), 7, values.dtype)
        written = np.full(130, 7, values.dtype)
        execution.bind(elements)[2](values, written[1:-1])
        for group, at in ((group, at) for group in range(2) for at in range(64) if at != 7):
            wanted[group, 63 - at] = values[group * 64 + at * 3] if at % 3 else 5
        np.testing.assert_array_equal(written, [7, *wanted.reshape(-1), 7])


_SHORT = {"cached": "ca", "uncached": "uc", "streaming": "st", "read_invalidate": "ri", "write_back": "wb",
          "write_through": "wt"}


def _said(lowered: Any) -> set[str]:
    """The messages of the kernel's machine code that say something of the caches."""
    messages = re.findall(r"((?:load|store)(?:_block2d)?)\.ugm\.d\w*\.a64\.(\w\w\.\w\w)", str(lowered.isa()))
    return {f"{kind} {hint}" for kind, hint in messages}


@pytest.mark.parametrize(("target", "row"), [("pvc", row) for row in range(7)] + [("bmg", 3), ("bmg", 6)])
def test_what_the_table_says_is_in_the_machine_code(target: str, row: int) -> None:
    require_ocloc()
    caches = {"pvc": XE, "bmg": XE2}[target]
    load, store = caches.reads[row][0], caches.writes[row][0]
    chosen = {"load": load, "store": store, "fetch": ("cached", "uncached")}
    short = ({_SHORT[policy] for policy in pair} and ".".join(_SHORT[policy] for policy in pair)
             for pair in (load, store))
    first, second = short
    blocks = _said(product.lower(BF16, BF16, FLOATS, target=target, **chosen))
    assert blocks == {f"load_block2d {first}", "load_block2d uc.uc", "load_block2d ca.uc", f"store_block2d {second}"}
    if row in (3, 6):
        vector = xt.Spec((None,), "f32")
        single = _said(elements.lower(vector, vector, target=target, **chosen))
        assert single == {f"load {first}", "load ca.uc", f"store {second}"}


def test_hints_by_way_of_sycl() -> None:
    require_ocloc()
    low = product.lower(BF16, BF16, FLOATS, target="pvc")
    asm = str(disassemble(compile_device(low.spirv("sycl"), "pvc", spirv=True)))
    assert re.findall(r"store_block2d\.ugm\.d\w*\.a64\.(\w\w\.\w\w)", asm) == ["st.wb"]
    assert sorted(re.findall(r"load_block2d\.ugm\.d\w*\.a64\.(\w\w\.\w\w)", asm)) == ["st.ca", "uc.ca", "uc.uc"]


def test_single_elements_on_dg2() -> None:
    require_ocloc()
    vector = xt.Spec((None,), "u8")
    assert _said(elements.lower(vector, vector, target="dg2")) == {"load st.ca", "load ca.uc", "store wt.uc"}


@pytest.mark.parametrize(("chosen", "target", "message", "hint"), [
    ({"load": ("cached", "streaming")}, "pvc", "pvc has no load with L1 cached and L3 streaming",
     "l1=cached, l3=cached or l1=cached, l3=uncached"),
    ({"load": ("read_invalidate", "cached")}, "bmg", "bmg has no load with L1 read_invalidate and L3 cached",
     "l1=read_invalidate, l3=read_invalidate"),
    ({"load": ("read_invalidate", None)}, "cri", "cri has no load with L1 read_invalidate and L3 left open",
     "l1=cached"),
    ({"store": ("write_back", "uncached")}, "pvc", "pvc has no store with L1 write_back and L3 uncached",
     "l1=write_back, l3=write_back"),
    ({"store": ("cached", None)}, "pvc", "a store takes no cache hint l1='cached'", "'write_back'"),
    ({"store": (None, "read_invalidate")}, "pvc", "a store takes no cache hint l3='read_invalidate'", "'write_back'"),
    ({"load": ("write_back", None)}, "pvc", "a load takes no cache hint l1='write_back'", "'cached'"),
    ({"fetch": ("read_invalidate", None)}, "pvc", "a prefetch takes no cache hint l1='read_invalidate'", "'cached'"),
    ({"load": (3, None)}, "pvc", "a load takes no cache hint l1=3", "'cached'"),
])
def test_what_is_refused(chosen: dict[str, Any], target: str, message: str, hint: str) -> None:
    with pytest.raises(xt.XeError, match=f"{re.escape(message)}(?s:.*){re.escape(hint)}"):
        str(product.lower(BF16, BF16, FLOATS, target=target, **chosen).xegpu)


def test_hints_in_every_stage_and_in_llvms_form() -> None:
    low = product.lower(BF16, BF16, FLOATS, target="pvc")
    for name, text in low.stages.items():
        assert text.count("cache_hint<streaming>") == 2, name
        assert str(xt.parse(text)) == text, name
        before, store, after = text.partition("store_")
        wrong = before + store + after.replace("cache_hint<streaming>", "cache_hint<cached>")
        with pytest.raises(xt.TextError, match="XT3111"):
            xt.parse(wrong)
    upstream = low.xegpu_upstream
    assert upstream.count("l1_hint = #xegpu.cache_hint<streaming>") == 1  # LLVM's stores do not stream
    again = xt.parse(upstream)["product"].lower(BF16, BF16, FLOATS, target="pvc")
    assert again.opencl.count("_cache_controls(") == low.opencl.count("_cache_controls(")


def test_targets_without_hints_emit_plain_messages() -> None:
    assert TARGETS["cpu"].caches is None
    assert "cache_controls" not in product.lower(BF16, BF16, FLOATS, target="cpu").opencl
