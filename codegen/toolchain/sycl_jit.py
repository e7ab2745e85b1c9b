"""Driver program of the SYCL runtime's compiler, ``libsycl-jit.so``; it runs in a separate process.

    python sycl_jit.py LIBRARY OUTPUT FLAG...  < kernel.cpp

The library's interface is private to the SYCL runtime, and parts of it abort the process on unexpected errors. So
:mod:`codegen.toolchain.sycl` starts this file, which imports only the standard library, and its results are validated.
Tested with intel-sycl-rt 2026.1.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from typing import Any

REFUSED, CHANGED = 65, 66
"""Exit codes: compile error, with the compiler's log on standard error; and a library with another interface."""
_SPIRV_FORMAT = 2
_MOST_BYTES = 1 << 28


class _File(ctypes.Structure):
    """Source file argument of ``compileSYCL`` (private layout of libsycl-jit)."""

    _fields_ = (("path", ctypes.c_char_p), ("contents", ctypes.c_char_p))


class _View(ctypes.Structure):
    """Array view: pointer and length (private layout of libsycl-jit)."""

    _fields_ = (("begin", ctypes.c_void_p), ("size", ctypes.c_size_t))


class Image(ctypes.Structure):
    """Compiled module: format number, address bits, and its bytes (private layout of libsycl-jit)."""

    _fields_ = (("format", ctypes.c_uint64), ("address_bits", ctypes.c_uint64), ("begin", ctypes.c_void_p),
                ("size", ctypes.c_size_t))


class Result(ctypes.Structure):
    """Result of ``compileSYCL``, as far as it is read (private layout of libsycl-jit)."""

    _fields_ = (("error", ctypes.c_uint32), ("padding", ctypes.c_uint32), ("images", ctypes.POINTER(Image)),
                ("image_count", ctypes.c_size_t), ("unused", ctypes.c_uint64 * 3), ("log", ctypes.c_char_p),
                ("rest", ctypes.c_char * 456))


class Refused(Exception):
    """Compile error; the message is the compiler's log."""


class Changed(Exception):
    """The library's interface is not the one that this was written for."""


def compiled(library: Any, text: bytes, flags: list[str]) -> bytes:
    """Compile a C++ file to SPIR-V.

    Raises:
        Refused: a compile error.
        Changed: the result is not that of the known interface.
    """
    try:
        compiler = library.compileSYCL
    except AttributeError as error:
        raise Changed("it has no function compileSYCL") from error
    compiler.restype = Result
    compiler.argtypes = [_File, _View, _View, _View, ctypes.c_bool, ctypes.c_uint32]
    arguments = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
    none, options = _View(None, 0), _View(ctypes.cast(arguments, ctypes.c_void_p), len(flags))
    return _binary(compiler(_File(b"kernel.cpp", text), none, options, none, False, _SPIRV_FORMAT))


def _binary(result: Result) -> bytes:
    if result.error:
        raise Refused((result.log or b"it printed nothing").decode(errors="replace"))
    if result.image_count != 1:
        raise Changed(f"it gave {result.image_count} images instead of one")
    image = result.images[0]
    if image.format != _SPIRV_FORMAT or not image.begin or not 0 < image.size < _MOST_BYTES:
        raise Changed(f"an image of format {image.format} and {image.size} bytes is none that is known")
    return ctypes.string_at(image.begin, image.size)


def main(library: str, output: str, *flags: str) -> int:
    """Compile the standard input and return the exit code."""
    try:
        data = compiled(ctypes.CDLL(library), sys.stdin.buffer.read(), list(flags))
    except Refused as error:
        sys.stderr.write(str(error))
        return REFUSED
    except (Changed, OSError) as error:
        sys.stderr.write(str(error))
        return CHANGED
    Path(output).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
