"""Density of a product's hot loops on GPUs, counted in the disassembly: dpas of all instructions."""

from __future__ import annotations

from typing import Any

import xetile as xt
from benchmarks.rows import Progress, Row
from codegen.toolchain.ocloc import has_ocloc
from xetile.compiler.report import Report

_STEPS = {"bf16": 32, "f16": 32, "tf32": 16, "i8": 64}
_LEAST = {("pvc", "bf16"): 0.60, ("pvc", "f16"): 0.60, ("pvc", "i8"): 0.58, ("pvc", "tf32"): 0.52,
          ("bmg", "bf16"): 0.79, ("bmg", "f16"): 0.79, ("bmg", "i8"): 0.72, ("bmg", "tf32"): 0.70}


@xt.kernel
def gemm(A: Any, B: Any, C: Any, *, BM: int = 256, BN: int = 256, BK: int = 32, sg: tuple[int, int] = (8, 4),
         ahead: int = 3, acc: Any = xt.f32) -> None:
    """The work-group product with cooperative prefetch of docs/tutorial.md."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg_layout=sg, sg_data=(BK, BN // sg[1])))
    pa = xt.init_tile(A, (m, ahead * BK), (BM, BK), wg_map=xt.wg_map((32, 1), (BM // 32, BK)))
    pb = xt.init_tile(B, (ahead * BK, n), (BK, BN), wg_map=xt.wg_map((4, 8), (BK // 4, BN // 8)))
    total = xt.zeros((BM, BN), acc, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        xt.prefetch_tile(pa)
        xt.prefetch_tile(pb)
        total = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), total)
        a, pa = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(pa, 0, BK)
        b, pb = xt.update_tile_offset(b, BK, 0), xt.update_tile_offset(pb, BK, 0)
    xt.store_tile(total, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


def report_of(target: str, dtype: str) -> Report:
    """The report of 4096^3 by work-groups of 256 x 256."""
    acc = xt.i32 if dtype == "i8" else xt.f32
    operand, result = xt.Spec((4096, 4096), dtype), xt.Spec((4096, 4096), acc)
    return gemm.lower(operand, operand, result, target=target, BK=_STEPS[dtype], acc=acc).report()


def measure(quick: bool, progress: Progress) -> list[Row]:
    """A row for each target and element type, bf16 alone if quick; none where Intel's offline compiler is missing."""
    if not has_ocloc():
        progress("machine code: ocloc is not installed")
        return []
    rows = []
    for (target, dtype), least in _LEAST.items():
        if quick and dtype != "bf16":
            continue
        progress(f"machine code for {target}, {dtype}")
        report = report_of(target, dtype)
        facts = {"loop": dict(report.loop), "spill": report.spill_size, "private": report.private_size,
                 "registers": report.registers}
        rows.append(Row("Machine code", f"{target} {dtype}", report.density, "dpas / instructions",
                        report.density / least, f"{least:.2f}", "density", facts=facts))
    return rows
