"""Emission of an author's element-wise text (``xegpu.inline``): a function of one element, called for each.

The function is at file scope, so that the text sees no variable of the kernel; parameters have names of a reserved
family. vISA is inline assembly, whose operands are registers with an element a lane.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Operation

from codegen.opencl.emitter import Emitter, Rule, atom, line_mark
from codegen.opencl.prelude.macros import NO_VISA
from codegen.opencl.values import vector_type
from xegpu.dialect.inline import FIELD, InlineOp
from xegpu.ir.dtypes import DType, of_mlir
from xegpu.support.location import author_location

_UNSIGNED = {"uchar": "ub", "ushort": "uw", "uint": "ud", "ulong": "uq"}  # C types, and their names in vISA


def _inline(emitter: Emitter, operation: InlineOp) -> None:
    types = _types(operation.outputs)
    if not isinstance(operation.outputs[0].type, VectorType):
        operands = [atom(str(emitter.values[value])) for value in operation.inputs]
        names = [emitter.name(value.name_hint) for value in operation.outputs]
        for value, (name,) in zip(operation.outputs, _call_results(emitter, operation, types, [names], [operands], 1),
                                  strict=True):
            emitter.values[value] = name
        return
    results = [emitter.fresh(value) for value in operation.outputs]
    operands_of = zip(*(emitter.fragment(value).names for value in operation.inputs), strict=True)
    names_of = [list(names) for names in zip(*(result.names for result in results), strict=True)]
    _call_results(emitter, operation, types, names_of, [list(names) for names in operands_of], results[0].width)
    for value, result in zip(operation.outputs, results, strict=True):
        emitter.values[value] = result


def _call_results(emitter: Emitter, operation: InlineOp, types: Sequence[DType], names: Sequence[Sequence[str]],
            operands: Sequence[Sequence[str]], width: int) -> list[tuple[str, ...]]:
    """Declare variables of a width for the results of calls; returns the names of each result's.

    Args:
        emitter: the emitter.
        operation: the operation.
        types: of its results.
        names, operands: of each call, the variables of the results, and the expressions of the operands.
        width: elements of a variable.
    """
    function, uniform = _element_function(emitter, operation), not isinstance(operation.outputs[0].type, VectorType)
    if width > 1:
        function = _of_vectors(emitter, operation, function, width)
    for results, values in zip(names, operands, strict=True):
        if len(results) == 1:
            call = f"{function}({', '.join(values)})"
            emitter.line(f"{vector_type(types[0].opencl, width)} {results[0]} = {call};")
        else:
            for dtype, name in zip(types, results, strict=True):
                emitter.line(f"{vector_type(dtype.opencl, width)} {name};")
            emitter.line(f"{function}({', '.join([*values, *(f'&{name}' for name in results)])});")
        if uniform and "visa" in operation.languages(emitter.target):  # lanes compute it, and a number is of them all
            for name in results:
                emitter.line(f"{name} = sub_group_broadcast({name}, 0);")
    return list(zip(*names, strict=True))


def _of_vectors(emitter: Emitter, operation: InlineOp, scalar: str, width: int) -> str:
    """Define the function of vectors that calls that of one element for each, and return its name."""
    inputs, outputs = ([vector_type(dtype.opencl, width) for dtype in _types(values)]
                       for values in (operation.inputs, operation.outputs))
    name, positions = f"{scalar}_{width}", [f"{i:x}" for i in range(width)]
    parameters = [f"{c_type} xetile_{i}" for i, c_type in enumerate(inputs)]
    elements = [", ".join(f"xetile_{i}.s{position}" for i in range(len(inputs))) for position in positions]
    if len(outputs) == 1:
        lines = [f"return ({outputs[0]})({', '.join(f'{scalar}({element})' for element in elements)});"]
    else:
        parameters += [f"private {c_type} *xetile_p{i}" for i, c_type in enumerate(outputs)]
        lines = [f"{dtype.opencl} xetile_r{i}[{width}];" for i, dtype in enumerate(_types(operation.outputs))]
        lines += [f"{scalar}({element}, {', '.join(f'xetile_r{i} + {at}' for i in range(len(outputs)))});"
                  for at, element in enumerate(elements)]
        lines += [f"*xetile_p{i} = ({c_type})({', '.join(f'xetile_r{i}[{at}]' for at in range(width))});"
                  for i, c_type in enumerate(outputs)]
    _define(emitter, name, outputs, parameters, "".join(f"  {line}\n" for line in lines))
    return name


def _define(emitter: Emitter, name: str, outputs: Sequence[str], parameters: Sequence[str], body: str) -> None:
    """Define a function that gives one result, or several through pointers."""
    result = outputs[0] if len(outputs) == 1 else "void"
    emitter.function(f"static {result} {name}({', '.join(parameters)})\n{{\n{body}}}\n", name)


def _types(values: Sequence[object]) -> list[DType]:
    types = [value.type for value in values]  # type: ignore[attr-defined]
    return [of_mlir(type_.element_type if isinstance(type_, VectorType) else type_) for type_ in types]


def _element_function(emitter: Emitter, operation: InlineOp) -> str:
    """Define the function of one element, behind the author's declarations, and return its name."""
    inputs, outputs = _types(operation.inputs), _types(operation.outputs)
    parameters = [f"{dtype.opencl} xetile_{i}" for i, dtype in enumerate(inputs)]
    if len(outputs) > 1:
        parameters += [f"private {dtype.opencl} *xetile_p{i}" for i, dtype in enumerate(outputs)]
    body = _body(emitter, operation, outputs)
    declarations = operation.declarations.data if operation.declarations is not None else ""
    key = repr((declarations, parameters, outputs, body))
    name = f"xetile_inline_{hashlib.sha256(key.encode()).hexdigest()[:8]}"
    mark = f"// {line_mark(author_location(operation))}\n"
    emitter.author_text(body)
    if declarations:
        emitter.author_text(declarations, f"{mark}{declarations}\n\n")
    _define(emitter, name, [dtype.opencl for dtype in outputs], parameters, f"  {mark}{body}")
    return name


