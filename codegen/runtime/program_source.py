"""Program sources: OpenCL C, or SPIR-V from one of two compilers for queues that take no OpenCL C.

The SYCL runtime's compiler is the default, since it comes with dpctl; ocloc is the other. The variable XETILE_SPIRV
names one of them; then it serves every device, those that would take OpenCL C too. A compiler that fails is an error,
which names the other: no kernel is compiled in another way than the author thinks. The logger ``xetile`` says which one
served.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from codegen.opencl.cpu_gemm import DOT_BF16, FENCE_X86, WHOLE
from codegen.opencl.cpu_gemm.microkernel import DOT
from codegen.opencl.emitter import CALL, FETCH, FILL, ROLLED
from codegen.opencl.prelude import prelude_for
from codegen.opencl.sync import SIGNAL, WAIT
from codegen.runtime.devices import VARIABLE, Queue, has_intel_cpu_compiler, needs_spirv, requested_spirv_compiler
from codegen.toolchain.cpu_features import has_feature
from codegen.toolchain.logger import LOGGER
from codegen.toolchain.ocloc import compile_spirv, has_ocloc
from codegen.toolchain.sycl import compile_sycl, has_sycl_compiler
from xegpu.support.errors import ToolError
from xegpu.target.targets import find_target

_NAMES = {"sycl": "the SYCL runtime's compiler", "ocloc": "ocloc"}
_OTHER = {"sycl": "ocloc", "ocloc": "sycl"}
_CALL = (CALL, "__attribute__((noinline))")
"""The CPU's compiler takes seven times as long where every load of an edge is inlined."""
_FILL = (FILL, "__attribute__((noinline))")
"""The same, for the OpenCL driver alone: where SYCL's compiler kept such a call, a lane read what another had written
later in the text."""
_FETCH = (f"{FETCH}(pointer)", "__builtin_prefetch(pointer, 0, 2)")
"""The processor's instruction, into the second cache: the first is full of what is in use. OpenCL's ``prefetch`` is a
call for each lane there, and SPIR-V has no word for this."""
_TOGETHER = "work_group_barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)"
_NBARRIERS = (f"#define {SIGNAL}(id, count) (void)(id)\n#define {WAIT}(id) {_TOGETHER}\n"
              f"#define {SIGNAL}_AT(id, count) (void)(id)\n#define {WAIT}_AT(id) {_TOGETHER}\n\n")
"""Named barriers that all subgroups of a work-group come by: the whole barrier stands at the wait."""
_FEATURES = [f"-D__opencl_c_ext_fp{bits}_global_atomic_{name}" for bits in (32, 64) for name in ("add", "min_max")]
"""What ocloc says of every GPU, and the SYCL runtime's compiler of none: floats have atomic instructions."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel in the languages that the two SPIR-V compilers take.

    Attributes:
        name: its name in OpenCL C.
        opencl: its OpenCL C.
        sycl: gives its SYCL C++, behind a prelude in OpenCL C or, with None, for a GPU.
        target: the device that it is made for.
        options: its build options in OpenCL C.
    """

    name: str
    opencl: str
    sycl: Callable[[str | None], str]
    target: str
    options: str


def spirv_compiler_for(queue: Queue) -> str:
    """The SPIR-V compiler that serves a queue, ``"sycl"`` or ``"ocloc"``; "" for a queue that gets OpenCL C.

    Raises:
        ToolError: XETILE_SPIRV names no compiler, or the queue takes SPIR-V only and no compiler makes it.
    """
    if named := requested_spirv_compiler():
        return _known(named, f"{VARIABLE} is")
    if not needs_spirv(queue):
        return ""
    found = next((name for name, is_here in _available().items() if is_here), None)
    if found is None:
        raise ToolError("XT5106", "a Level Zero queue takes SPIR-V, and there is no compiler that makes it",
                        'pip install "xetile[device]" brings the SYCL compiler; or install Intel\'s ocloc and set '
                        "XETILE_OCLOC to it")
    return found


def _known(compiler: str, said: str) -> str:
    if compiler not in _NAMES:
        raise ToolError("XT5107", f"{said} {compiler!r}, which is no SPIR-V compiler", 'choose "sycl" or "ocloc"')
    return compiler


def can_make_spirv() -> bool:
    """Whether any compiler that makes SPIR-V is here."""
    return any(_available().values())


