"""Correspondence of operations with those of LLVM's dialect: one declaration for export and import.

Most pairs have equal operands and properties by name, with a descriptor on one side where there are a descriptor and
offsets on the other; they are converted by name in both directions. The others have a rule for each direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation
from xdsl.irdl import IRDLOperation

from xegpu.dialect import sync
from xegpu.dialect.hints import CacheHintAttr, hints_of, words
from xegpu.interop.llvm.dialect.gather_scatter import StoreOp
from xegpu.interop.llvm.dialect.ops import MovementOp, StoreNdOp
from xegpu.interop.llvm.dialect.types import split
from xegpu.interop.llvm.dialect.vector import FenceOp, InsertStridedSliceOp
from xegpu.ir.assembly_format import WordAttr
from xegpu.mlir import vector
from xegpu.rewrite.rewriter import Rule

Rules = dict[type[Operation], Rule]


@dataclass(frozen=True)
class Correspondence:
    """Operation of ours and of LLVM's dialect that mean the same.

    Attributes:
        ours: None if LLVM's operation is only read.
        llvm: None if our operation becomes a part of others.
        operands: the operands that both have, by name, besides descriptors and offsets.
        properties: name of our property to that of LLVM's.
        keywords: our keyword in such a property to LLVM's, where they differ.
        exported, imported: rules where the pair is not converted by name.
    """

    ours: type[Operation] | None
    llvm: type[Operation] | None
    operands: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)
    exported: Rule | None = None
    imported: Rule | None = None

    def export_by_name(self, rewriter: Any, operation: Any) -> None:
        """Rule from our operation to LLVM's."""
        operands = self._operands(rewriter, operation)
        properties: dict[str, Attribute] = {llvm: _keyword(operation.properties[ours], self.keywords, WordAttr)
                                            for ours, llvm in self.properties.items()}
        if hasattr(operation, "desc"):
            operands["desc"], starts = rewriter.block_at(operation.desc)
            operands["offsets"], properties["const_offsets"] = split(starts)
        self._emit(rewriter, operation, self.llvm, operands, properties | exported_hints(operation))

    def import_by_name(self, rewriter: Any, operation: Any) -> None:
        """Rule from LLVM's operation to ours."""
        operands = self._operands(rewriter, operation)
        keywords = {llvm: ours for ours, llvm in self.keywords.items()}
        properties: dict[str, Attribute] = {ours: _keyword(operation.properties[llvm], keywords, StringAttr)
                                            for ours, llvm in self.properties.items()}
        if isinstance(operation, MovementOp):
            operands["desc"] = rewriter.desc(operation)
        self._emit(rewriter, operation, self.ours, operands, properties | imported_hints(operation))

    def _operands(self, rewriter: Any, operation: Any) -> dict[str, Any]:
        values = {name: getattr(operation, name) for name in self.operands}
        return {name: rewriter.single(value) for name, value in values.items() if value is not None}

    def _emit(self, rewriter: Any, operation: Operation, kind: Any, operands: Mapping[str, Any],
              properties: Mapping[str, Attribute]) -> None:
        assert issubclass(kind, IRDLOperation)
        names = [name for name, _ in kind.get_irdl_definition().operands]
        rewriter.emit(new := kind.build(operands=[operands.get(name, []) for name in names],
                                        result_types=[result.type for result in operation.results],
                                        properties=properties))
        for old, result in zip(operation.results, new.results, strict=True):
            rewriter.set(old, result)


def _keyword(value: Attribute, keywords: Mapping[str, str], kind: type[StringAttr | WordAttr]) -> Attribute:
    return kind(keywords.get(value.data, value.data)) if isinstance(value, (StringAttr, WordAttr)) else value


def imported_policies(operation: Operation) -> dict[str, str]:
    """Cache policies of LLVM's operation by level; ``cached`` on a store is its spelling of write-back."""
    keywords = {"cached": "write_back"} if isinstance(operation, (StoreNdOp, StoreOp)) else {}
    return {level: keywords.get(policy, policy) for level, policy in words(operation).items()}


def exported_hints(operation: Operation) -> dict[str, Attribute]:
    """Cache hints of our operation, as LLVM's has them, whose stores do not stream."""
    stores = "value" in [name for name, _ in type(operation).get_irdl_definition().operands]  # type: ignore[attr-defined]
    return {level: hint for level, hint in hints_of(operation).items()
            if not (stores and isinstance(hint, CacheHintAttr) and hint.data == "streaming")}


def imported_hints(operation: Operation) -> dict[str, Attribute]:
    """Cache hints of LLVM's operation as properties of ours."""
    return {level: CacheHintAttr(policy) for level, policy in imported_policies(operation).items()}


def _copy(rewriter: Any, operation: Operation) -> None:
    """Rule of an operation that both dialects have in one form."""
    rewriter.copy(operation)


def export_rules(pairs: Iterable[Correspondence]) -> Rules:
    """Rules of the operations of ours."""
    return {pair.ours: pair.exported or pair.export_by_name for pair in pairs if pair.ours}


def import_rules(pairs: Iterable[Correspondence]) -> Rules:
    """Rules of LLVM's operations."""
    return {pair.llvm: pair.imported or pair.import_by_name for pair in pairs if pair.llvm}


_FENCE = Correspondence(sync.FenceOp, FenceOp, properties={"scope": "fence_scope", "memory_kind": "memory_kind"},
                        keywords={"shared": "slm"})


def _export_fence(rewriter: Any, operation: sync.FenceOp) -> None:
    """Rule of a fence, of which LLVM's dialect has those within a GPU."""
    if operation.scope.data == "system":
        rewriter.refuse("XT3658", "LLVM's XeGPU dialect has no fence that the host sees",
                        'use the scope "gpu", and let the host wait for the kernel')
    _FENCE.export_by_name(rewriter, operation)


SYNC = (
    replace(_FENCE, exported=_export_fence),
    *(Correspondence(named, named, exported=_copy, imported=_copy) for named in sync.NAMED),
)
"""Fences and named barriers, at every level."""
VECTOR = (
    Correspondence(vector.InsertStridedSliceOp, InsertStridedSliceOp, ("source", "dest"),
                   {"offsets": "offsets", "strides": "strides"}),
)
"""Operations of MLIR's vector dialect."""
