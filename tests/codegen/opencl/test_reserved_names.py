"""Reserved names: the table, and kernels, arguments and variables that are called so."""

from __future__ import annotations

import ast
import keyword
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import codegen
import xetile as xt
from codegen.opencl import prelude, reserved_names
from codegen.opencl.reserved_names import is_reserved
from codegen.toolchain.sycl import compile_sycl
from tests.conftest import require_device, require_ocloc, require_sycl_compiler, unavailable
from tests.kernels import DEVICE, LANES, NUMPY, Execution
from xetile.compiler.compiled import CompiledKernel

pytestmark = pytest.mark.unoptimised

CODEGEN = Path(codegen.__file__).parent
_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|^ *# *pragma[^\n]*', re.DOTALL | re.MULTILINE)
_CALLED = r"(?<![\w.])([A-Za-z]\w*)\("


# The table


def test_the_builtins_of_opencl_c_are_reserved() -> None:
    """Declarations of clang's own headers for OpenCL C; they come with Intel's packages for the CPU device."""
    headers = sorted(Path(sys.prefix).glob("lib/clang/*/include/opencl-c*.h"))
    if not headers:
        unavailable("no opencl-c.h is installed")
    text = "".join(_NOT_CODE.sub(" ", header.read_text()) for header in headers)
    text = re.sub(r"__attribute__\(\(.*?\)\)+|^ *# *(?:if|elif)[^\n]*", "", text, flags=re.MULTILINE)
    declared = {*re.findall(r"\b(\w+) ?\(", text), *re.findall(r"#define +(\w+)", text), *re.findall(r"(\w+) *;", text)}
    names = {name for name in declared if not re.match(r"\d|amd_|arm_", name)}  # of extensions that Intel has not
    assert len(names) > 1000  # attributes, words of the preprocessor and fields of structs are among them
    assert not {name for name in names if not is_reserved(name)} - {"defined", "deprecated", "workDimension"}


def test_what_the_prelude_and_the_sycl_header_define_is_reserved() -> None:
    preludes = [path.read_text() for path in sorted(CODEGEN.rglob("*.cl"))]
    (header,) = [path.read_text() for path in CODEGEN.rglob("opencl.hpp")]
    assert len(preludes) > 5
    code = _NOT_CODE.sub(" ", "\n".join([*preludes, header]))
    parameters = {name for names in re.findall(r"#define \w+\(([^)]*)\)", code) for name in re.findall(r"\w+", names)}
    defined = {name for pattern in (r"#define (\w+)", r"^(?:\w[\w ]*[ *])?(\w+)\(",
                                    r"^(?:template <[^\n]*> )?(?:struct|using|namespace|constexpr \w+) (\w+)")
               for name in re.findall(pattern, code, re.MULTILINE)}
    assert {"prelude_byte", "XETILE_GLOBAL", "clamp", "vector_of"} <= defined
    assert not {name for name in defined - parameters if not is_reserved(name)}
    assert all(map(is_reserved, prelude.emulated_builtins()))


def _texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module, docstrings aside; what is formatted into one is a null character there."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in documented | inner:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _plain(text: str) -> str:
    """A text without attributes and pragmas, whose words are no names."""
    return re.sub(r"__attribute__\(\(.*?\)\)|#pragma[^\n]*", "", text)


def test_what_the_rules_call_is_reserved() -> None:
    """Each name with a parenthesis behind it in a string of the emitter, whatever operation brings it into a text."""
    called: dict[str, str] = {}
    for path in sorted({*(CODEGEN / "opencl").rglob("*.py")} - {Path(reserved_names.__file__), Path(prelude.__file__)}):
        strings = _texts(ast.parse(path.read_text()))
        called.update({name: path.name for text in strings for name in re.findall(_CALLED, _plain(text))})
    assert {"get_group_id", "sub_group_broadcast", "as_int", "printf", "atomic_cmpxchg"} <= called.keys()
    # variables of inline vISA, a hint, and a regular expression
    others = {"PAIRS", "ADDRESS", "AT", "MM", "RUN", "WORDS", "ZEROS", "OF_ALL", "EIGHTHS", "SIXTEENTHS",
              *"ABDEFHIKLMOPQRSTUVWXYZb", "DU", "FU", "TU", "breakpoint"}
    assert not {name: file for name, file in called.items() if not is_reserved(name) and name not in others}


