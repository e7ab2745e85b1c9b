"""Plans: a distributed product that is checked, agreed and allocated once, and called again and again."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError, ElementTypeError, ShapeError
from xegpu.target.targets import Target
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.distributed.communication.agreement import agree, describe
from xetile.distributed.communication.exchange import of_other_elements
from xetile.distributed.communication.transport import Alone, transport_of
from xetile.distributed.executor import Epilogue, Executor, product_bar
from xetile.distributed.grid import PANEL_STEP, Grid, best_grids, check_size, exceeds_memory
from xetile.distributed.memory import TRANSPORTS, HostMemory, Memory, memory_of
from xetile.distributed.options import check_choice, whole_number
from xetile.distributed.schedule import ORDERS, OVERLAPS, schedule
from xetile.distributed.steps import Schedule
from xetile.distributed.verify import VerifyingExecutor
from xetile.library.activations import Activation
from xetile.library.array_operands import Operand, check_same_device, check_writable, copied_where_shared
from xetile.library.matmul import array_of_number, bias_operand, check_beta, epilogue_of, matmul, result_dtype

if TYPE_CHECKING:
    from xetile.distributed.prediction import Machine, Prediction

_PANEL_FLOPS = 50e9
"""Operations of a panel's product: 200 microseconds of a stack of a Data Center GPU Max."""
_LEAST_PANEL = 64


@dataclass(frozen=True)
class Blocks:
    """Arrays of one call, checked; none shares memory with the result."""

    a: Operand
    b: Operand
    out: Operand
    bias: Operand | None

    @property
    def arrays(self) -> tuple[Any, Any, Any, Any]:
        """Arguments of an executor."""
        return self.a.array, self.b.array, self.out.argument, self.bias and self.bias.argument


