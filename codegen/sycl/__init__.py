"""SYCL emitter: a free-function kernel from a kernel's OpenCL C, and a host function that launches it.

The file is self-contained, for ``icpx -fsycl``. With ``XETILE_KERNEL_ONLY`` defined it needs no headers and has no host
part; :mod:`codegen.toolchain.sycl` compiles that at run time, in a tenth of a second instead of seconds.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType

from codegen.opencl.kernel import LARGE_GRF, Source
from codegen.opencl.values import SIGNED, UNSIGNED
from codegen.sycl.opencl_to_cxx import declarations, header, prototype, translate
from xegpu.ir.dtypes import DType, bf16, of_mlir
from xegpu.ir.use_def import written_arguments
from xegpu.support.errors import BUG, XeError

_HOST = {**{name: f"std::int{bits}_t" for bits, name in SIGNED.items()},
         **{name: f"std::uint{bits}_t" for bits, name in UNSIGNED.items()}, "half": "sycl::half"}
"""OpenCL C's scalar types as the host calls them."""
_PLAIN = {**{name: f"unsigned {SIGNED[bits]}" for bits, name in UNSIGNED.items()}, "half": "_Float16"}
"""OpenCL C's scalar types that C++ calls otherwise, in device code."""
_ATOMICS = ((16, "min_max"), (32, "add"), (32, "min_max"))
_DOUBLE_ATOMICS = ((64, "add"), (64, "min_max"))
_KERNEL = re.compile(r"__attribute__\(\(intel_reqd_sub_group_size\(\d+\)\)\)\n"
                     r"__attribute__\(\(reqd_work_group_size\(\d+, 1, 1\)\)\)\n"
                     r"kernel void (\w+)\((.*)\)\n\{\n(.*)\}\n\Z", re.DOTALL)


@dataclass(frozen=True)
class _Parameter:
    """Kernel parameter.

    Attributes:
        name: its name in the kernel's body.
        parameter_name: its name in the signature, which differs for a pointer: the body's has an address space.
        type: its C type, or the pointee's.
        pointer: whether it is a pointer.
        host: the type on the host, ``const`` where the kernel only reads.
    """

    name: str
    parameter_name: str
    type: str
    pointer: bool
    host: str

    @property
    def plain(self) -> str:
        """C++ type without OpenCL's names."""
        return _PLAIN.get(self.type, self.type) + (" *" if self.pointer else " ")

    @property
    def passed(self) -> str:
        """Declaration in the signature, as the host passes it."""
        if self.pointer:
            return f"({self.plain}){self.name}"
        return f"sycl::bit_cast<{self.plain.strip()}>({self.name})" if self.host.startswith("sycl::") else self.name


def emit(source: Source, function: func.FuncOp, prelude: str | None = None) -> str:
    """Emit a kernel as a C++ file.

    Args:
        source: the kernel as OpenCL C.
        function: the fully lowered kernel, for the element types of its arguments.
        prelude: OpenCL C prelude for a device without Intel's builtins; None for a GPU.

    Raises:
        XeError: the kernel's text is not what :mod:`codegen.opencl` writes.
    """
    match = _KERNEL.search(source.text)
    if match is None:
        raise XeError("XT9404", "the kernel's text has no kernel that SYCL's form could be made of", BUG)
    name, parameters, body = match.groups()
    before, extern = _prototypes(source.text[:match.start()], emulated=prelude is not None)
    extern += declarations(source.text, source.lanes) + _features(source) if prelude is None else ""
    used_names = set(re.findall(r"\w+", source.text))
    host_parameters = _host_parameters(parameters, source, function, used_names)
    return _FILE.format(
        name=translate(name), shown=", ".join(f"{p.host} {'*' if p.pointer else ''}{p.name}" for p in host_parameters),
        header=header(), extern=extern and f"\n{extern}", before=translate((prelude or "") + before),
        properties=_properties(source), parameters=", ".join(f"{p.plain}{p.parameter_name}" for p in host_parameters),
        pointers="".join(f"  XETILE_GLOBAL {p.type} *{p.name} = (XETILE_GLOBAL {p.type} *){p.parameter_name};\n"
                         for p in host_parameters if p.pointer),
        body=translate(body), size=source.local_size, arguments=", ".join(p.passed for p in host_parameters),
        **{variable: _free(variable, used_names)
           for variable in ("queue", "grid", "bundle", "compiled", "handler", "groups")})


def _free(name: str, used_names: Collection[str]) -> str:
    """Fresh name based on ``name``, which does not occur in the kernel."""
    return name if name not in used_names else _free(f"{name}_", used_names)


def _features(source: Source) -> str:
    """Definitions of OpenCL's feature macros that a kernel tests and that GPUs with this subgroup size define."""
    tested = set(re.findall(r"\b__opencl_c_ext_fp\w+", source.text))
    has = {f"__opencl_c_ext_fp{bits}_{memory}_atomic_{kind}" for memory in ("global", "local")
           for bits, kind in (*_ATOMICS, *(_DOUBLE_ATOMICS if source.lanes == 16 else ()))}
    return "".join(f"#define {name} 1\n" for name in sorted(tested & has))


