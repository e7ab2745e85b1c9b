"""Stores of blocks element by element, or by 1D block writes of their rows, in OpenCL C."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from codegen.opencl.arith import predicate
from codegen.opencl.block_io import predicated_words, row_writes, store_runs
from codegen.opencl.block_io.block_slice import (
    BLOCK_WRITES,
    KEPT,
    PARAMETERS,
    BlockSlice,
    WholeBlock,
    block_of,
    position,
)
from codegen.opencl.block_io.element_loads import arguments_of
from codegen.opencl.block_io.row_runs import stores as row_runs
from codegen.opencl.emitter import COLUMNS_OF_ROW, NO_UNROLL, Emitter, is_by_rows, masks_row
from codegen.opencl.prelude.macros import CALL
from codegen.opencl.values import UNSIGNED, Fragment
from xegpu.dialect.block_io import StoreNdOp, desc_of
from xegpu.dialect.bounds import fills_writes
from xegpu.support.errors import TargetError

_OF_FIRST_LANE = {"half": "as_half((ushort)sub_group_broadcast((uint)as_ushort({0}), 0))"} | {
    word: f"({word})sub_group_broadcast((uint){{0}}, 0)" for word in ("char", "uchar", "short", "ushort")}
"""The first lane's word, of types for which CPUs have no scatter instruction, by 32 bits."""


def store(emitter: Emitter, operation: StoreNdOp) -> None:
    """Emit ``store_nd`` as element stores."""
    block = block_of(emitter, desc_of(operation.desc))
    by_words = not block.promised and is_by_rows(emitter, operation.value, block.lanes)
    stored = emitter.by_words(operation.value) if by_words else emitter.fragment(operation.value)
    fragment = predicate.to_memory(emitter, stored)
    if fragment.per_lane != 1:
        raise TargetError("XT9400",
                          "a block cannot be stored through a descriptor that others are loaded through in words",
                          "make a descriptor of its own for what is stored")
    if operation.valid is not None:
        row_runs.store(emitter, operation)
        return
    pieces = [replace(piece, in_bounds=operation.in_bounds is not None) for piece in block.pieces(fragment.width)]
    by_rows = operation.in_bounds is not None and block.row_bits > 0 and fills_writes(block.desc)
    contiguous = by_rows and block.is_contiguous(emitter.values[operation.desc].pitch)

    def calls(pieces: list[BlockSlice], kind: str) -> list[str]:
        return [f"{piece.function('store')}{kind}({arguments_of(emitter, operation.desc, *piece.at)}, {name});"
                for piece, name in zip(pieces, fragment.names, strict=True)]

    if emitter.target.is_cpu and operation.in_bounds is not None:
        for line in calls(pieces, ""):
            emitter.function(_inlined_store(emitter, pieces[0], fragment))
            emitter.line(line)
        return
    if emitter.target.is_cpu and not block.promised:
        inside = [replace(piece, in_bounds=True) for piece in pieces]
        at_edges = "_masked" if masks_row(emitter, fragment, pieces[0].lanes) else "_edge"
        for piece, edge in zip(inside, pieces, strict=True):
            emitter.function(_inlined_store(emitter, piece, fragment))
            emitter.function(_edge_store(edge, fragment, at_edges))
        store_runs.add(emitter, operation, calls(inside, ""), calls(pieces, at_edges), store_runs.MOST_WORDS,
                       partial(store_runs.flush_calls, emitter))
        return
    for piece in pieces:
        if by_rows:
            emitter.function(_rows_store(block, piece, fragment, contiguous))
            continue
        if predicated_words.is_predicated(emitter, piece, fragment):
            predicated_words.store_function(emitter, piece, fragment)
            continue
        if not piece.promised:
            emitter.function(_edge_store(piece, fragment))
        emitter.function(_inlined_store(emitter, piece, fragment))
    if row_writes.applies(emitter, operation, block):
        row_writes.add(emitter, operation, block, fragment, calls(pieces, ""))
        return
    statements = calls(pieces, "_contiguous" if contiguous else "_rows" if by_rows else "")
    for statement in predicated_words.apart(emitter, statements, pieces[0], fragment):
        emitter.line(statement)