class Plan:
    """A distributed product, from :func:`xetile.distributed.products.plan`; a context manager that frees its buffers.

    Attributes:
        grid: the process grid.
        rank: this rank.
        schedule: the steps of this rank.
        out_dtype: element type of the result.
        timeout: seconds that a message may take; it may be changed.
    """

    def __init__(self, grid: Grid, *, out_dtype: Any = None, activation: str | Activation | None = None,
                 alpha: float = 1, beta: float = 0, target: str | Target | None = None, panel: int | None = None,
                 overlap: str = "chunked", order: str = "ring", transport: str = "auto", memory: int | None = None,
                 timeout: float | None = None, progress: bool = False, verify: bool = False) -> None:
        if not isinstance(grid, Grid):
            raise ArgumentError("XT7232", f"a product has a Grid, and this is {type(grid).__name__}",
                                "pass xd.Grid(2, 2, 1, m=m, n=n, k=k) or xd.Grid.choose(m, n, k)")
        self.grid, self.timeout, self._target, self._progress = grid, timeout, target, progress
        self._transport_name, self._limit, self._verify, self._out_dtype = transport, memory, verify, out_dtype
        self._executor: Executor | None = None
        self._transport = transport_of(grid.comm, grid.ranks, timeout)
        self.rank = self._transport.rank
        trouble: Exception | None = None
        fields: dict[str, object] = {}
        try:
            check_size(grid, self._transport.size)
            check_choice("overlap", overlap, OVERLAPS)
            check_choice("order", order, ORDERS)
            check_choice("transport", transport, TRANSPORTS)
            self._epilogue = epilogue_of(activation, alpha, beta)
            self.out_dtype = result_dtype(grid.dtype, grid.dtype, self._epilogue, None, out_dtype)
            self.panel = default_panel(grid) if panel is None else whole_number("panel", panel)
            if self.panel is not None and self.panel < 1:
                raise ArgumentError("XT7231", f"a panel of {panel} has no columns of A", "give panel=256, or leave it "
                                    "out")
            self.schedule = schedule(grid, self.rank, panel=self.panel, overlap=overlap, order=order,
                                     fuse=not verify)
            self._check_room()
            fields = {"the grid": grid.described, "dtype": grid.dtype,
                      "out_dtype": self.out_dtype, "activation": describe(activation), "alpha": float(alpha),
                      "beta": float(beta), "panel": self.panel, "overlap": overlap, "order": order,
                      "verify": bool(verify),
                      "A's split": "rows" if grid.rows_of_a else "columns"}
        except Exception as error:
            trouble = error
        agree(self._transport, fields, trouble, timeout)
        self._transport.join(grid.shape, _groups(self.schedule))

    def __call__(self, a: Any, b: Any, *, out: Any = None, bias: Any = None) -> Any:
        """Multiply this rank's blocks; all ranks call.

        The first call allocates the buffers, compiles the kernels and has all ranks agree on it. Later ones go to work
        at once, and are for arrays of the same kind.

        Args:
            a, b: the blocks of A and B that :meth:`Grid.region` names, both of NumPy or both of dpnp.
            out: where this rank's block of C goes; None for a new array.
            bias: a number or an array that broadcasts to this rank's block of C.

        Returns:
            ``out``, or a new array. In device memory it is complete when the queue has done what it was given.

        Raises:
            ShapeError: a block has another shape than the grid says, or the ranks differ.
            ElementTypeError: a block has other elements than the grid says.
            DeviceError: a message took longer than the timeout, or a rank has failed.
        """
        with AtTheCall():
            if self._transport.is_over:
                self._reconnect()
            if self._executor is None:
                blocks = self._begin(a, b, out, bias)
            else:
                blocks = self._checked_again(a, b, out, bias)
            assert self._executor is not None
            with product_bar(self.schedule, self._progress and not self.rank) as advance:
                self._executor.advance, self._executor.timeout = advance, self.timeout
                self._executor.run(*blocks.arrays, self._keywords)
            return blocks.out.array if out is None else out

    def _reconnect(self) -> None:
        """Begin anew after messages were given up; a collective call."""
        self.close()
        self._transport = transport_of(self.grid.comm, self.grid.ranks, self.timeout)
        self._transport.join(self.grid.shape, _groups(self.schedule))

    def close(self) -> None:
        """Free the buffers; the plan can still be called, and allocates them anew on all ranks."""
        self._executor = None

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def report(self, machine: str | Machine = "aurora") -> Prediction:
        """Predicted communication volume, memory and time of the product on a machine.

        Raises:
            ArgumentError: no such machine.
        """
        from xetile.distributed.prediction import predict

        with AtTheCall():
            return predict(self.grid, machine, panel=self.panel)

    @property
    def _keywords(self) -> Epilogue:
        return Epilogue(self._epilogue.activation, self._epilogue.alpha, self._epilogue.beta, self._target)

    def _begin(self, a: Any, b: Any, out: Any, bias: Any) -> Blocks:
        """First call: check, allocate, compile, agree."""
        trouble: Exception | None = None
        fields: dict[str, object] = {}
        executor: Executor | None = None
        blocks: Blocks | None = None
        try:
            memory = memory_of(Argument.of("a", a), self._transport_name)
            blocks = self._checked(a, b, out, bias, memory)
            kind = VerifyingExecutor if self._verify else Executor
            executor = kind(self.schedule, memory, self._transport, self.timeout)
            fields = {"the kind of arrays": memory.name, "bias": "none" if bias is None else "one"}
        except Exception as error:
            trouble = error
        trouble = self._compile(trouble, executor, blocks)
        agree(self._transport, fields, trouble, self.timeout)
        self._executor = executor
        assert blocks is not None
        return blocks

    def _compile(self, trouble: Exception | None, executor: Executor | None,
                 blocks: Blocks | None) -> Exception | None:
        """Compile all kernels, the first rank of each machine before the others, which find them on disk."""
        alone = isinstance(self._transport, Alone) or self._transport.size == 1
        first = alone or int(self._transport.node.Get_rank()) == 0
        if not first:
            self._transport.meet(self._transport.node, self.timeout, "the first rank of this machine to compile")
        if trouble is None and not alone:
            assert executor is not None
            assert blocks is not None
            try:
                if isinstance(executor.memory, HostMemory):
                    _try_in_numpy(self.grid.dtype, self.out_dtype, self._keywords)
                else:
                    a, b, out, bias = blocks.arrays
                    if self._epilogue.beta:
                        out = self._new(executor.memory).argument
                    executor.rehearse(a, b, out, bias, self._keywords)
            except Exception as error:
                trouble = error
        if first and not alone:
            self._transport.meet(self._transport.node, self.timeout, "the other ranks of this machine")
        return trouble

    def _checked_again(self, a: Any, b: Any, out: Any, bias: Any) -> Blocks:
        """Blocks of a later call. Other ranks may have begun to send: they are told of an error."""
        assert self._executor is not None
        try:
            self._transport.check()
            return self._checked(a, b, out, bias, self._executor.memory)
        except Exception as error:
            self._transport.abandon(error, ())
            raise

    def _checked(self, a: Any, b: Any, out: Any, bias: Any, memory: Memory) -> Blocks:
        """The arrays of a call, checked; a new one for the result, and copies of what shares its memory."""
        left, right = Operand.of("a", a), Operand.of("b", b)
        check_same_device(left, right)
        for operand in (left, right):
            self._check_block(operand)
            if operand.dtype is not self.grid.dtype:
                raise of_other_elements(operand.name, operand.dtype, self.grid.dtype)
        memory.check_holds(left)
        if out is None:
            check_beta(self._epilogue.beta)
        result = self._new(memory) if out is None else Operand.of("out", out)
        check_same_device(left, result)
        check_writable(result)
        self._check_block(result)
        if result.dtype is not self.out_dtype:
            raise ElementTypeError("XT7206", f"out has elements of {result.dtype}, and the plan makes "
                                   f"{self.out_dtype}", f"plan with out_dtype={result.dtype}")
        number = array_of_number(bias, left)
        bias_operand(number, left, result.shape)
        added = None if number is None else Operand.of("bias", number)
        self._check_bias(added)
        return Blocks(copied_where_shared(left, result), copied_where_shared(right, result), result,
                      added and copied_where_shared(added, result))

    def _check_bias(self, bias: Operand | None) -> None:
        """Check that a bias of floats is not lost in a result whose type the plan chose without knowing of it."""
        kind = result_dtype(self.grid.dtype, self.grid.dtype, self._epilogue, bias and bias.argument, self._out_dtype)
        if kind is not self.out_dtype:
            raise ElementTypeError("XT7215", f"a bias of {bias and bias.dtype} makes the result {kind}, and the plan "
                                   f"makes {self.out_dtype}", f"plan with out_dtype={kind}")

    def _check_block(self, operand: Operand) -> None:
        name = {"a": "a", "b": "b"}.get(operand.name, "c")
        region = self.grid.region(name, self.rank)
        if operand.shape != region.shape:
            raise ShapeError("XT7207", f"{operand.name} is {'x'.join(map(str, operand.shape))}, and this rank's block "
                             f"of {name.upper()} is {'x'.join(map(str, region.shape))}",
                             f"pass {name.upper()}{region} of the whole matrix: whole[grid.block({name!r})]")

    def _new(self, memory: Memory) -> Operand:
        return Operand("out", memory.empty(self.grid.region("c", self.rank).shape, self.out_dtype), self.out_dtype)

    def _check_room(self) -> None:
        """Check that buffers fit the memory that the author allows.

        Raises:
            DeviceError: they do not; the error names a panel that would fit, or else a grid.
        """
        wanted = self.grid.blocks() + self.schedule.workspace
        if self._limit is None or wanted <= whole_number("memory", self._limit):
            return
        panels = [1 << power for power in range(14, 3, -1)]
        fits = next((panel for panel in panels if self.grid.blocks() + self.grid.workspace(panel) <= self._limit), None)
        others = [each.shape for each in best_grids(self.grid.m, self.grid.n, self.grid.k, self.grid.dtype,
                                                    self.grid.ranks)
                  if each.blocks() + each.workspace(PANEL_STEP) <= self._limit]
        help_ = f"pass panel={fits}" if fits else f"use Grid{others[0]} with panel={PANEL_STEP}" if others else \
            "use more ranks"
        raise exceeds_memory(f"{wanted} bytes a rank", self._limit, help_)


