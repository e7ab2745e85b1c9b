"""``xt.matmul`` on shapes that language models use, beside NumPy, dpnp and torch where they are installed.

Each product is activations (M, K) times weights (K, N), float32, as NumPy and dpnp multiply it. M is the number of
tokens: 1 and 8 when a model answers, 128 and 512 when it reads. K and N are those of published models' layers.
"""

from __future__ import annotations

import importlib.util
from statistics import median
from typing import Any

import numpy as np

from benchmarks.gpu_code.library_code import counted
from benchmarks.gpu_code.stream_k import predicted
from benchmarks.rows import Progress, Row
from benchmarks.run_time.arrays import on_cpu
from benchmarks.run_time.device import other_libraries
from benchmarks.timing import PAUSE, TURN, interleaved, ratios

LAYERS = {
    "GPT-2 small, qkv": (768, 2304), "GPT-2 small, output": (768, 768), "GPT-2 small, up": (768, 3072),
    "GPT-2 small, down": (3072, 768), "Llama 3 8B, qkv": (4096, 6144), "Llama 3 8B, output": (4096, 4096),
    "Llama 3 8B, up": (4096, 14336), "Llama 3 8B, down": (14336, 4096), "Qwen 2.5 0.5B, up": (896, 4864),
    "Phi 3 mini, qkv": (3072, 9216),
}
"""K and N."""
TOKENS = (1, 8, 128, 512)
_QUICK = (("GPT-2 small, qkv", 1), ("GPT-2 small, up", 128))


def shapes() -> list[tuple[str, int]]:
    """The 40 products: a layer and a number of tokens each."""
    return [(layer, tokens) for layer in LAYERS for tokens in TOKENS]


def measure(quick: bool, progress: Progress) -> list[Row]:
    """Rows of the kernels' machine code; then one for each shape and each other library, on dpnp's arrays."""
    rows = [*counted(quick, progress), *predicted()]
    if importlib.util.find_spec("dpnp") is None:
        progress("ready kernels: dpnp is not installed")
        return rows
    for layer, tokens in _QUICK if quick else shapes():
        progress(f"xt.matmul, {layer}, {tokens} tokens")
        rows += _of_shape(layer, tokens, 3)
    progress("xt.grouped_matmul")
    return [*rows, *_of_groups(8 if quick else 32, 3)]


def _of_groups(count: int, rounds: int) -> list[Row]:
    """Experts of 768 x 768, each with another number of tokens, in one launch and one after the other."""
    import dpnp

    import xetile as xt

    rng = np.random.default_rng(count)
    tokens = rng.integers(1, 200, count)
    a, b = ([rng.integers(-3, 4, (rows, 768)).astype(np.float32) for rows in sizes]
            for sizes in (tokens, [768] * count))
    x, w = ([dpnp.asarray(array, device="opencl:cpu") for array in arrays] for arrays in (a, b))
    result: dict[str, Any] = {}

    def together() -> None:
        result["c"] = xt.grouped_matmul(x, w)
        x[0].sycl_queue.wait()

    def separate() -> None:
        for left, right in zip(x, w, strict=True):
            xt.matmul(left, right)
        x[0].sycl_queue.wait()

    runs = {"ours": together, "a loop of xt.matmul": separate,
            "a loop of NumPy's matmul": lambda: [np.matmul(*pair) for pair in zip(a, b, strict=True)]}
    times = interleaved(runs, rounds, PAUSE, TURN)
    for left, right, got in zip(a, b, result["c"], strict=True):
        np.testing.assert_array_equal(dpnp.asnumpy(got), left @ right)
    rate = 2 * int(tokens.sum()) * 768 * 768 / median(times["ours"]) / 1e9
    rows = []
    for other in runs:
        if other != "ours":
            ratio, spread = ratios(times, "ours", other)
            rows.append(Row("xt.grouped_matmul", f"{count} of 1 to 199 x 768 x 768", rate, "GFLOP/s", ratio, other,
                            spread=spread))
    return rows


def _of_shape(layer: str, tokens: int, rounds: int) -> list[Row]:
    import dpnp

    import xetile as xt

    depth, columns = LAYERS[layer]
    rng = np.random.default_rng(tokens)
    a, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((tokens, depth), (depth, columns)))
    x, w = (on_cpu(array) for array in (a, b))
    result: dict[str, Any] = {}

    def run() -> None:
        result["c"] = xt.matmul(x, w, out=result.get("c"))
        result["c"].sycl_queue.wait()

    runs = {"ours": run, "NumPy": lambda: np.matmul(a, b), **other_libraries(a, b)}
    times = interleaved(runs, rounds, PAUSE, TURN)
    np.testing.assert_array_equal(dpnp.asnumpy(result["c"]), a @ b)
    rate = 2 * tokens * depth * columns / median(times["ours"]) / 1e9
    name = f"{layer}, {tokens} token{'s' if tokens > 1 else ''}"
    rows = []
    for other in runs:
        if other != "ours":
            ratio, spread = ratios(times, "ours", other)
            rows.append(Row("xt.matmul", name, rate, "GFLOP/s", ratio, f"{other}'s matmul", spread=spread))
    return rows
