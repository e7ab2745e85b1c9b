"""``vector.multi_reduction`` beside loaded vectors of one dimension: sums, accumulators, loops, conditions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.kernels import Execution

_TEXT = """gpu.module @m {
  gpu.func @reduced(%X: memref<32xf32>, %Y: memref<16xf32>) kernel {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant dense<0.0> : vector<16xf32>
    %two = arith.constant dense<2.0> : vector<16xf32>
    %m = arith.constant dense<true> : vector<16xi1>
    %at = vector.step : vector<16xindex>
    %by = arith.constant dense<16> : vector<16xindex>
    %next = arith.addi %at, %by : vector<16xindex>
    %u = xegpu.load %X[%at], %m : memref<32xf32>, vector<16xindex>, vector<16xi1> -> vector<16xf32>
    %v = xegpu.load %X[%next], %m : memref<32xf32>, vector<16xindex>, vector<16xi1> -> vector<16xf32>
    %row = vector.shape_cast %u : vector<16xf32> to vector<1x16xf32>
    %column = vector.shape_cast %v : vector<16xf32> to vector<16x1xf32>
    %rows = vector.broadcast %row : vector<1x16xf32> to vector<16x16xf32>
    %columns = vector.broadcast %column : vector<16x1xf32> to vector<16x16xf32>
    %w = arith.subf %rows, %columns : vector<16x16xf32>
    %p = vector.multi_reduction <add>, %w, %zero [0] : vector<16x16xf32> to vector<16xf32>
    %q = vector.multi_reduction <maximumf>, %w, %two [1] : vector<16x16xf32> to vector<16xf32>
    {body}
    xegpu.store %r, %Y[%at], %m : vector<16xf32>, memref<16xf32>, vector<16xindex>, vector<16xi1>
    gpu.return
  }
}"""
_LOOP = "%r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = {0}) -> (vector<16xf32>) {{{1}\n" \
        "scf.yield {2} : vector<16xf32>\n}}"
_IF = "%one = arith.cmpi sgt, %c4, %c1 : index\n%r = scf.if %one -> (vector<16xf32>) {{\n" \
      "scf.yield {} : vector<16xf32>\n}} else {{\nscf.yield {} : vector<16xf32>\n}}"
BODIES: dict[str, tuple[str, Any]] = {
    "with a loaded line": ("%r = arith.mulf %u, %q : vector<16xf32>", lambda u, v, p, q: u * q),
    "of rows and of columns": ("%r = arith.subf %p, %q : vector<16xf32>", lambda u, v, p, q: p - q),
    "onto a loaded line": ("%r = vector.multi_reduction <add>, %w, %v [1] : vector<16x16xf32> to vector<16xf32>",
                           lambda u, v, p, q: v + (u[None, :] - v[:, None]).sum(1)),
    "compared and selected": ("%c = arith.cmpf olt, %v, %p : vector<16xf32>\n"
                              "%r = arith.select %c, %v, %q : vector<16xi1>, vector<16xf32>",
                              lambda u, v, p, q: np.where(v < p, v, q)),
    "a sum cast to a column": ("%s = arith.addf %u, %q : vector<16xf32>\n"
                               "%k = vector.shape_cast %s : vector<16xf32> to vector<16x1xf32>\n"
                               "%kk = vector.broadcast %k : vector<16x1xf32> to vector<16x16xf32>\n"
                               "%t = arith.addf %kk, %w : vector<16x16xf32>\n"
                               "%r = vector.multi_reduction <add>, %t, %zero [0] : vector<16x16xf32> to vector<16xf32>",
                               lambda u, v, p, q: (u + q).sum() + p),
    "broadcast to a block": ("%b = vector.broadcast %q : vector<16xf32> to vector<16x16xf32>\n"
                             "%t = arith.mulf %b, %w : vector<16x16xf32>\n"
                             "%r = vector.multi_reduction <add>, %t, %zero [0] : vector<16x16xf32> to vector<16xf32>",
                             lambda u, v, p, q: q * p),
    "one element broadcast": ("%o = arith.constant dense<0.0> : vector<1xf32>\n"
                              "%k = vector.shape_cast %q : vector<16xf32> to vector<16x1xf32>\n"
                              "%s = vector.multi_reduction <add>, %k, %o [0] : vector<16x1xf32> to vector<1xf32>\n"
                              "%b = vector.broadcast %s : vector<1xf32> to vector<16xf32>\n"
                              "%r = arith.subf %b, %u : vector<16xf32>", lambda u, v, p, q: q.sum() - u),
    "carried from a constant": (_LOOP.format("%zero", "%s = arith.addf %q, %a : vector<16xf32>", "%s"),
                                lambda u, v, p, q: 4 * q),
    "carried as its accumulator": (
        _LOOP.format("%u", "%s = vector.multi_reduction <add>, %w, %a [0] : vector<16x16xf32> to vector<16xf32>", "%s"),
        lambda u, v, p, q: u + 4 * p),
    "carried into a loaded line": (_LOOP.format("%q", "", "%v"), lambda u, v, p, q: v),
    "on one side of a condition": (_IF.format("%q", "%u"), lambda u, v, p, q: q),
    "on the other side of a condition": (_IF.format("%u", "%q"), lambda u, v, p, q: u),
}
"""For each case its lines, and what they give of the two halves of X, the sums of columns and the maxima of rows."""


@pytest.mark.parametrize("execution", [Execution("numpy", "pvc"), Execution("numpy:xegpu", "pvc"),
                                       Execution("opencl:cpu", "pvc")], ids=str)
@pytest.mark.parametrize("name", BODIES)
def test_what_a_reduction_leaves_is_a_line(name: str, execution: Execution) -> None:
    body, expected = BODIES[name]
    x, y = np.random.default_rng(3).integers(-9, 10, 32).astype(np.float32), np.zeros(16, np.float32)
    u, v = x[:16], x[16:]
    w = u[None, :] - v[:, None]
    execution.bind(xt.parse(_TEXT.replace("{body}", body))["reduced"])[1](x.copy(), y)
    np.testing.assert_array_equal(y, expected(u, v, w.sum(0), np.maximum(w.max(1), 2)))
