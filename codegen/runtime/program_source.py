"""Program source and build options of a kernel, for a queue's driver or the offline compiler.

:func:`queue_program` is what a queue builds and :func:`gpu_program` what a GPU's driver would: OpenCL C, or SPIR-V from
one of two compilers. No other module puts a prelude, a macro's definition or a build option to a kernel's text.

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

from codegen.opencl.cpu_gemm import DOT_PRODUCTS, FENCE_X86, DotProduct
from codegen.opencl.kernel import LARGE_BUFFERS, LARGE_BUFFERS_LEVEL_ZERO, LARGE_GRF, ROUNDED_DIVISION
from codegen.opencl.prelude import prelude_for
from codegen.opencl.prelude.macros import (
    CPU_CALL,
    CPU_FETCH,
    CPU_FETCH_L1,
    CPU_FILL,
    CPU_LDEXP,
    CPU_LIKELY,
    CPU_MAXNUM,
    MICROKERNELS,
    NAMED_BARRIERS,
    ROLLED,
    SIGNAL,
    define,
)
from codegen.runtime.devices import (
    VARIABLE,
    Queue,
    added_options,
    has_intel_cpu_compiler,
    needs_spirv,
    requested_spirv_compiler,
)
from codegen.toolchain.cpu_features import has_feature
from codegen.toolchain.logger import LOGGER
from codegen.toolchain.ocloc import compile_spirv, has_ocloc, with_standard
from codegen.toolchain.spirv import entry_points
from codegen.toolchain.sycl import compile_sycl, has_sycl_compiler
from xegpu.ir import dtypes
from xegpu.support.errors import ToolError
from xegpu.target.gemm_microkernel import MicrokernelShape
from xegpu.target.targets import DEFAULT_TARGET, find_target

_NAMES = {"sycl": "the SYCL runtime's compiler", "ocloc": "ocloc"}
_OTHER = {"sycl": "ocloc", "ocloc": "sycl"}
_LEVEL_ZERO_OPTIONS = {LARGE_GRF: "-ze-opt-large-register-file",
                       LARGE_BUFFERS: LARGE_BUFFERS_LEVEL_ZERO,
                       ROUNDED_DIVISION: "-ze-fp32-correctly-rounded-divide-sqrt"}
"""Level Zero's names of build options."""
_FEATURES = [f"-D__opencl_c_ext_fp{bits}_global_atomic_{name}" for bits in (32, 64) for name in ("add", "min_max")]
"""Feature macros of float atomics, which ocloc defines for every GPU, and the SYCL runtime's compiler does not."""


@dataclass(frozen=True)
class Program:
    """Program of one kernel, as a driver or the offline compiler builds it.

    Attributes:
        source: OpenCL C, or SPIR-V as bytes.
        options: its build options.
        name: the kernel's name in it, which the SYCL compiler chooses in SPIR-V.
    """

    source: str | bytes
    options: str
    name: str


@dataclass(frozen=True)
class KernelSource:
    """Kernel source in the languages of the two SPIR-V compilers.

    Attributes:
        name: its name in OpenCL C.
        opencl: its OpenCL C.
        sycl: emits its SYCL C++ with a prelude in OpenCL C, or with None, for a GPU.
        target: name of its target.
        options: its build options in OpenCL C.
    """

    name: str
    opencl: str
    sycl: Callable[[str | None], str]
    target: str
    options: str


def queue_program(kernel: KernelSource, queue: Queue) -> Program:
    """Program that a queue of dpctl's builds for a kernel.

    Raises:
        ToolError: no SPIR-V compiler for a queue that needs one, or it refused the kernel.
    """
    device, compiler = queue.sycl_device, spirv_compiler_for(queue)
    if compiler:
        spirv = make_spirv(compiler, kernel, emulated=device.is_cpu)
        # The CPU's compiler makes wrong code of SPIR-V without its optimiser, which XETILE_BUILD_OPTIONS may turn off.
        return _spirv_program(spirv, _driver_options(kernel.options, queue))
    LOGGER.info("%s gets %s as OpenCL C", str(device.name).strip(), kernel.name)
    text = opencl_for_cpu(kernel.opencl, device) if device.is_cpu else kernel.opencl
    options = with_standard(_driver_options(kernel.options, queue))
    return Program(text, f"{options} {added_options()}".rstrip(), kernel.name)


def gpu_program(kernel: KernelSource, compiler: str = "") -> Program:
    """Program that the OpenCL driver of the kernel's target builds; ocloc takes the same source and options.

    Args:
        kernel: a kernel for a GPU.
        compiler: the SPIR-V compiler, ``"sycl"`` or ``"ocloc"``; "" for OpenCL C.

    Raises:
        ToolError: unknown or missing compiler, or it refused the kernel.
    """
    if compiler:
        return _spirv_program(make_spirv(compiler, kernel, emulated=False), kernel.options)
    return Program(kernel.opencl, with_standard(kernel.options), kernel.name)


def _spirv_program(spirv: bytes, options: str) -> Program:
    (name,) = entry_points(spirv)
    return Program(spirv, options, name)


def _driver_options(options: str, queue: Queue) -> str:
    """A kernel's build options as the queue's driver calls them; a CPU has neither GRF modes nor surface states."""
    unknown = (LARGE_GRF, LARGE_BUFFERS) if queue.sycl_device.is_cpu else ()
    wanted = [option for option in options.split() if option not in unknown]
    return " ".join(_LEVEL_ZERO_OPTIONS.get(option, option) if needs_spirv(queue) else option for option in wanted)


