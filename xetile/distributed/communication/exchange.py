"""Scatter and gather of whole matrices, for tests and small results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError, ShapeError
from xetile.distributed.communication.agreement import agree
from xetile.distributed.communication.transport import Pending, Transport, host_bytes
from xetile.library.array_operands import Operand, shape_text


@dataclass(frozen=True)
class Exchange:
    """Scatter or gather that all ranks agree on.

    Attributes:
        layout: the slices of each rank.
        shape: of the whole matrix.
        operand: its name.
        transport: to the other ranks.
        root: the rank that has the whole matrix.
        timeout: seconds that a rank or a message may take; None for any time.
    """

    layout: Sequence[tuple[slice, slice]]
    shape: tuple[int, int]
    operand: str
    transport: Transport
    root: int
    timeout: float | None

    @property
    def own_shape(self) -> tuple[int, int]:
        """Rows and columns of this rank's block."""
        rows, columns = self.layout[self.transport.rank]
        return rows.stop - rows.start, columns.stop - columns.start

    def agree(self, fields: dict[str, object], trouble: Exception | None) -> None:
        """Have all ranks raise what one has to say."""
        agree(self.transport, fields, trouble, self.timeout)

    def finish(self, *messages: Pending) -> None:
        """Wait for messages."""
        for message in messages:
            self.transport.wait(message, self.timeout)


def scatter(what: Exchange, whole: Any, dtype: DType) -> Any:
    """This rank's block of a matrix of the root, converted to the grid's element type.

    Raises:
        ShapeError: the matrix has another shape; on all ranks.
        ElementTypeError: its elements cannot be converted; on all ranks.
    """
    transport, root, parts = what.transport, what.root, list[Any]()
    trouble: Exception | None = None
    try:
        if transport.rank == root:
            parts = _blocks_of_ranks(what, whole, dtype)
    except Exception as error:
        trouble = error
    what.agree({}, trouble)
    if transport.rank == root:
        what.finish(*[transport.send(host_bytes(part), peer, f"a block to rank {peer}")
                      for peer, part in enumerate(parts) if peer != root and part.size])
        return parts[root]
    block = np.empty(what.own_shape, dtype.numpy)
    if block.size:
        what.finish(transport.receive(host_bytes(block), root, f"a block from rank {root}"))
    return block


def of_other_elements(name: str, dtype: object, wanted: DType) -> ElementTypeError:
    """Error for a block or matrix whose elements are not those of the grid."""
    return ElementTypeError("XT7205", f"{name} has elements of {dtype}, and the grid is for {wanted}",
                            f"make the grid with dtype={dtype}, or convert {name}")


def _blocks_of_ranks(what: Exchange, whole: Any, dtype: DType) -> list[Any]:
    """The blocks of all ranks, of an array on the host or a device."""
    name = what.operand.upper()
    array = on_host(f"the whole {name}", np.asarray(whole) if isinstance(whole, (list, tuple)) else whole)
    if array.shape != what.shape:
        raise ShapeError("XT7208", f"the whole {name} is {shape_text(array.shape)}, and the grid is for "
                         f"{shape_text(what.shape)}", f"pass all of {name} on rank {what.root}")
    if array.dtype.kind == "f" and not dtype.is_float:
        raise of_other_elements(f"the whole {name}", array.dtype, dtype)
    return [np.array(array[slices], dtype.numpy, order="C") for slices in what.layout]


def gather(what: Exchange, block: Any) -> Any:
    """The whole matrix on the root, None on others.

    Raises:
        ShapeError: a block has another shape than the layout says; on all ranks.
    """
    transport, root = what.transport, what.root
    mine: np.ndarray[Any, Any] = np.empty(0)
    trouble: Exception | None = None
    try:
        mine = on_host("a block", block)
        if mine.shape != what.own_shape:
            raise ShapeError("XT7209", f"a block of {shape_text(mine.shape)} is gathered, and this rank's is "
                             f"{shape_text(what.own_shape)}", "pass what the product returned on this rank")
    except Exception as error:
        trouble = error
    what.agree({"the element type of blocks": mine.dtype}, trouble)
    if transport.rank != root:
        if mine.size:
            what.finish(transport.send(host_bytes(mine), root, f"a block to rank {root}"))
        return None
    whole = np.empty(what.shape, mine.dtype)
    whole[what.layout[root]] = mine
    for peer, slices in enumerate(what.layout):
        part = np.empty_like(whole[slices], order="C")
        if peer != root and part.size:
            what.finish(transport.receive(host_bytes(part), peer, f"a block from rank {peer}"))
            whole[slices] = part
    return whole


def on_host(name: str, block: Any) -> np.ndarray[Any, Any]:
    """A contiguous NumPy array of an array of NumPy or dpnp.

    Raises:
        ElementTypeError: it is no array.
    """
    operand = Operand.of(name, block)
    array = operand.array
    if operand.library is not np:
        array = operand.library.asnumpy(array)
    return np.ascontiguousarray(array).view(operand.dtype.numpy)
