"""The index dialect, against Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device

WHERE = ("numpy", "numpy:xegpu", "opencl:cpu")


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "divs": quotient, "rems": lambda a, b: a - b * quotient(a, b),
    "ceildivs": lambda a, b: -(-a // b), "floordivs": lambda a, b: a // b,
    "maxs": max, "mins": min, "shrs": lambda a, b: a >> abs(b), "shl": lambda a, b: a << abs(b),
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "divu": lambda a, b: a // b, "remu": lambda a, b: a % b, "ceildivu": lambda a, b: -(-a // b), "maxu": max,
    "minu": min, "shru": lambda a, b: a >> b,
}
COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b,
    "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
}


def results(lines: str, where: str, a: int, b: int) -> int:
    """Value of ``%r``, an index."""
    if where == "opencl:cpu":
        require_device(where)
    text = f"""func.func @f(%C: memref<8x16xi32>, %a: index, %b: index) {{
  {lines}
  %i = index.casts %r : index to i32
  %v = vector.splat %i : vector<8x16xi32>
  %c0 = index.constant 0
  %t = xetile.init_tile %C[%c0, %c0] : memref<8x16xi32> -> !xetile.tile<8x16xi32>
  xetile.store_tile %v, %t : vector<8x16xi32>, !xetile.tile<8x16xi32>
  return
}}"""
    c = np.zeros((8, 16), np.int32)
    xt.parse(text)["f"].on(where)[1](c, a, b)
    assert (c == c[0, 0]).all()
    return int(c[0, 0])


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", [*BINARY, *UNSIGNED])
def test_binary(name: str, where: str) -> None:
    for a, b in ((7, 3), (23, 5), (4, 4), *(((-7, 3), (7, -3), (-9, -4)) if name in BINARY else ())):
        shift = abs(b) if name in ("shl", "shrs", "shru") else b
        assert results(f"%r = index.{name} %a, %b", where, a, shift) == (BINARY | UNSIGNED)[name](a, b)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("name", COMPARED)
def test_comparisons(name: str, where: str) -> None:
    for a, b in ((3, 7), (7, 3), (-4, -4), (-5, 2)):
        lines = f"""%one = index.constant 1
  %zero = index.constant 0
  %true = index.bool.constant true
  %m = index.cmp {name}(%a, %b)
  %n = arith.andi %m, %true : i1
  %r = arith.select %n, %one, %zero : index"""
        assert results(lines, where, a, b) == COMPARED[name](a, b)


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize(("cast", "want"), [("index.casts", -2), ("index.castu", 254), ("arith.index_castui", 254)])
def test_casts(cast: str, want: int, where: str) -> None:
    lines = f"%n = index.casts %a : index to i8\n%s = {cast} %n : i8 to index\n%r = index.add %s, %b"
    assert results(lines, where, -2, 100) == want + 100


def test_mistakes() -> None:
    for line, code in (("%r = index.cmp lt(%a, %b)", "XT3242"), ("%r = index.addd %a, %b", "XT2006"),
                       ("%r = index.casts %a : index to index", "XT3233"), ("%r = index.add %A, %b", "XT2039")):
        with pytest.raises(xt.TextError, match=code):
            xt.parse(f"func.func @f(%A: memref<8x16xi32>, %a: index, %b: index) {{\n  {line}\n  return\n}}")
