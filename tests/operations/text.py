"""Cases in text: operations that no function of the language makes, SuperVector's and XeGPU's own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.operations.case import Array, operands
from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType


@dataclass(frozen=True)
class Text:
    """A kernel in text from an array to another one; ``T`` in its lines is the element type.

    Attributes:
        name: names it in a failure.
        lines: the kernel's body.
        given: the array ``%A``.
        expected: the array ``%C`` in the end.
    """

    name: str
    lines: str
    given: Array
    expected: Array

    def text(self, dtype: DType) -> str:
        """The kernel."""
        source, result = ("x".join(map(str, array.shape)) for array in (self.given, self.expected))
        return (f"func.func @case(%A: memref<{source}xT>, %C: memref<{result}xT>) {{\n{self.lines}\n  func.return\n}}"
                ).replace("xT", f"x{dtype.mlir}")


SLICE = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %slice = memref.alloc() : memref<3x2x16xT, 3>
  %one = vector_type_cast %slice : memref<3x2x16xT, 3>, memref<1xvector<3x2x16xT>, 3>
  %v = vector_transfer_read %A, %c1, %c0, %c1 {permutation_map: (d0, d1, d2) -> (d2, d0, d1)} :
    (memref<4x16x5xT>, index, index, index) -> vector<3x2x16xT>
  store %v, %one[%c0] : memref<1xvector<3x2x16xT>, 3>
  gpu.barrier
  %w = load %one[%c0] : memref<1xvector<3x2x16xT>, 3>
  vector_transfer_write %w, %C, %c0, %c0, %c0 {permutation_map: (d0, d1, d2) -> (d0, d1, d2)} :
    vector<3x2x16xT>, memref<3x2x16xT>, index, index, index"""
BLOCKS = """
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  xegpu.compile_hint
  %a = xegpu.create_nd_tdesc %A[%c8, %c16] : memref<40x64xT> -> !xegpu.tensor_desc<8x16xT>
  %b = xegpu.update_nd_offset %a, [%c8, %c16] : !xegpu.tensor_desc<8x16xT>
  xegpu.prefetch_nd %b : !xegpu.tensor_desc<8x16xT>
  %v = xegpu.load_nd %b : !xegpu.tensor_desc<8x16xT> -> vector<8x16xT>
  %t = vector.transpose %v, [1, 0] : vector<8x16xT> to vector<16x8xT>
  %u = vector.transpose %t, [1, 0] : vector<16x8xT> to vector<8x16xT>
  %d = xegpu.create_nd_tdesc %C[%c0, %c0] : memref<8x16xT> -> !xegpu.tensor_desc<8x16xT>
  xegpu.store_nd %u, %d : vector<8x16xT>, !xegpu.tensor_desc<8x16xT>"""


def texts(dtype: DType) -> Iterator[Text]:
    """Slices of three dimensions; blocks of moved descriptors."""
    a, _, _ = operands(dtype)
    yield Text("blocks", BLOCKS, a, a[16:24, 32:48].copy())
    if dtype is not dtypes.i1:  # which cannot be gathered
        cube = a.reshape(-1)[400:720].reshape(4, 16, 5)
        yield Text("slice", SLICE, cube, np.ascontiguousarray(cube[1:3, :, 1:4].transpose(2, 0, 1)))
