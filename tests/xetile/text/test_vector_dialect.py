"""MLIR's vector dialect in texts: masks, gathers, parts of vectors, moves, reductions and contractions of any rank."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_mlir_opt
from tests.kernels import LANES, NUMPY, Execution

Array = np.ndarray[Any, Any]
HERE = [NUMPY, LANES[0], LANES[3]]
PVC, BMG, DG2, CPU = (Execution("opencl:cpu", target) for target in ("pvc", "bmg", "dg2", "cpu"))
_TYPES = {"f32": np.dtype(np.float32), "i32": np.dtype(np.int32), "bf16": xt.bf16.numpy, "f16": np.dtype(np.float16),
          "i16": np.dtype(np.int16), "i8": np.dtype(np.int8)}
_HEAD = """func.func @kernel(%A: memref<4x20x37x{t}>, %B: memref<4x20x37x{t}>, %C: memref<4x20x37x{r}>, %n: index) {{
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %3 = arith.constant 3 : index
  %5 = arith.constant 5 : index
  %p = arith.constant {z} : {t}
"""


@dataclass(frozen=True)
class Case:
    """A text that calculates ``%r`` and what it writes to an array of 4x20x37.

    Attributes:
        body: the text; ``LOAD x shape`` reads A, and ``WRITE x`` writes to C, from [0, 1, 3] on.
        result: of A, B and n, what of C is written from [0, 1, 3] on, NaN where it stays; integers: None.
        element, out: element types of A and B, and of C.
    """

    body: str
    result: Callable[[Array, Array, int], Any]
    element: str = "f32"
    out: str = ""

    def text(self) -> str:
        """The complete text."""
        out = self.out or self.element
        zero = "0" if self.element.startswith("i") else "0.0"
        head = _HEAD.format(t=self.element, r=out, z=zero)
        body = re.sub(r"LOAD (%\w+) (\w) (\S+)", lambda found: (
            f"{found[1]} = vector.transfer_read %{found[2]}[%0, %1, %3], %p : memref<4x20x37x{self.element}>, "
            f"vector<{found[3]}x{self.element}>"), self.body)
        body = re.sub(r"WRITE (%\w+) (\S+)", lambda found: (
            f"vector.transfer_write {found[1]}, %C[%0, %1, %3] : vector<{found[2]}x{out}>, memref<4x20x37x{out}>"),
            body)
        return head + "".join(f"  {line.strip()}\n" for line in body.strip().splitlines()) + "  return\n}\n"

    def check(self, run: Callable[..., Any], seed: int = 1) -> None:
        """Run the text and compare with what NumPy calculates without the package."""
        rng = np.random.default_rng(seed)
        kind, out = _TYPES[self.element], _TYPES[self.out or self.element]
        a, b = (rng.integers(-4, 5, (4, 20, 37)) for _ in range(2))
        c = rng.integers(-4, 5, (4, 20, 37)).astype(out)
        expected, n = c.astype(np.float64), 3
        part = np.asarray(self.result(a.astype(np.float64), b.astype(np.float64), n), np.float64)
        place = (0,) * (3 - part.ndim)
        window = expected[(*place, *(slice(start, start + size) for start, size in zip(
            (0, 1, 3)[3 - part.ndim:], part.shape, strict=True)))] if part.ndim == 3 else None
        if window is None:
            at = ([0, 1, 3])[:3 - part.ndim]
            window = expected[tuple(at)][tuple(slice(start, start + size) for start, size in zip(
                (0, 1, 3)[3 - part.ndim:], part.shape, strict=True))]
        window[...] = np.where(np.isnan(part), window, part)
        run(a.astype(kind), b.astype(kind), c, n)
        np.testing.assert_array_equal(c.astype(np.float64), expected)


def _at(array: Array, *shape: int) -> Array:
    """The values that LOAD reads, and those that WRITE stores."""
    lead = (0, 1, 3)[:3 - len(shape)]
    return array[lead][tuple(slice(start, start + size) for start, size in zip(
        (0, 1, 3)[3 - len(shape):], shape, strict=True))]


def _masked(part: Array, *sizes: int) -> Array:
    """Only the first elements along each dimension; the others stay."""
    kept = np.full(part.shape, np.nan)
    first = tuple(slice(size) for size in sizes)
    kept[first] = part[first]
    return kept


def _maps(*maps: str) -> str:
    return f"[{', '.join(f'affine_map<{each}>' for each in maps)}]"


def _contract(maps: tuple[str, str, str], kinds: str, types: str) -> str:
    names = ", ".join('"parallel"' if kind == "p" else '"reduction"' for kind in kinds)
    return (f"%r = vector.contract {{indexing_maps = {_maps(*maps)}, iterator_types = [{names}], "
            f"kind = #vector.kind<add>}} %a, %b, %z : {types}")


_BATCH = ("(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (b, k, n)", "(b, m, n, k) -> (b, m, n)")
CASES: dict[str, Case] = {
    "masked read": Case("""
        %m = vector.create_mask %n, %5 : vector<8x16xi1>
        %q = arith.constant 2.0 : f32
        %r = vector.transfer_read %A[%0, %1, %3], %q, %m : memref<4x20x37xf32>, vector<8x16xf32>
        WRITE %r 8x16""", lambda a, b, n: np.where(np.isnan(_masked(_at(a, 8, 16), n, 5)), 2, _at(a, 8, 16))),
    "masked read, transposed": Case("""
        %m = vector.create_mask %5, %n : vector<16x8xi1>
        %r = vector.transfer_read %A[%0, %1, %3], %p, %m {permutation_map = affine_map<(x, y, z) -> (z, y)>}
            : memref<4x20x37xf32>, vector<8x16xf32>
        WRITE %r 8x16""", lambda a, b, n: np.nan_to_num(_masked(_at(a, 16, 8), 5, n)).T),
    "masked read, repeated": Case("""
        %m = vector.create_mask %5 : vector<16xi1>
        %r = vector.transfer_read %A[%0, %1, %3], %p, %m {permutation_map = affine_map<(x, y, z) -> (0, z)>}
            : memref<4x20x37xf32>, vector<8x16xf32>
        WRITE %r 8x16""", lambda a, b, n: np.tile(np.nan_to_num(_masked(_at(a, 16), 5)), (8, 1))),
    "masked write": Case("""
        LOAD %v A 8x16
        %m = vector.create_mask %n, %5 : vector<8x16xi1>
        vector.transfer_write %v, %C[%0, %1, %3], %m {in_bounds = [true, true]}
            : vector<8x16xf32>, memref<4x20x37xf32>""", lambda a, b, n: _masked(_at(a, 8, 16), n, 5)),
    "masked write, computed mask": Case("""
        LOAD %v A 2x4x16
        LOAD %w B 2x4x16
        %m = arith.cmpf ogt, %v, %w : vector<2x4x16xf32>
        vector.transfer_write %v, %C[%0, %1, %3], %m : vector<2x4x16xf32>, memref<4x20x37xf32>""",
        lambda a, b, n: np.where(_at(a, 2, 4, 16) > _at(b, 2, 4, 16), _at(a, 2, 4, 16), np.nan)),
    "masked region": Case("""
        %m = vector.create_mask %n, %5 : vector<8x16xi1>
        %v = vector.mask %m { vector.transfer_read %A[%0, %1, %3], %p {in_bounds = [true, true]}
            : memref<4x20x37xf32>, vector<8x16xf32> } : vector<8x16xi1> -> vector<8x16xf32>
        vector.mask %m { vector.transfer_write %v, %C[%0, %1, %3] : vector<8x16xf32>, memref<4x20x37xf32> }
            : vector<8x16xi1>""", lambda a, b, n: _masked(_at(a, 8, 16), n, 5)),
    "masked sum": Case("""
        LOAD %v A 8x16
        %m = vector.constant_mask [3, 5] : vector<8x16xi1>
        %z = arith.constant dense<1.0> : vector<16xf32>
        %r = vector.mask %m { vector.multi_reduction <add>, %v, %z [0] : vector<8x16xf32> to vector<16xf32> }
            : vector<8x16xi1> -> vector<16xf32>
        WRITE %r 16""", lambda a, b, n: 1 + np.nan_to_num(_masked(_at(a, 8, 16), 3, 5)).sum(0)),
    "masked product": Case(f"""
        LOAD %a A 8x16
        LOAD %b B 16x16
        %z = arith.constant dense<0.0> : vector<8x16xf32>
        %c16 = arith.constant 16 : index
        %m = vector.create_mask %5, %c16, %n : vector<8x16x16xi1>
        {_contract(("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"), "ppr",
                   "").replace("%r = ", "%r = vector.mask %m { ")} vector<8x16xf32>, vector<16x16xf32>
            into vector<8x16xf32> }} : vector<8x16x16xi1> -> vector<8x16xf32>
        %s = vector.extract_strided_slice %r {{offsets = [0], sizes = [5], strides = [1]}}
            : vector<8x16xf32> to vector<5x16xf32>
        WRITE %s 5x16""", lambda a, b, n: _at(a, 5, n) @ _at(b, n, 16)),
    "load and store": Case("""
        %v = vector.load %A[%0, %3, %5] {nontemporal = true} : memref<4x20x37xf32>, vector<2x16xf32>
        vector.store %v, %C[%0, %1, %3] : memref<4x20x37xf32>, vector<2x16xf32>""",
        lambda a, b, n: a[0, 3:5, 5:21]),
    "masked load and store": Case("""
        %m = vector.create_mask %5 : vector<16xi1>
        %o = vector.constant_mask [7] : vector<16xi1>
        %q = arith.constant dense<2.0> : vector<16xf32>
        %v = vector.maskedload %A[%3, %1, %3], %m, %q
            : memref<4x20x37xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
        vector.maskedstore %C[%0, %1, %3], %o, %v : memref<4x20x37xf32>, vector<16xi1>, vector<16xf32>""",
        lambda a, b, n: _masked(np.concatenate([a[3, 1, 3:8], np.full(11, 2)]), 7)),
    "gather and scatter": Case("""
        %i = arith.constant dense<[3, 1, 4, 0, 5, 9, 2, 6, 33, 15, 8, 7, 30, 31, 32, 29]> : vector<16xi32>
        %m = vector.create_mask %5 : vector<16xi1>
        %q = arith.constant dense<2.0> : vector<16xf32>
        %v = vector.gather %A[%3, %1, %3] [%i], %m, %q
            : memref<4x20x37xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
        %j = vector.step : vector<16xindex>
        %o = vector.constant_mask [7] : vector<16xi1>
        vector.scatter %C[%0, %1, %3] [%j], %o, %v
            : memref<4x20x37xf32>, vector<16xindex>, vector<16xi1>, vector<16xf32>""",
        lambda a, b, n: _masked(np.concatenate([a[3, 1, [6, 4, 7, 3, 8]], np.full(11, 2)]), 7)),
    "a row": Case("""
        LOAD %v A 8x16
        %r = vector.extract %v[2] : vector<16xf32> from vector<8x16xf32>
        WRITE %r 16""", lambda a, b, n: _at(a, 8, 16)[2]),
    "a row at run time": Case("""
        LOAD %v A 2x4x16
        %r = vector.extract %v[1, %n] : vector<16xf32> from vector<2x4x16xf32>
        WRITE %r 16""", lambda a, b, n: _at(a, 2, 4, 16)[1, n]),
    "a matrix at run time": Case("""
        LOAD %v A 4x4x16
        %r = vector.extract %v[%n] : vector<4x16xf32> from vector<4x4x16xf32>
        WRITE %r 4x16""", lambda a, b, n: _at(a, 4, 4, 16)[n]),
    "an element": Case("""
        LOAD %v A 8x16
        %e = vector.extract %v[2, %n] : f32 from vector<8x16xf32>
        %f = arith.addf %e, %e : f32
        %r = vector.broadcast %f : f32 to vector<8x16xf32>
        WRITE %r 8x16""", lambda a, b, n: np.full((8, 16), 2 * _at(a, 8, 16)[2, n])),
    "rows put in": Case("""
        LOAD %v A 8x16
        LOAD %w B 16
        %x = vector.insert %w, %v[2] : vector<16xf32> into vector<8x16xf32>
        %r = vector.insert %w, %x[%n] : vector<16xf32> into vector<8x16xf32>
        WRITE %r 8x16""", lambda a, b, n: np.stack([_at(b, 16) if row in (2, n) else _at(a, 8, 16)[row]
                                                    for row in range(8)])),
    "elements put in": Case("""
        LOAD %v A 2x4x16
        %q = arith.constant 9.0 : f32
        %x = vector.insert %q, %v[1, 2, 3] : f32 into vector<2x4x16xf32>
        %r = vector.insert %q, %x[0, %n, %5] : f32 into vector<2x4x16xf32>
        WRITE %r 2x4x16""", lambda a, b, n: np.where(
            (np.indices((2, 4, 16)) == np.array([1, 2, 3]).reshape(3, 1, 1, 1)).all(0) |
            (np.indices((2, 4, 16)) == np.array([0, n, 5]).reshape(3, 1, 1, 1)).all(0), 9, _at(a, 2, 4, 16))),
    "parts": Case("""
        LOAD %v A 4x6x16
        LOAD %w B 4x6x16
        %x = vector.extract_strided_slice %v {offsets = [1, 2, 4], sizes = [2, 3, 8], strides = [1, 1, 1]}
            : vector<4x6x16xf32> to vector<2x3x8xf32>
        %y = vector.extract_strided_slice %x {offsets = [1], sizes = [1], strides = [1]}
            : vector<2x3x8xf32> to vector<1x3x8xf32>
        %s = vector.shape_cast %y : vector<1x3x8xf32> to vector<3x8xf32>
        %t = vector.insert_strided_slice %x, %w {offsets = [2, 0, 3], strides = [1, 1, 1]}
            : vector<2x3x8xf32> into vector<4x6x16xf32>
        %r = vector.insert_strided_slice %s, %t {offsets = [0, 3, 1], strides = [1, 1]}
            : vector<3x8xf32> into vector<4x6x16xf32>
        WRITE %r 4x6x16""", lambda a, b, n: _parts(_at(a, 4, 6, 16), _at(b, 4, 6, 16))),
    "shuffle": Case("""
        LOAD %v A 8
        LOAD %w B 8
        %r = vector.shuffle %v, %w [0, 8, 15, 9, 7, 6, 5, 4, 3, 3, 3, 10, 11, 12, 13, 0] : vector<8xf32>, vector<8xf32>
        WRITE %r 16""", lambda a, b, n: np.concatenate([_at(a, 8), _at(b, 8)])[
            [0, 8, 15, 9, 7, 6, 5, 4, 3, 3, 3, 10, 11, 12, 13, 0]]),
    "shuffle of rows": Case("""
        LOAD %v A 2x16
        LOAD %w B 4x16
        %r = vector.shuffle %v, %w [5, 0, 2, 1] : vector<2x16xf32>, vector<4x16xf32>
        WRITE %r 4x16""", lambda a, b, n: np.concatenate([_at(a, 2, 16), _at(b, 4, 16)])[[5, 0, 2, 1]]),
    "interleave": Case("""
        LOAD %v A 3x8
        LOAD %w B 3x8
        %x = vector.interleave %v, %w : vector<3x8xf32> -> vector<3x16xf32>
        %e, %o = vector.deinterleave %x : vector<3x16xf32> -> vector<3x8xf32>
        %d = arith.subf %e, %o : vector<3x8xf32>
        %r = vector.interleave %d, %v : vector<3x8xf32> -> vector<3x16xf32>
        WRITE %r 3x16""", lambda a, b, n: np.stack([_at(a, 3, 8) - _at(b, 3, 8), _at(a, 3, 8)], -1).reshape(3, 16)),
    "elements one by one": Case("""
        LOAD %v A 4
        %x:4 = vector.to_elements %v : vector<4xf32>
        %s = arith.addf %x#0, %x#3 : f32
        %r = vector.from_elements %x#3, %s, %x#1, %p : vector<4xf32>
        WRITE %r 4""", lambda a, b, n: np.array([_at(a, 4)[3], _at(a, 4)[0] + _at(a, 4)[3], _at(a, 4)[1], 0])),
    "repeated": Case("""
        LOAD %v A 4x1x16
        LOAD %w B 6x1
        %x = vector.broadcast %v : vector<4x1x16xf32> to vector<4x6x16xf32>
        %y = vector.broadcast %w : vector<6x1xf32> to vector<4x6x16xf32>
        %r = arith.addf %x, %y : vector<4x6x16xf32>
        WRITE %r 4x6x16""", lambda a, b, n: _at(a, 4, 1, 16) + _at(b, 6, 1)),
    "a constant of three dimensions": Case(f"""
        %v = arith.constant dense<{np.arange(12).reshape(2, 3, 2).astype(float).tolist()}> : vector<2x3x2xf32>
        %r = vector.transpose %v, [1, 0, 2] : vector<2x3x2xf32> to vector<3x2x2xf32>
        WRITE %r 3x2x2""", lambda a, b, n: np.arange(12).reshape(2, 3, 2).transpose(1, 0, 2)),
    "outer product": Case("""
        LOAD %v A 8
        LOAD %w B 16
        %x = vector.outerproduct %v, %w : vector<8xf32>, vector<16xf32>
        %y = vector.outerproduct %v, %w, %x {kind = #vector.kind<maximumf>} : vector<8xf32>, vector<16xf32>
        %r = vector.outerproduct %v, %w, %y : vector<8xf32>, vector<16xf32>
        WRITE %r 8x16""", lambda a, b, n: 2 * np.outer(_at(a, 8), _at(b, 16))),
    "a sum carried by a loop": Case("""
        %s = scf.for %i = %0 to %5 step %1 iter_args(%t = %p) -> (f32) {
          %v = vector.load %A[%0, %i, %3] : memref<4x20x37xf32>, vector<16xf32>
          %u = vector.reduction <add>, %v, %t : vector<16xf32> into f32
          scf.yield %u : f32
        }
        memref.store %s, %C[%0, %1, %3] : memref<4x20x37xf32>""", lambda a, b, n: a[0, :5, 3:19].sum().reshape(1)),
    "a batch": Case(f"""
        LOAD %a A 2x8x16
        LOAD %b B 2x16x16
        LOAD %z A 2x8x16
        {_contract(_BATCH, "pppr", "vector<2x8x16xf32>, vector<2x16x16xf32> into vector<2x8x16xf32>")}
        WRITE %r 2x8x16""", lambda a, b, n: _at(a, 2, 8, 16) @ _at(b, 2, 16, 16) + _at(a, 2, 8, 16)),
    "a batch, transposed": Case(f"""
        LOAD %a A 2x16x8
        LOAD %b B 16x2x16
        %z = arith.constant dense<0.0> : vector<16x8x2xf32>
        {_contract(("(b, m, n, k) -> (b, k, m)", "(b, m, n, k) -> (n, b, k)", "(b, m, n, k) -> (n, m, b)"), "pppr",
                   "vector<2x16x8xf32>, vector<16x2x16xf32> into vector<16x8x2xf32>")}
        %s = vector.transpose %r, [2, 1, 0] : vector<16x8x2xf32> to vector<2x8x16xf32>
        WRITE %s 2x8x16""".replace("LOAD %b B 16x2x16", """
        %b0 = vector.transfer_read %B[%0, %1, %3], %p {permutation_map = affine_map<(x, y, z) -> (y, x, z)>}
            : memref<4x20x37xf32>, vector<16x2x16xf32>
        %b = arith.addf %b0, %b0 : vector<16x2x16xf32>"""),
        lambda a, b, n: 2 * np.einsum("bkm,bnk->bmn", _at(a, 2, 16, 8), _at(b, 2, 16, 16))),
    "a matrix by a vector": Case(f"""
        LOAD %a A 8x16
        LOAD %b B 16
        LOAD %z B 8
        {_contract(("(m, k) -> (m, k)", "(m, k) -> (k)", "(m, k) -> (m)"), "pr",
                   "vector<8x16xf32>, vector<16xf32> into vector<8xf32>")}
        WRITE %r 8""", lambda a, b, n: _at(a, 8, 16) @ _at(b, 16) + _at(b, 8)),
    "a vector by a matrix": Case(f"""
        LOAD %a A 16
        LOAD %b B 16x16
        LOAD %z B 16
        {_contract(("(n, k) -> (k)", "(n, k) -> (k, n)", "(n, k) -> (n)"), "pr",
                   "vector<16xf32>, vector<16x16xf32> into vector<16xf32>")}
        WRITE %r 16""", lambda a, b, n: _at(a, 16) @ _at(b, 16, 16) + _at(b, 16)),
    "a dot product": Case(f"""
        LOAD %a A 16
        LOAD %b B 16
        %z = arith.constant 5.0 : f32
        {_contract(("(k) -> (k)", "(k) -> (k)", "(k) -> ()"), "r", "vector<16xf32>, vector<16xf32> into f32")}
        %s = vector.broadcast %r : f32 to vector<8xf32>
        WRITE %s 8""", lambda a, b, n: np.full(8, _at(a, 16) @ _at(b, 16) + 5)),
    "two sums": Case(f"""
        LOAD %a A 8x2x16
        %b = vector.load %B[%0, %1, %3] : memref<4x20x37xf32>, vector<2x16x16xf32>
        %z = arith.constant dense<0.0> : vector<8x16xf32>
        {_contract(("(m, n, j, k) -> (m, j, k)", "(m, n, j, k) -> (j, k, n)", "(m, n, j, k) -> (m, n)"), "pprr",
                   "vector<8x2x16xf32>, vector<2x16x16xf32> into vector<8x16xf32>")}
        WRITE %r 8x16""".replace("LOAD %a A 8x2x16", """
        %a = vector.transfer_read %A[%0, %1, %3], %p {permutation_map = affine_map<(x, y, z) -> (y, x, z)>}
            : memref<4x20x37xf32>, vector<8x2x16xf32>"""),
        lambda a, b, n: np.einsum("jmk,jkn->mn", _at(a, 2, 8, 16), _at(b, 2, 16, 16))),
    "a batch of bf16": Case(f"""
        LOAD %a A 2x8x16
        LOAD %b B 2x16x16
        %z = arith.constant dense<1.0> : vector<2x8x16xf32>
        {_contract(_BATCH, "pppr", "vector<2x8x16xbf16>, vector<2x16x16xbf16> into vector<2x8x16xf32>")}
        WRITE %r 2x8x16""", lambda a, b, n: _at(a, 2, 8, 16) @ _at(b, 2, 16, 16) + 1, "bf16", "f32"),
    "a matrix of bf16 by a vector": Case(f"""
        LOAD %a A 8x16
        LOAD %b B 16
        %z = arith.constant dense<1.0> : vector<8xf32>
        {_contract(("(m, k) -> (m, k)", "(m, k) -> (k)", "(m, k) -> (m)"), "pr",
                   "vector<8x16xbf16>, vector<16xbf16> into vector<8xf32>")}
        WRITE %r 8""", lambda a, b, n: _at(a, 8, 16) @ _at(b, 16) + 1, "bf16", "f32"),
}


CASES["factors of sums that are extended"] = Case(f"""
    LOAD %v A 8x32
    LOAD %w B 32x16
    %a = arith.extsi %v : vector<8x32xi8> to vector<8x32xi32>
    %b = arith.extsi %w : vector<32x16xi8> to vector<32x16xi32>
    %z = arith.constant dense<3> : vector<8x16xi32>
    {_contract(("(m, n, k) -> (m, k)", "(m, n, k) -> (k, n)", "(m, n, k) -> (m, n)"), "ppr",
               "vector<8x32xi32>, vector<32x16xi32> into vector<8x16xi32>")}
    WRITE %r 8x16""".replace("LOAD %w B 32x16", """
    %w = vector.transfer_read %B[%0, %1, %3], %p {permutation_map = affine_map<(x, y, z) -> (z, y)>}
        : memref<4x20x37xi8>, vector<32x16xi8>"""),
    lambda a, b, n: _at(a, 8, 32) @ _at(b, 16, 32).T + 3, "i8", "i32")
CASES["a masked read, transposed, that passes through"] = Case("""
    LOAD %w B 16x16
    %m = vector.create_mask %5, %n : vector<16x16xi1>
    %r = vector.mask %m, %w { vector.transfer_read %A[%0, %1, %3], %p
        {permutation_map = affine_map<(x, y, z) -> (z, y)>} :
        memref<4x20x37xf32>, vector<16x16xf32> } : vector<16x16xi1> -> vector<16x16xf32>
    WRITE %r 16x16""", lambda a, b, n: np.where(
        (np.indices((16, 16)) < np.array([n, 5]).reshape(2, 1, 1)).all(0), _at(a, 16, 16).T, _at(b, 16, 16)))
CASES["a position at run time"] = Case("""
    %s = vector.step : vector<16xindex>
    %c = vector.broadcast %s : vector<16xindex> to vector<4x16xindex>
    %o = arith.constant dense<[[1], [2], [3], [-4]]> : vector<4x1xindex>
    %d = vector.broadcast %o : vector<4x1xindex> to vector<4x16xindex>
    %x = arith.muli %c, %d : vector<4x16xindex>
    %e = vector.extract %x[%n] : vector<16xindex> from vector<4x16xindex>
    %r = arith.index_cast %e : vector<16xindex> to vector<16xi32>
    WRITE %r 16""", lambda a, b, n: -4 * np.arange(16), "i32")
CASES["few sums, few columns"] = Case(f"""
    LOAD %a A 2x8x4
    LOAD %b B 2x4x8
    LOAD %z A 2x8x8
    {_contract(_BATCH, "pppr", "vector<2x8x4xf32>, vector<2x4x8xf32> into vector<2x8x8xf32>")}
    WRITE %r 2x8x8""", lambda a, b, n: _at(a, 2, 8, 4) @ _at(b, 2, 4, 8) + _at(a, 2, 8, 8))
CASES["a masked read of a view"] = Case("""
    %s = memref.subview %A[1, %n, 2] [1, %n, %5] [1, 1, 1]
        : memref<4x20x37xf32> to memref<?x?xf32, strided<[37, 1], offset: ?>>
    %m = vector.create_mask %n, %5 : vector<8x16xi1>
    %v = vector.mask %m { vector.transfer_read %s[%0, %0], %p {in_bounds = [true, true]}
        : memref<?x?xf32, strided<[37, 1], offset: ?>>, vector<8x16xf32> } : vector<8x16xi1> -> vector<8x16xf32>
    WRITE %v 8x16""", lambda a, b, n: np.nan_to_num(_masked(a[1, n:n + 8, 2:18], n, 5)))


def _parts(a: Array, b: Array) -> Array:
    x, r = a[1:3, 2:5, 4:12], b.copy()
    r[2:4, 0:3, 3:11] = x
    r[0, 3:6, 1:9] = x[1]
    return r


for _kind, _function in (("add", np.add), ("mul", np.multiply), ("minimumf", np.minimum), ("maxnumf", np.maximum)):
    for _axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        _left = [size for axis, size in enumerate((2, 3, 16)) if axis not in _axes]
        _shape = "x".join(map(str, _left))
        _end = f"""
        %z = arith.constant dense<1.0> : vector<{_shape}xf32>
        %r = vector.multi_reduction <{_kind}>, %v, %z {list(_axes)} : vector<2x3x16xf32> to vector<{_shape}xf32>
        WRITE %r {_shape}""" if _left else f"""
        %o = arith.constant 1.0 : f32
        %s = vector.multi_reduction <{_kind}>, %v, %o {list(_axes)} : vector<2x3x16xf32> to f32
        %r = vector.broadcast %s : f32 to vector<4xf32>
        WRITE %r 4"""
        CASES[f"{_kind} along {_axes}"] = Case("LOAD %w A 2x3x16\n" + """
        %c = arith.constant dense<2.0> : vector<2x3x16xf32>
        %d = arith.constant dense<-2.0> : vector<2x3x16xf32>
        %x = arith.minimumf %w, %c : vector<2x3x16xf32>
        %v = arith.maximumf %x, %d : vector<2x3x16xf32>
        """ .replace("%c =", "%c =") + _end,
            lambda a, b, n, function=_function, axes=_axes: np.broadcast_to(function(
                np.asarray(function.reduce(np.clip(_at(a, 2, 3, 16), -2, 2), axis=axes)), 1),
                (4,) if len(axes) == 3 else [size for axis, size in enumerate((2, 3, 16)) if axis not in axes]))

for _order in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)):
    _sizes = "x".join(str((3, 4, 16)[axis]) for axis in _order)
    _back = [_order.index(axis) for axis in range(3)]
    CASES[f"transpose {_order}"] = Case(f"""
        LOAD %v A 3x4x16
        %t = vector.transpose %v, {list(_order)} : vector<3x4x16xf32> to vector<{_sizes}xf32>
        %i = vector.shape_cast %t : vector<{_sizes}xf32> to vector<4x3x16xf32>
        WRITE %i 4x3x16""", lambda a, b, n, order=_order: _at(a, 3, 4, 16).transpose(order).reshape(4, 3, 16))

for _kind, _function in (("minsi", np.any), ("maxsi", np.all), ("minui", np.all), ("maxui", np.any)):
    CASES[f"masked {_kind} of truth values"] = Case(f"""
        LOAD %v A 8x16
        LOAD %w B 8x16
        %m = vector.create_mask %5, %n : vector<8x16xi1>
        %x = arith.cmpi sgt, %v, %w : vector<8x16xi32>
        %z = vector.constant_mask [{8 if _function is np.all else 0}] : vector<8xi1>
        %y = vector.mask %m {{ vector.multi_reduction <{_kind}>, %x, %z [1] : vector<8x16xi1> to vector<8xi1> }}
            : vector<8x16xi1> -> vector<8xi1>
        %r = arith.extui %y : vector<8xi1> to vector<8xi32>
        WRITE %r 8""", lambda a, b, n, function=_function: np.append(
            function((_at(a, 8, 16) > _at(b, 8, 16))[:5, :n], axis=1), [function is np.all] * 3), "i32")

for _element in ("f16", "bf16", "i16", "i8", "i32"):
    CASES[f"moves of {_element}"] = Case(f"""
        LOAD %v A 2x4x16
        LOAD %w B 16
        %e = vector.extract %v[1, %n] : vector<16x{_element}> from vector<2x4x16x{_element}>
        %x = vector.insert %w, %v[0, %n] : vector<16x{_element}> into vector<2x4x16x{_element}>
        %y = vector.insert %e, %x[1, 0] : vector<16x{_element}> into vector<2x4x16x{_element}>
        %r = vector.transpose %y, [1, 0, 2] : vector<2x4x16x{_element}> to vector<4x2x16x{_element}>
        WRITE %r 4x2x16""", lambda a, b, n: np.stack([np.stack([
            _at(b, 16) if row == n else _at(a, 2, 4, 16)[0, row],
            _at(a, 2, 4, 16)[1, n] if row == 0 else _at(a, 2, 4, 16)[1, row]]) for row in range(4)]), _element)


@pytest.mark.parametrize("execution", HERE, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_in_numpy(name: str, execution: Execution) -> None:
    kernel = execution.bind(xt.parse(CASES[name].text())["kernel"])
    CASES[name].check(kernel[1,])


@pytest.mark.parametrize(("name", "execution"), [
    (name, (PVC, BMG, DG2, CPU)[position % 4]) for position, name in enumerate(CASES)], ids=str)
def test_on_the_device(name: str, execution: Execution) -> None:
    kernel = execution.bind(xt.parse(CASES[name].text())["kernel"])
    CASES[name].check(kernel[1,])


@pytest.mark.parametrize("passes", [["--mlir-print-op-generic"], ["--canonicalize", "--cse"]], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_as_mlir_opt_prints_it(name: str, passes: list[str]) -> None:
    done = subprocess.run([require_mlir_opt(), *passes], input=CASES[name].text(), text=True, capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    CASES[name].check(NUMPY.bind(xt.parse(done.stdout)["kernel"])[1,])


@pytest.mark.parametrize("name", CASES)
def test_goes_round(name: str) -> None:
    module = xt.parse(CASES[name].text())
    again = xt.parse(str(module))
    assert str(again) == str(module)
    CASES[name].check(NUMPY.bind(again["kernel"])[1,])


def test_hundreds_of_parts() -> None:
    """The map of a vector that is filled row by row is no recursion along its rows."""
    lines = [f"%r{row + 1} = vector.insert %w, %r{row}[{row % 8}] : vector<16xf32> into vector<8x16xf32>"
             for row in range(300)]
    case = Case("LOAD %r0 A 8x16\nLOAD %w B 16\n" + "\n".join(lines) + "\nWRITE %r300 8x16",
                lambda a, b, n: np.tile(_at(b, 16), (8, 1)))
    case.check(LANES[0].bind(xt.parse(case.text())["kernel"])[1,])


MISTAKES = {
    "insert behind the end": ("%x = vector.insert %p, %v[0, 20] : f32 into vector<8x16xf32>", "XT2001"),
    "another dialect": ("%x = affine.apply affine_map<(d0) -> (d0 + 1)>(%n)", "XT2006"),
    "a condition of an element": ("%e = vector.extract %v[1, 2] : f32 from vector<8x16xf32>\n"
                                  "%b = arith.cmpf ogt, %e, %p : f32\nscf.if %b { }", "XT2620"),
    "an index of an element": ("%e = vector.extract %v[1, 2] : f32 from vector<8x16xf32>\n"
                               "%i = arith.fptosi %e : f32 to i32\n%j = arith.index_cast %i : i32 to index\n"
                               "%w = vector.load %B[%0, %0, %j] : memref<4x20x37xf32>, vector<16xf32>", "XT2620"),
    "a reduction that passes through": (
        "%z = arith.constant dense<0.0> : vector<16xf32>\n%m = vector.constant_mask [2, 3] : vector<8x16xi1>\n"
        "%x = vector.mask %m, %z { vector.multi_reduction <add>, %v, %z [0] : vector<8x16xf32> to vector<16xf32> } "
        ": vector<8x16xi1> -> vector<16xf32>", "XT2351"),
    "a vector of scalable size": ("%x = vector.broadcast %p : f32 to vector<[4]xf32>", "XT2059"),
    "an XeGPU block beside transfers": (
        "%m = memref.subview %B[0, 0, 0] [1, 20, 37] [1, 1, 1] : memref<4x20x37xf32> to memref<20x37xf32>\n"
        "%d = xegpu.create_nd_tdesc %m, [%0, %0] : memref<20x37xf32> -> !xegpu.tensor_desc<8x16xf32>\n"
        "%x = xegpu.load_nd %d : !xegpu.tensor_desc<8x16xf32> -> vector<8x16xf32>", "XT2012"),
    "another permutation": ("%x = vector.transpose %v, [0, 0] : vector<8x16xf32> to vector<8x8xf32>", "XT3223"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    body, code = MISTAKES[name]
    with pytest.raises(xt.XeError) as error:
        xt.parse(Case(f"LOAD %v A 8x16\n{body}", lambda a, b, n: a).text())
    assert error.value.code == code
    if name == "another dialect":
        assert "--lower-affine" in str(error.value)


@pytest.mark.parametrize(("mask", "whole"), [
    ("vector.create_mask %8, %20 : vector<8x16xi1>", True), ("vector.constant_mask [8, 16] : vector<8x16xi1>", True),
    ("arith.constant dense<true> : vector<8x16xi1>", True), ("vector.constant_mask [8, 15] : vector<8x16xi1>", False),
    ("vector.create_mask %8, %n : vector<8x16xi1>", False), ("vector.create_mask %5, %20 : vector<8x16xi1>", False)])
def test_masks_of_all_elements(mask: str, whole: bool) -> None:
    """A write with a mask that is known to be true is a tile store."""
    kernel = xt.parse(Case(f"""
        LOAD %v A 8x16
        %8 = arith.constant 8 : index
        %20 = arith.constant 20 : index
        %m = {mask}
        vector.transfer_write %v, %C[%0, %1, %3], %m : vector<8x16xf32>, memref<4x20x37xf32>""",
        lambda a, b, n: a).text())["kernel"]
    array = xt.Spec((4, 20, 37), "f32")
    stage = kernel.lower(array, array, array, 3, target="pvc").stages["lower-supervector"]
    assert ("store_tile" in stage, "store_scatter" in stage) == (whole, not whole)


WITHOUT_DIMENSIONS = """
func.func @kernel(%A: memref<f32>, %B: memref<16xf32>) {
  %0 = arith.constant 0 : index
  %z = arith.constant 0.0 : f32
  %v = vector.transfer_read %B[%0], %z : memref<16xf32>, vector<16xf32>
  %s = vector.transfer_read %A[], %z : memref<f32>, vector<f32>
  %e = vector.extract %s[] : f32 from vector<f32>
  %r = vector.reduction <add>, %v, %e : vector<16xf32> into f32
  %w = vector.broadcast %r : f32 to vector<f32>
  vector.transfer_write %w, %A[] : vector<f32>, memref<f32>
  return
}
"""


@pytest.mark.parametrize("execution", [*HERE, PVC], ids=str)
def test_memory_without_dimensions(execution: Execution) -> None:
    a, b = np.array(5, np.float32), np.arange(16, dtype=np.float32)
    execution.bind(xt.parse(WITHOUT_DIMENSIONS)["kernel"])[1,](a, b)
    assert a == 5 + b.sum()


def test_a_vector_among_the_arguments() -> None:
    """It is no kernel that a launch could call, and is read as any other."""
    text = str(xt.parse("func.func @f(%v: vector<2x3x16xf32>, %C: memref<3x2x16xf32>) {\n"
                        "  %0 = arith.constant 0 : index\n"
                        "  %s = vector.transpose %v, [1, 0, 2] : vector<2x3x16xf32> to vector<3x2x16xf32>\n"
                        "  vector.store %s, %C[%0, %0, %0] : memref<3x2x16xf32>, vector<3x2x16xf32>\n  return\n}"))
    assert "%v: vector<2x3x16xf32>" in text
    assert str(xt.parse(text)) == text
