"""Arrays of the CPU device in huge pages, which NumPy's own arrays have as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from codegen.runtime.usm import advise_huge_pages


def on_cpu(host: np.ndarray, queue: Any = None) -> Any:
    """dpnp array of the CPU device with the values of one of NumPy.

    dpnp's arrays have pages of 4 KB. ``xt.matmul`` lets the system make huge ones of them in the background, within a
    minute: rates would depend on how long a process has run.

    Args:
        host: the values.
        queue: the array's; by default dpnp's own.
    """
    import dpnp

    array = dpnp.empty(host.shape, dtype=host.dtype, device=queue or "opencl:cpu")
    advise_huge_pages(array.get_array()._pointer, array.nbytes, array.sycl_queue)
    array[...] = dpnp.asarray(host, device=queue or "opencl:cpu")
    array.sycl_queue.wait()
    return array
