"""xetile: tiled matrix kernels for Intel GPUs, written in Python.

An author decorates a function with :func:`kernel`, works on tiles inside it, and launches it with
``kernel[grid](arrays)``; see ``docs/`` for the tutorial and the reference.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from xegpu.support.gc_pause import gc_paused_for_import

with gc_paused_for_import():
    from codegen.runtime.devices import register_cpu_driver
    from xegpu.ir.dtypes import (
        bf16,
        e4m3,
        e5m2,
        f16,
        f32,
        f64,
        i1,
        i4,
        i8,
        i16,
        i32,
        i64,
        index,
        tf32,
        u4,
        u8,
        u16,
        u32,
        u64,
    )
    from xegpu.support.errors import (
        ArgumentError,
        CheckError,
        DeviceError,
        ElementTypeError,
        MemberError,
        RankError,
        ShapeError,
        TargetError,
        TextError,
        ToolError,
        TraceError,
        XeError,
    )
    from xegpu.target.targets import TARGETS
    from xetile.compiler.arguments import Spec, at_the_call
    from xetile.dialect.wg_map import WgMap
    from xetile.frontend.control_flow.for_loop import range, while_
    from xetile.frontend.control_flow.if_else import otherwise, return_if, when
    from xetile.frontend.foreign_names import module_hint
    from xetile.frontend.tiles import Array, Tile
    from xetile.frontend.values import Scalar, Vector
    from xetile.jit.kernel import Kernel, kernel
    from xetile.lang import vector
    from xetile.lang.creation import full, iota, pack, unpack, view, zeros
    from xetile.lang.creation import scalar_ as scalar
    from xetile.lang.debug import device_assert, device_print
    from xetile.lang.gather_scatter import atomic_rmw_tile, load_gather, store_scatter
    from xetile.lang.grid import group_id, grouped_id, num_groups, subgroup_id
    from xetile.lang.layout import tile_pack, tile_transpose, tile_unpack, wg_map
    from xetile.lang.layout.shapes import concatenate, interleave, reshape, shift
    from xetile.lang.math import absolute as abs
    from xetile.lang.math import (
        acos,
        asin,
        atan,
        atan2,
        bitcast,
        cbrt,
        ceil,
        copysign,
        cos,
        cosh,
        erf,
        exp,
        exp2,
        expm1,
        floor,
        fma,
        log,
        log1p,
        log2,
        log10,
        maximum,
        maxnum,
        minimum,
        minnum,
        random,
        rsqrt,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
        where,
    )
    from xetile.lang.math import round_even as round
    from xetile.lang.math.bits import clz, mul_hi, popcount
    from xetile.lang.math.inline import inline
    from xetile.lang.matmul import tile_mma, tile_mma_scaled
    from xetile.lang.memory import alloc_slm, load_scalar
    from xetile.lang.reduction import tile_broadcast, tile_conv_layout, tile_reduce
    from xetile.lang.reduction.combined import cummax, cummin, cumprod, cumsum, reduce, scan
    from xetile.lang.reduction.extreme_index import argmax, argmin
    from xetile.lang.reduction.sort import sort, top_k
    from xetile.lang.sync import barrier, fence, nbarrier
    from xetile.lang.tiles import init_tile, load_tile, prefetch_tile, store_tile, update_tile_offset
    from xetile.runtime.executors import best_device

if TYPE_CHECKING:
    from xetile.jit.parsed import parse
    from xetile.library import attention, grouped_matmul, int4_matmul, matmul, pack_int4, scaled_matmul  # type: ignore
    from xetile.tools.bench import bench
    from xetile.tools.tuner import tune
    from xetile.tools.tuner.autotune import autotune

__version__ = "0.1.0"

register_cpu_driver()  # before dpctl lists devices for the first time; it does not import dpctl

__all__ = [
    "ArgumentError", "Array", "CheckError", "DeviceError", "ElementTypeError", "Kernel", "MemberError", "RankError",
    "Scalar", "ShapeError", "Spec", "TARGETS", "TargetError", "TextError", "Tile", "ToolError", "TraceError", "Vector",
    "WgMap", "XeError", "abs", "acos", "alloc_slm", "argmax", "argmin", "asin", "atan", "atan2", "atomic_rmw_tile",
    "attention", "autotune", "barrier", "bench", "best_device", "bf16", "bitcast", "cbrt", "ceil", "clz", "concatenate",
    "copysign", "cos", "cosh", "cummax", "cummin", "cumprod", "cumsum", "device_assert", "device_print", "e4m3", "e5m2",
    "erf", "exp", "exp2", "expm1", "f16", "f32", "f64", "fence", "floor", "fma", "full", "group_id", "grouped_id",
    "grouped_matmul", "i1", "i16", "i32", "i4", "i64", "i8", "index", "init_tile", "inline", "int4_matmul",
    "interleave", "iota", "kernel", "load_gather", "load_scalar", "load_tile", "log", "log10", "log1p", "log2",
    "matmul", "maximum", "maxnum", "minimum", "minnum", "mul_hi", "nbarrier", "num_groups", "otherwise", "pack",
    "pack_int4", "parse", "popcount", "prefetch_tile", "random", "range", "reduce", "reshape", "return_if", "round",
    "rsqrt", "scalar", "scaled_matmul", "scan", "shift", "sin", "sinh", "sort", "sqrt", "store_scatter", "store_tile",
    "subgroup_id", "tan", "tanh", "tf32", "tile_broadcast", "tile_conv_layout", "tile_mma", "tile_mma_scaled",
    "tile_pack", "tile_reduce", "tile_transpose", "tile_unpack", "top_k", "trunc", "tune", "u16", "u32", "u4", "u64",
    "u8", "unpack", "update_tile_offset", "vector", "view", "wg_map", "when", "where", "while_", "zeros",
]

_LATER = {
    **dict.fromkeys(("attention", "grouped_matmul", "int4_matmul", "matmul", "pack_int4", "scaled_matmul"), "library"),
    "autotune": "tools.tuner.autotune",
    "bench": "tools.bench",
    "parse": "jit.parsed",
    "tune": "tools.tuner",
}
"""Names that many programs do not use, with the modules that they come from: those are imported on first use."""


if not TYPE_CHECKING:  # for type checkers a module with __getattr__ has every name
    def __getattr__(name: str) -> Any:
        if name.startswith("_"):  # what Python and its tools ask every module for
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name not in _LATER:
            error = MemberError("XT1083", f"xetile has no {name}", module_hint(name, __all__))
            at_the_call(error)
            raise error
        found = globals()[name] = getattr(import_module(f"{__name__}.{_LATER[name]}"), name)
        return found


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