def _available() -> Mapping[str, bool]:
    return {"sycl": has_sycl_compiler(), "ocloc": has_ocloc()}


def make_spirv(compiler: str, text: KernelSource, emulated: bool) -> bytes:
    """A kernel as SPIR-V; its name there is its only entry point.

    Args:
        compiler: what :func:`spirv_compiler_for` gave.
        text: the kernel.
        emulated: whether the device lacks Intel's builtins, so that they must be functions of the module.

    Raises:
        ToolError: there is no such compiler, or it is missing or refused the kernel; the hint names the other.
    """
    started = time.perf_counter()
    with suggest_other_compiler(compiler, text.name):
        data = _by_sycl(text, emulated) if _known(compiler, "this is") == "sycl" else _by_ocloc(text, emulated)
    LOGGER.info("%s compiled %s for %s to %d bytes of SPIR-V in %.2f s", _NAMES[compiler], text.name, text.target,
                len(data), time.perf_counter() - started)
    return data


@contextmanager
def suggest_other_compiler(compiler: str, kernel: str) -> Iterator[None]:
    """Adds to the hint of a compiler's error how to choose the other compiler.

    Args:
        compiler: what :func:`spirv_compiler_for` gave; nothing is added where it is "".
        kernel: the kernel's name.
    """
    try:
        yield
    except ToolError as error:
        if other := _OTHER.get(compiler):
            LOGGER.info("%s failed with the compiler %s: %s", kernel, compiler, error.message)
            hint = f"{VARIABLE}={other} takes {_NAMES[other]} instead of {_NAMES[compiler]}"
            error.hint = f"{error.hint}; or {hint}" if error.hint else hint
        raise


def opencl_for_cpu(text: str, device: Any) -> str:
    """OpenCL C for a CPU device: with the builtins that it lacks, calls that stay calls, loops of single steps.

    Functions of whole vectors and x86 instructions are for Intel's compiler on x86-64; every other one gets what the
    compilers of SPIR-V get.

    Args:
        text: the kernel.
        device: the ``dpctl.SyclDevice``.
    """
    if not has_intel_cpu_compiler(device):
        LOGGER.info("%s gets no functions of whole vectors: Intel's compiler for x86-64 alone takes them", device.name)
        return _portable(text)
    return _defined(_FETCH) + _defined(_FILL) + _whole(text) + _portable(text)


def _whole(text: str) -> str:
    """What functions of whole vectors need, where a text has any."""
    if WHOLE not in text:
        return ""
    has_dot = has_feature("avx512_bf16")
    if DOT in text:
        LOGGER.info("products of bf16 take %s", "the processor's vdpbf16ps" if has_dot else
                    "float32: this processor has no avx512_bf16")
    return _defined((WHOLE, "")) + FENCE_X86 + (DOT_BF16 if DOT in text and has_dot else "")


def _portable(text: str) -> str:
    """The same for compilers that make SPIR-V, and for those of other processors."""
    return f"{_defined(_CALL)}{_defined((ROLLED, ''))}{_emulation(text)}{text}"


def _defined(macro: tuple[str, str]) -> str:
    return f"#define {' '.join(macro)}\n"


def _emulation(text: str) -> str:
    """What the CPU lacks of what a text uses, in OpenCL C."""
    return prelude_for(text) + (_NBARRIERS if SIGNAL in text else "")


def _by_sycl(text: KernelSource, emulated: bool) -> bytes:
    if not emulated:
        return compile_sycl(text.sycl(None), *_FEATURES)
    return compile_sycl(text.sycl(_emulation(text.opencl)), f"-D{'='.join(_CALL)}", f"-D{ROLLED}")


def _by_ocloc(text: KernelSource, emulated: bool) -> bytes:
    device = text.target if find_target(text.target).ocloc else "pvc"  # any device's front end takes plain OpenCL C
    if not emulated:
        return compile_spirv(text.opencl, device, text.options)
    whole = _portable(text.opencl)  # ocloc declares the builtins itself, so there they go under other names
    names = sorted(set(re.findall(r"\bintel_(?:sub_group_2d_block|sub_group_\w+_matrix_mad|convert)_\w+", whole)))
    return compile_spirv("".join(f"#define {name} emulated_{name}\n" for name in names) + whole, device, text.options)
