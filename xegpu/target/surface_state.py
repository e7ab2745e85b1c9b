"""Surface states: the arrays that 32-bit offsets from the first element reach.

Intel's compiler addresses arguments of Xe-HPG by surface states, bounded buffers from the pointer on, and adds 32-bit
offsets without a sign. Elements before the first one, as a reversed view has them, and elements 4 GB behind it take
64-bit addresses, which a build option asks for (:data:`codegen.opencl.kernel.LARGE_BUFFERS`).
"""

from __future__ import annotations

from collections.abc import Sequence

_SURFACE_BYTES = 1 << 32


def is_beyond_surface(shape: Sequence[int | None], strides: Sequence[int | None], itemsize: int) -> bool:
    """Whether an array has elements before its first one, or 4 GB behind it; unknown sizes count as small.

    Args:
        shape: its sizes, None where one is not known.
        strides: in elements, None where one is not known.
        itemsize: bytes of an element.
    """
    last = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True) if size and stride]
    return any(distance < 0 for distance in last) or (sum(last) + 1) * itemsize > _SURFACE_BYTES
