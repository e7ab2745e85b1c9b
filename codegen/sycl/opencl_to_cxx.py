"""Translation of emitted OpenCL C to C++ for clang's SYCL mode, token by token, with a compatibility header.

The header, ``opencl.hpp``, defines OpenCL's vector types and functions under their own names, so that most of the text
is unchanged. The rest are tokens: vector literals, address spaces, names that C++ reserves. The input is the text of
:mod:`codegen.opencl` and the prelude, not arbitrary OpenCL C.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from importlib.resources import files

from codegen.opencl.prelude.predicated import LOAD, STORE
from codegen.opencl.reserved_names import CPLUSPLUS
from codegen.opencl.source import Prototype
from codegen.opencl.values import ACCUMULATORS, block_word
from xegpu.support.errors import BUG, TargetError

_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?:[^/"]|/(?![/*]))+', re.DOTALL)
_SCALAR = r"(?:u?(?:char|short|int|long)|half|float|double)"
_VECTOR = rf"{_SCALAR}(?:2|3|4|8|16)"


def _unrolled(match: re.Match[str]) -> str:
    count = match[1]
    return f'_Pragma("clang loop unroll({"disable" if count == "1" else "full"})")'


_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"__attribute__\(\(opencl_unroll_hint\((\d+)\)\)\)", _unrolled),
    (rf"\(({_VECTOR})\)\(", r"make_\1("),
    (r"\((\w+##\w+)\)\(", r"joined<\1>("),  # vector literal of a type that a macro pastes together
    (rf"\blocal ({_SCALAR}\d*) (\w+)((?:\[[^\]]*\])+)(?: __attribute__\(\(aligned\(64\)\)\))?;",
     r"auto &\2 = *(XETILE_LOCAL \1(*)\3)__sycl_allocateLocalMemory(sizeof(\1\3), 64);"),
    (rf"\bconstant ({_SCALAR})\b", r"static const \1"),
    (r"\(private (?=[\w ]+\*\))", "(XETILE_PRIVATE "),
    (r"\bprivate ", ""),  # a parameter: a generic pointer takes any
    (r"\bglobal\b", "XETILE_GLOBAL"),
    (r"\blocal\b", "XETILE_LOCAL"),
    (rf"\b({'|'.join(sorted(CPLUSPLUS))})\b", r"\1_cplusplus"),
)
"""Token patterns with their replacements, in order."""


def translate(text: str) -> str:
    """Translate OpenCL C to equivalent C++ for use after :func:`header`; comments and strings are unchanged.

    Args:
        text: functions, macros or statements, as :mod:`codegen.opencl` and :mod:`codegen.opencl.prelude` write them.
    """
    return "".join(part if part.startswith(("//", "/*", '"')) else _translated(part) for part in _CODE.findall(text))


def _translated(code: str) -> str:
    for pattern, new in _WORDS:
        code = re.sub(pattern, new, code)
    return code


def prototype(declared: Prototype, emulated: bool) -> str:
    """Translate a prototype to C++; empty where :func:`header` or a prelude defines the function.

    Args:
        declared: the prototype.
        emulated: whether the text has a prelude.
    """
    if declared.name in (LOAD, STORE):
        return ""
    if declared.is_internal:
        named = declared.text.replace("private ", "XETILE_PRIVATE ")  # a generic pointer would be another function
        return "" if emulated else f'extern "C" XETILE_EXTERN {translate(named)}'
    return f"XETILE_EXTERN {translate(declared.text)}"


@cache
def header() -> str:
    """Compatibility header that translated text needs."""
    return files(__package__).joinpath("opencl.hpp").read_text(encoding="utf-8")


def declarations(predefined: Collection[str], lanes: int) -> str:
    """Declarations of Intel's builtins that a kernel calls.

    They are at global scope: the device's compiler knows them by their mangled C++ names.

    Args:
        predefined: what a kernel names, :attr:`codegen.opencl.source.Source.predefined`.
        lanes: subgroup size, on which the operand types of DPAS depend.
    """
    names = sorted(name for name in predefined if name.startswith("intel_sub_group_"))
    return "".join(_block_io(name) if "_2d_block_" in name else _dpas(name, lanes) for name in names)


_SURFACE = "XETILE_GLOBAL void *, int, int, int, int2"


def _undeclared(name: str) -> TargetError:
    return TargetError("XT9405", f"the builtin {name} has no declaration in C++", BUG)


def _block_io(name: str) -> str:
    match = re.fullmatch(r"intel_sub_group_2d_block_([a-z]+(?:_[a-z]+)?)_(\d+)b_\d+r(\d+)x\d+c", name)
    if match is None:
        raise _undeclared(name)
    kind, bits, columns = match[1], int(match[2]), int(match[3])
    if kind == "prefetch":
        return f"XETILE_EXTERN void {name}({_SURFACE});\n"
    word = block_word(kind, bits, columns)
    return f"XETILE_EXTERN void {name}({_SURFACE}, XETILE_PRIVATE {word} *);\n"


def _dpas(name: str, lanes: int) -> str:
    """Declarations of one DPAS builtin for every repeat count and accumulator."""
    if "_scaled_" in name:
        return f"XETILE_EXTERN float8 {name}(short8, int8, float8, uchar, uchar);\n"
    match = re.fullmatch(r"intel_sub_group_(\w+?)_(\w+?)_matrix_mad_k\d+", name)
    if match is None:
        raise _undeclared(name)
    a_type, b_type = match.groups()
    return "".join(_dpas_line(name, a_type, b_type, accumulator, lanes, rows)
                   for accumulator in _accumulators(a_type, lanes) for rows in (1, 2, 4, 8))


def _accumulators(a_type: str, lanes: int) -> Iterable[str]:
    narrow = ACCUMULATORS.get(a_type)
    if a_type[0] in "iu":
        return ("int",)
    return ("float", narrow) if narrow and lanes == 16 else ("float",)


def _dpas_line(name: str, a_type: str, b_type: str, accumulator: str, lanes: int, rows: int) -> str:
    unsigned = {type_: "u" if type_[0] == "u" else "" for type_ in (a_type, b_type)}
    a, b, a_rows = f"{unsigned[a_type]}{'short' if lanes == 16 else 'int'}", f"{unsigned[b_type]}int8", rows
    if a_type == "tf32":
        a, b, a_rows = "float", "float8", max(rows // 2, 1)
    c = _wide(accumulator, rows)
    # _Float16 is mangled otherwise than OpenCL's half, and Intel's compiler looks for the name of the latter.
    width = "" if rows == 1 else f"Dv{rows}_"
    label = f' __asm__("_Z{len(name)}{name}{width}sDv8_i{width}Dh")' if accumulator == "half" else ""
    return f"XETILE_EXTERN {c} {name}({_wide(a, a_rows)}, {b}, {c}){label};\n"


def _wide(scalar: str, width: int) -> str:
    return scalar if width == 1 else f"{scalar}{width}"

