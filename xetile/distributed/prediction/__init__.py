"""Predicted time of distributed products: a clock over schedules, and machines.

Every time is a prediction: no figure here was compared with a measurement. A step of a schedule costs the product's
operations at the device's rate, the bytes at the rate of the wire, and a latency a message; with overlap the larger of
the two counts, else their sum. Ranks that behave alike are computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ArgumentError
from xetile.distributed.grid import Grid, best_grids
from xetile.distributed.schedule import schedule
from xetile.distributed.steps import Add, Broadcast, Multiply, Receive, Schedule, Wait

_TERA, _GIGA = 1e12, 1e9
_RATES = {dtypes.bf16: 1.0, dtypes.f16: 1.0, dtypes.i8: 2.0, dtypes.u8: 2.0, dtypes.f32: 0.1}
"""Operations a second, relative to bf16: 8-bit integers go at twice the rate, f32 on the vector engines."""
PANEL = 4096
"""Depth along K of the panels for which ``xetile scale`` predicts."""


@dataclass(frozen=True)
class Machine:
    """Cluster, as the clock sees it.

    Attributes:
        name: its name for ``--machine``.
        description: the machine, in words.
        flops: bf16 operations a second that a large product reaches on the device of one rank.
        memory: bytes of that device.
        node: ranks of a node.
        inside, outside: bytes a second that a rank receives from its node, and from others.
        latency: seconds of a message.
        launch: seconds of a launch.
    """

    name: str
    description: str
    flops: float
    memory: int
    node: int
    inside: float
    outside: float
    latency: float
    launch: float

    def rate(self, dtype: DType) -> float:
        """Operations a second for an element type."""
        return self.flops * _RATES[dtype]

    def wire(self, ranks: Iterable[int], rank: int) -> float:
        """Bytes a second of messages among these ranks: the slower wire where they are on several nodes."""
        return self.inside if all(each // self.node == rank // self.node for each in ranks) else self.outside


MACHINES: Mapping[str, Machine] = {machine.name: machine for machine in (
    # 256 TF/s of a stack in bf16, Xe Link 15 GB/s a pair of cards and 8 network cards of 25 GB/s for 12 stacks are
    # published by the machine's operators. The latencies are assumptions, and so is the rate of the second machine.
    Machine("aurora", "Aurora: six Data Center GPU Max 1550 a node, a rank for each of 12 stacks", 256 * _TERA,
            64 << 30, 12, 15 * _GIGA, 16.7 * _GIGA, 10e-6, 10e-6),
    Machine("b580", "eight PCs with an Arc B580 each and 10 Gbit/s Ethernet", 80 * _TERA, 12 << 30, 1, 1.25 * _GIGA,
            1.25 * _GIGA, 50e-6, 20e-6),
)}
"""Machines by name."""


def find_machine(name: str | Machine) -> Machine:
    """Look up a machine.

    Raises:
        ArgumentError: there is none of that name.
    """
    if isinstance(name, Machine):
        return name
    if name not in MACHINES:
        raise ArgumentError("XT7250", f"there is no machine {name!r} of many ranks",
                            f"use one of {', '.join(MACHINES)}")
    return MACHINES[name]


@dataclass(frozen=True)
class Prediction:
    """Predicted cost of a product on a grid; of the rank that is last.

    Attributes:
        grid: the process grid.
        machine: where.
        compute, wire: seconds of products, and of messages if nothing is hidden.
        seconds: with overlap.
        received: bytes that this rank receives.
        messages: that it takes part in.
        memory: bytes of blocks and buffers.
    """

    grid: Grid
    machine: Machine
    compute: float
    wire: float
    seconds: float
    received: int
    messages: int
    memory: int

    @property
    def ideal(self) -> float:
        """Seconds of the products if they are spread evenly and nothing is sent."""
        whole = 2 * self.grid.m * self.grid.n * self.grid.k
        return whole / self.grid.ranks / self.machine.rate(self.grid.dtype)

    @property
    def efficiency(self) -> float:
        """Share of the time in which the devices of all ranks multiply."""
        return self.ideal / self.seconds if self.seconds else 1.0

    @property
    def exposed(self) -> float:
        """Efficiency if nothing is hidden."""
        return self.ideal / (self.compute + self.wire) if self.compute + self.wire else 1.0

    @property
    def hidden(self) -> float:
        """Share of the messages' time in which products run."""
        return (self.compute + self.wire - self.seconds) / self.wire if self.wire else 1.0

    def __str__(self) -> str:
        grid = self.grid
        return "\n".join([
            f"product    {grid.m} x {grid.k} by {grid.k} x {grid.n}, {grid.dtype}",
            f"grid       {grid.pr} x {grid.pc} x {grid.pk}: {grid.ranks} ranks, {self.machine.description}",
            f"volume     {grid.volume:,} bytes received by all ranks, {self.received:,} by this one, "
            f"in {self.messages} messages",
            f"memory     {self.memory / (1 << 30):.2f} GiB a rank of {self.machine.memory / (1 << 30):.0f}",
            f"predicted  {self.seconds * 1e3:,.2f} ms: {self.compute * 1e3:,.2f} ms of products and "
            f"{self.wire * 1e3:,.2f} ms of messages, of which {100 * self.hidden:.0f} % are hidden",
            f"predicted  efficiency {self.efficiency:.2f}; {self.exposed:.2f} if nothing were hidden"])


