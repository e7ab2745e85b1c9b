"""The SYCL compiler inside the pip package intel-sycl-rt, which dpctl needs anyway: C++ in, SPIR-V out.

It is DPC++'s run-time compiler, the library ``libsycl-jit.so``. Its interface is private to the SYCL runtime, so
whatever comes back is looked at before it is believed. Seen working with 2026.1.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import re
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from codegen.prelude import emulated_builtins
from codegen.spirv import entry_points, imports, is_spirv
from xegpu.errors import ToolError

_LIBRARY = "libsycl-jit.so"
_PACKAGE = "intel-sycl-rt"
_HINT = f'install it: pip install "xetile[device]" brings the package {_PACKAGE}'
_SPIRV_FORMAT = 2
_MOST_BYTES = 1 << 28
# Warnings would be about the translation; Intel's builtins are defined elsewhere, on the device.
_FLAGS = ("-DXETILE_KERNEL_ONLY", "-w", "-fsycl-allow-device-image-dependencies")

_one_at_a_time = threading.Lock()


class _File(ctypes.Structure):
    _fields_ = (("path", ctypes.c_char_p), ("contents", ctypes.c_char_p))


class _View(ctypes.Structure):
    _fields_ = (("begin", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Image(ctypes.Structure):
    _fields_ = (("format", ctypes.c_uint64), ("address_bits", ctypes.c_uint64), ("begin", ctypes.c_void_p),
                ("size", ctypes.c_size_t))


class _Result(ctypes.Structure):
    _fields_ = (("error", ctypes.c_uint32), ("padding", ctypes.c_uint32), ("images", ctypes.POINTER(_Image)),
                ("image_count", ctypes.c_size_t), ("unused", ctypes.c_uint64 * 3), ("log", ctypes.c_char_p),
                ("rest", ctypes.c_char * 456))


def find_sycl_compiler() -> Path:
    """The path of the SYCL runtime's compiler.

    Raises:
        ToolError: it is not installed beside this Python.
    """
    try:
        installed = [Path(str(file.locate())).resolve() for file in importlib.metadata.files(_PACKAGE) or []
                     if file.name == _LIBRARY]
    except importlib.metadata.PackageNotFoundError:
        installed = []
    found = next((path for path in (*installed, Path(sys.prefix) / "lib" / _LIBRARY) if path.exists()), None)
    if found is None:
        raise ToolError(f"the SYCL compiler {_LIBRARY} is not installed", _HINT)
    return found


def has_sycl_compiler() -> bool:
    """Whether the SYCL runtime's compiler is here."""
    try:
        return bool(find_sycl_compiler())
    except ToolError:
        return False


@cache
def compile_sycl(text: str, *flags: str) -> bytes:
    """Compiles a kernel that :mod:`codegen.sycl` wrote to SPIR-V. The same text is compiled once a process.

    Args:
        text: the C++ file; its host part is left out.
        flags: options of clang.

    Raises:
        ToolError: the library is missing, or refused the text (``log`` is what it printed), or gave back what it did
            not give when this was written.
    """
    data = _compiled(text, (*_FLAGS, *flags))
    if not is_spirv(data):
        _changed("what came back is no SPIR-V")
    if len(kernels := entry_points(data)) != 1:
        _changed(f"the SPIR-V has {len(kernels)} kernels instead of one")
    if strangers := [name for name in imports(data) if not _is_builtin(name)]:
        # Compilers of devices link such a call to nothing, and say nothing.
        raise ToolError(f"the kernel calls {strangers[0]}, which exists nowhere")
    return data


def _is_builtin(name: str) -> bool:
    """Whether the C++ name of a function is that of one of Intel's builtins, as OpenCL spells its operands."""
    plain = re.match(r"_Z(\d+)", name)
    start = plain.end() if plain else 0
    called = name[start:start + int(plain[1])] if plain else name
    return called in emulated_builtins() and "DF16_" not in name


def _compiled(text: str, flags: tuple[str, ...]) -> bytes:
    compiler = _function()
    arguments = (ctypes.c_char_p * len(flags))(*[flag.encode() for flag in flags])
    none, options = _View(None, 0), _View(ctypes.cast(arguments, ctypes.c_void_p), len(flags))
    with _one_at_a_time:
        result = compiler(_File(b"kernel.cpp", text.encode()), none, options, none, False, _SPIRV_FORMAT)
    if result.error:
        log = (result.log or b"").decode(errors="replace")
        raise ToolError(f"the SYCL compiler failed: {_first_error(log)}", log=log)
    if result.image_count != 1:
        _changed(f"it gave {result.image_count} images instead of one")
    image = result.images[0]
    if image.format != _SPIRV_FORMAT or not image.begin or not 0 < image.size < _MOST_BYTES:
        _changed(f"an image of format {image.format} and {image.size} bytes is none that is known")
    return ctypes.string_at(image.begin, image.size)


@cache
def _function() -> Any:
    path = find_sycl_compiler()
    try:
        compiler = ctypes.CDLL(str(path)).compileSYCL
    except OSError as error:
        raise ToolError(f"the SYCL compiler does not load: {error}", _HINT) from error
    except AttributeError:
        _changed("it has no function compileSYCL")
    compiler.restype = _Result
    compiler.argtypes = [_File, _View, _View, _View, ctypes.c_bool, ctypes.c_uint32]
    return compiler


def _changed(what: str) -> NoReturn:
    raise ToolError(f"the private interface of {_LIBRARY} has changed: {what}",
                    f"xetile was written for {_PACKAGE} 2026.1; install that one")


def _first_error(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror:", line)), lines[0] if lines else "it printed nothing")
