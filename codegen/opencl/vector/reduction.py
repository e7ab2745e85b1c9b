"""Reductions and broadcasts of blocks in OpenCL C, in registers and by subgroup shuffles.

Rows of a matrix are reduced by merges that fold rows and lanes together: of two words, half of the lanes keep one and
send the other. So 8 rows of 16 lanes take 4 + 2 + 1 merges and one fold, and lane ``l`` then holds the result of row
``l % 8``; rows of floats are by regions of registers (:mod:`codegen.opencl.vector.row_regions`). A column goes back to
its rows by broadcasts from constant lanes, which are such regions too.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from codegen.opencl.arith.text import TEXT
from codegen.opencl.emitter import Emitter, Rule
from codegen.opencl.prelude.macros import MAXNUM
from codegen.opencl.values import Fragment, computed, narrowed, vector_type
from codegen.opencl.vector import row_regions
from codegen.opencl.vector.lane_exchange import Combine, Words, bits_in, bits_out, called, index_table, shuffled_type
from xegpu.dialect.reduction import BroadcastOp, ReduceOp
from xegpu.ir.dtypes import DType
from xegpu.layout import lane_map
from xegpu.layout.linear_layout import LaneBits, bits_of
from xegpu.mlir.combining_kind import NNAN, operation_of
from xegpu.mlir.elementwise import RECORDS
from xegpu.support.errors import TargetError


def _compute_type(kind: str, dtype: DType) -> str:
    """C type of the accumulation: float for narrower floats, a 32-bit word for narrower integers.

    Signed overflow is undefined in C, so integers are unsigned where their signedness makes no difference.
    """
    if dtype.is_float:
        return "double" if dtype.bits == 64 else "float"
    signed = RECORDS[operation_of(kind, dtype)].operands == "i"
    return f"{'' if signed else 'u'}{'long' if dtype.bits == 64 else 'int'}"


def _widened(variable: str, fragment: Fragment, c_type: str) -> str:
    """Widen a variable of a fragment to the accumulation type."""
    dtype, width = fragment.dtype, fragment.width
    if dtype.opencl_compute != dtype.opencl:
        return computed(variable, dtype, width)
    if dtype.opencl == c_type:
        return variable
    target, unsigned = vector_type(c_type, width), f"u{dtype.opencl}"
    if not dtype.is_float and c_type.startswith("u") and dtype.kind == "i":
        variable = f"as_{vector_type(unsigned, width)}({variable})"
        if unsigned == c_type:
            return variable
    return f"convert_{target}({variable})"


def _rounded(word: str, dtype: DType, c_type: str) -> str:
    """Round a result to its element type."""
    if dtype.is_float:
        return narrowed(word, dtype, 1)
    return word if dtype.opencl == c_type else f"({dtype.opencl})({word})"


def _combine(kind: str, dtype: DType, c_type: str, width: int = 1, *, is_cpu: bool = False) -> Combine:
    """Combining function of a reduction kind, as C."""
    text = TEXT[operation_of(kind, dtype)]
    if is_cpu and c_type == "float" and width == 1 and text.text in MAXNUM:
        return lambda a, b: f"{MAXNUM[text.text]}({a}, {b})"
    if text.form == "extreme":
        return lambda a, b: f"{_extreme_name(kind, c_type, width)}({a}, {b})"
    return text.combine


_BITS = {"maxnumf": (("max", "d"), ("min", "ud")), "minnumf": (("min", "d"), ("max", "ud"))}
"""Instructions of vISA, with types, that reduce the bits of numbers as integers; one result is the numbers' extreme.

The signed maximum is that of the numbers where one is not negative, the unsigned minimum where all are negative; what
the other one gives is one of the numbers, too. Minima are alike: signed where none is negative, unsigned where one is.
"""


def _extreme_name(kind: str, c_type: str, width: int) -> str:
    return f"reduce_{kind}_{vector_type(c_type, width)}"


def _extreme(kind: str, dtype: DType, c_type: str, width: int) -> str:
    """Maximum or minimum function that propagates NaN, which OpenCL's fmax and fmin drop."""
    type_, chosen = vector_type(c_type, width), TEXT[operation_of(kind, dtype)].combine("a", "b", width)
    name = _extreme_name(kind, c_type, width)
    return f"static {type_} {name}({type_} a, {type_} b)\n{{\n  return {chosen};\n}}\n"


def _together(lines: list[str], fragment: Fragment, blocks: int, variable: int, combine: Combine, c_type: str) -> str:
    """Combine the same variable of all blocks as a balanced tree, for instruction-level parallelism."""
    count, type_ = 0, vector_type(c_type, fragment.width)
    each = len(fragment.names)
    values = [_widened(f"v{block * each + variable}", fragment, c_type) for block in range(blocks)]
    while len(values) > 1 or not count:
        pairs = [values[i:i + 2] for i in range(0, len(values), 2)]
        values = []
        for pair in pairs:
            lines.append(f"const {type_} t{variable}_{count} = {combine(*pair) if len(pair) == 2 else pair[0]};")
            values.append(f"t{variable}_{count}")
            count += 1
    return values[0]


def _reduce(emitter: Emitter, operation: ReduceOp) -> None:
    fragments = [emitter.by_words(source) for source in operation.sources]
    result = emitter.fresh(operation.result)
    assert operation.maps is not None
    shape = operation.larger(operation.sources[0])
    source, target = (bits_of(block, lanes, emitter.subgroup) for block, lanes in
                      zip((shape, operation.smaller(operation.sources[0])), operation.maps, strict=True))
    if source is None or target is None:
        raise TargetError("XT9400", f"blocks of {shape[0]}x{shape[1]} are not reduced in registers",
                          "make rows and columns of the vector multiples of a power of two")
    _call(emitter, operation, fragments, result, (source, target))
    emitter.values[operation.result] = result


