"""Performance model of a kernel's time, calibrated by published throughput; nothing is measured here.

    time = launch + max(work-groups of a core x (passes x (slowest resource + messages + barriers) + exposed latency
                                                 + epilogue), bytes / bandwidth)

Its lower bound is a roofline: the same without what can be hidden, at the matrix engines' peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from xegpu.target.machine_model import MachineModel

MESSAGE_CLOCKS = 2.5
"""Clocks of an engine that a memory message takes beside its data: what loads of one dpas cost in published figures."""
GATHER_CLOCKS = 8.0
"""The same for a message with an address a lane, and for a spill; assumed: a message moves 64 bytes a clock."""
ATOMIC_CLOCKS = 16.0
"""The same for an atomic update, a lane at a time; assumed."""
BARRIER_CLOCKS = 50.0
"""Clocks of a core that a barrier takes; assumed."""
MATH_CLOCKS = 4
"""Clocks of the extended math pipe for a register: Intel's Xe engines have two such lanes beside eight others."""
LAUNCH_SECONDS = 5e-6
"""Time of a launch on a device; assumed."""
RESOLUTION = 0.05
"""Relative difference below which two predicted times say nothing: published figures of one kernel spread by this."""


@dataclass(frozen=True)
class LoopIteration:
    """Work of one work-group in one iteration of its hot loop.

    Attributes:
        subgroups: subgroups of the work-group.
        dpas_rows: result rows of a subgroup's dpas, eight for a full one.
        instructions: instructions that a subgroup issues.
        loaded: bytes that all subgroups load.
        distinct: distinct bytes among these.
        messages, scattered, atomics: memory messages of a subgroup: all, those with an address a lane or to scratch
            memory, atomic updates.
        barriers: barriers that it waits for.
        waits: how often it waits for loads that nothing fetched ahead.
        outside: instructions of a subgroup before and behind the loop.
        alu_passes: registers that a subgroup's arithmetic takes through each ALU pipe, by the pipe's name.
    """

    subgroups: int
    dpas_rows: int
    instructions: int
    loaded: float
    distinct: float
    messages: int = 0
    scattered: int = 0
    atomics: int = 0
    barriers: int = 0
    waits: int = 0
    outside: int = 0
    alu_passes: Mapping[str, int] = field(default_factory=dict)

    def clocks(self, machine: MachineModel) -> dict[str, float]:
        """Clocks of a core for one iteration, by resource; resources without a published figure are left out."""
        share = self.subgroups / machine.engines
        found = {"matrix engine": self.dpas_rows / 8 * machine.dpas_clocks * share, "issue": self.instructions * share}
        # An ALU pipe takes a register a clock, beside the other pipes and the matrix engine.
        found |= {f"{pipe} pipe": passes * (MATH_CLOCKS if pipe == "math" else 1) * share
                  for pipe, passes in self.alu_passes.items()}
        if machine.core_l1:
            found["L1"] = self.loaded / machine.core_l1
        if machine.core_l2:
            found["L2"] = self.distinct / machine.core_l2
        return {name: clocks for name, clocks in found.items() if clocks}

    def additions(self, machine: MachineModel) -> dict[str, float]:
        """Clocks of a core for one iteration that come on top of its slowest resource."""
        share = self.subgroups / machine.engines
        messages = self.messages * MESSAGE_CLOCKS + self.scattered * GATHER_CLOCKS + self.atomics * ATOMIC_CLOCKS
        return {"messages": messages * share, "barriers": self.barriers * BARRIER_CLOCKS}


