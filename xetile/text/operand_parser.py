"""Operand parsing: operands, types, maps, hints and paddings of a parse tree, for the rules of operations.

Errors are raised at the line (:class:`TextError`, by ``sketch.fail``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, MemRefType, VectorType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import OptOperandDef
from xdsl.utils.exceptions import VerifyException

from xegpu.dialect.hints import LEVELS
from xegpu.ir.dtypes import DType, i1, of_mlir
from xegpu.mlir.atomic_kind import KINDS, full_name, kinds_of
from xegpu.support.errors import error_parts
from xetile.dialect.types import (
    CacheHintAttr,
    WgMapAttr,
    check_padding,
    not_a_map,
    number_of_padding,
    padding_attribute,
)
from xetile.dialect.wg_map import WgMap
from xetile.dialect.wg_map_inference import map_of
from xetile.text.grammar import Entry, Sketch, agrees
from xetile.text.types import guess

RESULT_MAP = ("wg_map", "map", "wg_map_result", "wg_map_c", "layout_result_0")
"""Names of the attribute with a result's map: ours, then those of mlir-extensions."""
SOURCE_MAP = ("source_map", "wg_map_source")
_T = TypeVar("_T")
Rule = Callable[[Sketch], Operation]
"""Makes an operation of what was read of its line."""


def verified(sketch: Sketch, check: Callable[[], _T], *operands: SSAValue) -> _T:
    """Result of a check of the dialect's, whose error is one at the text's line; ``operands`` become notes."""
    try:
        return check()
    except VerifyException as error:
        sketch.fail(*error_parts(error), *operands)


def only(sketch: Sketch, what: str, *counts: int) -> list[SSAValue]:
    """Operands outside brackets, of a number that ``counts`` allows."""
    if len(sketch.operands) not in counts:
        sketch.fail("XT2042",
                    f"it takes {what}, not {len(sketch.operands)} operands", f"write {sketch.name} {what} : types")
    return sketch.operands


def group_of(sketch: Sketch) -> list[Entry]:
    """Next entries in brackets; none if there are no more brackets."""
    return sketch.groups.pop(0) if sketch.groups else []


def values(sketch: Sketch, entries: Sequence[Entry]) -> list[SSAValue]:
    """Index values; an integer in the text becomes a constant."""
    return [sketch.parser.constant(entry) if isinstance(entry, int) else entry for entry in entries]


def described_memory(sketch: Sketch, rank_at_address: int) -> tuple[list[SSAValue], list[SSAValue], list[SSAValue]]:
    """Offsets, sizes and strides behind the memory of a tile or descriptor, in brackets or one after the other."""
    source, *rest = sketch.operands
    rank = len(source.type.get_shape()) if isinstance(source.type, MemRefType) else rank_at_address
    step = rank or 1
    listed: list[list[Entry]] = [list(rest[i:i + step]) for i in range(0, len(rest), step)]
    groups = [values(sketch, group) for group in (*listed, *sketch.groups)]
    sketch.groups = []
    if len(groups) not in (1, 3):
        sketch.fail("XT2043", f"it takes {rank} offsets, or {rank} offsets, sizes and strides each, not "
                    f"{sum(map(len, groups))} numbers", "write %memory, [%offsets:2], [%shape:2], [%strides:2]")
    offsets, sizes, strides = (*groups, [], [])[:3]
    return offsets, sizes, strides


def kind_word(sketch: Sketch, example: str) -> str:
    """Kind of a reduction or an atomic update, ``<add>`` or ``"addf"``."""
    word, sketch.kind = sketch.kind, None
    if word is None:
        sketch.fail("XT2044", "it takes a kind", f"write {example}")
    return word


def axes_of(sketch: Sketch, *names: str) -> list[int]:
    """Axes, in brackets or as an attribute."""
    attribute = integers_of(sketch, *names)
    entries = attribute if attribute is not None else group_of(sketch)
    if not all(isinstance(entry, int) for entry in entries):
        sketch.fail("XT2047", "its dimensions are values", "write them as numbers: [1]")
    return [entry for entry in entries if isinstance(entry, int)]


def integers_of(sketch: Sketch, *names: str) -> list[int] | None:
    """Integers of an attribute: ``[16, 16]`` or ``array<i64: 16, 16>``."""
    attribute = sketch.take(*names)
    if isinstance(attribute, ArrayAttr) and all(isinstance(item, IntegerAttr) for item in attribute):
        return [item.value.data for item in attribute]
    if isinstance(attribute, DenseArrayBase):
        return [int(item) for item in attribute.get_values()]
    return None if attribute is None else \
        sketch.fail("XT2048", f"{names[0]} is {attribute}, not a list of integers", f"write {names[0]} = [16, 16]")


def result_of(sketch: Sketch, like: Attribute | None = None) -> Any:
    """Result type, the only one after the arrow; ``b16`` becomes ``like``."""
    if len(sketch.results) != 1:
        sketch.fail("XT2041", f"it has one result, and the text has {len(sketch.results)} types for it",
                    "write the result's type behind ->")
    stated = sketch.results[0]
    if like is not None and isinstance(stated, VectorType) and \
            agrees(stated, VectorType(like, stated.get_shape())):  # type: ignore[arg-type]
        return VectorType(like, stated.get_shape())
    return stated


def map_of_attribute(sketch: Sketch, attribute: Attribute | None) -> WgMap | None:
    """Work-group map of an attribute; None without one."""
    if attribute is not None and not isinstance(attribute, WgMapAttr):
        not_a_map(attribute, sketch.fail)
    return attribute.data if attribute is not None else None  # type: ignore[attr-defined]