def _head_of_store(name: str, fragment: Fragment, piece: BlockSlice, attribute: str = "") -> list[str]:
    """Signature of a store, and the position of a lane's first element."""
    return [f"{attribute}static void {name}(global {fragment.word} *base, {PARAMETERS}, {fragment.c_type} words)", "{",
            *(f"  {line}" for line in position(piece.lanes, piece.subgroup))]


def _inlined_store(emitter: Emitter, piece: BlockSlice, fragment: Fragment) -> str:
    """Element-wise store of one variable, with an inlined bounds check unless it is known to be in bounds.

    Where it is used, a compiler sees that the position is the same for all lanes; in a call, each has one of its own,
    and CPUs scatter what they could store as a vector. Where all lanes hold one element, in a type that cannot be
    scattered, a CPU stores that of the first; it would store one after the other, with a branch each.
    """
    name = piece.function("store")
    is_first = emitter.target.is_cpu and piece.lanes.wi_layout == (1, 1) and fragment.word in _OF_FIRST_LANE
    values = [_OF_FIRST_LANE[fragment.word].format(value) if is_first else value for value in _words(fragment)]
    stores = [f"  {piece.unchecked(*piece.coordinates(i)[0])} = {value};" for i, value in enumerate(values)]
    if not piece.promised:
        stores = [f"  if ({piece.is_inside()}) {{", *(f"  {line}" for line in stores),
                  f"  }} else {name}_edge(base, height, width, pitch, step, y, x, words);"]
    return "\n".join([*_head_of_store(name, fragment, piece), *stores, "}", ""])


def _rows_store(block: WholeBlock, piece: BlockSlice, fragment: Fragment, contiguous: bool) -> str:
    """Store of one variable by 1D block writes: of all its rows if they are ``contiguous``, else of each word."""
    bits, unit, across = block.row_bits, block.lanes.unit[1], piece.shape[1] // block.lanes.unit[1]
    parts = [("y", "x", "words", fragment.width)] if contiguous else \
        [(_plus("y", i // across), _plus("x", i % across * unit), word, 1) for i, word in enumerate(_words(fragment))]
    kind = "contiguous" if contiguous else "rows"
    lines = []
    for row, column, words, width in parts:
        number = "" if width == 1 else str(width)
        lines.append(f"  {BLOCK_WRITES[bits]}{number}((global {UNSIGNED[bits]} *)(base + ({row}) * (long)pitch + "
                     f"{column}), as_{UNSIGNED[bits]}{number}({words}));")
    return "\n".join([f"static void {piece.function('store')}_{kind}(global {fragment.word} *base, {PARAMETERS}, "
                      f"{fragment.c_type} words)", "{", *lines, "}", ""])


def _plus(coordinate: str, distance: int) -> str:
    return f"{coordinate} + {distance}" if distance else coordinate


def _edge_store(piece: BlockSlice, fragment: Fragment, kind: str = "_edge") -> str:
    """Function that stores one variable with a bounds check for each element; a ``_masked`` one is inlined."""
    is_masked = kind == "_masked"
    head = _head_of_store(f"{piece.function('store')}{kind}", fragment, piece, "" if is_masked else f"{CALL} ")
    if not is_masked:
        return "\n".join([*head, *_stored_at_edges(piece, fragment, _words(fragment)[0]), "}", ""])
    condition, element = piece.masked_element
    return "\n".join([*head, f"  {COLUMNS_OF_ROW}", f"  if ({condition}) {element} = words;", "}", ""])


def _words(fragment: Fragment) -> list[str]:
    """Words of the parameter ``words`` of a store."""
    return [f"words.s{i:x}" for i in range(fragment.width)] if fragment.width > 1 else ["words"]


def _stored_at_edges(piece: BlockSlice, fragment: Fragment, value: str) -> Iterator[str]:
    """Loop of bounds-checked stores of the variable's first word; each iteration shifts the next one there."""
    width = fragment.width
    word = 0 if width == 1 else None
    checked = f"  if ({piece.has_element(word)}) {piece.unchecked(*piece.coordinates(word)[0])} = {value};"
    if width == 1:
        yield checked
        return
    moved = "".join(f"words.s{part}, " for part in KEPT[width])
    yield f"  {NO_UNROLL}"
    yield f"  for (int i = 0; i < {width}; ++i) {{"
    yield f"  {checked}"
    yield f"    words = ({fragment.c_type})({moved}0);"
    yield "  }"
