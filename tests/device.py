"""The device that launching tests use: the OpenCL CPU device, or with ``pytest --level-zero`` a software GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence

SOFTWARE_GPU = os.environ.get("SOFTWARE_GPU_TARGET", "")
"""Target of the software GPU of this process, "" without one."""
DEVICE_FILTER = "level_zero:gpu" if SOFTWARE_GPU else "opencl:cpu"
"""dpctl's filter string of the device."""


def device_targets(*targets: str) -> Sequence[str]:
    """Targets whose code the device shall run: these on the CPU, which runs all; on a GPU its own."""
    return [SOFTWARE_GPU] if SOFTWARE_GPU else targets