def clock(plan: Schedule, machine: Machine) -> tuple[float, float, float]:
    """Seconds of products, of messages, and of both with overlap, of one rank.

    Messages of a step travel while the step before is multiplied; the first ones, and the last sums, are exposed.
    """
    rate = machine.rate(plan.grid.dtype)
    device = wire = 0.0
    computed = received = 0.0
    arrival: dict[str, float] = {}
    for step in plan.steps:
        if isinstance(step, (Receive, Broadcast)):
            ranks = step.ranks if isinstance(step, Broadcast) else (step.peer,)
            # A broadcast takes its root as long as the others: of each pair of panels some rank receives both, and all
            # wait for it, since they have room for two panels each.
            seconds = step.bytes / machine.wire(ranks, plan.rank) + machine.latency
            received += seconds
            if step.buffer[0] == "r":  # sums of a rank that is as far as this one
                wire = max(wire, device)
            # A buffer is filled when the product before the last one, which read it, has ended: double buffering.
            wire = max(wire, arrival.get(f"free {step.buffer}", 0.0)) + seconds
            arrival[step.buffer] = wire
        elif isinstance(step, Multiply) and not step.is_empty:
            seconds = step.flops / rate + machine.launch
            computed += seconds
            device = max(device, arrival.get(step.a, 0.0), arrival.get(step.b, 0.0)) + seconds
            arrival[f"free {step.a}"] = arrival[f"free {step.b}"] = device
        elif isinstance(step, Add):
            device = max(device, arrival[step.source])
        elif isinstance(step, Wait):
            device = wire = max(device, wire)
    return computed, received, max(device, wire)


def predict(grid: Grid, machine: str | Machine, *, panel: int | None = None, overlap: str = "chunked") -> Prediction:
    """Predicted cost of a product.

    Ranks whose blocks are the longest come first in each split, so that rank 0 is among those that have most to
    multiply; the rank behind it is on the same node, and the last one on another.
    """
    found = find_machine(machine)
    plans = [schedule(grid, rank, panel=panel, overlap=overlap) for rank in
             sorted({0, grid.ranks // 2, grid.ranks - 1})]
    times = [clock(plan, found) for plan in plans]
    last = max(range(len(plans)), key=lambda position: times[position][2])
    computed, received, seconds = times[last]
    return Prediction(grid, found, computed, received, seconds, plans[last].received, plans[last].messages,
                      grid.blocks() + plans[last].workspace)


def best_grid(m: int, n: int, k: int, dtype: DType, ranks: int, machine: Machine) -> Grid:
    """The grid of least volume whose blocks and buffers fit nine tenths of a machine's memory, else of all."""
    found = best_grids(m, n, k, dtype, ranks)
    fits = (grid for grid in found if grid.blocks() + grid.workspace(PANEL) <= 0.9 * machine.memory)
    return next(fits, found[0])


def scaling(m: int, n: int, k: int, dtype: DType, machine: str | Machine, ranks: Iterable[int]) -> list[Prediction]:
    """Predictions for numbers of ranks, each on its best grid."""
    found = find_machine(machine)
    return [predict(best_grid(m, n, k, dtype, count, found), found, panel=PANEL) for count in ranks]
