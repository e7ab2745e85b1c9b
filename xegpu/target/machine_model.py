"""Machine models: throughput figures of products, from which the performance model predicts times.

A target says which code runs; a machine says how fast. Several machines share a target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xegpu.support.errors import TargetError


@dataclass(frozen=True)
class MachineModel:
    """Throughput record of one product.

    Attributes:
        name: the name an author writes.
        description: the product, in words.
        target: the target whose code it runs.
        cores: Xe cores.
        ghz: clock, in GHz; the highest of a range that its published peak belongs to.
        engines: vector engines a core, each with a matrix engine.
        threads: hardware threads an engine, in small and in large register mode.
        dpas_clocks: clocks of a matrix engine for one dpas of eight rows.
        l2: bytes of L2.
        bandwidth: bytes a second from memory.
        core_l1, core_l2: bytes a clock that a core gets from L1 and from L2; None where no figure is published.
        sustained: fraction of the matrix engines' peak that the best published products of its target sustain where
            nothing else is slower: clocks fall under load, and operands come late now and then.
        latency: seconds from a load to its data where nothing fetched them ahead.
        error: relative error of a predicted time: of the worst published figure that set these numbers, or an estimate.
    """

    name: str
    description: str
    target: str
    cores: int
    ghz: float
    engines: int
    threads: tuple[int, int]
    dpas_clocks: int
    l2: int
    bandwidth: float
    core_l1: int | None = None
    core_l2: int | None = None
    sustained: float = 0.7
    latency: float = 300e-9
    error: float = 0.25

    def matrix_peak(self, lanes: int, depth: int) -> float:
        """Peak operations a second of all matrix engines: a dpas is 8 x ``lanes`` x ``depth`` multiply-adds."""
        return self.cores * self.engines * 2 * 8 * lanes * depth / self.dpas_clocks * self.ghz * 1e9

    def vector_peak(self, register_bytes: int) -> float:
        """Peak float32 operations a second of all vector engines: a register's width of multiply-adds a clock."""
        return self.cores * self.engines * 2 * register_bytes / 4 * self.ghz * 1e9


_MB = 1 << 20
MACHINES: Mapping[str, MachineModel] = {
    machine.name: machine
    for machine in (
        MachineModel("max1550", "Data Center GPU Max 1550, one stack", "pvc", 64, 1.6, 8, (8, 4), 8, 204 * _MB, 1.64e12,
                     512, 64, sustained=0.76, error=0.1),
        MachineModel("max1100", "Data Center GPU Max 1100", "pvc", 56, 1.55, 8, (8, 4), 8, 108 * _MB, 1.23e12, 512, 64,
                     sustained=0.76, error=0.1),
        MachineModel("aurora", "Data Center GPU Max 1550 of Aurora, one stack", "pvc", 64, 1.4, 8, (8, 4), 8, 204 * _MB,
                     1.64e12, 512, 64, sustained=0.76, error=0.2),
        MachineModel("b580", "Arc B580", "bmg", 20, 2.85, 8, (8, 4), 16, 18 * _MB, 456e9, sustained=0.82,
                     latency=340e-9, error=0.1),
        MachineModel("a770", "Arc A770", "dg2", 32, 2.1, 16, (8, 4), 16, 16 * _MB, 560e9, sustained=0.65,
                     error=0.55),
    )
}
"""Machine models by name; the first of a target is its default. ``sustained`` and ``latency`` are set by the published
figures in :mod:`benchmarks.gpu_code.published`."""


def find_machine(name: str | MachineModel | None, target: str) -> MachineModel:
    """Look up a machine model by name, or the default of a target.

    Raises:
        TargetError: there is none of that name, it runs other code, or no machine of the target is known.
    """
    if isinstance(name, MachineModel):
        return name
    if name is not None and name not in MACHINES:
        raise TargetError("XT4110", f"there is no machine {name!r}", f"use one of: {', '.join(MACHINES)}")
    fitting = [machine for machine in MACHINES.values() if machine.target == target]
    if name is None and not fitting:
        raise TargetError("XT4111", f"no machine with code for {target} is known, so no time can be predicted",
                          "describe one: predict(shape, machine=MachineModel(...)), with the fields of "
                          f"xegpu.target.machine_model.MachineModel; known are those of {_known_targets()}")
    found = fitting[0] if name is None else MACHINES[name]
    if found.target != target:
        raise TargetError("XT4112", f"{found.name} runs code for {found.target}, and this is code for {target}",
                          f"lower the kernel for it: target={found.target!r}")
    return found


def _known_targets() -> str:
    return ", ".join(dict.fromkeys(machine.target for machine in MACHINES.values()))
