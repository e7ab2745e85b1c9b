"""Peak of a processor: float32 multiply-adds of a kernel that has nothing else to do."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

_CHAINS, _LANES, _GROUPS, _STEPS = 12, 16, 8, 1600000
_TEXT = f"""kernel void multiply_add(global float *out, int steps)
{{
  const float x = 0.9f + 1e-6f * (float)get_local_id(0), y = 0.1f;
  float a[{_CHAINS}];
  #pragma unroll
  for (int i = 0; i < {_CHAINS}; i++) a[i] = (float)i;
  for (int step = 0; step < steps; step++) {{
    #pragma unroll
    for (int i = 0; i < {_CHAINS}; i++) a[i] = fma(a[i], x, y);
  }}
  float sum = 0.0f;
  #pragma unroll
  for (int i = 0; i < {_CHAINS}; i++) sum += a[i];
  out[get_global_id(0)] = sum;
}}
"""


def multiply_adds() -> tuple[Callable[[], None], float]:
    """Independent chains of multiply-adds on all cores of the CPU device: a run until it is done, and its GFLOP.

    A run takes some ten milliseconds: a shorter one may be over before every core has begun, and is in part its launch.
    """
    from dpctl.memory import MemoryUSMDevice

    from codegen.runtime.devices import find_queue
    from codegen.runtime.launcher import build_program, find_kernel, launch

    queue = find_queue("opencl:cpu")
    kernel = find_kernel(build_program(queue, _TEXT), "multiply_add")
    memory = MemoryUSMDevice(4 * _GROUPS * _LANES, queue=queue)

    def run() -> None:
        launch(queue, kernel, [memory, ctypes.c_int32(_STEPS)], (_GROUPS,), _LANES).wait()

    return run, 2e-9 * _CHAINS * _STEPS * _GROUPS * _LANES
