"""Gathers of contiguous rows and columns in OpenCL C: vectors of words from each lane's address on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from codegen.opencl.emitter import NO_UNROLL, Emitter, atom
from codegen.opencl.gather_scatter.predicated import addresses_of, bits_of, declare_predicated
from codegen.opencl.prelude.macros import CALL, FILL, NO_VISA
from codegen.opencl.prelude.predicated import LOAD, load_prototype
from codegen.opencl.values import ArrayValue, Fragment, vector_type
from xegpu.dialect import gather_scatter as ops
from xegpu.dialect.block_io import desc_of
from xegpu.ir.dtypes import DType
from xegpu.ir.matchers import number

_ZEROS = """constant uint xetile_zeros[64] __attribute__((aligned(64))) = {0};

static global const uint *words_or_zeros(global const uint *words, bool active)
{
  return active ? words : (global const uint *)(ulong)xetile_zeros;
}
"""
"""What is masked off is read from zeros: a predicated message leaves registers as they are, so that zeros would have to
be written to them first, with an instruction for each."""


_REACH = 1 << 15
"""Bytes that a message may lie from its address: these are surely in the field of its instruction, of 20 bits on Xe2
with a sign."""


@dataclass(frozen=True)
class _Rows:
    """Function that loads ``width`` rows of a block from lanes' pointers to 8 bytes.

    The registers that a message of 64 bits a lane fills are the rows as they lie in memory, which is how a vector of
    an element a lane has them: virtual assembly (vISA) says so, where C could only move them.

    Attributes:
        dtype: the element type.
        width: how many rows.
        messages: how many pointers.
        lanes: of a subgroup.
        masks: meaning of each pointer's length: none, whether the chunk exists, or how many of its elements.
        distance: elements from the pointers to the data, if messages of 8 bytes a lane take it; else zero.
    """

    dtype: DType
    width: int
    messages: int
    lanes: int
    masks: Literal["", "_whole", "_masked"]
    distance: int = 0

    @property
    def name(self) -> str:
        """Its name."""
        return f"load_rows{self.masks}_{self.dtype}_{self.width}{f'_at_{self.distance}' if self.distance else ''}"

    @property
    def letters(self) -> str:
        """Names of the pointers; lengths have them behind an ``n``."""
        return "abcd"[:self.messages]

    def text(self) -> str:
        """Its definition."""
        element, result = self.dtype.opencl, vector_type(self.dtype.register, self.width)
        pointers = [f"global const {element} *{letter}" for letter in self.letters]
        lengths = [f"int n{letter}" for letter in self.letters if self.masks]
        head = f"static {result} {self.name}({', '.join([*pointers, *lengths])}, int offset)"
        rows = ",\n    ".join(f"as_{self.dtype.register}({self._row(row)})" for row in range(self.width))
        assembly = self._masked() if self.masks == "_masked" else self._whole()
        return (f"{head}\n{{\n#ifdef {NO_VISA}\n  return ({result})({rows});\n#else\n  {result} rows;\n"
                f"{assembly}  return rows;\n#endif\n}}\n")

    def _row(self, row: int) -> str:
        """A lane's element of a row in plain C."""
        across = self.lanes * self.dtype.bytes // ops.CHUNK_BYTES
        letter, lane = self.letters[row * across // self.lanes], f"{row * across % self.lanes}u"
        at = f"(global const {self.dtype.opencl} *)intel_sub_group_shuffle((ulong){letter}, {lane}) + offset + " \
            "get_sub_group_local_id()"
        if not self.masks:
            return f"*({at})"
        place = "0" if self.masks == "_whole" else "offset + (int)get_sub_group_local_id()"
        return f"{LOAD}({at}, {place} < intel_sub_group_shuffle(n{letter}, {lane}), 0)"

    def _whole(self) -> str:
        """Messages of 8 bytes a lane."""
        declared = [f".decl ROWS{i} v_type=G type=uq num_elts={self.lanes} align=GRF alias=<%0, "
                    f"{i * self.lanes * ops.CHUNK_BYTES}>" for i in range(self.messages)]
        at = f"+{self.distance * self.dtype.bytes:#x}" if self.distance else ""
        loads = [f"lsc_load.ugm (M1_NM, {self.lanes}) ROWS{i}:d64 flat[%{i + 1}{at}]:a64" for i in range(self.messages)]
        chosen = [f"((global const {self.dtype.opencl} *)words_or_zeros((global const uint *){letter}, n{letter} > 0))"
                  if self.masks else letter for letter in self.letters]
        behind = "" if self.distance else " + offset"
        return _assembly([*declared, *loads], '"=rw"(rows)', [f"(ulong)({each}{behind})" for each in chosen])

    def _masked(self) -> str:
        """Messages of a word a lane, of which each two are put together to 8 bytes."""
        together, lines, words = ops.WORD_BITS // self.dtype.bits, list[str](), list[str]()
        for i, letter in enumerate(self.letters):
            lines.append(f".decl ROWS{i} v_type=G type=ud num_elts={2 * self.lanes} align=GRF alias=<%0, "
                         f"{i * self.lanes * ops.CHUNK_BYTES}>")
            words += [f"{LOAD}((global const uint *)({letter} + offset) + {word}, "
                      f"n{letter} - offset >= {(word + 1) * together}, 0u)" for word in range(2)]
        moves = [f"mov (M1_NM, {self.lanes}) ROWS{i // 2}(0,{i % 2})<2> %{i + 1}(0,0)<1;1,0>"
                 for i in range(len(words))]
        return _assembly([*lines, *moves], '"=rw"(rows)', words)


def _assembly(lines: Sequence[str], result: str, inputs: Sequence[str]) -> str:
    """A statement of inline vISA."""
    text = "".join(f'    "{line}\\n"\n' for line in ("{", *lines, "}"))
    return f"  __asm__ volatile(\n{text}    : {result} : " + ", ".join(f'"rw"({each})' for each in inputs) + \
        ' : "memory");\n'


def load_rows(emitter: Emitter, operation: ops.LoadRowsOp) -> None:
    """Emit a gather of contiguous rows."""
    fragment, descs = emitter.fresh(operation.result), [emitter.values[desc] for desc in operation.descs]
    lengths = [] if operation.lengths is None else emitter.fragment(operation.lengths).words()
    masks: Literal["", "_whole", "_masked"] = "" if not lengths else "_masked" if operation.whole is None else "_whole"
    dtype = desc_of(operation.descs[0]).dtype
    distance = number(operation.offset) or 0
    is_immediate = emitter.target.immediate_offsets and masks != "_masked" and 0 < distance * dtype.bytes < _REACH
    rows = _Rows(dtype, fragment.width, len(descs), emitter.subgroup, masks, distance if is_immediate else 0)
    if masks:
        declare_predicated(emitter, dtype)
        emitter.external(LOAD, load_prototype("uint"))
        emitter.function(_ZEROS, "words_or_zeros")
    emitter.function(rows.text(), rows.name)
    arguments = [*(address for desc in descs for address in addresses_of(desc, 1)), *lengths,
                 emitter.values[operation.offset]]
    emitter.assign(operation.result, fragment, [f"{rows.name}({', '.join(arguments)})"])


def load_columns(emitter: Emitter, operation: ops.LoadColumnsOp) -> None:
    """Emit vectors of words from each lane's address on; words one by one where columns end in the middle."""
    array: ArrayValue = emitter.values[operation.source]
    fragment, lengths = emitter.fresh(operation.result), bits_of(emitter, operation.lengths)
    at, together = emitter.name("column"), ops.WORD_BITS // fragment.dtype.bits
    count = fragment.width * fragment.per_lane // together
    elements = f"{array.name} + {atom(bits_of(emitter, operation.offsets))}"
    first = f"(global const uint *)({elements})"
    if operation.unaligned is not None:
        function = _unaligned_function(emitter, fragment, count)
        emitter.line(f"{fragment.c_type} {', '.join(fragment.names)};")
        emitter.line(f"{function}({elements}, {lengths}, {', '.join(f'&{name}' for name in fragment.names)});")
        emitter.values[operation.result] = fragment
        return
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
    """Define the function that loads the words of a column up to its length, then zeros; return its name."""
    name, together = f"load_column_{dtype}_{count}", ops.WORD_BITS // dtype.bits
    words = [f"{LOAD}(words + {word}, length >= {(word + 1) * together}, 0u)" for word in range(count)]
    result = vector_type("uint", count)
    emitter.external(LOAD, load_prototype("uint"))
    emitter.function(f"{CALL} static {result} {name}(global const uint *words, int length)\n{{\n"
                     f"  return ({result})(" + ",\n    ".join(words) + ");\n}\n", name)
    return name


def _unaligned_function(emitter: Emitter, fragment: Fragment, count: int) -> str:
    """Define the function that loads the elements of columns as words; returns its name.

    Vectors of words, where the columns of all lanes are there and begin at a word; else single elements, and zeros.
    """
    dtype, names, c_type = fragment.dtype, fragment.names, fragment.c_type
    name, together = f"load_unaligned_columns_{dtype}_{count}x{len(names)}", ops.WORD_BITS // dtype.bits
    declare_predicated(emitter, dtype)
    result, unsigned = vector_type("uint", count), {8: "uchar", 16: "ushort", 32: "uint"}[dtype.bits]
    results = [f"private {c_type} *out{i}" for i in range(len(names))]
    size = count * together
    lines = [f"{FILL} static void {name}(global const {dtype.opencl} *elements, int length, {', '.join(results)})", "{",
             f"  if (sub_group_all(length >= {size * len(names)} && ((uint)(ulong)elements & 3u) == 0)) {{",
             "    global const uint *words = (global const uint *)elements;",
             *(f"    *out{i} = as_{c_type}({f'vload{count}({i}, words)' if count > 1 else f'words[{i}]'});"
               for i in range(len(names))),
             "    return;", "  }"]
    word = " | ".join(f"(uint)as_{unsigned}({LOAD}(elements + i + {part}, i + {part} < length, ({dtype.opencl})0)) << "
                      f"{part * dtype.bits}" for part in range(together))
    rotated = ", ".join([*(f"words.s{i:x}" for i in range(1, count)), word])
    lines.append(f"  {result} words = 0;")
    for i in range(len(names)):
        lines += [f"  {NO_UNROLL}", f"  for (int i = {i * size}; i < {i * size + size}; i += {together})",
                  f"    words = ({result})({rotated});", f"  *out{i} = as_{c_type}(words);"]
    emitter.function("\n".join([*lines, "}", ""]), name)
    return name
