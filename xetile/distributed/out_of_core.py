"""Products larger than a device's memory on one rank: panels from host memory, tile by tile of C.

    for each tile of C:  Pack panel 0, Pack panel 1, Multiply 0, Pack panel 2, Multiply 1, ... Finish

The steps are those of a schedule of one rank, whose panels come from the host instead of other ranks.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from codegen.runtime.devices import Queue, find_queue
from codegen.runtime.synchronize import copy
from xegpu.ir import dtypes
from xegpu.support.errors import DeviceError, ElementTypeError
from xegpu.target.targets import Target
from xetile.compiler.arguments import AtTheCall
from xetile.distributed.communication.transport import Alone
from xetile.distributed.executor import Epilogue, Executor, product_bar
from xetile.distributed.grid import SUM_BYTES, Grid
from xetile.distributed.memory import DeviceMemory, HostMemory, usm_bytes
from xetile.distributed.memory import queue as queue_of_rank
from xetile.distributed.options import no_matrices, whole_number
from xetile.distributed.regions import Region
from xetile.distributed.steps import Finish, Multiply, Pack, Schedule, Step
from xetile.distributed.verify import VerifyingExecutor
from xetile.library.activations import Activation
from xetile.library.array_operands import Operand, check_shapes, copied_where_shared, result_for
from xetile.library.matmul import array_of_number, bias_operand, check_beta, epilogue_of, result_dtype

_STEP = 64
_PANEL = 512


def streamed_schedule(grid: Grid, tile: tuple[int, int], panel: int) -> Schedule:
    """Schedule of one rank whose operands stay in host memory.

    Args:
        grid: of one rank.
        tile: rows and columns of C that are summed at once.
        panel: depth of the panels.
    """
    steps: list[Step] = []
    number = 0
    for row in range(0, grid.m, tile[0]):
        for column in range(0, grid.n, tile[1]):
            region = Region((row, min(row + tile[0], grid.m)), (column, min(column + tile[1], grid.n)))
            products: list[tuple[list[Step], Multiply]] = []
            for start in range(0, max(grid.k, 1), panel):
                product = Multiply(f"a{number % 2}", f"b{number % 2}", region, (start, min(start + panel, grid.k)),
                                   start == 0)
                packs: list[Step] = [] if product.is_empty else [
                    Pack("a", product.a_region, product.a), Pack("b", product.b_region, product.b)]
                products.append((packs, product))
                number += 1
            steps += products[0][0]
            for position, (_, product) in enumerate(products):
                # The launch goes first: the host copies the next panel while the device multiplies.
                steps.append(product)
                steps += products[position + 1][0] if position + 1 < len(products) else []
            steps.append(Finish(region))
    depth, (rows, columns) = min(panel, grid.k), (min(tile[0], grid.m), min(tile[1], grid.n))
    buffers = {"a0": rows * depth, "a1": rows * depth, "b0": depth * columns, "b1": depth * columns,
               "sums": rows * columns}
    return Schedule(grid, 0, tuple(steps), buffers)


def tile_that_fits(grid: Grid, memory: int, result: int) -> tuple[int, int]:
    """The largest square tile of C whose sums, result and panels fit, in multiples of 64.

    Raises:
        DeviceError: none fits.
    """
    size = grid.dtype.bytes
    # side^2 sums and results, and two panels each of A and B: (4 + result) side^2 + 4 s panel side <= memory
    panels, sums = 4 * size * _PANEL, SUM_BYTES + result
    side = int((math.sqrt(panels**2 + 4 * sums * memory) - panels) / (2 * sums)) // _STEP * _STEP
    if side < _STEP:
        raise DeviceError("XT7241", f"the least tile of C with its panels takes "
                          f"{sums * _STEP**2 + panels * _STEP} bytes, and memory={memory} is allowed",
                          "allow more: memory=")
    return side, side


class _Streamed(Executor):
    """Executor whose operands and result are in host memory."""

    memory: DeviceMemory

    def _fill_sums(self) -> None:
        first = next(step for step in self.schedule.steps if isinstance(step, Multiply))
        self._fill(self.slots["sums"], first.region)

    def _pack(self, step: Pack) -> None:
        view = np.ascontiguousarray(self.slots[step.source].view(step.region))
        slot = self._reused(step.target, step.region)
        self._upload(slot.array, view)

    def _upload(self, target: Any, source: Any) -> None:
        copy(self.memory.copy_queue(), usm_bytes(target), source.reshape(-1).view(np.uint8), source.nbytes)

    def _execute(self, step: Step) -> None:
        if isinstance(step, Multiply) and step.first:
            self._fill(self.slots["sums"], step.region)
        super()._execute(step)

    def _finish(self, step: Finish) -> None:
        whole, out = self.out, self.out[step.region.slices]
        kind = dtypes.of(whole.dtype)
        result = self.memory.empty(step.region.shape, kind)
        if self.epilogue.beta:
            self._upload(result, np.ascontiguousarray(out))
        bias = self._bias_of(step.region)
        self.finish_into(step, self.memory.typed(result, kind), bias)
        self.memory.wait(self.memory.now())
        landed = np.empty(step.region.shape, whole.dtype)
        copy(self.memory.copy_queue(), landed.reshape(-1).view(np.uint8), usm_bytes(result), landed.nbytes)
        out[...] = landed

    def _bias_of(self, region: Region) -> Any:
        """The part of the bias for a tile, on the device."""
        if self.bias is None or self.bias.ndim == 0:
            return None if self.bias is None else self.bias.item()
        grid = self.schedule.grid
        part = np.ascontiguousarray(np.broadcast_to(self.bias, (grid.m, grid.n))[region.slices])
        kind = dtypes.of(part.dtype)
        there = self.memory.empty(part.shape, kind)
        self._upload(there, part)
        return self.memory.typed(there, kind)


class _VerifiedStreamed(VerifyingExecutor, _Streamed):
    """Streamed executor that checks its products with the operands in host memory, and so the copies of panels too."""

    def operand_on_host(self, buffer: str, region: Region) -> Any:
        return self.slots[buffer[0]].view(region)


def matmul_out_of_core(a: Any, b: Any, *, memory: int, queue: Queue | str | None = None, out: Any = None,
                       bias: Any = None, activation: str | Activation | None = None, alpha: float = 1, beta: float = 0,
                       out_dtype: Any = None, target: str | Target | None = None, verify: bool = False,
                       progress: bool = False) -> Any:
    """Product of NumPy matrices on a device that they do not fit: panels travel while others are multiplied.

    A device that is fed at w bytes a second and multiplies f operations a second needs tiles of 2 s f / w rows and
    columns or more to be busy, where s is the size of an element.

    Args:
        a, b: NumPy matrices.
        memory: bytes of the device that may be used.
        queue: the device's queue or filter string; None for :func:`xetile.distributed.queue`.
        out, bias, activation, alpha, beta, out_dtype, target: as for :func:`xetile.matmul`, in host memory.
        verify: whether panels, products and epilogues are checked on the host, as :func:`xetile.distributed.plan` does.
        progress: whether a progress bar is shown, if rich is installed and standard error is a terminal.

    Returns:
        ``out``, or a new NumPy array.

    Raises:
        DeviceError: not even the least tile fits, there is no device, it computed wrongly, or an operand is on one.
        ShapeError: they are no matrices, or do not multiply.
        ElementTypeError: they have elements of different types.
    """
    with AtTheCall():
        left, right = Operand.of("a", a), Operand.of("b", b)
        _check_matrices(left, right)
        (m, k), n = left.shape, right.shape[1]
        epilogue = epilogue_of(activation, alpha, beta)
        grid = Grid(1, 1, 1, m=m, n=n, k=k, dtype=left.dtype)
        number = array_of_number(bias, left)
        kind = result_dtype(left.dtype, right.dtype, epilogue, number, out_dtype)
        if out is None:
            check_beta(beta)
        result = result_for(out, left, (m, n), kind)
        bias_operand(number, left, (m, n))
        if 0 in (m, n):
            return result.array
        left, right = copied_where_shared(left, result), copied_where_shared(right, result)
        added = None if number is None else copied_where_shared(Operand.of("bias", number), result).array
        tile = tile_that_fits(grid, whole_number("memory", memory), result.dtype.bytes)
        there = DeviceMemory(find_queue(queue) if queue is not None else queue_of_rank(), "auto")
        kind_of_executor = _VerifiedStreamed if verify else _Streamed
        executor = kind_of_executor(streamed_schedule(grid, tile, _PANEL), there, Alone(), None)
        with product_bar(executor.schedule, progress) as executor.advance:
            executor.run(left.array, right.array, result.array, added,
                         Epilogue(epilogue.activation, epilogue.alpha, epilogue.beta, target))
        return result.array


def _check_matrices(a: Operand, b: Operand) -> None:
    """Check that two matrices in host memory multiply.

    Raises:
        DeviceError: one is on a device.
        ShapeError: they are no matrices, or their inner sizes differ.
        ElementTypeError: they have elements of different types.
    """
    for operand in (a, b):
        HostMemory().check_holds(operand)
    if (len(a.shape), len(b.shape)) != (2, 2):
        raise no_matrices("a product out of core", a, b)
    check_shapes(a, b)
    if a.dtype is not b.dtype:
        raise ElementTypeError("XT7205", f"a has elements of {a.dtype}, and b of {b.dtype}",
                               f"convert one: b.astype(a.dtype) has elements of {a.dtype}")