def result_map(sketch: Sketch, *sources: tuple[SSAValue, tuple[str, ...]]) -> WgMap | None:
    """Map of the result; maps in the text for the sources must be theirs.

    Maps without names are in the order of the operands, the result's last.
    """
    bare, sketch.bare = sketch.bare, []
    if len(bare) > len(sources) + 1:
        sketch.fail("XT2034", f"there are {len(bare)} maps without names, for {len(sources)} operands and a result",
                    "give the result's alone, or one for each operand and the result's last")
    named = sketch.take(*RESULT_MAP)
    if named is not None and bare:
        sketch.fail("XT2030", "it has a map with a name, and another one without", "leave one of them out")
    before = [None] * (len(sources) + 1 - len(bare)) + bare[:-1] if bare else [None] * len(sources)
    for (value, names), first in zip(sources, before, strict=True):
        stated = map_of_attribute(sketch, sketch.take(*names) if first is None else first)
        has = map_of(value)
        if stated is not None and has is not None and stated != has:
            sketch.fail("XT2076", f"an operand is distributed as {has}, and the text has {stated}",
                        "leave the operand's map out", value)
    return map_of_attribute(sketch, bare[-1] if bare else named)


def map_attribute(map_: WgMap | None) -> WgMapAttr | None:
    """Attribute of a map; None for None."""
    return None if map_ is None else WgMapAttr(map_)


_MEMORY = {"tile": ("a tile", "xetile.init_tile"), "desc": ("a descriptor", "xegpu.create_nd_tdesc")}
"""Operands that say where memory is accessed, as messages call them, with the operation that makes one."""


def memory_operands(sketch: Sketch, kind: Any, is_memory: Callable[[Attribute], bool]) -> dict[str, SSAValue]:
    """Operands of a memory operation, in the order and by the names of its declaration; in the text in any order.

    Args:
        sketch: the operation's text.
        kind: the operation; its operands are a tile or descriptor, and ``value`` and ``mask`` where it declares them.
        is_memory: whether a type is that of a tile or descriptor.
    """
    declared = kind.get_irdl_definition().operands
    names = [name for name, _ in declared]
    fewest = sum(not isinstance(operand, OptOperandDef) for _, operand in declared)
    shown = ", ".join(f"%{name}" for name in names)
    operands = only(sketch, shown, *range(fewest, len(names) + 1))
    memory = [value for value in operands if is_memory(value.type)]
    vectors = [value for value in operands if isinstance(value.type, VectorType)]
    where = next(name for name in names if name in _MEMORY)
    if len(memory) != 1 or len(vectors) != len(operands) - 1:
        what, maker = _MEMORY[where]
        if len(names) == 1:
            sketch.fail("XT2042", f"it takes {what}, not {operands[0].type}", f"make one with {maker}")
        others = "a vector" if len(names) == 2 else "vectors"
        sketch.fail("XT2042", f"it takes {what} and {others}", f"write {sketch.name} {shown} : types")
    pair = value_and_mask(sketch, vectors) if len(vectors) == 2 else vectors
    found = dict(zip((name for name in names if name in ("value", "mask")), pair, strict=False))
    found[where] = memory[0]
    return {name: found[name] for name in names if name in found}


def value_and_mask(sketch: Sketch, vectors: Sequence[SSAValue]) -> tuple[SSAValue, SSAValue]:
    """Value and mask of two vectors, in any order."""
    masks = [value for value in vectors if of_mlir(value.type.element_type) is i1]  # type: ignore[attr-defined]
    if not masks:
        sketch.fail("XT2046", "neither of its vectors is a mask", "a mask has elements of i1: vector<16xi1>")
    return next(value for value in vectors if value is not masks[-1]), masks[-1]


def atomic_kind(sketch: Sketch, word: str, dtype: DType) -> str:
    """Kind of an atomic update of elements of a type by its word in the text."""
    kind = full_name(word, dtype)
    if kind not in KINDS:
        sketch.fail("XT1450", f"there is no atomic update {word}", guess(word, kinds_of(dtype)))
    return kind


def check_cache_hint(sketch: Sketch, level: str, hint: Attribute, kind: type[Attribute]) -> None:
    """Check that the attribute of a cache level is a hint of the operation's dialect."""
    if not isinstance(hint, kind):
        sketch.fail("XT2049", f"{level} is {hint}, which is not a cache hint",
                    f"write {{{level} = #{kind.name}<cached>}}")


def hints_of(sketch: Sketch) -> dict[str, Attribute]:
    """Cache hints by level."""
    hints = {level: sketch.take(level) for level in LEVELS}
    for level, hint in hints.items():
        if hint is not None:
            check_cache_hint(sketch, level, hint, CacheHintAttr)
    return {level: hint for level, hint in hints.items() if hint is not None}


def padding_of(sketch: Sketch, dtype: DType) -> Attribute | None:
    """Padding in the tile's element type; None for 0 without a sign, the default."""
    attribute = sketch.take("padding")
    if attribute is None:
        return None
    number = verified(sketch, lambda: number_of_padding(attribute, dtype))
    verified(sketch, lambda: check_padding(number, dtype))
    return padding_attribute(number, dtype)


def create(kind: type[Operation], operands: Sequence[SSAValue], results: Sequence[Attribute],
           properties: dict[str, Any], attributes: dict[str, Attribute] | None = None) -> Operation:
    """Operation of a class without its None operands; its verifier checks the rest."""
    return kind.create(operands=operands, result_types=results, attributes=attributes or {},
                       properties={name: value for name, value in properties.items() if value is not None})