def _groups(schedule_: Schedule) -> list[tuple[int, ...]]:
    """Groups of ranks that broadcast to each other, in the order in which all ranks make communicators of them."""
    grid = schedule_.grid
    if grid.pr == 1 or grid.pc == 1:
        return []
    row, column, layer = grid.coordinates(schedule_.rank)
    return [tuple(grid.rank_at(row, other, layer) for other in range(grid.pc)),
            tuple(grid.rank_at(other, column, layer) for other in range(grid.pr))]


def _try_in_numpy(dtype: DType, out_dtype: DType, epilogue: Epilogue) -> None:
    """Dry run of a product of one element with its epilogue: type errors are raised before anything is sent."""
    memory = HostMemory()
    one, out = memory.empty((1, 1), dtype), memory.empty((1, 1), out_dtype)
    one[...] = 0
    out[...] = 0
    matmul(one, one, out=out, **epilogue.keywords(None))


def default_panel(grid: Grid) -> int | None:
    """Depth of SUMMA's panels: the least multiple of 256 whose product takes a GPU 200 us, at most a quarter.

    Where one operand alone travels, its blocks are the panels: None.
    """
    if grid.pr == 1 or grid.pc == 1:
        return None
    area = math.ceil(grid.m / grid.pr) * math.ceil(grid.n / grid.pc)
    depth = PANEL_STEP * math.ceil(_PANEL_FLOPS / max(2 * area * PANEL_STEP, 1))
    return max(min(depth, math.ceil(grid.k / grid.pk / max(grid.pr, grid.pc) / 4)), _LEAST_PANEL)