def _call(emitter: Emitter, operation: ReduceOp, fragments: Sequence[Fragment], result: Fragment,
          bits: tuple[LaneBits, LaneBits]) -> None:
    """Emit a function that reduces such blocks, and its call."""
    first, kind, axes = fragments[0], operation.kind.data, operation.dimensions
    c_type = _compute_type(kind, first.dtype)
    (rows, columns), (source, target) = operation.larger(operation.sources[0]), bits
    label = "".join(map(str, axes))
    by_bits = _BITS.get(kind, ()) if NNAN in operation.attributes else ()
    name = f"reduce_{kind}{f'_{NNAN}' * bool(by_bits)}_{first.dtype}_{len(fragments)}x{rows}x{columns}_along_{label}_" \
           f"{_label(operation)}"
    if kind.endswith("imumf"):
        for width in {1, first.width}:
            emitter.function(_extreme(kind, first.dtype, c_type, width))
    lines: list[str] = []
    is_cpu = emitter.target.is_cpu
    combine = _combine(kind, first.dtype, c_type, first.width, is_cpu=is_cpu)
    together = [_together(lines, first, len(fragments), v, combine, c_type) for v in range(len(first.names))]
    words = Words(c_type, first.renamed(tuple(together)).words(), source)
    words.lines += lines
    words.named()
    has_regions = emitter.target.register_bytes == 64 and not is_cpu
    if has_regions and row_regions.applies(words, axes, c_type, target):
        combines = {width: _combine(kind, first.dtype, c_type, width) for width in (1, 2, 4)}
        if kind.endswith("imumf"):
            for width in combines:
                emitter.function(_extreme(kind, first.dtype, c_type, width))
        row_regions.reduce_rows(emitter, words, axes, target, combines, by_bits)
    else:
        # Intel's graphics compiler (of ocloc 26.27) makes a clustered reduction of x | shuffle_xor(x, n), and loses
        # it where x has 64 bits and the operation is bitwise: what is stored then is what a register happened to hold.
        by_halves = kind in ("and", "or", "xor") and c_type in ("long", "ulong")
        row_regions.reduce_words(words, axes, target, _combine(kind, first.dtype, c_type, is_cpu=is_cpu),
                                 by_halves=by_halves)
    called(emitter, name, [(first.c_type, variable) for fragment in fragments for variable in fragment.names], words,
           result, [_rounded(word, first.dtype, c_type) for word in words.names])


def _label(operation: ReduceOp | BroadcastOp) -> str:
    assert operation.maps is not None
    return "_to_".join(f"{lanes.wi_layout[0]}x{lanes.wi_layout[1]}" for lanes in operation.maps)


def _broadcast(emitter: Emitter, operation: BroadcastOp) -> None:
    fragment = emitter.fragment(operation.source)
    assert operation.maps is not None
    source, target = operation.maps
    shape, small = operation.larger(operation.result), operation.smaller(operation.result)
    rows, columns = (axis % size for axis, size in zip(lane_map.positions(shape, target, emitter.subgroup), small,
                                                       strict=True))
    words, across = emitter.words(operation.source), small[1] // source.unit[1]
    results = []
    for unit in range(rows.shape[1]):
        r, c = rows[:, unit, 0], columns[:, unit, 0]
        holder = (r % source.unit[0]) * source.wi_layout[1] + c % source.unit[1]
        index = r // source.unit[0] * across + c // source.unit[1]
        results.append(_fetched(emitter, words, [int(h) for h in holder], [int(i) for i in index], source.lanes,
                                fragment.dtype))
    emitter.assign_words(operation.result, results)


def _fetched(emitter: Emitter, words: Sequence[str], holder: list[int], index: list[int], repeats: int,
             dtype: DType) -> str:
    """Expression of a word of the result: the lane's own word, a broadcast from one lane, or a shuffle.

    Intel's graphics compiler (of ocloc 26.27) fails for some kernels in which the first accumulator of two loops of
    products that follow each other is made of ``sub_group_broadcast``, of bits or of floats. A shuffle from a constant
    lane is the same instructions.
    """
    if len(set(index)) > 1:
        raise TargetError("XT9400",
                          "a row of a broadcast lies in several words", "make the columns a multiple of the lanes")
    word = words[index[0]]
    if all(source_lane == lane % repeats for lane, source_lane in enumerate(holder)):
        return word
    if len(set(holder)) == 1:
        fetch = "intel_sub_group_shuffle" if emitter.target.block_io else "sub_group_broadcast"
        return bits_out(f"{fetch}({bits_in(word, dtype)}, {holder[0]}u)", dtype)
    each = holder.count(holder[0])
    is_repeated = holder == [holder[0] + lane // each for lane in range(len(holder))]
    if is_repeated and emitter.target.register_bytes == 64 and shuffled_type(dtype) == "uint":
        return bits_out(f"{row_regions.repeat_lanes(emitter, holder[0], each)}({bits_in(word, dtype)})", dtype)
    table = index_table(holder, "(uint)get_sub_group_local_id()")
    return bits_out(f"intel_sub_group_shuffle({bits_in(word, dtype)}, {table})", dtype)


RULES: dict[type[Operation], Rule] = {ReduceOp: _reduce, BroadcastOp: _broadcast}
