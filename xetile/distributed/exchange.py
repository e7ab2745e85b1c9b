"""Scatter and gather of whole matrices, for tests and small results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xegpu.support.errors import ShapeError
from xetile.compiler.arguments import TypedView
from xetile.distributed.agreement import agree
from xetile.distributed.transport import Pending, Transport, host_bytes

Slices = tuple[slice, slice]


def scatter(layout: Sequence[Slices], whole: Any, operand: str, shape: tuple[int, int], dtype: np.dtype[Any],
            transport: Transport, root: int, timeout: float | None) -> Any:
    """This rank's block of a matrix of rank ``root``.

    Args:
        layout: the slices of each rank.
        whole: on ``root``, a NumPy array; it is converted to ``dtype``.
        operand: its name in errors.
        shape: of the whole matrix.
        dtype: of the blocks.
        transport: to the other ranks.
        root: the rank that has the matrix.
        timeout: seconds that a rank or a message may take; None for any time.

    Raises:
        ShapeError: the matrix has another shape; on all ranks.
    """
    trouble = None
    if transport.rank == root and np.shape(whole) != shape:
        trouble = ShapeError("XT7208", f"the whole {operand.upper()} is {'x'.join(map(str, np.shape(whole)))}, and "
                             f"the grid is for {'x'.join(map(str, shape))}",
                             f"pass all of {operand.upper()} on rank {root}")
    agree(transport, {}, trouble, timeout)
    rows, columns = layout[transport.rank]
    block = np.empty((rows.stop - rows.start, columns.stop - columns.start), dtype)
    if transport.rank == root:
        parts = [np.ascontiguousarray(whole[slices], dtype) for slices in layout]
        block[...] = parts[root]
        sent = [transport.send(host_bytes(part), peer, f"a block to rank {peer}")
                for peer, part in enumerate(parts) if peer != root and part.size]
        _finish(transport, sent, timeout)
    elif block.size:
        _finish(transport, [transport.receive(host_bytes(block), root, f"a block from rank {root}")], timeout)
    return block


def gather(layout: Sequence[Slices], block: Any, shape: tuple[int, int], transport: Transport, root: int,
           timeout: float | None) -> Any:
    """The whole matrix on rank ``root``, None on others.

    Raises:
        ShapeError: a block has another shape than the layout says; on all ranks.
    """
    mine, trouble = on_host(block), None
    rows, columns = layout[transport.rank]
    wanted = rows.stop - rows.start, columns.stop - columns.start
    if mine.shape != wanted:
        trouble = ShapeError("XT7209", f"a block of {'x'.join(map(str, mine.shape))} is gathered, and this rank's is "
                             f"{'x'.join(map(str, wanted))}", "pass what the product returned on this rank")
    agree(transport, {"the element type of blocks": mine.dtype}, trouble, timeout)
    if transport.rank != root:
        if mine.size:
            _finish(transport, [transport.send(host_bytes(mine), root, f"a block to rank {root}")], timeout)
        return None
    whole = np.empty(shape, mine.dtype)
    whole[layout[root]] = mine
    for peer, slices in enumerate(layout):
        part = np.empty_like(whole[slices], order="C")
        if peer != root and part.size:
            _finish(transport, [transport.receive(host_bytes(part), peer, f"a block from rank {peer}")], timeout)
            whole[slices] = part
    return whole


def on_host(block: Any) -> np.ndarray[Any, Any]:
    """A contiguous NumPy array of a block of NumPy or dpnp."""
    if isinstance(block, TypedView):
        return on_host(block.array).view(block.dtype.numpy)
    if not isinstance(block, np.ndarray):
        import dpnp

        block = dpnp.asnumpy(block)
    return np.ascontiguousarray(block)


def _finish(transport: Transport, messages: Sequence[Pending], timeout: float | None) -> None:
    for message in messages:
        transport.wait(message, timeout)
