"""Program of every rank of a test: all cases one after the other; rank 0 prints what was wrong, as JSON.

    mpiexec -n 4 python -m mpi4py tests/xetile/distributed/worker.py numpy
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from counting import Counting
from mpi4py import MPI

import xetile as xt
import xetile.distributed as xd
from xetile.distributed import executor
from xetile.distributed.grid import shapes_of
from xetile.distributed.memory import DeviceMemory, HostMemory
from xetile.distributed.schedule import ORDERS, OVERLAPS
from xetile.distributed.signals import Signals
from xetile.distributed.steps import Add, Broadcast, Receive, Send

WORLD = Counting(MPI.COMM_WORLD)
SIZES = [(70, 51, 45), (3, 2, 5), (1, 1, 1), (7, 1, 64), (16, 33, 0)]
TYPES: dict[str, Any] = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "i8": np.int8,
                          "u8": np.uint8}


def integers(seed: int, rows: int, columns: int, dtype: str = "f32", least: int = -8) -> Any:
    """Random integers, the same on all ranks."""
    low = 0 if dtype == "u8" else least
    return np.random.default_rng(seed).integers(low, 9, (rows, columns)).astype(TYPES[dtype])


def exact(a: Any, b: Any) -> Any:
    """Product in whole numbers."""
    return np.asarray(a, np.int64) @ np.asarray(b, np.int64)


class Device:
    """Memory of blocks: NumPy's, or dpnp's on the CPU device, and the text that runs there."""

    def __init__(self, name: str) -> None:
        self.queue = None if name.startswith("numpy") else xd.queue(WORLD)
        self.target = "pvc" if name == "device:pvc" else None

    def put(self, array: Any, kind: str = "") -> Any:
        """A block in this memory."""
        if self.queue is None:
            return array
        import dpnp

        raw = array.view(np.uint16) if kind == "bf16" else array
        there = dpnp.asarray(raw, sycl_queue=self.queue)
        return xt.view(there, xt.bf16) if kind == "bf16" else there


def grids() -> Iterator[tuple[tuple[int, int, int], str, str]]:
    """Every grid of the ranks, overlaps and orders in turn."""
    modes = itertools.cycle(itertools.product(OVERLAPS, ORDERS))
    for shape in shapes_of(WORLD.size):
        for _ in range(3 if WORLD.size > 1 else 1):
            yield shape, *next(modes)


def check(what: Any, found: Any, expected: Any, wrong: list[str]) -> None:
    """On rank 0, note a difference."""
    if WORLD.rank == 0 and not (np.asarray(found).shape == expected.shape and
                                np.array_equal(np.asarray(found, np.float64), np.asarray(expected, np.float64))):
        wrong.append(str(what))


def products(device: Device, wrong: list[str]) -> int:
    """Every grid: exact, and as many bytes as the formula says."""
    count = 0
    sizes = itertools.cycle(SIZES)
    for shape, overlap, order in grids():
        m, n, k = next(sizes)
        a, b = integers(1, m, k), integers(2, k, n)
        grid = xd.Grid(*shape, m=m, n=n, k=k, comm=WORLD)
        blocks = device.put(a[grid.block("a")]), device.put(b[grid.block("b")])
        before = Counting.received
        c = xd.matmul(*blocks, grid=grid, overlap=overlap, order=order, target=device.target, timeout=200)
        received = WORLD.allreduce(Counting.received - before)
        if received != grid.volume:
            wrong.append(f"{shape} {overlap} {order}: {received} bytes, not {grid.volume}")
        check(("product", shape, overlap, order, m, n, k), grid.gather(c), exact(a, b), wrong)
        count += 1
    return count


def best_shape() -> tuple[int, int, int]:
    """A grid in which as much as possible is split."""
    return {1: (1, 1, 1), 2: (1, 1, 2), 3: (1, 1, 3), 4: (2, 1, 2)}[WORLD.size]


def types(device: Device, wrong: list[str]) -> int:
    """All element types, with results of the sums' type and of their own."""
    m, n, k = 37, 29, 50
    for kind in TYPES:
        a, b = integers(3, m, k, kind), integers(4, k, n, kind)
        for shape in {best_shape(), (1, WORLD.size, 1)}:
            grid = xd.Grid(*shape, m=m, n=n, k=k, dtype=kind, comm=WORLD)
            c = xd.matmul(device.put(a[grid.block("a")], kind), device.put(b[grid.block("b")], kind), grid=grid,
                          out_dtype=grid.sums, target=device.target)
            check(("type", kind, shape), grid.gather(c), exact(a, b), wrong)
    return 2 * len(TYPES)


