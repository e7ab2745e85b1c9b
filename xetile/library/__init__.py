"""Library of kernels: matrix products and attention of NumPy and dpnp arrays."""

from xetile.library.activations import ACTIVATIONS
from xetile.library.attention import attention
from xetile.library.grouped_matmul import grouped_matmul
from xetile.library.int4_matmul import int4_matmul, pack_int4
from xetile.library.matmul import matmul
from xetile.library.scaled_matmul import scaled_matmul

__all__ = ["ACTIVATIONS", "attention", "grouped_matmul", "int4_matmul", "matmul", "pack_int4", "scaled_matmul"]
