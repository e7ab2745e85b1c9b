"""Prelude: emulation of Intel's builtins in OpenCL C, for devices that lack them.

With the prelude, text emitted for a GPU runs on any OpenCL device: DPAS, 2D block IO, bf16 and tf32 conversions and the
split work-group barrier are functions in OpenCL C with the same semantics, bounds included. Their definitions are
macros in the ``.cl`` files beside this one; this module lists the builtins, each with the line that instantiates it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from itertools import product

from codegen.opencl.prelude import macros
from codegen.opencl.values import SCALED, block_word
from xegpu.support.errors import TargetError
from xegpu.target.targets import BLOCK_BUILTINS


def _dpas_lines() -> Iterator[tuple[str, str]]:
    yield (name := "intel_sub_group_bf16_bf16_matrix_mad_k16"), f"PRELUDE_DPAS_BF16({name})"
    yield (name := "intel_sub_group_f16_f16_matrix_mad_k16"), f"PRELUDE_DPAS_F16({name})"
    yield (name := "intel_sub_group_tf32_tf32_matrix_mad_k8"), f"PRELUDE_DPAS_TF32({name})"
    for a, b in product(SCALED, repeat=2):
        yield (name := f"intel_sub_group_{a}_{b}_matrix_mad_k32"), f"PRELUDE_DPAS_FLOAT8({name}, {a}, {b})"
        name = f"intel_sub_group_{SCALED[a]}_{SCALED[b]}_scaled_matrix_mad_k32"
        yield name, f"PRELUDE_DPAS_SCALED({name}, {a}, {b})"
    for bits, depth in ((8, 32), (4, 64)):
        for a, b in ("ii", "iu", "ui", "uu"):
            name = f"intel_sub_group_{a}{bits}_{b}{bits}_matrix_mad_k{depth}"
            yield name, f"PRELUDE_DPAS_INTEGER({name}, {a}{bits}, {b}{bits})"


def _block_io_lines() -> Iterator[tuple[str, str]]:
    for block in BLOCK_BUILTINS:
        size = f"{block.bits}b_{block.columns}"
        name = f"intel_sub_group_2d_block_{block.kind}_{block.bits}b_{block.rows}r{block.columns}x{block.blocks}c"
        if block.kind == "prefetch":
            yield name, f"PRELUDE_PREFETCH({name})"
        else:
            yield name, f"PRELUDE_{block.kind.upper()}_{size}({name}, {block.rows}, {block.blocks})"


def _payload_lines() -> Iterator[tuple[str, str]]:
    stem = "__builtin_IB_subgroup_"
    yield (name := f"{stem}createBlock2DAddressPayload"), f"PRELUDE_PAYLOAD_CREATE({name})"
    for axis in "XY":
        yield (name := f"{stem}setBlock2DAddressPayloadBlock{axis}"), f"PRELUDE_PAYLOAD_SET({name})"
    for block in BLOCK_BUILTINS:
        if block.kind == "prefetch":
            name = f"{stem}block_read_ap_prefetch_u{block.bits}_m{block.rows}k{block.columns}v{block.blocks}"
            yield name, f"PRELUDE_PAYLOAD_PREFETCH({name})"


def _conversion_lines() -> Iterator[tuple[str, str]]:
    for n in ("", "2", "3", "4", "8", "16"):
        for name, ours in (
            (f"intel_convert_bfloat16{n}_as_ushort{n}", "prelude_to_bf16"),
            (f"intel_convert_as_bfloat16{n}_float{n}", "prelude_from_bf16"),
            (f"intel_convert_tfloat32{n}_as_float{n}", "prelude_to_tf32"),
        ):
            yield name, f"#define {name} {ours}"


def _barrier_lines() -> Iterator[tuple[str, str]]:
    yield "intel_work_group_barrier_arrive", "PRELUDE_BARRIER_ARRIVE"
    yield "intel_work_group_barrier_wait", "PRELUDE_BARRIER_WAIT"


def _predicated_lines() -> Iterator[tuple[str, str]]:
    for operation in ("Load", "Store"):
        macro = f"PRELUDE_PREDICATED_{operation.upper()}_OF"
        yield f"__spirv_Predicated{operation}INTEL", f"PRELUDE_PREDICATED({macro})"


def _lsc_lines() -> Iterator[tuple[str, str]]:
    for word, wide in (("uchar", "uint"), ("ushort", "uint"), ("uint", ""), ("ulong", "")):
        for operation, suffix in (("load", "_to_uint"), ("store", "_from_uint"), ("prefetch", "")):
            name = f"__builtin_IB_lsc_{operation}_global_{word}{suffix if wide else ''}"
            yield name, f"PRELUDE_LSC_{operation.upper()}({name}, {word}, {wide or word})"


def _macro_lines(*defined: tuple[str, str]) -> Iterator[tuple[str, str]]:
    for macro in defined:
        yield macros.name_of(macro), macros.define(macro).rstrip("\n")


_MACROS = (*macros.SCHEDULE_BARRIERS, *macros.ROWS, *macros.F64_NARROWING, *macros.PORTABLE, *macros.NATIVE)
# file -> (what the names of its family look like, builtin -> the line that defines it)
_FAMILIES: dict[str, tuple[str, dict[str, str]]] = {
    "dpas.cl": (r"intel_sub_group_\w*matrix_mad\w*", dict(_dpas_lines())),
    "block_io.cl": (r"intel_sub_group_2d_block_\w+", dict(_block_io_lines())),
    "payloads.cl": (r"__builtin_IB_subgroup_\w+", dict(_payload_lines())),
    "lsc.cl": (r"__builtin_IB_lsc_\w+", dict(_lsc_lines())),
    "conversions.cl": (r"intel_convert_\w+", dict(_conversion_lines())),
    "predicated.cl": (r"__spirv_Predicated\w+", dict(_predicated_lines())),
    "": ("|".join(map(macros.name_of, _MACROS)), dict(_macro_lines(*_MACROS))),  # no file
    "slm.cl": (rf"{macros.SLM_READ}\w+", dict(_macro_lines(*macros.SLM_READS))),
    "barriers.cl": (r"intel_work_group_barrier_\w+", dict(_barrier_lines())),
}

_HINTED = re.compile(r"__internal_(intel_sub_group_2d_block_\w+)_cache_controls")
_NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def emulated_builtins() -> tuple[str, ...]:
    """Names of all builtins that :func:`prelude_for` can define."""
    return tuple(name for _, lines in _FAMILIES.values() for name in lines)


def prelude_for(text: str) -> str:
    """Prelude of the builtins that ``text`` uses, prepended for a device without Intel's builtins.

    Args:
        text: OpenCL C. Names in comments and in strings do not count; names in macros do.

    Returns:
        the definitions of those builtins that ``text`` names, and of no others; "" if it names none.

    Raises:
        TargetError: ``text`` names a builtin of these families that no prelude defines.
    """
    code = _NOT_CODE.sub(" ", text)
    words = set(re.findall(r"\w+", code))  # once: a pattern of each family takes three times as long for all of a text
    hinted = sorted(match[1] for word in words if (match := _HINTED.fullmatch(word)))
    words.update(hinted)
    parts = [_family_prelude(file, frozenset(filter(re.compile(shape).fullmatch, words)))
             for file, (shape, _) in _FAMILIES.items()]
    return "".join([*parts, *map(_without_hint, hinted)])


def _without_hint(name: str) -> str:
    """Definition of a 2D block builtin's variant with a cache hint, which it ignores."""
    surface = "global void *base, int width, int height, int pitch, int2 at"
    kind, bits, columns = re.findall(r"_2d_block_([a-z_]+)_(\d+)b_\d+r(\d+)x", name)[0]
    word = block_word(kind, int(bits), int(columns))
    buffer, behind = ("", "") if kind == "prefetch" else (f", private {word} *data", ", data")
    return f"static inline void __internal_{name}_cache_controls({surface}{buffer}, int cache)\n" \
           f"{{\n  {name}(base, width, height, pitch, at{behind});\n}}\n\n"


def _family_prelude(file: str, names: frozenset[str]) -> str:
    if not names:
        return ""
    lines = _FAMILIES[file][1]
    if unknown := sorted(names - lines.keys()):
        raise TargetError("XT9406", f"no emulation of the builtin {unknown[0]}", _nearest(unknown[0], lines))
    source = [_source(file).rstrip("\n")] if file else []
    return "\n".join([*source, *(lines[name] for name in sorted(names))]) + "\n\n"


def _nearest(name: str, known: dict[str, str]) -> str:
    """Hint with the known names that share the longest prefix with ``name``, at most four."""
    shared = {other: _shared_beginning(name, other) for other in known}
    best = [other for other in known if shared[other] == max(shared.values())]
    return "the nearest that exist: " + ", ".join(best[:4])


def _shared_beginning(a: str, b: str) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


@cache
def _source(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")
