"""Ready kernels, written in the language: products and attention of NumPy and dpnp arrays."""

from xetile.library.activations import ACTIVATIONS
from xetile.library.attention import attention
from xetile.library.matmul import matmul

__all__ = ["ACTIVATIONS", "attention", "matmul"]
