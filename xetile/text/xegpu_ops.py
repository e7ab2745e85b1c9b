"""Rules of XeGPU operations: parse tree to operation, in the spellings of XeGPU.md and this package.

    %d = XeGPU.create_nd_tdesc %mem_addr, %offsets:2, %base_shape:2, %base_stride:2
           : uint64, index, index, index, index, index, index into tensor_desc<8x16xbf16>
    %v = XeGPU.load_nd %d {L1_hint = uncached, packed} : tensor_desc<16x16xbf16> into vector<8x16x2xbf16>

XeGPU v1 has the same grammar; each rule is for the operation of that name in either version.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerAttr, StringAttr, UnitAttr
from xdsl.ir import Attribute, Dialect, Operation, SSAValue

from xegpu.dialect import XeGPU, gather_scatter
from xegpu.dialect.block_io import check_moved
from xegpu.dialect.hints import LEVELS, CacheHintAttr
from xegpu.dialect.sync import SCHEDULE_BARRIER
from xegpu.dialect.types import MAP_NAMES, SgMapAttr
from xegpu.interop.v1.dialect import OlderXeGPU
from xegpu.interop.v1.types import WordAttr
from xegpu.ir.dtypes import of_mlir
from xegpu.ir.memref import ALIGNED
from xetile.text.grammar import Sketch, read
from xetile.text.operand_parser import (
    Rule,
    atomic_kind,
    check_cache_hint,
    create,
    described_memory,
    kind_word,
    memory_operands,
    only,
    result_of,
    values,
    verified,
)
from xetile.text.types import check_policy

_HINTS = {level: (level, level.replace("l", "L", 1), level[:2].upper(), level[:2]) for level in LEVELS}
"""Names of the cache hints: ``l1_hint``, ``L1_hint``, ``L1``."""
_POLICIES = {"read_invaldiate": "read_invalidate"}
"""A word that the document spells wrongly, everywhere."""
_OF_OPERANDS = ("kind", "operandSegmentSizes")
"""Properties that stand in front of the operands, or follow from their number."""


def _properties(sketch: Sketch, kind: Any) -> dict[str, Attribute]:
    """Cache hints and declared properties of an operation; any other attribute is an error."""
    definition = kind.get_irdl_definition()
    known = [*(name for name in definition.properties if name not in (*LEVELS, *_OF_OPERANDS)), *LEVELS]
    found = {name: value for name in known
             if (value := sketch.take(*_HINTS.get(name, (name,)))) is not None}
    if isinstance(mode := found.get("mode"), StringAttr):
        found["mode"] = WordAttr(mode.data)
    for name in LEVELS:
        if name in found:
            found[name] = _hint(sketch, name, found[name], stores="value" in dict(definition.operands))
    sketch.finish(*(_HINTS.get(name, (name,))[-1 if name not in _HINTS else 1] for name in known))
    return found


def _hint(sketch: Sketch, name: str, attribute: Attribute, *, stores: bool) -> Attribute:
    if isinstance(attribute, StringAttr):
        policy = _POLICIES.get(attribute.data, attribute.data)
        check_policy(policy, sketch.fail)
        # The document's table has a store that is "cached"; its text has other words for stores.
        return CacheHintAttr("write_back" if stores and policy == "cached" else policy)
    check_cache_hint(sketch, name, attribute, CacheHintAttr)
    return attribute


def _create_operation(kind: Any, operands: list[SSAValue], results: list[Attribute],
                      properties: dict[str, Attribute]) -> Operation:
    """Operation with its properties; undeclared hints become attributes."""
    declared = kind.get_irdl_definition().properties
    return create(kind, operands, results, {name: value for name, value in properties.items() if name in declared},
                  {name: value for name, value in properties.items() if name not in declared})


def _declared(kind: Any) -> Rule:
    """Rule of an operation that is read by its declaration alone."""
    def rule(sketch: Sketch) -> Operation:
        operands = list(memory_operands(sketch, kind, sketch.parser.is_descriptor).values())
        has_result = bool(kind.get_irdl_definition().results)
        if not has_result:
            sketch.no_result()
        results = [result_of(sketch)] if has_result else []
        return _create_operation(kind, operands, results, _properties(sketch, kind))

    return rule


def _create_nd(kind: Any) -> Rule:
    def rule(sketch: Sketch) -> Operation:
        result = result_of(sketch)
        if not sketch.operands or not sketch.parser.is_descriptor(result):
            sketch.fail("XT2042", "it makes a descriptor of memory",
                        "write %memory, %offsets:2 : memref<...>, index, index into tensor_desc<8x16xbf16>")
        numbers = described_memory(sketch, len(result.data.shape))
        new = kind.build(operands=[sketch.operands[0], *numbers], result_types=[result])
        if sketch.take(ALIGNED) is not None:
            new.attributes[ALIGNED] = UnitAttr()
        new.properties.update(_properties(sketch, kind))
        return new  # type: ignore[no-any-return]

    return rule


def _update_nd(kind: Any) -> Rule:
    def rule(sketch: Sketch) -> Operation:
        if not sketch.operands:
            sketch.fail("XT2042", "it moves a descriptor", "write %desc, %offsets:2 : tensor_desc<...>, index, index")
        desc, *rest = sketch.operands
        offsets = values(sketch, rest or (sketch.groups.pop(0) if sketch.groups else []))
        _same_type(sketch, desc)
        return _create_operation(kind, [desc, *offsets], [desc.type], _properties(sketch, kind))

    return rule


def _same_type(sketch: Sketch, desc: SSAValue) -> None:
    for stated in sketch.results:
        verified(sketch, lambda stated=stated: check_moved(desc.type, stated))  # type: ignore[misc]


def _create_tdesc(kind: Any) -> Rule:
    def rule(sketch: Sketch) -> Operation:
        source, offsets = only(sketch, "%address, %offsets", 2)
        result = result_of(sketch)
        _check_chunk(sketch, result, None if "chunk_size_per_lane" in kind.get_irdl_definition().properties else
                     sketch.take("chunk_size_per_lane"))
        return _create_operation(kind, [source, offsets], [result], _properties(sketch, kind))

    return rule


def _check_chunk(sketch: Sketch, result: Any, attribute: Attribute | None) -> None:
    """Check the chunk size of an operation against its descriptor."""
    scatter = result.data.scatter if sketch.parser.is_descriptor(result) else None
    if attribute is not None and (scatter is None or not isinstance(attribute, IntegerAttr)
                                  or attribute.value.data != scatter.chunk_size):
        sketch.fail("XT2065", f"chunk_size_per_lane is {attribute}, and its descriptor is {result}",
                    "make the descriptor's second dimension the chunk: tensor_desc<16x8xf32, #scattered>")


def _update_offset(kind: Any) -> Rule:
    def rule(sketch: Sketch) -> Operation:
        desc, offsets = only(sketch, "%desc, %offsets", 2)
        _same_type(sketch, desc)
        return _create_operation(kind, [desc, offsets], [desc.type], _properties(sketch, kind))

    return rule


def _atomic_rmw(kind: Any) -> Rule:
    def rule(sketch: Sketch) -> Operation:
        operands = memory_operands(sketch, kind, sketch.parser.is_descriptor)
        value = operands["value"]
        word = kind_word(sketch, '"addf" %value, %desc, %mask')
        dtype = of_mlir(value.type.element_type)  # type: ignore[attr-defined]
        name: Attribute = gather_scatter.AtomicKindAttr(atomic_kind(sketch, word, dtype))
        results = sketch.results or [value.type]
        properties = {"kind": name, **_properties(sketch, kind)}
        return _create_operation(kind, list(operands.values()), results, properties)

    return rule


def _dpas(kind: Any) -> Rule:
    def rule(sketch: Sketch) -> Operation:
        operands = only(sketch, "%a, %b or %a, %b, %acc", 2, 3)
        result = result_of(sketch)
        bare, sketch.bare = sketch.bare, []
        if bare and (len(bare) != 3 or not all(isinstance(map_, SgMapAttr) for map_ in bare)):
            sketch.fail("XT2034", f"it has the lane maps of A, B and C, and the text gives {len(bare)} attributes",
                        "write {#sg_map_a #sg_map_b #sg_map_c}")
        maps = dict(zip(MAP_NAMES, bare, strict=False))
        properties = _properties(sketch, kind)
        return _create_operation(kind, _in_order(operands, result), [result], {**maps, **properties})

    return rule


def _in_order(operands: list[SSAValue], result: Attribute) -> list[SSAValue]:
    """A, B and the accumulator; in the document's table the accumulator is first."""
    if len(operands) == 3 and operands[0].type == result and operands[2].type != result:
        return [*operands[1:], operands[0]]
    return operands


