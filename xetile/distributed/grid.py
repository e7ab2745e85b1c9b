"""Process grids: which block of A, B and C each rank owns, and how many bytes a product moves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, DeviceError, ShapeError, plural
from xetile.compiler.arguments import AtTheCall, TypedView
from xetile.distributed.communication import exchange
from xetile.distributed.communication.agreement import agree
from xetile.distributed.communication.transport import rank_of, transport_of, transport_of_all
from xetile.distributed.memory import default_limit
from xetile.distributed.options import whole_number
from xetile.distributed.regions import Region, split

SUM_BYTES = 4
"""Bytes of a partial sum: f32, or i32 of 8-bit integers."""
PANEL_STEP = 256
"""Panels are multiples of this depth."""
OPERANDS = ("a", "b", "c")
_OPERAND_TYPES = (dtypes.f32, dtypes.bf16, dtypes.f16, dtypes.i8, dtypes.u8)


@dataclass(frozen=True)
class Grid:
    """Grid of pr x pc x pk ranks for a product C = A @ B of M x K by K x N.

    | matrix | rows | columns |
    |---|---|---|
    | A | over pr | over pk, within that over pc |
    | B | over pk, within that over pr | over pc |
    | C | over pr, within that over pk | over pc |

    (1, P, 1) and (P, 1, 1) exchange one operand, (1, 1, P) sums; (pr, pc, 1) is SUMMA, with pk > 1 it is 2.5D. Splits
    are even, and the first parts are one longer; no layout is block-cyclic.

    Args:
        pr, pc, pk: parts of M, N and K; their product is the number of ranks.
        m, n, k: sizes of the whole product.
        dtype: element type of A and B: f32, bf16, f16, i8 or u8.
        comm: a communicator of mpi4py; None is the world.
        rows_of_a: A's rows, not its columns, are split over pc, as :func:`xetile.distributed.all_gather_matmul` has
            it; for (1, P, 1) only.

    Raises:
        ArgumentError: a count or size that is no whole number, a count below one, or an element type that is not
            multiplied.
        ShapeError: a negative size, or ``rows_of_a`` with another grid than (1, P, 1).
    """

    pr: int
    pc: int
    pk: int
    m: int = field(kw_only=True)
    n: int = field(kw_only=True)
    k: int = field(kw_only=True)
    dtype: DType = field(kw_only=True, default=dtypes.f32)
    comm: Any = field(kw_only=True, default=None, repr=False, compare=False)
    rows_of_a: bool = field(kw_only=True, default=False)

    def __post_init__(self) -> None:
        with AtTheCall():
            object.__setattr__(self, "dtype", dtypes.of(self.dtype))
            for name in ("pr", "pc", "pk", "m", "n", "k"):
                object.__setattr__(self, name, whole_number(name, getattr(self, name)))
            if min(self.pr, self.pc, self.pk) < 1:
                raise ArgumentError("XT7200", f"a grid of {self.pr} x {self.pc} x {self.pk} ranks has none",
                                    "give one or more for each of pr, pc and pk: Grid(2, 2, 1, ...)")
            if self.dtype not in _OPERAND_TYPES:
                raise ArgumentError("XT7201", f"a distributed product has no operands of {self.dtype}",
                                    f"use one of {', '.join(map(str, _OPERAND_TYPES))}")
            if min(self.m, self.n, self.k) < 0:
                raise ShapeError("XT7202", f"a product of {self.m}x{self.k} by {self.k}x{self.n} has a negative size",
                                 "give m, n and k of the whole product, not of a block")
            if self.rows_of_a and (self.pr, self.pk) != (1, 1):
                raise ShapeError("XT7203", f"A is split by rows over the columns of a grid of {self.shape}",
                                 "rows_of_a is for the grid (1, P, 1); leave it out for others")

    @classmethod
    def choose(cls, m: int, n: int, k: int, dtype: Any = dtypes.f32, *, memory: int | None = None, comm: Any = None,
               ranks: int | None = None, timeout: float | None = None) -> Grid:
        """The grid of least volume whose blocks and buffers fit the memory of a rank; all ranks call.

        Args:
            m, n, k: sizes of the whole product.
            dtype: element type of A and B.
            memory: bytes of a rank, panels included. None is nine tenths of the rank's device's memory, shared with
                the other ranks that use it; with ``ranks``, and without devices, it does not limit the choice.
            comm: a communicator of mpi4py; None is the world.
            ranks: how many ranks, for plans without MPI; by default those of ``comm``. Then nobody else need call.
            timeout: seconds that a rank which has not called yet may take; None for any time.

        Raises:
            DeviceError: no grid fits.
            ShapeError: the ranks differ.
        """
        with AtTheCall():
            if ranks is not None:
                return replace(_fitting(m, n, k, dtype, whole_number("ranks", ranks, 1), memory), comm=comm)
            transport = transport_of_all(comm, timeout)
            found: Grid | None = None
            trouble: Exception | None = None
            limit = default_limit(transport, timeout) if memory is None else memory
            try:
                found = _fitting(m, n, k, dtype, transport.size, limit)
            except Exception as error:
                trouble = error
            agree(transport, {"the grid": found and found.described, "dtype": found and found.dtype,
                              "memory": limit}, trouble, timeout)
            assert found is not None
            return replace(found, comm=comm)

    @property
    def rank(self) -> int:
        """This process's rank."""
        return rank_of(self.comm, self.ranks)

    def block(self, operand: str) -> tuple[slice, slice]:
        """Slices of the whole matrix that this rank owns of ``"a"``, ``"b"`` or ``"c"``."""
        with AtTheCall():
            return self.region(operand, self.rank).slices

    def zeros(self, operand: str, *, dtype: Any = None, queue: Any = None) -> Any:
        """This rank's block, filled with zeros.

        Args:
            operand: ``"a"``, ``"b"`` or ``"c"``.
            dtype: element type; by default that of A and B, and of C the type of the sums.
            queue: makes an array of dpnp there; None makes one of NumPy.
        """
        with AtTheCall():
            region = self.region(operand, self.rank)
            kind = dtypes.of(dtype) if dtype is not None else self.sums if operand == "c" else self.dtype
            if queue is None:
                return np.zeros(region.shape, kind.numpy)
            import dpnp

            wide = kind is not dtypes.bf16  # dpnp has no bfloat16
            array = dpnp.zeros(region.shape, dtype=kind.numpy if wide else np.uint16, sycl_queue=queue)
            return array if wide else TypedView(array, kind)

    def scatter(self, whole: Any, operand: str, *, root: int = 0, timeout: float | None = None) -> Any:
        """This rank's block of a matrix of rank ``root``, in NumPy; the others pass None. All ranks call.

        Raises:
            ShapeError: the matrix has another shape than the grid says, or the ranks differ; on all ranks.
            DeviceError: a rank or a message took longer than ``timeout`` seconds.
        """
        with AtTheCall():
            return exchange.scatter(self._exchange(operand, root, timeout), whole, self.dtype)

    def gather(self, block: Any, operand: str = "c", *, root: int = 0, timeout: float | None = None) -> Any:
        """The whole NumPy matrix on rank ``root``, None on others, of blocks of NumPy or dpnp. All ranks call.

        Raises:
            ShapeError: a block has another shape than the grid says, or the ranks differ; on all ranks.
            DeviceError: a rank or a message took longer than ``timeout`` seconds.
        """
        with AtTheCall():
            return exchange.gather(self._exchange(operand, root, timeout), block)

    def _exchange(self, operand: str, root: int, timeout: float | None) -> exchange.Exchange:
        """Plan of a scatter or gather, on which all ranks agree."""
        transport = transport_of(self.comm, self.ranks, timeout)
        layout: list[tuple[slice, slice]] = []
        trouble: Exception | None = None
        try:
            check_size(self, transport.size)
            layout = [self.region(operand, rank).slices for rank in range(self.ranks)]
            root = whole_number("root", root, 0, transport.size - 1)
        except Exception as error:
            trouble = error
        agree(transport, {"the grid": self.described, "operand": operand, "root": root}, trouble, timeout)
        shape = {"a": (self.m, self.k), "b": (self.k, self.n), "c": (self.m, self.n)}[operand]
        return exchange.Exchange(layout, shape, operand, transport, root, timeout)

    @property
    def described(self) -> str:
        """The grid and the sizes, in words."""
        return f"{self.shape} of {self.m}x{self.k} by {self.k}x{self.n}"

    @property
    def shape(self) -> tuple[int, int, int]:
        """pr, pc and pk."""
        return self.pr, self.pc, self.pk

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self.pr * self.pc * self.pk

    @property
    def sums(self) -> DType:
        """Element type of the sums: f32, or i32 of 8-bit integers."""
        return dtypes.f32 if self.dtype.is_float else dtypes.i32

    @property
    def volume(self) -> int:
        """Bytes that all ranks together receive: s M K (pc - 1) + s K N (pr - 1) + 4 M N (pk - 1)."""
        size = self.dtype.bytes
        return size * self.m * self.k * (self.pc - 1) + size * self.k * self.n * (self.pr - 1) + \
            SUM_BYTES * self.m * self.n * (self.pk - 1)

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """Position of a rank along pr, pc and pk; consecutive ranks are neighbours along pc."""
        rest, column = divmod(rank, self.pc)
        layer, row = divmod(rest, self.pr)
        return row, column, layer

    def rank_at(self, row: int, column: int, layer: int) -> int:
        """The rank at a position: inverse of :meth:`coordinates`."""
        return (layer * self.pr + row) * self.pc + column

    def product_of(self, rank: int) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Ranges of M, N and K that a rank multiplies."""
        row, column, layer = self.coordinates(rank)
        return split((0, self.m), self.pr, row), split((0, self.n), self.pc, column), split((0, self.k), self.pk, layer)

    def region(self, operand: str, rank: int) -> Region:
        """Region of ``"a"``, ``"b"`` or ``"c"`` that a rank owns.

        Raises:
            ArgumentError: there is no such operand.
        """
        row, column, layer = self.coordinates(rank)
        rows, columns, depth = self.product_of(rank)
        if operand == "a":
            return Region(split(rows, self.pc, column), depth) if self.rows_of_a else \
                Region(rows, split(depth, self.pc, column))
        if operand == "b":
            return Region(split(depth, self.pr, row), columns)
        if operand == "c":
            return Region(split(rows, self.pk, layer), columns)
        with AtTheCall():
            raise ArgumentError("XT7204", f"a product has no operand {operand!r}", 'name "a", "b" or "c"')

    def workspace(self, panel: int | None = None) -> int:
        """Bytes of panels and partial sums beside the blocks of the rank that has most, for panels of this depth."""
        m, n, k = -(-self.m // self.pr), -(-self.n // self.pc), -(-self.k // self.pk)
        size, depth = self.dtype.bytes, k if panel is None else min(panel, k)
        if self.rows_of_a:
            return 2 * size * -(-self.m // self.pc) * k if self.pc > 1 else 0
        total = 2 * size * m * min(depth, -(-k // self.pc)) if self.pc > 1 else 0
        total += 2 * size * n * min(depth, -(-k // self.pr)) if self.pr > 1 else 0
        total += SUM_BYTES * m * n
        return total + (2 * SUM_BYTES * -(-m // self.pk) * n if self.pk > 1 else 0)

    def blocks(self) -> int:
        """Bytes of the blocks of A, B and C of the rank that has most; C in the type of the sums."""
        regions = [self.region(operand, 0) for operand in OPERANDS]  # rank 0 has the longer part of each split
        sizes = (self.dtype.bytes, self.dtype.bytes, SUM_BYTES)
        return sum(region.size * size for region, size in zip(regions, sizes, strict=True))


def shapes_of(ranks: int) -> Iterator[tuple[int, int, int]]:
    """All grids of so many ranks."""
    for pr in _divisors(ranks):
        for pc in _divisors(ranks // pr):
            yield pr, pc, ranks // pr // pc


def _divisors(number: int) -> list[int]:
    small = [i for i in range(1, math.isqrt(number) + 1) if number % i == 0]
    return sorted({*small, *(number // i for i in small)})


def _fitting(m: int, n: int, k: int, dtype: Any, ranks: int, memory: int | None) -> Grid:
    """The best grid whose blocks and buffers take no more than ``memory``.

    Raises:
        DeviceError: there is none.
    """
    limit = None if memory is None else whole_number("memory", memory, 0)
    found = best_grids(m, n, k, dtype, ranks)
    needs = [grid.blocks() + grid.workspace(PANEL_STEP) for grid in found]
    fits = [grid for grid, need in zip(found, needs, strict=True) if limit is None or need <= limit]
    if not fits:
        raise exceeds_memory(f"{min(needs)} bytes a rank on the best grid of {plural(ranks, 'rank')}", limit,
                             "use more ranks, or allow more: memory=")
    return fits[0]


def exceeds_memory(needed: str, limit: int | None, hint: str) -> DeviceError:
    """Error for blocks and buffers that do not fit the memory of a rank."""
    return DeviceError("XT7240", f"blocks and buffers take {needed}, and memory={limit} is allowed", hint)


def best_grids(m: int, n: int, k: int, dtype: Any, ranks: int) -> list[Grid]:
    """All grids of so many ranks, those with the least volume first, and of those the one with the least memory."""
    found = [Grid(*shape, m=m, n=n, k=k, dtype=dtype) for shape in shapes_of(ranks)]
    return sorted(found, key=lambda grid: (grid.volume, grid.workspace(), grid.pk, grid.pr))


def check_size(grid: Grid, size: int) -> None:
    """Check that a grid has as many ranks as there are.

    Raises:
        ArgumentError: it has not; the error names the best grids.
    """
    if grid.ranks == size:
        return
    shapes = [each.shape for each in best_grids(grid.m, grid.n, grid.k, grid.dtype, size)[:3]]
    raise ArgumentError("XT7221", f"a grid of {' x '.join(map(str, grid.shape))} has {plural(grid.ranks, 'rank')}, and "
                        f"the communicator {size}", f"start {plural(grid.ranks, 'rank')} (mpiexec -n {grid.ranks}), "
                        f"or use {' or '.join(f'Grid{shape}' for shape in shapes)}")