@pytest.mark.parametrize("name", ["expo", "floats", "float5", "steps", "A", "x", "launcher", "maximum", "M", "gemm",
                                  "atomic_histogram", "half_size", "get_rows", "M_tiles", "convert_weights", "data_t"])
def test_other_names_stay(name: str) -> None:
    assert not is_reserved(name)


# Kernels with such names


def _make(kernel: str, arguments: list[str], counter: str = "i", carried: str = "total") -> Any:
    """A kernel that adds up functions of a tile and products of it with its arguments, ``count`` times in a loop."""
    source = f"""
def {kernel}(X, Y, count, {', '.join(arguments)}):
    t = xt.load_tile(xt.init_tile(X, (0, 0), (8, 16)))
    {carried} = t * 0.0
    for {counter} in xt.range(count):
        {carried} = {carried} + xt.exp(t) * xt.log(t) + xt.sqrt(t) * xt.floor(t) - xt.rsqrt(t)
        {carried} = xt.maximum(xt.minimum({carried}, 1.0e6), xt.abs(t)) + xt.tanh(t)
        {carried} = {carried} + t * ({' + '.join(f'{name} * {i}.0' for i, name in enumerate(arguments, 1))})
    xt.store_tile({carried}, xt.init_tile(Y, (0, 0), (8, 16)))
"""
    file = f"<{kernel} {counter} {carried} {arguments[0]}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    found: dict[str, Any] = {"xt": xt}
    exec(compile(source, file, "exec"), found)
    return xt.kernel(found[kernel])


X = np.random.default_rng(5).uniform(0.5, 2, (8, 16)).astype(np.float32)


def _expected(numbers: list[float]) -> Any:
    t, total = X.astype(np.float64), 0 * X.astype(np.float64)
    for _ in range(2):
        total = total + np.exp(t) * np.log(t) + np.sqrt(t) * np.floor(t) - 1 / np.sqrt(t)
        total = np.maximum(np.minimum(total, 1e6), np.abs(t)) + np.tanh(t)
        total = total + t * sum(number * i for i, number in enumerate(numbers, 1))
    return total


def _check(kernel: Any, numbers: list[float]) -> None:
    y = np.zeros_like(X)
    kernel[1](X, y, 2, *numbers)
    np.testing.assert_allclose(y, _expected(numbers), rtol=2e-5)


def _words() -> list[str]:
    """Reserved names that Python takes as names of variables, in the table's order; one of each family."""
    table = (reserved_names.KEYWORDS, reserved_names.CPLUSPLUS, reserved_names.RULES, reserved_names.OTHERS)
    families = {"float4", "as_int", "convert_float4", "native_exp", "vload8", "atomic_add", "intel_sub_group_shuffle",
                "sub_group_broadcast", "get_group_id", "image2d_t", "cl_khr_fp16", "CLK_LOCAL_MEM_FENCE", "NAN", "M_PI",
                "FLT_MAX", "INT_MAX", "prelude_to_bf16", "XETILE_CALL", "memory_order_relaxed", "read_imagef"}
    return sorted(word for word in {*families}.union(*table) if not keyword.iskeyword(word))


CHUNKS = [_words()[start::2] for start in range(2)]
SOME = [NUMPY, LANES[0], DEVICE[0]]


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize("names", CHUNKS, ids=lambda names: names[0])
def test_arguments_with_reserved_names(names: list[str], execution: Execution) -> None:
    assert all(map(is_reserved, names))
    kernel = _make("several", names)
    _check(execution.bind(kernel), [0.5 ** (number % 8) for number in range(len(names))])


@pytest.mark.parametrize("names", CHUNKS, ids=lambda names: names[0])
def test_compilers_take_arguments_with_reserved_names(names: list[str]) -> None:
    require_ocloc()
    require_sycl_compiler()
    low = _lowered(_make("several", names), len(names))
    assert list(low.isa().kernels) == ["several"]
    assert compile_sycl(low.sycl)


def _lowered(kernel: Any, numbers: int) -> CompiledKernel:
    return kernel.lower(X, X, 2, *[1.0] * numbers, target="pvc")  # type: ignore[no-any-return]


KERNELS = ("exp", "max", "log", "float4", "printf", "NAN", "size_t", "launch", "xetile", "sycl", "select", "memcpy",
           "assertions", "lane", "template", "true", "get_group_id", "größe", "β", "_")


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_with_reserved_names(name: str) -> None:
    """And with names that no compiler takes: the number behind them, or letters of ASCII, are in the text alone."""
    require_device()
    kernel = _make(name, ["scale"])
    low = _lowered(kernel, 1)
    assert low.name == name
    assert re.fullmatch(r"[A-Za-z]\w*", low.emitted.name, re.ASCII)
    assert not is_reserved(low.emitted.name)
    _check(DEVICE[-1].bind(kernel), [0.5])