def _fence(kind: Any) -> Rule:
    def rule(sketch: Sketch) -> Operation:
        names = tuple(kind.get_irdl_definition().properties)
        found = {name: sketch.take(name, *(other for other in _FENCE_NAMES if _FENCE_NAMES[other] == name))
                 for name in names}
        for name, value in found.items():
            if not isinstance(value, StringAttr):
                sketch.fail("XT2053", f"it needs {name}" if value is None else f"{name} is {value}",
                            f"write {{{_FENCE_FORMS['fence_op' in names]}}}")
        sketch.finish(*names)
        return create(kind, [], [], found)

    return rule


def _hinted(kind: Any) -> Rule:
    """Rule of ``{hint = schedule_barrier}``, in the table's spelling ``{scheduling_barrier}``, or with no hint."""
    def rule(sketch: Sketch) -> Operation:
        hint = sketch.take("hint")
        if hint is None:
            sketch.take("scheduling_barrier", "schedule_barrier")
            hint = StringAttr(SCHEDULE_BARRIER)
        if not isinstance(hint, StringAttr):
            sketch.fail("XT2053", f"hint is {hint}, which is not a bare word", f"write {{hint = {SCHEDULE_BARRIER}}}")
        sketch.finish("hint")
        return create(kind, [], [], {"hint": hint})

    return rule


