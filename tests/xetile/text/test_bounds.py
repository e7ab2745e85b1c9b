"""Texts that inflate are refused at once: very many lines, long constants, branches that share their blocks."""

from __future__ import annotations

import random
import time

import pytest

import xetile as xt


def kernel(lines: str) -> str:
    return f"func.func @f(%A: memref<64x64xf32>) {{\n{lines}\n  func.return\n}}\n"


def constant(rows: int, columns: int) -> str:
    """A constant without a pattern; of one row it has one dimension."""
    rng = random.Random(1)
    lines = [", ".join(str(rng.randrange(1000)) for _ in range(columns)) for _ in range(rows)]
    elements, shape = (lines[0], str(columns)) if rows == 1 else (", ".join(f"[{line}]" for line in lines),
                                                                  f"{rows}x{columns}")
    return f"%c = arith.constant dense<[{elements}]> : vector<{shape}xi32>"


def diamonds(count: int) -> str:
    """Blocks that go to the next or to the one behind it, so that each is shared by two: copies double and redouble."""
    blocks = "".join(f"^b{i}:\n  cf.cond_br %p, ^b{i + 1}, ^b{i + 2}\n" for i in range(count))
    return f"%p = arith.constant true\ncf.br ^b0\n{blocks}^b{count}:\n  cf.br ^b{count + 1}\n^b{count + 1}:"


TEXTS = {
    "lines": (kernel("\n".join(f"%x{i} = arith.constant {i} : index" for i in range(100_000))), "XT2079"),
    "functions": ("".join(f"func.func @f{i}() {{\n  func.return\n}}\n" for i in range(20_000)), "XT2079"),
    "elements": (kernel(constant(1, 200_000)), "XT2074"),
    "selections": (kernel(constant(1, 2000)), "XT2072"),
    "selections in LLVM's form": (
        "gpu.module @m { gpu.func @f(%A: memref<64x64xf32>) kernel {\n" + constant(1, 2000) +
        "\n%a = xegpu.create_nd_tdesc %A : memref<64x64xf32> -> !xegpu.tensor_desc<8x16xf32>\ngpu.return } }",
        "XT2072"),
    "selections in XeGPU": (kernel(
        "%c0 = arith.constant 0 : index\n%a = xegpu.create_nd_tdesc %A, [%c0, %c0] : memref<64x64xf32> -> "
        "!xegpu.tensor_desc<8x16xf32>\n" + constant(16, 128)), "XT2072"),
    "shared blocks": (kernel(diamonds(40)), "XT2603"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_they_are_refused_at_once(name: str) -> None:
    text, code = TEXTS[name]
    before = time.process_time()
    with pytest.raises(xt.XeError) as caught:
        xt.parse(text)
    assert caught.value.code == code
    assert caught.value.location is not None
    assert time.process_time() - before < 5


def test_comments_are_no_lines() -> None:
    before = time.process_time()
    assert "f" in xt.parse(kernel("  // nothing\n" * 40_000))
    assert time.process_time() - before < 5  # a tenth; a time that grows with the square of the lines would be 17 s
