"""SYCL emitter: an emitted kernel as a free-function kernel in C++, and a host function that launches it.

The file is self-contained, for ``icpx -fsycl``. With ``XETILE_KERNEL_ONLY`` defined it needs no headers and has no host
part; :mod:`codegen.toolchain.sycl` compiles that at run time, in a tenth of a second instead of seconds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from codegen.opencl.kernel import LARGE_BUFFERS, LARGE_BUFFERS_LEVEL_ZERO, LARGE_GRF
from codegen.opencl.source import Parameter, Prototype, Source
from codegen.opencl.values import SIGNED, UNSIGNED
from codegen.sycl.opencl_to_cxx import declarations, header, prototype, translate
from xegpu.ir.dtypes import DType, bf16

_HOST = {**{name: f"std::int{bits}_t" for bits, name in SIGNED.items()},
         **{name: f"std::uint{bits}_t" for bits, name in UNSIGNED.items()}, "half": "sycl::half"}
"""OpenCL C's scalar types as the host calls them."""
_CXX_NAMES = {**{name: f"unsigned {SIGNED[bits]}" for bits, name in UNSIGNED.items()}, "half": "_Float16"}
"""OpenCL C's scalar types that C++ calls otherwise, in device code."""
_ATOMICS = ((16, "min_max"), (32, "add"), (32, "min_max"))
_DOUBLE_ATOMICS = ((64, "add"), (64, "min_max"))


def emit(source: Source, prelude: str | None = None, *, surface_states: bool = False) -> str:
    """Emit a kernel as a C++ file.

    Args:
        source: the kernel's parts.
        prelude: OpenCL C prelude for a device without Intel's builtins; None for a GPU.
        surface_states: whether the target reaches arrays by surface states (:mod:`xegpu.target.surface_state`).

    Raises:
        TextError: the kernel was edited as OpenCL C, and is no longer one that C++ can be made of.
    """
    source = source.read_back()
    is_on_gpu, names = prelude is None, {parameter.name for parameter in source.parameters}
    extern = "".join(prototype(each, emulated=not is_on_gpu) for each in source.declarations
                     if isinstance(each, Prototype) and each.name not in source.predefined)
    extern += declarations(source.predefined, source.lanes) + _features(source) if is_on_gpu else ""
    before = "".join(each for each in source.declarations if isinstance(each, str))
    parameters = [_Parameter(each, source.identifiers) for each in source.parameters]
    return _FILE.format(
        name=translate(source.name), shown=", ".join(each.on_host for each in parameters),
        header=header(), extern=extern and f"\n{extern}", before=translate((prelude or "") + source.macros + before),
        properties=_properties(source), parameters=", ".join(each.declaration for each in parameters),
        pointers="".join(each.body_declaration for each in parameters), body=translate(source.body),
        addresses=_addresses(source) if surface_states else "",
        size=source.local_size, arguments=", ".join(each.argument for each in parameters),
        **{variable: _free(variable, names)
           for variable in ("queue", "grid", "bundle", "compiled", "handler", "groups")})


class _Parameter:
    """Kernel parameter as C++ declares it.

    Attributes:
        declaration: in the kernel's signature; a pointer is generic there.
        body_declaration: in the kernel's body, the pointer of the parameter's name to global memory.
        on_host: in the host function's signature.
        argument: the expression that the host function passes.
    """

    def __init__(self, parameter: Parameter, identifiers: Collection[str]) -> None:
        name, type_ = translate(parameter.name), parameter.type
        device_type = _CXX_NAMES.get(type_, type_)
        host_type = "int" if parameter.dtype is None else _host_type(parameter.dtype)
        self.body_declaration = ""
        if parameter.pointer:
            pointer = _free(f"{name}_pointer", identifiers)
            self.declaration = f"{device_type} *{pointer}"
            self.body_declaration = f"  XETILE_GLOBAL {type_} *{name} = (XETILE_GLOBAL {type_} *){pointer};\n"
            self.on_host = f"{'const ' if parameter.read_only else ''}{host_type} *{name}"
            self.argument = f"({device_type} *){name}"
            return
        self.declaration, self.on_host = f"{device_type} {name}", f"{host_type} {name}"
        self.argument = f"sycl::bit_cast<{device_type}>({name})" if host_type.startswith("sycl::") else name


def _free(name: str, used_names: Collection[str]) -> str:
    """Fresh name based on ``name``."""
    return name if name not in used_names else _free(f"{name}_", used_names)


def _features(source: Source) -> str:
    """Definitions of OpenCL's feature macros that a kernel tests and that GPUs with this subgroup size define."""
    has = {f"__opencl_c_ext_fp{bits}_{memory}_atomic_{kind}" for memory in ("global", "local")
           for bits, kind in (*_ATOMICS, *(_DOUBLE_ATOMICS if source.lanes == 16 else ()))}
    return "".join(f"#define {name} 1\n" for name in sorted(source.predefined & has))


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


def _addresses(source: Source) -> str:
    """Comment on the option that widens addresses: that it is needed, or for which arrays it would be needed."""
    arrays = "Its arrays have elements before their pointers, or 4 GB behind them: build it with" \
        if LARGE_BUFFERS in source.options else \
        "For an array with elements before its pointer, as a reversed one has, or 4 GB behind it, add"
    options = f'-Xs "{LARGE_BUFFERS}" for OpenCL, and\n// -Xs "{LARGE_BUFFERS_LEVEL_ZERO}" for Level Zero.'
    return f"// {arrays}\n// {options}\n"


_FILE = """\
// Kernel {name}, made by xetile. Build it with: icpx -fsycl -fp-model=precise -c {name}.cpp
{addresses}//
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