def spirv_compiler_for(queue: Queue) -> str:
    """SPIR-V compiler of a queue, ``"sycl"`` or ``"ocloc"``; "" for a queue that gets OpenCL C.

    Raises:
        ToolError: XETILE_SPIRV names no compiler, or the queue takes SPIR-V only and no compiler makes it.
    """
    if named := requested_spirv_compiler():
        return _compiler_name(named, f"{VARIABLE} is")
    if not needs_spirv(queue):
        return ""
    found = next((name for name, is_here in _available().items() if is_here), None)
    if found is None:
        raise ToolError("XT5106", "a Level Zero queue takes SPIR-V, and there is no compiler that makes it",
                        'pip install "xetile[device]" brings the SYCL compiler; or install Intel\'s ocloc and set '
                        "XETILE_OCLOC to it")
    return found


def _compiler_name(compiler: str, source: str) -> str:
    if compiler not in _NAMES:
        raise ToolError("XT5107", f"{source} {compiler!r}, which is not a SPIR-V compiler", 'choose "sycl" or "ocloc"')
    return compiler


def can_make_spirv() -> bool:
    """Whether a SPIR-V compiler is installed."""
    return any(_available().values())


def _available() -> Mapping[str, bool]:
    return {"sycl": has_sycl_compiler(), "ocloc": has_ocloc()}


def make_spirv(compiler: str, text: KernelSource, emulated: bool) -> bytes:
    """Compile a kernel to SPIR-V with the kernel as its only entry point.

    Args:
        compiler: result of :func:`spirv_compiler_for`.
        text: the kernel.
        emulated: whether the device lacks Intel's builtins, so that they must be functions of the module.

    Raises:
        ToolError: unknown or missing compiler, or a compile error; the hint names the other compiler.
    """
    started = time.perf_counter()
    with suggest_other_compiler(compiler, text.name):
        data = _by_sycl(text, emulated) if _compiler_name(compiler, "this is") == "sycl" else _by_ocloc(text, emulated)
    LOGGER.info("%s compiled %s for %s to %d bytes of SPIR-V in %.2f s", _NAMES[compiler], text.name, text.target,
                len(data), time.perf_counter() - started)
    return data


@contextmanager
def suggest_other_compiler(compiler: str, kernel: str) -> Iterator[None]:
    """Add to the hint of a compiler's error how to choose the other compiler.

    Args:
        compiler: result of :func:`spirv_compiler_for`; nothing is added for "".
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
    """OpenCL C for a CPU device: with a prelude of Intel's builtins, calls that are not inlined, rolled loops.

    CPU GEMM micro-kernels and x86 instructions are for Intel's compiler on x86-64; every other one gets the portable
    text that SPIR-V compilers get.

    Args:
        text: the kernel.
        device: the ``dpctl.SyclDevice``.
    """
    if not has_intel_cpu_compiler(device):
        LOGGER.info("%s gets no functions of whole vectors: Intel's compiler for x86-64 alone takes them", device.name)
        return _portable(text)
    scaled = define(CPU_LDEXP) if has_feature("avx512f") else ""
    macros = define(CPU_FETCH, CPU_FETCH_L1, CPU_FILL, CPU_LIKELY, *CPU_MAXNUM)
    return macros + scaled + _cpu_gemm_macros(text) + _portable(text)


def has_microkernel(queue: Queue, shape: MicrokernelShape) -> bool:
    """Whether the programs of a queue get the micro-kernel of a shape, not the portable text."""
    if requested_spirv_compiler() or not has_intel_cpu_compiler(queue.sycl_device):
        return False
    return shape.fits and (not shape.has_bytes or all(has_feature(product.feature) for product in DOT_PRODUCTS
                                                      if product.elements == dtypes.i8.name))


def multiplier(product: DotProduct) -> str:
    """Instruction, or type, in which this machine multiplies a dot product's elements, in words."""
    return product.instruction if has_feature(product.feature) else \
        f"float32, since the CPU has no {product.feature}"


def _cpu_gemm_macros(text: str) -> str:
    """Macros and declarations of CPU GEMM micro-kernels, where a text has any."""
    products = [product for product in DOT_PRODUCTS if product.macro in text]
    if not products and MICROKERNELS not in text:
        return ""
    for product in products:
        LOGGER.info("products of %s take %s", product.elements, multiplier(product))
    declarations = (product.declarations for product in products if has_feature(product.feature))
    return define((MICROKERNELS, "")) + FENCE_X86 + "".join(declarations)


def _portable(text: str) -> str:
    """OpenCL C for SPIR-V compilers and for other CPUs' compilers: without micro-kernels."""
    return f"{define(CPU_CALL, (ROLLED, ''))}{_emulation(text)}{text}"


def _emulation(text: str) -> str:
    """Prelude of the builtins and barriers that a text uses and a CPU lacks."""
    return prelude_for(text) + (define(*NAMED_BARRIERS) if SIGNAL in text else "")


def _by_sycl(text: KernelSource, emulated: bool) -> bytes:
    if not emulated:
        return compile_sycl(text.sycl(None), *_FEATURES)
    return compile_sycl(text.sycl(_emulation(text.opencl)), f"-D{'='.join(CPU_CALL)}", f"-D{ROLLED}")


def _by_ocloc(text: KernelSource, emulated: bool) -> bytes:
    # for a CPU's text, the front end of any device: what it calls is defined in the text
    device = DEFAULT_TARGET if find_target(text.target).is_cpu else text.target
    if not emulated:
        return compile_spirv(text.opencl, device, text.options)
    whole = _portable(text.opencl)  # ocloc predeclares the builtins, so the emulated ones are renamed
    names = sorted(set(re.findall(
        r"\b(?:intel_(?:sub_group_2d_block|sub_group_\w+_matrix_mad|convert)_|__spirv_Predicated)\w+", whole)))
    return compile_spirv("".join(f"#define {name} emulated_{name}\n" for name in names) + whole, device, text.options)