def _body(emitter: Emitter, operation: InlineOp, outputs: Sequence[DType]) -> str:
    """Statements of the function: vISA, with OpenCL C for compilers that take none."""
    texts = operation.languages(emitter.target)
    variables = "".join(f"  {dtype.opencl} xetile_r{i};\n" for i, dtype in enumerate(outputs))
    end = "  return xetile_r0;\n" if len(outputs) == 1 else \
        "".join(f"  *xetile_p{i} = xetile_r{i};\n" for i in range(len(outputs)))
    opencl = texts.get("opencl")
    if opencl is None:
        portable = "#error this vISA has no OpenCL C beside it, which devices without vISA run\n"
    else:
        filled = FIELD.sub(r"xetile_\1\2", opencl.replace("{lanes}", str(emitter.subgroup)))
        filled += "\n  " * ("//" in filled)  # a comment ends before the semicolon
        portable = f"  return {filled};\n" if not re.search(r"\{r\d", opencl) else f"{variables}  {filled}\n{end}"
    if "visa" not in texts:
        return portable
    inputs = _types(operation.inputs)
    visa = _visa_lines(texts["visa"], emitter.subgroup, outputs, inputs)
    lines = "".join(f'    "{_escaped(line)}\\n"\n' for line in visa)
    to = ", ".join(f'"=rw"(xetile_r{i})' for i in range(len(outputs)))
    of = ", ".join(f'"rw"(xetile_{i})' for i in range(len(inputs)))
    return f"#ifdef {NO_VISA}\n{portable}#else\n{variables}  __asm__(\n{lines}    : {to} : {of});\n{end}#endif\n"


def _visa_lines(text: str, subgroup: int, outputs: Sequence[DType], inputs: Sequence[DType]) -> list[str]:
    """Lines of a block of vISA, whose operands are %-numbers, results first: each is a variable of a lane's element.

    The compiler declares variables of integers signed, as LLVM's integers have no sign; a field that is unsigned in
    OpenCL C becomes an alias of an unsigned type: ``.decl xetile_v1 v_type=G type=ud num_elts=16 alias=<%1, 0>``.
    """
    fields = [*(f"r{i}" for i in range(len(outputs))), *(str(i) for i in range(len(inputs)))]
    used = {match[1] + match[2] for match in FIELD.finditer(text)}
    names, aliases = {}, []
    for number, (field, dtype) in enumerate(zip(fields, [*outputs, *inputs], strict=True)):
        unsigned = _UNSIGNED.get(dtype.opencl)
        names[field] = f"\0{number}" if unsigned is None else f"xetile_v{number}"
        if unsigned is not None and field in used:
            aliases.append(f".decl xetile_v{number} v_type=G type={unsigned} num_elts={subgroup} align=GRF "
                           f"alias=<\0{number}, 0>")
    filled = FIELD.sub(lambda field: names[field[1] + field[2]], text.replace("{lanes}", str(subgroup)))
    lines = ["{", *aliases, *filled.splitlines(), "}"]
    return [line.strip().replace("%", "%%").replace("\0", "%") for line in lines if line.strip()]


def _escaped(line: str) -> str:
    return line.replace("\\", "\\\\").replace('"', '\\"')


RULES: dict[type[Operation], Rule] = {InlineOp: _inline}
