"""Gathers of contiguous rows and columns in OpenCL C: vectors of words from each lane's address on."""

from __future__ import annotations

from codegen.opencl.emitter import Emitter, atom
from codegen.opencl.gather_scatter.predicated import addresses_of, bits_of
from codegen.opencl.prelude.macros import CALL, NO_VISA
from codegen.opencl.prelude.predicated import LOAD, load_prototype
from codegen.opencl.values import ArrayValue, vector_type
from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of
from xegpu.ir.dtypes import DType


def _rows_function(emitter: Emitter, dtype: DType, width: int, messages: int) -> str:
    """Define the function that loads ``width`` rows of a block from lanes' pointers to 8 bytes; returns its name.

    The registers that a message of 64 bits a lane fills are the rows as they lie in memory, which is how a vector of
    an element a lane has them: virtual assembly (vISA) says so, where C could only move them.
    """
    name, result, element = f"load_rows_{dtype}_{width}", vector_type(dtype.register, width), dtype.opencl
    letters, lanes = "abcd"[:messages], emitter.subgroup
    across = lanes * dtype.bytes // ops.CHUNK_BYTES
    pointers = ", ".join(f"global const {element} *{letter}" for letter in letters)
    head = f"static {result} {name}({pointers}, int offset)"
    rows = [f"*((global const {element} *)intel_sub_group_shuffle((ulong){letters[row * across // lanes]}, "
            f"{row * across % lanes}u) + offset + get_sub_group_local_id())" for row in range(width)]
    size = lanes * ops.CHUNK_BYTES
    assembly = ["{", *(f".decl ROWS{i} v_type=G type=uq num_elts={lanes} align=GRF alias=<%0, {i * size}>"
                       for i in range(messages)),
                *(f"lsc_load.ugm (M1_NM, {lanes}) ROWS{i}:d64 flat[%{i + 1}]:a64" for i in range(messages)), "}"]
    lines = "".join(f'    "{line}\\n"\n' for line in assembly)
    inputs = ", ".join(f'"rw"((ulong)({letter} + offset))' for letter in letters)
    portable = ",\n    ".join(f"as_{dtype.register}({row})" for row in rows)
    emitter.function(f"{head}\n{{\n#ifdef {NO_VISA}\n  return ({result})({portable});\n#else\n  {result} rows;\n"
                     f'  __asm__ volatile(\n{lines}    : "=rw"(rows) : {inputs} : "memory");\n'
                     "  return rows;\n#endif\n}\n")
    return name


def load_rows(emitter: Emitter, operation: ops.LoadRowsOp) -> None:
    """Emit a gather of contiguous rows."""
    fragment, descs = emitter.fresh(operation.result), [emitter.values[desc] for desc in operation.descs]
    function = _rows_function(emitter, desc_of(operation.descs[0]).dtype, fragment.width, len(descs))
    pointers = ", ".join(address for desc in descs for address in addresses_of(desc, 1))
    emitter.assign(operation.result, fragment, [f"{function}({pointers}, {emitter.values[operation.offset]})"])


_ZEROS = """constant uint xetile_zeros[64] __attribute__((aligned(64))) = {0};

static global const uint *words_or_zeros(global const uint *words, bool active)
{
  return active ? words : (global const uint *)(ulong)xetile_zeros;
}
"""
"""What is masked off is read from zeros: a predicated message leaves registers as they are, so that zeros would have to
be written to them first, with an instruction for each."""


def load_columns(emitter: Emitter, operation: ops.LoadColumnsOp) -> None:
    """Emit vectors of words from each lane's address on; words one by one where columns end in the middle."""
    array: ArrayValue = emitter.values[operation.source]
    fragment, lengths = emitter.fresh(operation.result), bits_of(emitter, operation.lengths)
    at, together = emitter.name("column"), ops.WORD_BITS // fragment.dtype.bits
    count = fragment.width * fragment.per_lane // together
    first = f"(global const uint *)({array.name} + {atom(bits_of(emitter, operation.offsets))})"
    if operation.whole is not None:
        emitter.function(_ZEROS, "words_or_zeros")
        emitter.line(f"global const uint *const {at} = words_or_zeros({first}, {atom(lengths)} > 0);")
        words = [f"vload{count}({i}, {at})" if count > 1 else f"{at}[{i}]" for i in range(len(fragment.names))]
    else:
        emitter.line(f"global const uint *const {at} = {first};")
        function = _column_function(emitter, fragment.dtype, count)
        words = [f"{function}({at} + {i * count}, {atom(lengths)} - {i * count * together})"
                 for i in range(len(fragment.names))]
    emitter.assign(operation.result, fragment, [f"as_{fragment.c_type}({word})" for word in words])


def _column_function(emitter: Emitter, dtype: DType, count: int) -> str:
    """Define the function that loads as many words of a column as its length has, and zeros; returns its name."""
    name, together = f"load_column_{dtype}_{count}", ops.WORD_BITS // dtype.bits
    words = [f"{LOAD}(words + {word}, length >= {(word + 1) * together}, 0u)" for word in range(count)]
    result = vector_type("uint", count)
    emitter.external(LOAD, load_prototype("uint"))
    emitter.function(f"{CALL} static {result} {name}(global const uint *words, int length)\n{{\n"
                     f"  return ({result})(" + ",\n    ".join(words) + ");\n}\n", name)
    return name
