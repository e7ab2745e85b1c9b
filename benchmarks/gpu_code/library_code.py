"""Machine code of the ready kernels, counted in the disassembly: registers spilled, instructions, dpas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import xetile as xt
from benchmarks.rows import Progress, Row
from codegen.toolchain.ocloc import has_ocloc
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.report import Report
from xetile.library.attention import attention_of_heads, blocks_for
from xetile.library.int4_matmul import STEP, int4_product, tilings
from xetile.library.scaled_matmul import WIDENED, scaled_product
from xetile.library.tile_heuristics import BLOCK_IO

GROUP = "Ready kernels, machine code"
_QUICK = 1


def counted(quick: bool, progress: Progress) -> list[Row]:
    """A row for each kernel and target; none where Intel's offline compiler is missing."""
    if not has_ocloc():
        progress("ready kernels: ocloc is not installed")
        return []
    rows = []
    for row in _rows():
        progress(f"machine code of {row.name}")
        rows.append(row)
        if quick and len(rows) == _QUICK:
            break
    return rows


def _rows() -> Iterator[Row]:
    for target in ("pvc", "bmg"):
        for group in (128, 32):
            report = _int4(target, group)
            per_block = report.loop["vector"] * 64 * 64 / (STEP * 64)
            yield _row(f"4-bit weights, groups of {group}, {target}", per_block, "instructions for 64 x 64", report)
    for target in ("cri", "pvc"):
        report = _scaled(target)
        yield _row(f"8-bit floats, {target}", report.density, "dpas / instructions", report)
    for target in ("pvc", "dg2", "arl"):
        for size in (64, 128, 256):
            report = lowered_attention(target, size).report(remedies=False)
            yield _row(f"attention, heads of {size}, {target}", report.spill_size, "bytes spilled", report)


def _row(name: str, value: float, unit: str, report: Report) -> Row:
    return Row(GROUP, name, value, unit, facts={"loop": dict(report.loop), "spill": report.spill_size,
                                                "private": report.private_size})


def _spec(dtype: Any, dimensions: int = 2, last: int | None = None) -> xt.Spec:
    return xt.Spec((*[None] * (dimensions - 1), last), dtype)


def _int4(target: str, group: int) -> Report:
    tiling, floats = tilings(group, xt.TARGETS[target])[1], _spec(xt.f16)
    return int4_product.lower(floats, _spec(xt.u32), *[floats] * 4, target=target, BM=tiling.rows, BN=tiling.columns,
                              sg=tiling.layout, group=group, offset=True, biased=False, activation=None).report()


def _scaled(target: str) -> Report:
    widen = not xt.TARGETS[target].multiplies(xt.e4m3, xt.e4m3)
    tiling = WIDENED[0] if widen else BLOCK_IO[0]
    constants = {**tiling.constants, "BK": tiling.depth if widen else 64}
    return scaled_product.lower(*[_spec(xt.e4m3)] * 2, *[_spec(xt.f32)] * 4, target=target, **constants, widen=widen,
                                by_row=True, by_column=True, biased=False, activation=None).report()


def lowered_attention(target: str, size: int, share: int = 1, **changed: int) -> CompiledKernel:
    """The library's causal attention with heads of a size, of which some share keys and values.

    Args:
        changed: constants other than those that the library chooses.
    """
    operands = [_spec(xt.bf16, 4, size)] * 4
    blocks = blocks_for(size, 1000, xt.TARGETS[target])
    return attention_of_heads.lower(*operands, 1.0, target=target, D=size, DV=size, share=share, causal=True,
                                    **{**blocks.constants, **changed})
