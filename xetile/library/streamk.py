"""Stream-K: a fixed number of work-groups share the steps along K of several tiles evenly.

Muhammad Osama et al., "Stream-K: Work-centric Parallel Decomposition for Dense Matrix-Matrix Multiplication on the
GPU", 2023. Tiles that do not fill the device's work-groups a whole number of times leave most of it idle in the last
wave; here every work-group has the same number of steps, wherever in a tile these begin and end:

    three tiles of 4 steps    | 0 0 0 0 | 1 1 1 1 | 2 2 2 2 |
    four work-groups          | 0 0 0 1 | 1 1 2 2 | 2 3 3 3 |

Partial sums go to a work array, and a second launch reduces those of each tile, in the order of K. OpenCL does
not guarantee that work-groups run at the same time, so none of them waits for another. Of many tiles only those are
shared that are left over from whole waves; the others are finished where they are multiplied.
"""

from __future__ import annotations

from typing import Any

from xegpu.ir.dtypes import DType
from xetile.dialect.wg_map import WgMap
from xetile.frontend.control_flow.for_loop import range as device_range
from xetile.frontend.control_flow.if_else import otherwise, when
from xetile.jit.kernel import kernel
from xetile.lang.creation import zeros
from xetile.lang.grid import group_id
from xetile.lang.math import maximum, minimum, where
from xetile.lang.tiles import init_tile, load_tile, store_tile
from xetile.library.activations import Activation
from xetile.library.matmul_kernels import bias_tile, finished, matrix_of, sum_along_k, tiles_of


@kernel(fast_division=True)
def streamed_product(A: Any, B: Any, C: Any, W: Any, bias: Any, alpha: Any, beta: Any, shared: Any, groups: Any, *,
                     BM: int, BN: int, BK: int, sg: tuple[int, int], as_type: DType, ahead: int = 0,
                     scaled: bool = False, added: bool = False, spread: tuple[bool, bool] | None = None,
                     activation: Activation | None = None) -> None:
    """Kernel: C = activation(alpha * A @ B + beta * C + bias); the first ``shared`` tiles leave partial sums in W.

    The first ``groups`` work-groups share the K of those; each of the others has one of the other tiles. W is
    (pieces * groups, BM, BN): what work-group g has of the tile that it begins with is at g, of the next at groups + g.
    """
    group, steps = group_id(0), (A.shape[-1] + (BK - 1)) // BK
    tile: dict[str, Any] = {"BM": BM, "BN": BN, "BK": BK, "sg": sg, "as_type": as_type, "ahead": ahead}
    map_c = WgMap(sg, (BM // sg[0], BN // sg[1]))
    with when(group < groups):
        first, last = first_step(group, groups, shared * steps), first_step(group + 1, groups, shared * steps)
        for piece in device_range((last - 1) // steps - first // steps + 1):
            here = first // steps + piece
            batch, m, n = tile_coordinates(here, C, BM, BN)
            begin, end = maximum(first - here * steps, 0), minimum(last - here * steps, steps)
            x = sum_along_k(tiles_of(A, batch), tiles_of(B, batch), m, n, begin * BK, end * BK, **tile)
            store_tile(x, init_tile(W, (piece * groups + group, 0, 0), (BM, BN), wg_map=map_c))
    with otherwise():
        batch, m, n = tile_coordinates(shared + group - groups, C, BM, BN)
        x = sum_along_k(tiles_of(A, batch), tiles_of(B, batch), m, n, 0, steps * BK, **tile)
        at = (*matrix_of(C, batch), m, n)
        c = init_tile(C, at, (BM, BN), wg_map=map_c)
        store_tile(finished(x, C, c, bias, alpha, beta, at, scaled=scaled, added=added,
                            bias_tile=bias_tile((BM, BN), sg, spread), activation=activation), c)


@kernel(fast_division=True)
def sum_of_shares(W: Any, C: Any, bias: Any, alpha: Any, beta: Any, shared: Any, groups: Any, steps: Any, *, BM: int,
                  BN: int, rows: int, columns: int, sg: tuple[int, int], scaled: bool = False, added: bool = False,
                  spread: tuple[bool, bool] | None = None, activation: Activation | None = None) -> None:
    """Kernel: reduction of the shared tiles' partial sums in W, with the epilogue.

    ``group_id(1)`` counts tiles; along ``group_id(0)`` each is cut into blocks of rows x columns.
    """
    tile, total = group_id(1), shared * steps
    first, last = owner(tile * steps, groups, total), owner((tile + 1) * steps - 1, groups, total)
    row, column = group_id(0) // (BN // columns) * rows, group_id(0) % (BN // columns) * columns
    map_c = WgMap(sg, (rows // sg[0], columns // sg[1]))
    x = zeros((rows, columns), W.dtype, wg_map=map_c)
    for group in device_range(first, last + 1):
        piece = tile - first_step(group, groups, total) // steps
        x = x + load_tile(init_tile(W, (piece * groups + group, row, column), (rows, columns), wg_map=map_c))
    batch, m, n = tile_coordinates(tile, C, BM, BN)
    at = (*matrix_of(C, batch), m + row, n + column)
    c = init_tile(C, at, (rows, columns), wg_map=map_c)
    store_tile(finished(x, C, c, bias, alpha, beta, at, scaled=scaled, added=added,
                        bias_tile=bias_tile((rows, columns), sg, spread), activation=activation), c)


def first_step(group: Any, groups: Any, total: Any) -> Any:
    """First of ``total`` steps of a work-group; some groups have one step more than others."""
    return group * (total // groups) + minimum(group, total % groups)


def owner(step: Any, groups: Any, total: Any) -> Any:
    """Work-group that has a step: the inverse of :func:`first_step`."""
    each, longer = total // groups, total % groups
    return where(step < longer * (each + 1), step // (each + 1), longer + (step - longer * (each + 1)) // each)


def tile_coordinates(tile: Any, C: Any, BM: int, BN: int) -> tuple[Any, Any, Any]:
    """Matrix, first row and first column of a tile: column-major in a matrix, then through the batch."""
    down, across = (C.shape[-2] + (BM - 1)) // BM, (C.shape[-1] + (BN - 1)) // BN
    return tile // (down * across), tile % down * BM, tile // down % across * BN