def epilogues(device: Device, wrong: list[str]) -> int:
    """Bias, activation, alpha, beta and out, on a grid with partial sums and on one without, by one plan each."""
    m, n, k = 37, 29, 50
    a, b, old, bias = integers(5, m, k), integers(6, k, n), integers(7, m, n), integers(8, 1, n)
    expected = np.maximum(2 * exact(a, b) + 3 * old + bias, 0)
    for shape in {best_shape(), (WORLD.size, 1, 1)}:
        grid = xd.Grid(*shape, m=m, n=n, k=k, comm=WORLD)
        out = device.put(old[grid.block("c")].copy())
        rows, columns = grid.block("c")
        with xd.plan(grid, activation="relu", alpha=2, beta=3, target=device.target) as plan:
            result = plan(device.put(a[grid.block("a")]), device.put(b[grid.block("b")]), out=out,
                          bias=device.put(np.ascontiguousarray(bias[0, columns])))
            check(("epilogue", shape, "is out"), np.array(result is out), np.array(True), wrong)
            check(("epilogue", shape), grid.gather(out), expected, wrong)
            again = device.put(old[grid.block("c")].copy())  # the second call of a plan, with a bias of each element
            plan(device.put(a[grid.block("a")]), device.put(b[grid.block("b")]), out=again,
                 bias=device.put(np.ascontiguousarray(old[rows, columns])))
            check(("epilogue again", shape), grid.gather(again), np.maximum(2 * exact(a, b) + 4 * old, 0), wrong)
    return 4


def kept_apart(device: Device, wrong: list[str]) -> int:
    """Blocks in columns, and results that are A, B or the bias themselves."""
    size = 24
    a, b = integers(20, size, size), integers(21, size, size)
    count = 0
    for shape in shapes_of(WORLD.size):
        grid = xd.Grid(*shape, m=size, n=size, k=size, comm=WORLD)
        left, right = (device.put(np.asfortranarray(whole[grid.block(name)])) for whole, name in ((a, "a"), (b, "b")))
        check(("in columns", shape), grid.gather(xd.matmul(left, right, grid=grid)), exact(a, b), wrong)
        bias = device.put(a[grid.block("c")].copy())
        c = xd.matmul(left, right, grid=grid, bias=bias, out=bias)
        check(("out is the bias", shape), grid.gather(c), exact(a, b) + a, wrong)
        for name in "ab":
            if left.shape != right.shape or grid.zeros("c").shape != left.shape:
                continue
            blocks = device.put(a[grid.block("a")].copy()), device.put(b[grid.block("b")].copy())
            out = blocks["ab".index(name)]
            with xd.plan(grid) as plan:
                check(("out is", name, shape), grid.gather(plan(*blocks, out=out)), exact(a, b), wrong)
            count += 1
    return count + 1


def result_types(device: Device, wrong: list[str]) -> int:
    """Without out_dtype the result has the type that xt.matmul gives it: of ``out``, or by the bias and scales."""
    m, n, k = 9, 8, 7
    a, b = integers(22, m, k, "i8"), integers(23, k, n, "i8")
    grid = xd.Grid(1, 1, WORLD.size, m=m, n=n, k=k, dtype=xt.i8, comm=WORLD)
    blocks = device.put(a[grid.block("a")]), device.put(b[grid.block("b")])
    out = device.put(np.zeros(grid.zeros("c").shape, np.float16))
    check("out of f16", grid.gather(xd.matmul(*blocks, grid=grid, out=out)), exact(a, b), wrong)
    check("a bias of floats", grid.gather(xd.matmul(*blocks, grid=grid, bias=0.5)), exact(a, b) + 0.5, wrong)
    check("alpha", grid.gather(xd.matmul(*blocks, grid=grid, alpha=0.5)), exact(a, b) * 0.5, wrong)
    with xd.plan(grid) as plan:
        if _error_of(plan, (*blocks, None, device.put(np.full(n, 0.5, np.float32)))).code != "XT7215":
            wrong.append("a plan of i8 takes a bias of floats")
    return 4


