"""Products of blocks: ``xd.matmul`` on any grid, and the two layers of tensor parallelism."""

from __future__ import annotations

from typing import Any

from xegpu.ir.dtypes import DType
from xegpu.support.errors import XeError
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.distributed.communication.agreement import agree
from xetile.distributed.communication.transport import transport_of
from xetile.distributed.grid import Grid
from xetile.distributed.options import no_matrices
from xetile.distributed.product_plan import Plan
from xetile.library.array_operands import Operand, check_shapes
from xetile.library.matmul import array_of_number, epilogue_of, result_dtype


def plan(grid: Grid, **options: Any) -> Plan:
    """Plan of a product, which all ranks make and agree on: ``plan(a, b, out=c)`` multiplies.

    Args:
        grid: the process grid, the same on all ranks.
        out_dtype, activation, alpha, beta, target: as for :func:`xetile.matmul`.
        panel: depth of the panels of a two-dimensional grid; None chooses it.
        overlap: ``"chunked"``: the next panel or band travels while one is multiplied; ``"signalled"``: bands of a
            reduce-scatter leave one launch as they are done; ``"none"``.
        order: ``"ring"`` or ``"direct"``: panels and bands go to the neighbour, or to each rank that needs them.
        transport: ``"auto"``: MPI reads GPU memory if the environment says that it can; ``"host"``; ``"device"``.
        memory: bytes that blocks and buffers of a rank may take.
        timeout: seconds that a message, or a rank that has not called yet, may take; None for any time.
        progress: whether rank 0 shows a progress bar.
        verify: whether messages are followed by checksums, and products and sums are checked on the host, which waits
            for each of them: docs/distributed.md has the bounds.

    Raises:
        ToolError: no MPI.
        ArgumentError: the grid has another number of ranks, or an option is none.
        ShapeError: the ranks differ.
        DeviceError: the buffers take more than ``memory``, or a rank did not call in time.
    """
    with AtTheCall():
        return Plan(grid, **options)


def matmul(a: Any, b: Any, *, grid: Grid, out: Any = None, bias: Any = None, **options: Any) -> Any:
    """This rank's block of ``activation(alpha * (A @ B) + beta * C + bias)``; all ranks call.

    Args:
        a, b: this rank's blocks, of NumPy or dpnp: ``A[grid.block("a")]`` and ``B[grid.block("b")]``.
        grid: the process grid.
        out: where this rank's block of C goes; None for a new array.
        bias: a number or an array that broadcasts to this rank's block of C.
        options: as for :func:`plan`; ``out_dtype`` may be omitted with ``out``.

    Returns:
        ``out``, or a new array: ``C[grid.block("c")]``.

    Raises:
        XeError: as :func:`plan` and :meth:`Plan.__call__`; the same on all ranks, before anything is sent.
    """
    with AtTheCall():
        if isinstance(grid, Grid) and options.get("out_dtype") is None:
            options["out_dtype"] = _result_dtype(grid, a, out, bias, options)
        with Plan(grid, **options) as planned:
            return planned(a, b, out=out, bias=bias)


def _result_dtype(grid: Grid, a: Any, out: Any, bias: Any, options: dict[str, Any]) -> DType | None:
    """Element type of the result as :func:`xetile.matmul` finds it: that of ``out``, or by the bias and epilogue."""
    try:
        if out is not None:
            return Operand.of("out", out).dtype
        epilogue = epilogue_of(options.get("activation"), options.get("alpha", 1), options.get("beta", 0))
        return result_dtype(grid.dtype, grid.dtype, epilogue, array_of_number(bias, Operand.of("a", a)), None)
    except XeError:
        return None  # the plan raises it again, on all ranks


def all_gather_matmul(x: Any, w: Any, *, comm: Any = None, out: Any = None, bias: Any = None, **options: Any) -> Any:
    """Column-parallel layer: all rows of ``activation(X @ W + bias)``, this rank's columns; all ranks call.

    Rows of X travel while others are multiplied.

    Args:
        x: this rank's rows of X, all columns.
        w: this rank's columns of W, all rows.
        comm: a communicator of mpi4py; None is the world.
        out, bias, options: as for :func:`matmul`; the block is all rows, and this rank's columns.
    """
    with AtTheCall():
        m, n, k = _layer_sizes(x, w, comm, "rows", options.get("timeout"))
        size = transport_of(comm).size
        dtype = Argument.of("x", x).dtype
        grid = Grid(1, size, 1, m=m, n=n, k=k, dtype=dtype, comm=comm, rows_of_a=True)
        return matmul(x, w, grid=grid, out=out, bias=bias, **options)


def matmul_reduce_scatter(y: Any, w: Any, *, comm: Any = None, out: Any = None, bias: Any = None,
                          **options: Any) -> Any:
    """Row-parallel layer: this rank's rows of ``activation(Y @ W + bias)``; all ranks call.

    Bands of sums travel while others are multiplied.

    Args:
        y: this rank's columns of Y, all rows.
        w: this rank's rows of W, all columns.
        comm: a communicator of mpi4py; None is the world.
        out, bias, options: as for :func:`matmul`; the block is this rank's rows, and all columns.
    """
    with AtTheCall():
        m, n, k = _layer_sizes(y, w, comm, "depth", options.get("timeout"))
        grid = Grid(1, 1, transport_of(comm).size, m=m, n=n, k=k, dtype=Argument.of("y", y).dtype, comm=comm)
        return matmul(y, w, grid=grid, out=out, bias=bias, **options)


def _layer_sizes(x: Any, w: Any, comm: Any, split: str, timeout: float | None) -> tuple[int, int, int]:
    """M, N and K of a layer, of which each rank has a part; a collective call.

    Args:
        x, w: the operands of this rank.
        comm: the communicator.
        split: ``"rows"``: X is split by rows and W by columns; ``"depth"``: both are split along K.
        timeout: seconds to wait for the other ranks; None for any time.
    """
    transport, trouble = transport_of(comm, timeout=timeout), None
    m = n = k = 0
    fields: dict[str, object] = {}
    try:
        left, right = Operand.of("a", x).shape, Operand.of("b", w).shape
        if len(left) != 2 or len(right) != 2:
            raise no_matrices("a layer", Operand.of("a", x), Operand.of("b", w))
        check_shapes(Operand.of("a", x), Operand.of("b", w))
        (m, k), n = left, right[1]
        fields = {"columns of a": k} if split == "rows" else {"rows of a": m, "columns of b": n}
    except Exception as error:
        trouble = error
    agree(transport, fields, trouble, timeout)
    if split == "rows":
        m, n = transport.total((m, n), timeout)
    else:
        (k,) = transport.total((k,), timeout)
    return m, n, k
