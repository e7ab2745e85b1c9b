"""Published throughput of 16-bit and other products on Intel GPUs, against the performance model.

    python -m benchmarks.gpu_code.published

The kernels behind the figures are others' own; each is compared with a kernel of the same design: tile sizes, blocks,
prefetching. It needs Intel's compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import xetile as xt
from benchmarks.code_snapshot.kernels import gemm
from xegpu.target.targets import Target, find_target

LARGEST_ERROR = 0.15
"""Relative error beyond which a prediction is wrong."""
SIZE = 4096
"""Rows, columns and depth of the published products; of those without a published size, assumed."""


def small_blocks(name: str) -> Target:
    """A target whose loads are one dpas operand each: 8x16 of A, 16x16 of B."""
    target = find_target(name)
    kept = {block for block in target.blocks if block.blocks == 1 and
            (block.kind in ("write", "prefetch") or block.rows == {"read": 8, "read_transform": 16}.get(block.kind))}
    return replace(target, blocks=frozenset(kept))


@dataclass(frozen=True)
class Published:
    """Published throughput.

    Attributes:
        machine: name of the machine model.
        dtype: element type of A and B.
        low, high: TFLOP/s (10^12 operations a second); the same where one figure is published.
        source: who published it, and of what.
        target: the target that the compared kernel is compiled for.
        constants: its constants.
    """

    machine: str
    dtype: str
    low: float
    high: float
    source: str
    target: Callable[[], str | Target]
    constants: dict[str, object]

    def predicted(self) -> float:
        """TFLOP/s that the model predicts for a kernel of this design."""
        result = "i32" if self.dtype == "i8" else "f32"
        specs = [xt.Spec((None, None), kind) for kind in (self.dtype, self.dtype, result)]
        lowered = gemm.lower(*specs, target=self.target(), **self.constants)
        return lowered.report().predict((SIZE, SIZE, SIZE), machine=self.machine).tflops

    def error(self, predicted: float) -> float:
        """Relative distance of a prediction from the published range; 0 inside it."""
        nearest = min(max(predicted, self.low), self.high)
        return predicted / nearest - 1


def _pvc() -> str:
    return "pvc"


def _bmg() -> str:
    return "bmg"


_TF32: dict[str, object] = {"BK": 16}
_I8: dict[str, object] = {"BK": 64, "acc": xt.i32}
_DG2: dict[str, object] = {"BM": 256, "BN": 128, "ahead": 0}
FIGURES = (
    Published("b580", "f16", 65, 65, "mlir-extensions, no prefetch", _bmg, {"ahead": 0}),
    Published("b580", "f16", 83, 88, "mlir-extensions, from work-group level: one dpas block a load",
              lambda: small_blocks("bmg"), {}),
    Published("b580", "f16", 89, 94, "mlir-extensions, prefetch", _bmg, {}),
    Published("max1550", "bf16", 280, 320, "sycl-tla, cooperative prefetch, one stack", _pvc, {}),
    Published("max1100", "bf16", 226, 226, "sycl-tla", _pvc, {}),
    Published("max1100", "bf16", 136, 136, "oneDNN, its kernel unknown", _pvc, {}),
    Published("max1100", "bf16", 109, 109, "Triton, its kernel unknown", _pvc, {}),
    Published("aurora", "bf16", 273, 273, "vendor library, one stack of Aurora", _pvc, {}),
    Published("aurora", "f16", 263, 263, "vendor library, one stack of Aurora", _pvc, {}),
    Published("aurora", "tf32", 110, 110, "vendor library, one stack of Aurora", _pvc, _TF32),
    Published("aurora", "i8", 577, 577, "vendor library, one stack of Aurora", _pvc, _I8),
    Published("a770", "f16", 85, 85, "torch", lambda: "dg2", _DG2),
    Published("a770", "f16", 59, 59, "oneMKL, its kernel unknown", lambda: "dg2", _DG2),
)
"""All published figures that we know. A kernel of unknown design is set beside the best of ours for its machine."""


def table() -> str:
    """Published against predicted figures, a line each; those that are more than 15 % off are named."""
    lines = [f"{'machine':8} {'type':5} {'published':>10} {'predicted':>10} {'error':>7}  source"]
    for figure in FIGURES:
        predicted = figure.predicted()
        published = f"{figure.low:g}" if figure.low == figure.high else f"{figure.low:g}-{figure.high:g}"
        off = figure.error(predicted)
        lines.append(f"{figure.machine:8} {figure.dtype:5} {published:>10} {predicted:>10.0f} {off:>+7.0%}  "
                     f"{figure.source}{', WRONG' if abs(off) > LARGEST_ERROR else ''}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