UNTYPED = ("xegpu.fence", "xegpu.mfence", "xegpu.compile_hint")
"""Operations that have no operands, and no types behind them."""
_FENCE_FORMS = ("scope = workgroup, memory_kind = global", "memory_kind = ugm, fence_op = none, fence_scope = local")
"""Attributes of a fence, in this generation and in the earlier one."""
_FENCE_NAMES = {"Fence_op": "fence_op", "Fence_scope": "fence_scope", "Memory_kind": "memory_kind"}

_FORMS = {
    "create_nd_tdesc": _create_nd, "update_nd_offset": _update_nd, "load_nd": _declared, "store_nd": _declared,
    "prefetch_nd": _declared, "create_tdesc": _create_tdesc, "update_offset": _update_offset,
    "update_offsets": _update_offset, "load_gather": _declared, "store_scatter": _declared,
    "prefetch": _declared, "atomic_rmw": _atomic_rmw, "dpas": _dpas,
    "fence": _fence, "mfence": _fence, "compile_hint": _hinted,
}
_ALIASES = {"update_offsets": "update_offset"}


def rules(dialect: Dialect) -> dict[str, Rule]:
    """Rules of one version of the dialect, by prefixed name."""
    kinds = {kind.name: kind for kind in dialect.operations}
    return {f"xegpu.{name}": form(kinds[full]) for name, form in _FORMS.items()
            if (full := f"xegpu.{_ALIASES.get(name, name)}") in kinds}


RULES = rules(XeGPU)
OLDER_RULES = rules(OlderXeGPU)
"""Names of XeGPU's operations, in lower case, with what reads them: of this generation, and of the earlier one."""


def read_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an XeGPU operation after its name."""
    return RULES[name](read(parser, name, span, typed=name not in UNTYPED))


def read_v1_operation(parser: Any, name: str, span: Any) -> Operation:
    """Parse an XeGPU v1 operation after its name."""
    return OLDER_RULES[name](read(parser, name, span, typed=name not in UNTYPED))
