"""Hot loops of the 256 x 256 product beside hand-written ones: ``python -m benchmarks.gpu_code.machine_code``.

The figures of hand-written kernels were counted in the same way, in what the same compiler made of them.
"""

from __future__ import annotations

import xetile as xt
from benchmarks.gpu_code.generated_code import gemm, report_of
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


_TILES = ((32, 32), (16, 64), (16, 32), (16, 16), (32, 16), (8, 64))
"""Elements of C that a subgroup has in the products that are counted with A transposed, beside 32 x 64."""


def transposed(target: str, sides: str, tile: tuple[int, int] = (32, 64)) -> Report:
    """The bf16 product by 8 x 4 subgroups, with the operands in ``sides`` stored column by column.

    Args:
        target: the device.
        sides: ``A``, ``B``, both or none.
        tile: rows and columns of C of a subgroup.
    """
    specs = {name: xt.Spec((4096, 4096), xt.bf16, (1, 4096) if name in sides else (4096, 1)) for name in "AB"}
    return gemm.lower(specs["A"], specs["B"], xt.Spec((4096, 4096), xt.f32), target=target, BM=8 * tile[0],
                      BN=4 * tile[1]).report(remedies=False)


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Instructions a step where B is transposed, beside the plain product; unless ``quick``, where A and both are, and
    where A is in smaller tiles."""
    rows: list[Row] = []
    if not has_ocloc():
        progress("machine code: ocloc is not installed")
        return rows
    for target in _TARGETS:
        plain = _a_step(report_of(target, "bf16"))
        for sides in ("B",) if quick else ("B", "A", "AB"):
            progress(f"machine code for {target}, {sides} transposed")
            rows.append(_row(f"{target} bf16, {_named(sides)} transposed", transposed(target, sides), plain))
        for tile in () if quick else _TILES:
            name = f"{target} bf16, A transposed, {tile[0]} x {tile[1]} a subgroup"
            progress(f"machine code for {name}")
            rows.append(_row(name, transposed(target, "A", tile), _a_step(transposed(target, "", tile))))
    return rows


def _row(name: str, report: Report, plain: float) -> Row:
    """A row of instructions a step, of which ``plain`` are in the product of row-major operands."""
    count = _a_step(report)
    return Row("Machine code", name, count, "instructions a step", plain / count, "the plain product", "transposed")


def _named(sides: str) -> str:
    return " and ".join(sides)


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
    for sides in ("B", "A", "AB"):
        for target in _TARGETS:
            print(_line(target, f"bf16, {_named(sides)} transposed", transposed(target, sides), ""), flush=True)
    print()
    heads = ("A transposed, C of a subgroup", *_TARGETS)
    print("| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), sep="\n")
    for rows, columns in _TILES:
        cells = (f"{rows} x {columns}", *(_beside(target, (rows, columns)) for target in _TARGETS))
        print("| " + " | ".join(cells) + " |", flush=True)


def _beside(target: str, tile: tuple[int, int]) -> str:
    """Instructions of a step with A transposed, and how many times those of the row-major product they are."""
    plain, count = (_a_step(transposed(target, sides, tile)) for sides in ("", "A"))
    return f"{count:.4g} ({count / plain:.2f})"


if __name__ == "__main__":
    main()
