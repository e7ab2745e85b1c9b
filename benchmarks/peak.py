"""Peak of a processor: float32 multiply-adds of a kernel that has nothing else to do."""

from __future__ import annotations

import ctypes
import time

_CHAINS, _LANES, _GROUPS, _STEPS = 12, 16, 8, 320000
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


def peak_rate(rounds: int = 25) -> float:
    """GFLOP/s of all cores of the CPU device, the best of several runs: independent chains of multiply-adds.

    A run takes some milliseconds: a shorter one may be over before every core has begun.
    """
    from dpctl.memory import MemoryUSMDevice

    from codegen.runtime.devices import find_queue
    from codegen.runtime.launcher import build_program, find_kernel, launch

    queue = find_queue("opencl:cpu")
    kernel = find_kernel(build_program(queue, _TEXT), "multiply_add")
    memory = MemoryUSMDevice(4 * _GROUPS * _LANES, queue=queue)
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        launch(queue, kernel, [memory, ctypes.c_int32(_STEPS)], (_GROUPS,), _LANES).wait()
        times.append(time.perf_counter() - started)
    return 2e-9 * _CHAINS * _STEPS * _GROUPS * _LANES / min(times)
