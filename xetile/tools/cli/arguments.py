"""Kernel arguments: arrays, views, scalars, from words of the command line.

4096x4096xbf16      an array by its type, without data; ? is a size known at run time
?x?xf16@1x?         the same with strides, in elements
a.npy  a.npy:bf16   the array in a file, or viewed as another type of the same size
random:64x32:bf16   random numbers;  zeros:64x32:f32  zeros
7  0.5              a number
"""

from __future__ import annotations

import ast
import re
from argparse import ArgumentParser
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.ir.memref import static_form
from xegpu.support.errors import ArgumentError, XeError
from xegpu.target.targets import TARGETS
from xetile.compiler.arguments import Spec, TypedView
from xetile.jit.base import BaseKernel
from xetile.jit.parsed import ParsedKernel

_SHAPED = re.compile(r"((?:(?:\d+|\?)x)+)(\w+)(?:@((?:\d+|\?)(?:x(?:\d+|\?))*))?")
_GENERATED = ("random", "zeros")


def add_target(parser: ArgumentParser) -> None:
    """Add ``--target``."""
    parser.add_argument("--target", choices=TARGETS, help="the device that code is generated for")


def add_operands(parser: ArgumentParser, what: str) -> None:
    """Add ``--arg`` and ``--constant``."""
    parser.add_argument("--arg", action="append", default=[], metavar="ARGUMENT", dest="operands",
                        help=f"one for each run-time argument, in order: {what}")
    parser.add_argument("--constant", action="append", default=[], metavar="NAME=VALUE",
                        help="a compile-time constant, such as BM=128, sg=(4,4) or acc=f32")


def constants_of(words: Sequence[str]) -> dict[str, Any]:
    """Constants from words ``NAME=VALUE``: Python literals, or names of element types.

    Raises:
        ArgumentError: a word is not of that form.
    """
    found: dict[str, Any] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name.isidentifier():
            raise ArgumentError("XT8020", f"--constant {word} names no value", "write --constant BM=128")
        found[name] = _literal(name, value)
    return found


def _literal(name: str, value: str) -> Any:
    if value in dtypes.BY_NAME:
        return dtypes.BY_NAME[value]
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        raise ArgumentError("XT8021", f"--constant {name}={value} is neither a Python literal nor an element type",
                            f'write a number, a tuple such as {name}=(4,4), a text such as {name}="a", or an element '
                            "type such as f32") from None


def misses_file(command: str, hint: str, named: int = 0) -> ArgumentError:
    """Error for a command whose words name no file, or several where it reads one."""
    return ArgumentError("XT8010", f"{command} reads a file, and {f'{named} are' if named else 'none is'} named",
                         f"name one{hint}")


def undescribed(kernel: BaseKernel, hint: str, missing: str = "their types are not known") -> ArgumentError:
    """Error for a kernel whose argument types nothing says."""
    names = kernel.parameters
    return ArgumentError("XT8022", f"{kernel.name} takes {len(names)} arguments ({', '.join(names)}), and {missing}",
                         hint)


def described(kernel: BaseKernel, words: Sequence[str]) -> list[Any]:
    """Argument types for compilation: those of the words, else those in the signature of a text's kernel.

    Raises:
        ArgumentError: there are no words, and the kernel was written in Python.
    """
    if words or not kernel.parameters:
        return [operand(word, 0) for word in words]
    if isinstance(kernel, ParsedKernel):
        return [_of_type(type_) for type_ in kernel.argument_types]
    raise undescribed(kernel, "describe each: --arg 4096x4096xbf16")


def _of_type(type_: Any) -> Any:
    if not isinstance(type_, MemRefType):
        return 1.0 if of_mlir(type_).is_float else 1
    static = static_form(type_)
    if static is not None:
        return Spec(static[0], of_mlir(type_.element_type), static[1])
    return Spec(tuple(None if size == DYNAMIC_INDEX else size for size in type_.get_shape()),
                of_mlir(type_.element_type))


def operand(word: str, seed: int) -> Any:
    """Argument of one word.

    Args:
        word: one of the forms above.
        seed: for random numbers.

    Raises:
        ArgumentError: it is none of them, or the file cannot be read.
    """
    if found := _SHAPED.fullmatch(word):
        return _spec(word, found)
    head, *rest = word.split(":")
    if head in _GENERATED:
        return _generated(word, head, rest, seed)
    if head.endswith(".npy"):
        return _of_file(head, rest)
    try:
        return int(word) if re.fullmatch(r"[+-]?\d+", word) else float(word)
    except ValueError:
        raise ArgumentError("XT8023", f"--arg {word} is not an argument",
                            "write 64x32xbf16, a.npy, random:64x32:bf16, zeros:64x32:f32 or a number") from None


def _dtype(word: str, name: str) -> DType:
    try:
        return dtypes.of(name)
    except XeError as error:
        raise ArgumentError(error.code, f"--arg {word}: {error.message}", error.hint) from None


def _parsed_sizes(text: str) -> tuple[int | None, ...]:
    return tuple(None if size == "?" else int(size) for size in text.strip("x").split("x"))


def _spec(word: str, found: re.Match[str]) -> Spec:
    shape, strides = _parsed_sizes(found[1]), _parsed_sizes(found[3]) if found[3] else None
    if strides is not None and len(strides) != len(shape):
        raise ArgumentError("XT8024",
                            f"--arg {word} has {len(shape)} sizes and {len(strides)} strides", "give one a dimension")
    return Spec(shape, _dtype(word, found[2]), strides)


def _generated(word: str, kind: str, rest: Sequence[str], seed: int) -> Any:
    if len(rest) != 2 or not re.fullmatch(r"\d+(x\d+)*", rest[0]):
        raise ArgumentError("XT8023", f"--arg {word} has no shape and type", f"write {kind}:64x32:bf16")
    shape, dtype = tuple(int(size) for size in rest[0].split("x")), _dtype(word, rest[1])
    values = np.zeros(shape, dtype.numpy) if kind == "zeros" else _random(shape, dtype, seed)
    return _seen_as(values, dtype)


def _random(shape: tuple[int, ...], dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    """Random array: floats from -1 to 1; integers over the range of the type."""
    generator = np.random.default_rng(seed)
    if dtype.kind in "fs":
        return generator.uniform(-1, 1, shape).astype(dtype.numpy)
    data = generator.integers(0, 256, prod(shape) * dtype.bytes, np.uint8)
    return (data & 1 if dtype is dtypes.i1 else data).view(dtype.numpy).reshape(shape)


def _seen_as(values: np.ndarray[Any, Any], dtype: DType) -> Any:
    """View of an array as an element type that shares its NumPy type with another."""
    return values if dtypes.of(values.dtype) is dtype else TypedView(values, dtype)


def _of_file(path: str, rest: Sequence[str]) -> Any:
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ArgumentError("XT8025", f"{path} cannot be read: {str(error).partition(chr(10))[0]}",
                            "give a file that numpy.save wrote") from None
    if not rest:
        return values
    dtype = _dtype(":".join((path, *rest)), rest[0])
    if values.dtype.itemsize != dtype.bytes:
        raise ArgumentError("XT8026", f"{path} holds {values.dtype}, which is not seen as {dtype}",
                            "choose a type of the same size")
    return _seen_as(values.view(dtype.numpy), dtype)


def array_of(value: Any) -> Any:
    """The NumPy array of an argument, None for numbers."""
    inner = value.array if isinstance(value, TypedView) else value
    return inner if isinstance(inner, np.ndarray) else None
