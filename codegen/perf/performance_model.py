"""Performance model (roofline-style) of a kernel's time. It predicts from published figures; nothing is measured.

    time = max(waves x loop iterations x max(clocks of matrix engine, issue, L1, L2), bytes / bandwidth)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from xegpu.target.machine_model import MachineModel


@dataclass(frozen=True)
class Pass:
    """Work of one work-group in one iteration of its hot loop.

    Attributes:
        subgroups: subgroups of the work-group.
        dpas_rows: result rows of a subgroup's dpas, eight for a full one.
        instructions: instructions that a subgroup issues.
        loaded: bytes that all subgroups load.
        distinct: distinct bytes among these.
    """

    subgroups: int
    dpas_rows: int
    instructions: int
    loaded: float
    distinct: float

    def clocks(self, machine: MachineModel) -> dict[str, float]:
        """Clocks of a core for one iteration, by resource; resources without a published figure are left out."""
        share = self.subgroups / machine.engines
        found = {"matrix engine": self.dpas_rows / 8 * machine.dpas_clocks * share, "issue": self.instructions * share}
        if machine.core_l1:
            found["L1"] = self.loaded / machine.core_l1
        if machine.core_l2:
            found["L2"] = self.distinct / machine.core_l2
        return {name: clocks for name, clocks in found.items() if clocks}


@dataclass(frozen=True)
class Prediction:
    """Predicted performance of a launch.

    Attributes:
        machine: name of the machine model.
        shape: the problem, in words.
        work_groups, waves: number of work-groups, and of waves of them on the device.
        clocks: clocks of a core in one iteration of the loop, by resource.
        bytes: memory traffic in bytes.
        flops: floating-point (or integer) operations of the products.
        time: seconds.
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
    bound: str
    assumptions: tuple[str, ...]

    @property
    def tflops(self) -> float:
        """Throughput in 10^12 operations a second."""
        return self.flops / self.time / 1e12 if self.time else 0.0

    @property
    def intensity(self) -> float:
        """Arithmetic intensity: operations per byte of memory traffic."""
        return self.flops / self.bytes if self.bytes else 0.0


def resident(machine: MachineModel, subgroups: int, large: bool) -> int:
    """Resident work-groups per core, limited by its threads; at least one."""
    return max(1, machine.engines * machine.threads[large] // subgroups)


def predict(machine: MachineModel, shape: str, step: Pass, *, work_groups: int, passes: int, large: bool,
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
    resident_groups = resident(machine, step.subgroups, large)
    waves = ceil(work_groups / (machine.cores * resident_groups))
    clocks = step.clocks(machine)
    slowest = max(clocks, key=lambda name: clocks[name])
    computing = waves * resident_groups * passes * clocks[slowest] / (machine.ghz * 1e9)
    moving = traffic / machine.bandwidth
    return Prediction(machine, shape, work_groups, waves, clocks, traffic, flops, max(computing, moving),
                      slowest if computing >= moving else "memory", _assumptions(machine, traffic))


def _assumptions(machine: MachineModel, traffic: float) -> tuple[str, ...]:
    remarks = [f"{machine.description}: {machine.cores} cores of {machine.engines} engines at {machine.ghz} GHz, "
               f"{machine.bandwidth / 1e9:.0f} GB/s, {machine.l2 >> 20} MB of L2, as published",
               "latency is hidden, so that what takes most clocks takes all the time; prologue and epilogue are free"]
    if machine.core_l1 and machine.core_l2:
        remarks.append(f"{machine.description}: a core gets {machine.core_l1} bytes a clock from L1, and "
                       f"{machine.core_l2} from L2, each distinct byte once")
    else:
        remarks.append(f"{machine.description}: L1 and L2 keep up, for want of a published rate")
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
