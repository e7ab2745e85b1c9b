"""C = A @ B on the best device there is: a work-group kernel with cooperative prefetch.

    python examples/gemm.py
    python examples/gemm.py --m 1000 --n 1016 --k 77 --dtype i8
    python examples/gemm.py --device opencl:cpu --target pvc     # a GPU's own text, on the CPU
    python examples/gemm.py --target bmg --show isa              # no GPU needed, but Intel's ocloc
"""

import argparse
import time

import ml_dtypes
import numpy as np

import xetile as xt


@xt.kernel
def gemm(A, B, C, *, BM=256, BN=256, BK=32, sg=(8, 4), ahead=3, accumulator=xt.f32):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    # Every subgroup of the work-group owns one block of C, and reads the rows of A and the columns of B for it.
    map_a = xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BK))
    map_b = xt.wg_map(sg_layout=sg, sg_data=(BK, BN // sg[1]))
    map_c = xt.wg_map(sg_layout=sg, sg_data=(BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=map_a)
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=map_b)
    # To prefetch, the subgroups share the same tiles out among them: each brings a part, some steps ahead.
    pa = xt.init_tile(A, (m, ahead * BK), (BM, BK), wg_map=xt.wg_map((32, 1), (BM // 32, BK)))
    pb = xt.init_tile(B, (ahead * BK, n), (BK, BN), wg_map=xt.wg_map((4, 8), (BK // 4, BN // 8)))
    acc = xt.zeros((BM, BN), accumulator, wg_map=map_c)
    for k in xt.range(0, A.shape[1], BK):  # noqa: B007 - a loop on the device
        xt.prefetch_tile(pa)
        xt.prefetch_tile(pb)
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, pa = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(pa, 0, BK)
        b, pb = xt.update_tile_offset(b, BK, 0), xt.update_tile_offset(pb, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


# Element type to: NumPy's type in memory, accumulator, K step.
TYPES = {
    "bf16": (ml_dtypes.bfloat16, xt.f32, 32),
    "f16": (np.float16, xt.f32, 32),
    "tf32": (np.float32, xt.f32, 16),
    "f32": (np.float32, xt.f32, 16),
    "i8": (np.int8, xt.i32, 64),
    "u8": (np.uint8, xt.i32, 64),
}


def constants(target: str, dtype: str) -> dict[str, object]:
    """Tile sizes that fit a target's registers."""
    chosen: dict[str, object] = {"BK": TYPES[dtype][2], "accumulator": TYPES[dtype][1]}
    if target in ("dg2", "arl"):  # registers of half the width
        return {**chosen, "BM": 128, "BN": 128}
    if target == "cpu":  # a subgroup's 8 x 64 block of C in vector registers
        return {**chosen, "BM": 64, "BN": 256, "sg": (8, 4)}
    if dtype == "f32":  # no matrix engine: smaller blocks leave room for the operands
        return {**chosen, "BM": 128, "BN": 128}
    return chosen


def random(shape: tuple[int, int], dtype: str, seed: int) -> np.ndarray:
    """Random numbers of a type."""
    generator = np.random.default_rng(seed)
    if dtype in ("i8", "u8"):
        return generator.integers(*((-128, 128) if dtype == "i8" else (0, 256)), shape).astype(TYPES[dtype][0])
    return generator.uniform(-1, 1, shape).astype(np.float32).astype(TYPES[dtype][0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("m", "n", "k"):
        parser.add_argument(f"--{name}", type=int, default=2048)
    parser.add_argument("--dtype", choices=TYPES, default="bf16")
    parser.add_argument("--device", help="numpy, numpy:xegpu, machine:pvc, opencl:cpu, opencl:gpu, level_zero:gpu "
                                         "(default: best)")
    parser.add_argument("--target", help=f"whose code to run or show: {', '.join(xt.TARGETS)}")
    parser.add_argument("--show", choices=["xetile", "xegpu", "opencl", "sycl", "isa"],
                        help="print a stage instead of running")
    options = parser.parse_args()
    a, b = random((options.m, options.k), options.dtype, 1), random((options.k, options.n), options.dtype, 2)
    c = np.zeros((options.m, options.n), TYPES[options.dtype][1].numpy)
    views = [xt.view(x, options.dtype) for x in (a, b)]
    if options.show:
        target = options.target or "pvc"
        specs = [xt.Spec(x.shape, dtype) for x, dtype in ((a, options.dtype), (b, options.dtype), (c, c.dtype))]
        lowered = gemm.lower(*specs, target=target, **constants(target, options.dtype))
        print(lowered.isa() if options.show == "isa" else getattr(lowered, options.show))
        return
    place = options.device or xt.best_device()
    kernel = gemm.on(place, target=options.target)
    settings = constants(kernel.target.name, options.dtype)
    grid = -(-options.m // settings.get("BM", 256)), -(-options.n // settings.get("BN", 256))
    seconds = []
    for _ in range(3):  # the first run compiles
        start = time.perf_counter()
        kernel[grid](*views, c, **settings)
        seconds.append(time.perf_counter() - start)
    wide = np.float32 if c.dtype == np.float32 else np.float64
    expected = a.astype(wide) @ b.astype(wide)
    error = np.abs(c - expected).max() / max(np.abs(expected).max(), 1)
    print(f"device   {kernel.device} ({place}), code for {kernel.target.name}")
    print(f"product  {options.m} x {options.k} by {options.k} x {options.n}, {options.dtype} into {c.dtype}")
    print(f"time     {min(seconds) * 1e3:.1f} ms with copies (the first run, compiling: {seconds[0] * 1e3:.0f} ms)")
    print(f"rate     {2 * options.m * options.n * options.k / min(seconds) / 1e9:.1f} GFLOP/s")
    print(f"error    {error:.2e} of the largest element, against NumPy")
    limit = 1e-2 if options.dtype == "tf32" else 1e-4
    if not error < limit:
        raise SystemExit(f"the result is wrong: an error of {error:.2e} is more than {limit}")


if __name__ == "__main__":
    main()
