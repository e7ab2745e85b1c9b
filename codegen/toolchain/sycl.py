"""Driver of the SYCL run-time compiler (C++ to SPIR-V) in the pip package intel-sycl-rt, a dependency of dpctl.

It is DPC++'s run-time compiler, the library ``libsycl-jit.so``; :mod:`codegen.toolchain.sycl_jit` calls it in a
separate process.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from codegen.opencl.prelude import emulated_builtins
from codegen.toolchain import disk_cache, sycl_jit
from codegen.toolchain.compile_error import refusal
from codegen.toolchain.process import run_program
from codegen.toolchain.spirv import demangled_name, entry_points, imports, is_spirv
from xegpu.support.errors import ToolError

_LIBRARY = "libsycl-jit.so"
_PACKAGE = "intel-sycl-rt"
_HINT = f'install it: pip install "xetile[device]" brings the package {_PACKAGE}'
_ELSE = "XETILE_SPIRV=ocloc"
_SECONDS = 600  # timeout: a compiler that takes longer hangs
# -w: warnings would be about the translation. Image dependencies: Intel's builtins are resolved on the device.
_FLAGS = ("-DXETILE_KERNEL_ONLY", "-w", "-fsycl-allow-device-image-dependencies")

_LATE = "-fno-sycl-early-optimizations"
"""Leaves LLVM's passes to the device's compiler. Some of them make intrinsics, such as the sum of an integer vector's
elements, that the translation to SPIR-V passes on as functions of such a name."""


def find_sycl_compiler() -> Path:
    """Find the path of the SYCL runtime's compiler.

    Raises:
        ToolError: it is not installed in this Python's environment.
    """
    import importlib.metadata

    try:
        installed = [Path(str(file.locate())).resolve() for file in importlib.metadata.files(_PACKAGE) or []
                     if file.name == _LIBRARY]
    except importlib.metadata.PackageNotFoundError:
        installed = []
    found = next((path for path in (*installed, Path(sys.prefix) / "lib" / _LIBRARY) if path.exists()), None)
    if found is None:
        raise ToolError("XT5130", f"the SYCL compiler {_LIBRARY} is not installed", _HINT)
    return found


def has_sycl_compiler() -> bool:
    """Whether the SYCL runtime's compiler is installed."""
    try:
        return bool(find_sycl_compiler())
    except ToolError:
        return False


def compile_sycl(text: str, *flags: str) -> bytes:
    """Compile a kernel emitted by :mod:`codegen.sycl` to SPIR-V; memoized per process.

    Args:
        text: the C++ file; its host part is left out.
        flags: options of clang.

    Raises:
        ToolError: the library is missing, rejects the text (``log`` is its output), or has another interface.
    """
    return _verified_spirv(find_sycl_compiler(), text, (*_FLAGS, *flags))


@cache
def _verified_spirv(library: Path, text: str, flags: tuple[str, ...]) -> bytes:
    data = disk_cache.get_or_compute("spirv", lambda: (text, *flags, *_identity(library)),
                           lambda: _compiled(library, text, flags))
    if not is_spirv(data):
        raise _changed("what came back is no SPIR-V")
    if len(kernels := entry_points(data)) != 1:
        raise _changed(f"the SPIR-V has {len(kernels)} kernels instead of one")
    strangers = [name for name in imports(data) if not _is_builtin(name)]
    if _LATE not in flags and any(name.startswith("llvm.") for name in strangers):
        return _verified_spirv(library, text, (*flags, _LATE))
    if strangers:
        # Device compilers silently link a call of an undefined function to nothing.
        raise ToolError("XT5131", f"the kernel calls {strangers[0]}, which is not defined anywhere",
                        f"take the other compiler: {_ELSE}")
    return data


def _identity(library: Path) -> tuple[str, str, str]:
    status = library.stat()
    return str(library.resolve()), str(status.st_mtime_ns), str(status.st_size)


def _compiled(library: Path, text: str, flags: tuple[str, ...]) -> bytes:
    with tempfile.TemporaryDirectory(prefix="xetile-") as folder:
        output = Path(folder) / "kernel.spv"
        command = [sys.executable, "-I", sycl_jit.__file__, str(library), str(output), *flags]
        try:
            done = run_program(command, _SECONDS, text=text.encode())
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ToolError("XT5132", f"the SYCL compiler failed: {error}",
                            f"take the other compiler: {_ELSE}") from error
        log = (done.stdout + done.stderr).decode(errors="replace")
        if done.returncode == 0:
            return output.read_bytes()
    if done.returncode == sycl_jit.REFUSED:
        raise refusal("the SYCL compiler failed", log, text)
    if done.returncode == sycl_jit.CHANGED:
        raise _changed(log)
    raise ToolError("XT5132", f"the SYCL compiler ended with code {done.returncode}: {_last_words(log)}",
                    f"what it printed is in .log of this error; or take the other compiler: {_ELSE}", log=log)


def _is_builtin(name: str) -> bool:
    """Whether a mangled C++ name is that of one of Intel's builtins with OpenCL's operand types."""
    called = re.sub(r"__internal_(\w+)_cache_controls", r"\1", demangled_name(name))  # the form that takes a cache hint
    return called in emulated_builtins() and "DF16_" not in name


def _changed(what: str) -> ToolError:
    return ToolError("XT5133", f"the private interface of {_LIBRARY} has changed: {what}",
                     f"xetile was written for {_PACKAGE} 2026.1; install that one")


def _last_words(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return " ".join(lines[-2:]) or "it printed nothing"
