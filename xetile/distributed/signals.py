"""Signalled products: one launch makes all bands of C and counts finished tiles where the host sees them.

    group 0, 1 ..      the tiles of the first band, then those of the next
    each subgroup      store its part of the tile, fence of system scope, add 1 to its counter of the band
    the host           a band is done when each of its counters is at the number of the band's tiles

No subgroup waits for another: each has a counter of its own.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from codegen.runtime.devices import Queue, import_dpctl
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.target.targets import Target, find_target
from xetile.compiler.arguments import Argument
from xetile.dialect.wg_map import WgMap
from xetile.distributed.regions import Region
from xetile.jit.kernel import kernel
from xetile.lang.creation import full
from xetile.lang.gather_scatter import atomic_rmw_tile
from xetile.lang.grid import group_id
from xetile.lang.math import minimum
from xetile.lang.sync import fence
from xetile.lang.tiles import init_tile, load_tile, store_tile
from xetile.library.matmul_kernels import sum_along_k, tiles_of
from xetile.library.tile_heuristics import choose

_NAP = 50e-6


@kernel(fast_division=True)
def signalled_product(A: Any, B: Any, C: Any, counters: Any, bands: Any, first: Any, tiles: Any, *, BM: int, BN: int,
                      BK: int, sg: tuple[int, int], as_type: DType, ahead: int = 0, added: bool = False,
                      aligned: bool = False) -> None:
    """Kernel: C = A @ B, or C + A @ B, by ``bands`` bands of rows, from the ``first`` one backwards.

    ``tiles`` counts the tiles along the rows of a band. Counters are (bands * rows of subgroups, columns of subgroups).
    """
    position, row = group_id(0) // tiles, group_id(0) % tiles * BM
    band = (first - position + bands) % bands
    each, longer = C.shape[0] // bands, C.shape[0] % bands
    m, n = band * each + minimum(band, longer) + row, group_id(1) * BN
    stop = (band + 1) * each + minimum(band + 1, longer)
    steps = (A.shape[1] + (BK - 1)) // BK
    x = sum_along_k(tiles_of(A, 0), tiles_of(B, 0), m, n, 0, steps * BK, BM=BM, BN=BN, BK=BK, sg=sg, as_type=as_type,
                    ahead=ahead)
    # Rows behind the band are another's, which may have been sent already.
    c = init_tile(C, (m, n), (BM, BN), wg_map=WgMap(sg, (BM // sg[0], BN // sg[1])),
                  base_shape=(stop, C.shape[1]), base_strides=(C.shape[1], 1), aligned=aligned)
    store_tile(x + load_tile(c) if added else x, c)
    fence("system", "global")
    own = WgMap(sg, (1, 1))
    atomic_rmw_tile("add", full(sg, 1, dtypes.i32, wg_map=own), init_tile(counters, (band * sg[0], 0), sg, wg_map=own))


class Signals:
    """Counters of finished tiles in host memory, for one shape of product.

    Args:
        queue: the queue of the product; its device must have atomics on host memory.
    """

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self._memory: Any = None
        self._counters: Any = None
        self._tiles: dict[tuple[int, int], tuple[int, int]] = {}

    def launch(self, a: Any, b: Any, sums: Any, dtype: DType, region: Region, bands: tuple[Region, ...], added: bool,
               target: str | Target | None) -> None:
        """Start the product of ``a`` and ``b`` into ``sums``, the region of C that the bands split."""
        bound = signalled_product.on(self.queue, target=target)
        columns = region.shape[1]
        depth = int(Argument.of("a", a).shape[-1] or 0)
        longest = max(band.shape[0] for band in bands)
        engine = dtype if dtype.is_float else dtypes.i32
        tiling = choose(longest, columns, depth, len(bands), dtype if dtype.is_float else dtypes.i8,
                        bound.target or find_target(target))
        tiles, across = tiling.groups(longest, columns)
        self._reset(len(bands) * tiling.layout[0], tiling.layout[1])
        # Work-groups of tiles behind a shorter band store nothing, and count all the same.
        order = sorted(bands, key=lambda band: band.rows)
        self._tiles = {band.rows: (order.index(band) * tiling.layout[0], tiles * across) for band in bands}
        source = Argument.of("sums", sums)
        aligned = columns % 4 == 0 and columns >= 16 and (source.pointer or 0) % 64 == 0
        self._layout = tiling.layout
        bound[tiles * len(bands), across](a, b, sums, self._device_view, len(bands), order.index(bands[0]), tiles,
                                          **tiling.constants, as_type=engine, ahead=tiling.ahead, added=added,
                                          aligned=aligned)

    def _reset(self, rows: int, columns: int) -> None:
        import dpnp

        if self._counters is None or self._counters.shape != (rows, columns):
            self._device_view = dpnp.empty((rows, columns), dtype=np.int32, usm_type="host", sycl_queue=self.queue)
            memory = import_dpctl("dpctl.memory").as_usm_memory(self._device_view)
            self._counters = np.frombuffer(memory, np.int32, rows * columns).reshape(rows, columns)
        self._counters[...] = 0

    def is_done(self, band: Region) -> bool:
        """Whether all tiles of a band are stored."""
        row, tiles = self._tiles[band.rows]
        return bool((self._counters[row:row + self._layout[0]] >= tiles).all())

    def wait(self, band: Region, event: Any) -> bool:
        """Wait for a band; whether it came before the launch ended."""
        complete = import_dpctl().event_status_type.complete
        while not self.is_done(band):
            if event.execution_status is complete:
                return False
            time.sleep(_NAP)
        return event.execution_status is not complete


def can_signal(queue: Queue) -> bool:
    """Whether kernels of a device may count in host memory while the host reads."""
    return bool(queue.sycl_device.has_aspect_usm_atomic_host_allocations)


