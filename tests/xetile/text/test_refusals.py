"""Texts that no kernel has: each is refused with an XeError, at its line, in bounded time."""

from __future__ import annotations

import pytest

import xetile as xt

HEAD = "func.func @f(%A: memref<64x64xf32>, %n: index, %x: f32, %p: i1) {\n  %c0 = arith.constant 0 : index\n" \
       "  %c1 = arith.constant 1 : index\n"
CASES = {
    "a value above its definition": ("%a = arith.addi %b, %c1 : index\n%b = arith.addi %n, %c1 : index", "XT2005"),
    "a value in its own definition": ("%a = arith.addi %a, %c1 : index", "XT2005"),
    "an iter_arg of itself": ("%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %a) -> (index) "
                              "{ scf.yield %a : index }", "XT2005"),
    "a value of a branch outside": ("scf.if %p {\n %a = arith.addi %n, %c1 : index\n}\n"
                                    "%b = arith.addi %a, %c1 : index", "XT2005"),
    "a branch that yields nothing": ("%r = scf.if %p -> (f32) {\n scf.yield %x : f32\n} else {\n}", "XT2001"),
    "a vector without elements": ("%v = arith.constant dense<0.0> : vector<0x16xf32>", "XT2001"),
    "a position behind a vector": ("%v = arith.constant dense<0.0> : vector<4x8xf32>\n"
                                   "%w = vector.extract %v[4] : vector<8xf32> from vector<4x8xf32>", "XT2001"),
    "a cast of several values": ("%a = builtin.unrealized_conversion_cast %n, %n : index, index to index", "XT2011"),
    "a block without columns": ("%v = arith.constant dense<0.0> : vector<8x16xf32>\n%w = xetile.tile_pack %v "
                                "{inner_blocks = [8, 0]} : vector<8x16xf32> -> vector<1x2x8x8xf32>", "XT2121"),
    "shared memory of 4 TB": ("%s = memref.alloc() : memref<1000000x1000000xf32, 3>", "XT4107"),
    "a string that does not end": ('"' + "a" * 60, "XT2002"),
    "nested brackets": ("%v = arith.constant " + "[" * 3000 + "]" * 3000, "XT2002"),
    "nested types": ("%v = arith.constant dense<0> : " + "vector<" * 3000, "XT2002"),
}


def test_a_text_that_begins_with_a_string_without_an_end() -> None:
    with pytest.raises(xt.XeError):
        xt.parse('"' + "a" * 60)


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str) -> None:
    lines, code = CASES[case]
    with pytest.raises(xt.XeError) as raised:
        xt.parse(f"{HEAD}{lines}\nfunc.return\n}}\n")
    assert raised.value.code == code