@pytest.mark.parametrize("name", ["exp", "NAN", "xetile", "template", "β"])
def test_sycl_takes_kernels_with_reserved_names(name: str) -> None:
    require_sycl_compiler()
    assert compile_sycl(_lowered(_make(name, ["scale"]), 1).sycl)


@pytest.mark.parametrize("name", ["exp", "größe", "memcpy"])
def test_ocloc_takes_kernels_with_reserved_names(name: str) -> None:
    require_ocloc()
    low = _lowered(_make(name, ["scale"]), 1)
    assert list(low.isa().kernels) == [low.emitted.name]


@pytest.mark.parametrize("execution", SOME, ids=str)
@pytest.mark.parametrize(("counter", "carried"), [("exp", "log"), ("max", "float8"), ("数", "β"), ("lane", "fmin")])
def test_variables_with_reserved_names(counter: str, carried: str, execution: Execution) -> None:
    _check(execution.bind(_make("loops", ["scale"], counter, carried)), [0.25])


def test_names_of_a_text() -> None:
    """MLIR's symbols may be any text, and its values may have names of OpenCL C."""
    require_device()
    text = _lowered(_make("several", ["scale"]), 1).xetile.replace("@several", '@"2 fast-4.x"')
    text = re.sub(r"%(\d+) = math\.(\w+) %(\w+)", r"%\2_\1 = math.\2 %\3", text)
    renamed = set(re.findall(r"%(\w+)_(\d+) = math", text))
    assert {name for name, _ in renamed} >= {"exp", "log", "tanh"}
    for name, number in renamed:
        text = re.sub(rf"%{number}\b", f"%{name}_{number}", text)
    kernel = xt.parse(text)["2 fast-4.x"]
    for execution in SOME:
        _check(execution.bind(kernel), [0.25])


def test_a_taken_name_gets_a_number() -> None:
    """An argument that has it already keeps it."""
    low = _lowered(_make("exp", ["exp1", "min"]), 2)
    assert low.emitted.name == "exp1"
    assert re.search(r"kernel void exp1\(.*, float exp1_1, float min1\)", low.opencl)


# Helper functions of a text


def _helpers(low: CompiledKernel) -> set[str]:
    """Functions that a text defines beside the kernel."""
    return set(re.findall(r"^static [^\n(]*?\b(\w+)\(", low.opencl, re.MULTILINE))


def _product(kernel: str, a: str, row: str) -> Any:
    """A product of an argument, from a row on, whose names are given."""
    source = f"""
def {kernel}({a}, B, C):
    {row} = xt.group_id(0) * 16
    t = xt.tile_mma(xt.load_tile(xt.init_tile({a}, ({row}, 0), (16, 16))),
                    xt.load_tile(xt.init_tile(B, (0, 0), (16, 16))), xt.zeros((16, 16), xt.f32))
    xt.store_tile(t, xt.init_tile(C, ({row}, 0), (16, 16)))
"""
    file = f"<{kernel} {a} {row}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    found: dict[str, Any] = {"xt": xt}
    exec(compile(source, file, "exec"), found)
    return xt.kernel(found[kernel])


@pytest.mark.parametrize("place", range(3), ids=["kernel", "argument", "variable"])
@pytest.mark.parametrize("target", ["dg2", "cpu"])
def test_no_name_hides_a_helper_function(target: str, place: int) -> None:
    """Arguments and variables named like a helper function of the text get another name there."""
    require_device()
    rng = np.random.default_rng(7)
    A, B = (rng.integers(-8, 9, shape).astype(np.float16) for shape in ((45, 13), (13, 15)))
    C, names = np.zeros((45, 15), np.float32), ["product", "A", "row"]
    helper = min(name for name in _helpers(_product(*names).lower(A, B, C, target=target)) if not is_reserved(name))
    names[place] = helper
    kernel = _product(*names)
    assert helper in _helpers(kernel.lower(A, B, C, target=target))
    kernel.on(DEVICE[0].where, target=target)[3](A, B, C)
    np.testing.assert_array_equal(C, A.astype(np.float32) @ B.astype(np.float32))