def _prototypes(text: str, *, emulated: bool) -> tuple[str, str]:
    """Split the text into its part without prototypes of external functions, and those prototypes as C++."""
    found = re.findall(r"(?m)^\w[^\n{}#;]*\);\n", text)
    extern = "".join(prototype(line, emulated) for line in found)
    return re.sub(r"(?m)^\w[^\n{}#;]*\);\n", "", text), extern


def _host_parameters(parameters: str, source: Source, function: func.FuncOp, used_names: set[str]) -> list[_Parameter]:
    """Kernel parameters with their types on the host."""
    written, texts, host_parameters = written_arguments(function), iter(parameters.split(", ")), []
    for position, (argument, rank) in enumerate(zip(function.body.block.args, source.arguments, strict=True)):
        type_ = argument.type.element_type if isinstance(argument.type, MemRefType) else argument.type
        const = "" if rank is None or position in written else "const "
        host_parameters.append(_parameter(next(texts), const + _host_type(of_mlir(type_)), used_names))
        host_parameters += [_parameter(next(texts), "int", used_names) for _ in range(2 * (rank or 0))]
    return [*host_parameters, *(_parameter(text, "std::int32_t", used_names) for text in texts)]


def _parameter(text: str, host: str, used_names: set[str]) -> _Parameter:
    pointed, _, name = translate(text.removeprefix("global ")).rpartition(" ")
    pointer, name = name.startswith("*"), name.removeprefix("*")
    return _Parameter(name, _free(f"{name}_pointer", used_names) if pointer else name, pointed, pointer, host)


def _host_type(dtype: DType) -> str:
    if dtype is bf16:
        return "sycl::ext::oneapi::bfloat16"
    return _HOST.get(dtype.opencl, dtype.opencl)


def _properties(source: Source) -> str:
    """Kernel properties (subgroup size, work-group size, GRF mode), with and without SYCL's headers."""
    sizes = (("nd_range_kernel<3>", "nd-range-kernel", "3"), (f"sub_group_size<{source.lanes}>", "sub-group-size",
             str(source.lanes)), (f"work_group_size<1, 1, {source.local_size}>", "work-group-size",
             f'"1,1,{source.local_size}"'))
    properties = [(f"sycl::ext::oneapi::experimental::{long}", short, value) for long, short, value in sizes]
    if LARGE_GRF in source.options:
        properties.append(("sycl::ext::intel::experimental::grf_size<256>", "grf-size", "256"))
    return _either([f'[[__sycl_detail__::add_ir_attributes_function("sycl-{short}", {value})]]'
                    for _, short, value in properties],
                   [f"SYCL_EXT_ONEAPI_FUNCTION_PROPERTY(({long}))" for long, _, _ in properties])


def _either(alone: Sequence[str], with_headers: Sequence[str]) -> str:
    return "\n".join(["#ifdef XETILE_KERNEL_ONLY", *alone, "#else", *with_headers, "#endif"])


_FILE = """\
// Kernel {name}, made by xetile. Build it with: icpx -fsycl -fp-model=precise -c {name}.cpp
//
// namespace xetile::{name}:
//   sycl::event launch(sycl::queue &{queue}, sycl::range<3> {grid}, {shown});
// starts {grid}[0] x {grid}[1] x {grid}[2] work-groups; xt.group_id(0) runs over the first. Pointers are to USM, sizes
// and strides count elements.
#ifndef XETILE_KERNEL_ONLY
#include <cstdint>
#include <sycl/ext/intel/experimental/grf_size_properties.hpp>
#include <sycl/sycl.hpp>
#endif

#ifdef __SYCL_DEVICE_ONLY__

{header}{extern}
#endif  // __SYCL_DEVICE_ONLY__

namespace xetile::{name} {{

#ifdef __SYCL_DEVICE_ONLY__
using namespace xetile::opencl;

{before}
#endif

{properties}
void {name}({parameters})
{{
#ifdef __SYCL_DEVICE_ONLY__
{pointers}{body}#endif
}}

#ifndef XETILE_KERNEL_ONLY
sycl::event launch(sycl::queue &{queue}, sycl::range<3> {grid}, {shown})
{{
  auto {bundle} = sycl::ext::oneapi::experimental::get_kernel_bundle<xetile::{name}::{name},
                                                                     sycl::bundle_state::executable>(
      {queue}.get_context(), {{{queue}.get_device()}});
  sycl::kernel {compiled} = {bundle}.ext_oneapi_get_kernel<xetile::{name}::{name}>();
  const sycl::range<3> {groups}(1, 1, {size});
  return {queue}.submit([&](sycl::handler &{handler}) {{
    {handler}.set_args({arguments});
    {handler}.parallel_for(sycl::nd_range<3>({grid} * {groups}, {groups}), {compiled});
  }});
}}
#endif

}}  // namespace xetile::{name}
"""
