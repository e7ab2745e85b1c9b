"""Operation traits: what the analyses know of an operation, and that they know it by no other floor's names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.irdl import IRDLOperation, VarOperandDef
from xdsl.traits import Pure

from xegpu.dialect import XeGPU
from xegpu.dialect.block_io import SetNdOffsetsOp
from xegpu.dialect.payload import PayloadCreateOp, PayloadSetOp
from xegpu.ir.traits import moves_view, read_operands, written_operand
from xetile.dialect import XeTile
from xetile.dialect.supervector import SuperVector

ROOT = Path(__file__).resolve().parents[3]
OPERATIONS = [kind for dialect in (XeGPU, XeTile, SuperVector) for kind in dialect.operations
              if issubclass(kind, IRDLOperation)]
NAMES = {kind.name for kind in OPERATIONS}
ABOVE = {name for name in NAMES if not name.startswith("xegpu.")}


def strings(file: Path) -> Iterator[str]:
    """String constants of a file that are no docstrings or descriptions of variables."""
    tree = ast.parse(file.read_text())
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from (node.value for node in ast.walk(tree)
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose)


@pytest.mark.parametrize("floor", ["xegpu", "codegen"])
def test_the_lower_floors_name_no_operation_of_the_language(floor: str) -> None:
    found = {(file.name, text) for file in (ROOT / floor).rglob("*.py") for text in strings(file)
             if text in ABOVE or re.fullmatch(r"(xetile|supervector)\.\w*", text)}
    assert not found


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.name)
def test_what_touches_memory_declares_its_operands(kind: type[IRDLOperation]) -> None:
    """An operation on a tile or descriptor that is not pure reads or writes, but for prefetches, which do neither.

    A payload is made of, and moved to, the address that a descriptor holds: memory is not touched.
    """
    operands = kind.get_irdl_definition().operands
    viewed = {position for position, (name, _) in enumerate(operands) if name in ("tile", "desc", "source", "array")}
    if kind.name.split(".")[1] in ("load_mma", "load_mad"):
        viewed = {0, 1}
    written = written_operand(kind)
    declared = {*read_operands(kind), *(() if written is None else (written,))}
    if kind.has_trait(Pure) or kind in (PayloadCreateOp, PayloadSetOp):
        assert not declared
    elif viewed and "prefetch" not in kind.name:
        assert declared == viewed


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.name)
def test_a_moved_view_is_of_its_first_operand(kind: type[IRDLOperation]) -> None:
    assert moves_view(kind) == ("update" in kind.name or kind is SetNdOffsetsOp)
    if moves_view(kind):
        name, operand = kind.get_irdl_definition().operands[0]
        assert name in ("tile", "desc")
        assert not isinstance(operand, VarOperandDef)
