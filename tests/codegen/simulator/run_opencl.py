"""OpenCL C kernels, compiled by ocloc and run in the simulator on NumPy arrays."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.launch import launch
from codegen.toolchain.ocloc import compile_device
from tests.conftest import require_simulator

TARGETS = ("pvc", "bmg", "dg2")
SIMD = {"pvc": 16, "bmg": 16, "lnl": 16, "dg2": 8, "arl": 8}
"""Work-items of a subgroup that the targets' kernels have here."""


def run_opencl(source: str, name: str, target: str, *arguments: NDArray[Any] | np.generic, items: int, group: int = 64,
               options: str = "") -> None:
    """Run a kernel on ``items`` work-items in groups of ``group``; arrays are changed in place."""
    require_simulator()
    text = source.replace("SIMD", f"__attribute__((intel_reqd_sub_group_size({SIMD[target]})))")
    binary = compile_device(text, target, options).data
    values, memory = [], []
    for each in arguments:
        if isinstance(each, np.ndarray):
            values.append(struct.pack("<Q", each.ctypes.data))
            memory.append((each.ctypes.data, each.reshape(-1).view(np.uint8)))
        else:
            values.append(each.tobytes())
    groups = -(-items // group)
    launch(binary, name, target, values, (groups, 1, 1), (group, 1, 1), memory, check=True)