def layers(device: Device, wrong: list[str]) -> int:
    """The two layers of tensor parallelism one after the other, against both products."""
    tokens, width, hidden = 21, 18, 26
    x, w1, w2 = integers(9, tokens, width, least=-2), integers(10, width, hidden), integers(11, hidden, width)
    first = xd.Grid(1, WORLD.size, 1, m=tokens, n=hidden, k=width, comm=WORLD, rows_of_a=True)
    second = xd.Grid(1, 1, WORLD.size, m=tokens, n=width, k=hidden, comm=WORLD)
    for order, overlap in itertools.product(ORDERS, OVERLAPS):
        before = Counting.received
        y = xd.all_gather_matmul(device.put(x[first.block("a")]), device.put(w1[first.block("b")]), comm=WORLD,
                                 activation="relu", order=order, overlap=overlap, target=device.target)
        z = xd.matmul_reduce_scatter(y, device.put(w2[second.block("b")]), comm=WORLD, order=order, overlap=overlap,
                                     target=device.target)
        received = WORLD.allreduce(Counting.received - before)
        if received != first.volume + second.volume:
            wrong.append(f"layers {order} {overlap}: {received} bytes")
        check(("first layer", order, overlap), first.gather(y), np.maximum(exact(x, w1), 0), wrong)
        check(("second layer", order, overlap), second.gather(z), exact(np.maximum(exact(x, w1), 0), w2), wrong)
    return 2 * len(ORDERS) * len(OVERLAPS)


def same_bits(device: Device, wrong: list[str]) -> int:
    """Random floats: ring and direct add up in one order, and so does each repetition; the error is bounded."""
    m, n, k = 33, 40, 301
    rng = np.random.default_rng(12)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    grid = xd.Grid(1, 1, WORLD.size, m=m, n=n, k=k, comm=WORLD)
    found = []
    for order, overlap in (("ring", "chunked"), ("direct", "chunked"), ("direct", "signalled"), ("ring", "chunked")):
        c = xd.matmul(device.put(a[grid.block("a")]), device.put(b[grid.block("b")]), grid=grid, order=order,
                      overlap=overlap, target=device.target)
        found.append(grid.gather(c))
    if WORLD.rank == 0:
        # The tiles of one launch for all bands differ from those of a launch a band, and so may the sums inside.
        if not all(each.tobytes() == found[0].tobytes() for each in (found[1], found[3])):
            wrong.append("the bits of sums depend on the order of messages")
        bound = (k + WORLD.size + 2) * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b))
        if not all((np.abs(each - a.astype(np.float64) @ b) <= bound).all() for each in found):
            wrong.append("sums are less exact than f32 sums are")
    return len(found)


def slow_peers(device: Device, wrong: list[str]) -> int:
    """Late messages change nothing: a panel or band is not read before it is there, nor filled before it has left."""
    m, n, k = 60, 50, 64
    a, b = integers(13, m, k), integers(14, k, n)
    for late in range(WORLD.size):
        Counting.delay = 0.01 if late == WORLD.rank else 0
        for shape in {(1, WORLD.size, 1), (1, 1, WORLD.size), best_shape()}:
            grid = xd.Grid(*shape, m=m, n=n, k=k, comm=WORLD)
            c = xd.matmul(device.put(a[grid.block("a")]), device.put(b[grid.block("b")]), grid=grid, panel=5,
                          target=device.target)
            check(("slow peer", late, shape), grid.gather(c), exact(a, b), wrong)
    Counting.delay = 0
    return WORLD.size


def staged(device: Device, wrong: list[str]) -> int:
    """Panels that travel through host memory, as those of a GPU do whose MPI does not take its memory."""
    if device.queue is None:
        return 0
    m, n, k = 60, 50, 64
    a, b = integers(15, m, k), integers(16, k, n)
    for shape in {(1, WORLD.size, 1), best_shape()}:
        grid = xd.Grid(*shape, m=m, n=n, k=k, comm=WORLD)
        c = xd.matmul(device.put(a[grid.block("a")]), device.put(b[grid.block("b")]), grid=grid, transport="host",
                      target=device.target)
        check(("through the host", shape), grid.gather(c), exact(a, b), wrong)
    return 2


