"""Agreement of executions of a kernel that was read in LLVM's form: NumPy, lowered forms, the device, printed texts."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType, i32

import xetile as xt
from tests.kernels import Execution
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import static_form
from xegpu.support.errors import TargetError, XeError
from xetile.jit.parsed import ParsedKernel

_DYNAMIC, _LARGEST = 64, 1 << 24
"""Size of a dynamic dimension, and elements of the largest array that is made."""
_EXECUTIONS = tuple(Execution(where, "pvc") for where in ("numpy:xegpu", "opencl:cpu"))
_PRINTED = ("xegpu_upstream", "xegpu_upstream_workgroup")
_PASSES = ((), ("--canonicalize", "--cse"))


def comparisons(kernel: ParsedKernel, name: str, mlir_opt: str) -> Iterator[tuple[str, str]]:
    """What was compared with the execution by NumPy, and how it ended: "same", "differs", or a code.

    Args:
        kernel: the kernel; its arguments are arrays, addresses and numbers.
        name: its name in what it prints.
        mlir_opt: LLVM's tool; what is printed passes through it, and through its canonicalization.
    """
    memory = np.random.default_rng(3).integers(0, 7, 1 << 22).astype(np.uint8)  # addresses point into it
    args = [_argument(type_, memory) for type_ in kernel.argument_types]
    if any(arg is None for arg in args):
        return
    try:
        expected = _launched(kernel, Execution("numpy", "pvc"), args)
    except XeError as error:
        yield "numpy", f"[{error.code}]"
        return
    for execution in _EXECUTIONS:
        yield str(execution), _outcome(lambda: _launched(kernel, execution, args), expected)  # noqa: B023
    for form in _PRINTED:
        try:
            printed = getattr(kernel.lower(*args, target="pvc"), form)
        except TargetError:
            continue  # LLVM's form lacks something of it, which the message says
        except XeError as error:  # not lowered, either
            yield form, f"[{error.code}]"
            continue
        for passes in _PASSES:
            done = subprocess.run([mlir_opt, *passes], input=printed, text=True, capture_output=True, check=False)
            what = " ".join((form, *passes))
            if done.returncode:
                yield what, f"refused: {done.stderr.splitlines()[0]}"
                continue
            again = done.stdout if passes else printed
            yield what, _outcome(lambda: _launched(xt.parse(again)[name], Execution("numpy", "pvc"), args),  # noqa: B023
                                 expected)


def _argument(type_: Any, memory: Any) -> Any:
    """Argument of a type with random numbers; None of a vector, or of an array that is too large."""
    if isinstance(type_, IndexType) or type_ == i32:
        return 1
    if isinstance(type_, VectorType):
        return None
    if not isinstance(type_, MemRefType):
        numpy = of_mlir(type_).numpy.type
        return numpy(memory.ctypes.data + memory.size // 4 if np.dtype(numpy).itemsize == 8 else 1)
    shape = [_DYNAMIC if size < 0 else size for size in type_.get_shape()]
    if np.prod(shape) > _LARGEST:
        return None
    dtype, form = of_mlir(type_.element_type), static_form(type_)
    low = 0 if dtype.kind == "u" else -4
    values = np.random.default_rng(len(shape)).integers(low, 5, shape).astype(np.float32).astype(dtype.numpy)
    if form is None or not form[1] or np.ascontiguousarray(values).strides == \
            tuple(step * values.itemsize for step in form[1]):
        return values
    base = np.zeros(1 + sum((size - 1) * step for size, step in zip(shape, form[1], strict=True)), dtype.numpy)
    array = np.ndarray(shape, base.dtype, base, 0, tuple(step * base.itemsize for step in form[1]))
    array[...] = values
    return array


def _launched(kernel: ParsedKernel, execution: Execution, args: list[Any]) -> list[Any]:
    """The arrays after one work-group; integers are given as the kernel's text spells them, signless or unsigned."""
    copies = [_copy(arg) if isinstance(arg, np.ndarray) else arg if isinstance(arg, int) else
              of_mlir(type_).numpy.type(arg) for arg, type_ in zip(args, kernel.argument_types, strict=True)]
    execution.bind(kernel)[1](*copies)
    return [copy for copy in copies if isinstance(copy, np.ndarray)]


def _copy(array: Any) -> Any:
    """Copy of an array with the strides that it has."""
    size = 1 + sum((n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)) // array.itemsize
    copy = np.ndarray(array.shape, array.dtype, np.zeros(size, array.dtype), 0, array.strides)
    copy[...] = array
    return copy


def _outcome(run: Callable[[], list[Any]], expected: list[Any]) -> str:
    """Comparison of a run; floats may differ by what ``exp`` may."""
    try:
        results = run()
    except XeError as error:
        return f"[{error.code}]"
    for result, wanted in zip(results, expected, strict=True):
        if result.dtype.kind in "iub":
            same = np.array_equal(result, wanted)
        else:
            same = np.allclose(result.astype(float), wanted.astype(float), rtol=1e-5, equal_nan=True)
        if not same:
            return "differs"
    return "same"
