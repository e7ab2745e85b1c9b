"""Errors of compilers are told at the author's line, with the log in a file."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import xetile as xt
from codegen.toolchain import ocloc
from codegen.toolchain.compile_error import refusal
from tests.conftest import require_device, require_ocloc, require_sycl_compiler

SPEC = xt.Spec((None, None), xt.f32)


@xt.kernel
def doubled(A, C):
    x = xt.load_tile(xt.init_tile(A, (0, 0), (8, 16)))
    x = x * 2.0
    xt.store_tile(x, xt.init_tile(C, (0, 0), (8, 16)))


LINE = next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "x * 2.0" in line)


def check(error: xt.ToolError) -> None:
    text = str(error)
    assert f"(in the code of test_compile_error.py:{LINE}): " in text
    assert "undeclared identifier 'nowhere'" in text
    assert "the compiler's line is `" in text
    found = re.search(r"are in (\S+\.log)", text)
    assert found is not None
    kept = Path(found[1]).read_text()
    assert error.log in kept
    assert "nowhere" in kept.partition("-" * 40)[2]


def broken(target: str) -> str:
    text = doubled.lower(SPEC, SPEC, target=target).opencl
    assert "2.0f" in text
    return text.replace("2.0f", "nowhere", 1)


def test_the_cpu_device(tmp_path: Path) -> None:
    require_device()
    path = tmp_path / "edited.cl"
    path.write_text(broken("cpu"))
    doubled.override("opencl", path)
    a, c = np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)
    with pytest.raises(xt.ToolError) as caught:
        doubled.on("opencl:cpu")[1](a, c)
    check(caught.value)
    assert not c.any()
    doubled.override(None)
    doubled.on("opencl:cpu")[1](a, c)
    np.testing.assert_array_equal(c, 2 * a)


def test_ocloc() -> None:
    require_ocloc()
    with pytest.raises(xt.ToolError) as caught:
        ocloc.compile_device(broken("pvc"), "pvc")
    check(caught.value)


def test_the_sycl_compiler() -> None:
    require_sycl_compiler()
    from codegen.toolchain.sycl import compile_sycl

    text = doubled.lower(SPEC, SPEC, target="pvc").sycl
    with pytest.raises(xt.ToolError) as caught:
        compile_sycl(text.replace("2.0f", "nowhere", 1))
    check(caught.value)


def test_a_log_that_says_no_line() -> None:
    error = refusal("ocloc refused it", "Command was: x\nError: out of memory\n", "text")
    assert "ocloc refused it: Error: out of memory" in str(error)
    assert "the compiler's line" not in str(error)