def verified(device: Device, wrong: list[str]) -> int:
    """Verification costs four bytes a message, and one bit changed on any rank is found by all."""
    m, n, k = 37, 29, 50
    cases = ((1, WORLD.size, 1), "f32", "none"), (best_shape(), "f32", "chunked"), (best_shape(), "i8", "signalled")
    old = integers(19, m, n)
    for shape, kind, overlap in cases:
        a, b = integers(17, m, k, kind), integers(18, k, n, kind)
        grid = xd.Grid(*shape, m=m, n=n, k=k, dtype=kind, comm=WORLD)
        blocks = device.put(a[grid.block("a")]), device.put(b[grid.block("b")])
        with xd.plan(grid, verify=True, overlap=overlap, out_dtype=xt.f32, target=device.target, activation="relu",
                     beta=2) as plan:
            out = device.put(old[grid.block("c")].copy())
            bias = device.put(np.ascontiguousarray(old[0, grid.block("c")[1]]))
            check(("verified with an epilogue", shape, kind, overlap), grid.gather(plan(*blocks, out=out, bias=bias)),
                  np.maximum(exact(a, b) + 2 * old + old[0], 0), wrong)
            if WORLD.size > 1:
                wrongly_called(plan, (*blocks, out, bias), executor, "finish_sums", WORLD.size - 1, "XT7226", wrong)
        with xd.plan(grid, verify=True, overlap=overlap, out_dtype=grid.sums, target=device.target) as plan:
            before = Counting.received
            check(("verified", shape, kind, overlap), grid.gather(plan(*blocks)), exact(a, b), wrong)
            before = Counting.received
            plan(*blocks)
            messages = sum(isinstance(step, Receive) or (isinstance(step, Broadcast) and step.root != WORLD.rank)
                           for step in plan.schedule.steps)
            if Counting.received - before != plan.schedule.received + 4 * messages:
                wrong.append(f"verified {shape}: {Counting.received - before} bytes")
            if WORLD.size > 1:
                signals = overlap == "signalled" and device.queue is not None
                corrupted(plan, blocks, WORLD.size - 1, (Signals, "launch") if signals else (executor, "matmul"), wrong)
            check(("verified again", shape, kind, overlap), grid.gather(plan(*blocks)), exact(a, b), wrong)
    return len(cases)


def corrupted(plan: xd.Plan, blocks: Any, bad: int, product: tuple[Any, str], wrong: list[str]) -> None:
    """A message, a product and a sum that one rank gets wrong."""
    sends = any(isinstance(step, Send) or (isinstance(step, Broadcast) and step.root == bad)
                for step in plan.schedule.steps)
    Counting.corrupts = WORLD.rank == bad and sends
    error = _error_of(plan, blocks)
    if WORLD.bcast(sends, bad) and (error.code != "XT7224" or f"from rank {bad} " not in error.message):
        wrong.append(f"a changed message of rank {bad}: {error.code} {error.message}")
    Counting.corrupts = False
    adds = any(isinstance(step, Add) for step in plan.schedule.steps)
    faults: list[tuple[Any, str]] = [product]
    faults += [(HostMemory, "add"), (DeviceMemory, "add")] if adds else []
    for module, name in faults:
        if module in (executor, Signals, type(plan._executor.memory)):
            wrongly_called(plan, blocks, module, name, bad, "XT7225", wrong)


def wrongly_called(plan: xd.Plan, arguments: Any, module: Any, name: str, bad: int, code: str,
                   wrong: list[str]) -> None:
    """A function that one rank gets wrong: all ranks raise the error of that rank."""
    right = getattr(module, name)
    if WORLD.rank == bad:
        setattr(module, name, wrongly(right, name))
    try:
        error = _error_of(plan, arguments)
    finally:
        setattr(module, name, right)
    if error.code != code or not error.message.startswith(f"rank {bad}: ") or \
            WORLD.allreduce(int(error.message == WORLD.bcast(error.message))) != WORLD.size:
        wrong.append(f"a wrong {name} of rank {bad}: {error.code} {error.message}")


def wrongly(right: Any, name: str) -> Any:
    """The function with one element of its result changed."""
    def act(*args: Any, **options: Any) -> Any:
        result = right(*args, **options)
        target = args[{"add": 1, "launch": 3}[name]] if name in ("add", "launch") else options["out"]
        target[0, -1:] += 1
        return result

    return act


def _error_of(plan: xd.Plan, arguments: Any) -> Any:
    """The error of a call with blocks of A and B, and perhaps of C and a bias."""
    a, b, *more = arguments
    try:
        plan(a, b, **dict(zip(("out", "bias"), more, strict=False)))
    except xt.XeError as error:
        return error
    return xt.DeviceError("XT7211", "nothing was found", "")


SUITES = {
    "numpy": (products, types, epilogues, kept_apart, result_types, layers, same_bits, slow_peers),
    "device": (products, types, epilogues, kept_apart, result_types, layers, same_bits, slow_peers, staged, verified),
    "device:verified": (kept_apart, result_types, verified),
    "numpy:few": (products, kept_apart, result_types, same_bits, slow_peers, verified),
    "device:few": (layers, staged),
    "device:pvc": (layers,),
}


def main(name: str) -> None:
    """Run a suite; rank 0 prints JSON."""
    wrong: list[str] = []
    device = Device(name)
    counts = {case.__name__: case(device, wrong) for case in SUITES[name]}
    every = WORLD.gather(wrong)
    if WORLD.rank == 0:
        print(json.dumps({"wrong": [each for one in every for each in one], "counts": counts}))


main(sys.argv[1])
