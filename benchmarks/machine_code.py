"""``python -m benchmarks.machine_code``: the hot loops of the 256 x 256 product beside hand-written ones, as a table.

The figures of hand-written kernels were counted in the same way, in what the same compiler made of them.
"""

from __future__ import annotations

import xetile as xt
from benchmarks.generated_code import gemm, report_of
from benchmarks.rows import Progress, Row
from codegen.toolchain.ocloc import has_ocloc
from xetile.compiler.report import Report

_HAND = {("pvc", "bf16"): "213 / 0.601", ("bmg", "bf16"): "161 / 0.795",
         ("pvc", "i8"): "110 / 0.582", ("bmg", "i8"): "89 / 0.719",
         ("pvc", "tf32"): "61 / 0.525", ("bmg", "tf32"): "91 / 0.703"}
"""The densest kernels written by hand that we know: instructions of their loop, and the part of dpas."""
_TARGETS, _TYPES = ("pvc", "bmg"), ("bf16", "f16", "i8", "tf32")
_HEADS = ("target", "operands", "steps a pass", "instructions", "dpas", "loads", "prefetches", "density", "by hand",
          "spilled, private")


def transposed(target: str, side: str) -> Report:
    """The bf16 product with one operand stored column by column."""
    specs = {name: xt.Spec((4096, 4096), xt.bf16, (1, 4096) if name == side else (4096, 1)) for name in "AB"}
    return gemm.lower(specs["A"], specs["B"], xt.Spec((4096, 4096), xt.f32), target=target).report()


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Instructions a step where B, and unless ``quick`` where A, is transposed, beside the plain product."""
    rows: list[Row] = []
    if not has_ocloc():
        progress("machine code: ocloc is not installed")
        return rows
    for target in _TARGETS:
        plain = _a_step(report_of(target, "bf16"))
        for side in "B" if quick else "BA":
            progress(f"machine code for {target}, {side} transposed")
            count = _a_step(transposed(target, side))
            rows.append(Row("Machine code", f"{target} bf16, {side} transposed", count, "instructions a step",
                            plain / count, "the plain product", "transposed"))
    return rows


def _a_step(report: Report) -> float:
    return report.hot.total / report.unrolled


def _line(target: str, operands: str, report: Report, hand: str) -> str:
    loop = [report.loop.get(kind, 0) for kind in ("dpas", "load_block2d", "prefetch")]
    cells = (target, operands, report.unrolled, report.hot.total, *loop, f"{report.density:.3f}", hand,
             f"{report.spill_size}, {report.private_size}")
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> None:
    """Print the table, as Markdown."""
    print("| " + " | ".join(_HEADS) + " |", "|" + "---|" * len(_HEADS), sep="\n")
    for dtype in _TYPES:
        for target in _TARGETS:
            hand = _HAND.get((target, "bf16" if dtype == "f16" else dtype), "")
            print(_line(target, dtype, report_of(target, dtype), hand), flush=True)
    for side in "BA":
        for target in _TARGETS:
            print(_line(target, f"bf16, {side} transposed", transposed(target, side), ""), flush=True)


if __name__ == "__main__":
    main()