@dataclass(frozen=True)
class Prediction:
    """Predicted performance of a launch.

    Attributes:
        machine: the machine model.
        shape: the problem, in words.
        work_groups, waves: number of work-groups, and of waves of them on the device.
        clocks: clocks of a core in one iteration of the loop, by resource, and of costs that add to the slowest.
        bytes: memory traffic in bytes.
        flops: floating-point (or integer) operations of the products.
        time: seconds.
        error: relative error of the time.
        lower_bound: seconds that no schedule of these instructions goes below.
        sequential: seconds that the loops take if no resource overlaps another: of predictions that cannot be told
            apart, the one with less leaves the limiting resource more room.
        bound: the limiting resource.
        assumptions: assumptions of the model.
    """

    machine: MachineModel
    shape: str
    work_groups: int
    waves: int
    clocks: Mapping[str, float]
    bytes: float
    flops: float
    time: float
    error: float
    lower_bound: float
    sequential: float
    bound: str
    assumptions: tuple[str, ...]

    @property
    def tflops(self) -> float:
        """Throughput in 10^12 operations a second."""
        return self.flops / self.time / 1e12 if self.time else 0.0

    @property
    def upper_bound(self) -> float:
        """Throughput of the lower bound of the time, in 10^12 operations a second."""
        return self.flops / self.lower_bound / 1e12 if self.lower_bound else 0.0

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations per byte of memory traffic."""
        return self.flops / self.bytes if self.bytes else 0.0


def resident(machine: MachineModel, subgroups: int, large: bool) -> int:
    """Resident work-groups per core, limited by its threads; at least one."""
    return max(1, machine.engines * machine.threads[large] // subgroups)


def predict(machine: MachineModel, shape: str, step: LoopIteration, *, work_groups: int, passes: int, large: bool,
            traffic: float, flops: float) -> Prediction:
    """Predict the time of a launch.

    Args:
        machine: the machine model.
        shape: the problem, in words.
        step: work of a work-group in one iteration of the loop.
        work_groups: number of work-groups.
        passes: iterations of the loop in each.
        large: whether the kernel uses the large GRF mode.
        traffic: memory traffic in bytes.
        flops: operations of the products.
    """
    at_once = resident(machine, step.subgroups, large)
    waves = ceil(work_groups / (machine.cores * at_once))
    of_core = ceil(work_groups / machine.cores)  # of the one that has most, as they are dealt out evenly
    # A subgroup stays on its engine: the engine with most of them decides, in work-groups spread over all engines.
    groups = ceil(of_core * step.subgroups / machine.engines) * machine.engines / step.subgroups
    clocks, hertz = step.clocks(machine), machine.ghz * 1e9
    slowest = max(clocks, key=lambda name: clocks[name])
    moving = traffic / machine.bandwidth
    lower_bound = max(groups * passes * clocks[slowest] / hertz, moving)

    sustained = {**clocks, "matrix engine": clocks.get("matrix engine", 0.0) / machine.sustained}
    # The threads of a core wait in phase: work-groups of their own are what hides one another's latency.
    latency = machine.latency * hertz / max(min(at_once, of_core), 1)
    added = {**step.additions(machine), "latency": step.waits * latency}
    each = max(sustained.values()) + sum(added.values())
    around = step.outside * step.subgroups / machine.engines + 2 * latency  # the first loads, and the last stores
    computing = groups * (passes * each + around) / hertz
    listed = {**clocks, **{name: value for name, value in added.items() if value}}
    bound = max({**sustained, **added}, key=lambda name: {**sustained, **added}[name]) if computing >= moving \
        else "memory"
    return Prediction(machine, shape, work_groups, waves, listed, traffic, flops,
                      LAUNCH_SECONDS + max(computing, moving), machine.error, lower_bound,
                      groups * passes * (_sequential(clocks) + sum(added.values())) / hertz, bound,
                      _assumptions(machine, traffic))


def _sequential(clocks: Mapping[str, float]) -> float:
    """Clocks of all resources one after another: those of instructions are their pipes', and not their issue's."""
    return sum(value for name, value in clocks.items() if name != "issue")


def _assumptions(machine: MachineModel, traffic: float) -> tuple[str, ...]:
    remarks = [f"{machine.description}: {machine.cores} cores of {machine.engines} engines at {machine.ghz} GHz, "
               f"{machine.bandwidth / 1e9:.0f} GB/s, {machine.l2 >> 20} MB of L2, as published",
               f"the matrix engines sustain {machine.sustained:.0%} of their peak, and data that nothing fetched ahead "
               f"come after {machine.latency * 1e9:.0f} ns, so that published figures come out",
               f"a launch takes {LAUNCH_SECONDS * 1e6:.0f} us; the upper bound is without all of this"]
    if machine.core_l1 and machine.core_l2:
        remarks.append(f"{machine.description}: a core gets {machine.core_l1} bytes a clock from L1, and "
                       f"{machine.core_l2} from L2, each distinct byte once")
    else:
        remarks.append(f"{machine.description}: L1 and L2 keep up, for want of a published rate")
    remarks.append("an ALU pipe takes a register of the widest operand a clock, beside the other pipes and the "
                   f"matrix engine; that of extended math, in {MATH_CLOCKS}")
    remarks.append("the work-groups of a wave share through L2 what they read" if traffic else "memory keeps up")
    return tuple(remarks)


def product_traffic(machine: MachineModel, grid: tuple[int, int], strips: tuple[float, float], result: float,
                    work_groups_at_once: int) -> float:
    """Memory traffic in bytes of C = A @ B.

    Args:
        machine: the machine model; if its L2 holds all three matrices, each is moved once.
        grid: work-groups along the rows and along the columns of C.
        strips: bytes of A that a row of work-groups reads, and of B that a column reads.
        result: bytes of C.
        work_groups_at_once: those of one wave, taken row by row.
    """
    rows, columns = grid
    whole = rows * strips[0] + columns * strips[1]
    if whole + result <= machine.l2:
        return whole + result
    waves = ceil(rows * columns / work_groups_at_once)
    across = min(columns, work_groups_at_once)
    down = min(rows, ceil(work_groups_at_once / columns))
    return max(whole, waves * (down * strips[0] + across * strips[1])) + result
