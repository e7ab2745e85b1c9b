"""Operations in MLIR's generic form, ``"gpu.func"() <{...}> ({...}) : () -> ()``, as mlir-opt can print them.

Inherent attributes that LLVM's operations have and those here lack become what the custom form has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, i32
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation

from xegpu.interop.llvm.dialect.gather_scatter import LoadOp, StoreOp
from xegpu.interop.llvm.dialect.vector import MultiReductionOp
from xegpu.ir.assembly_format import WordAttr
from xegpu.mlir.gpu import GpuFuncOp, allocate_attributions
from xegpu.mlir.vector import integers
from xegpu.support.lookahead import next_token
from xetile.text.grammar import Custom, Sketch
from xetile.text.types import fail
from xetile.text.vector import rules as vector_rules
from xetile.text.vector import supervector

_FLAGS = ("fastmath", "overflowFlags", "isExact", "isDisjoint", "nonNeg")
"""Promises of arith and vector operations, without which they mean the same on operands that keep them."""
WORKGROUP = WordAttr("workgroup")
"""The scope of a barrier, which has no other one here."""
_KIND = re.compile(r"#vector\.kind<(\w+)>")
_LISTS = ("permutation", "reduction_dims", "mask_dim_sizes")
"""Properties that are arrays of integers in LLVM's dialect, and lists of attributes here."""
_SEGMENTS = "operandSegmentSizes"


DECLARED: dict[str, type[Operation]] = {MultiReductionOp.name: MultiReductionOp, **vector_rules.DECLARED}
"""Classes of operations that the reader's dialects lack, as their custom form is read by a rule."""
SKETCHED = {**dict.fromkeys(("vector.transfer_read", "vector.transfer_write", "vector.contract", "memref.store"),
                            supervector.of_sketch), **dict.fromkeys(vector_rules.OF_PARTS, vector_rules.of_sketch)}
"""Operations of MLIR that rules make others of, of their parts."""


def sketched(parser: Any, custom: Custom) -> type[Any]:
    """Stand-in for an operation's class in the parser, which makes another operation of the generic form's parts."""
    class Sketched:
        """What the parser asks of a class."""

        @staticmethod
        def create(operands: Sequence[SSAValue], result_types: Sequence[Attribute],
                   properties: Mapping[str, Attribute], attributes: Mapping[str, Attribute],
                   regions: Sequence[Region] = (), **_: Any) -> Operation:
            """The operation of the parts."""
            parts = {name: value for name, value in {**properties, **attributes}.items()
                     if name not in (_SEGMENTS, *_FLAGS)}
            return SKETCHED[custom.name](Sketch(custom.name, parser, custom.span, list(operands),
                                                    attributes=parts, results=list(result_types),
                                                 regions=list(regions)))

    return Sketched


def complete(operation: Operation) -> None:
    """Let an operation that was parsed in the generic form have the properties of its class."""
    if not isinstance(operation, IRDLOperation):
        return
    known = operation.get_irdl_definition()
    for name in [name for name in operation.properties if name not in known.properties and name != _SEGMENTS]:
        if name in _FLAGS or operation.properties[name] == WORKGROUP:
            del operation.properties[name]
        elif isinstance(operation, (GpuFuncOp, scf.ForOp)):  # where their custom forms have them
            operation.attributes[name] = operation.properties.pop(name)
    if isinstance(operation, GpuFuncOp):
        _allocate(operation)
    for name in _LISTS:
        if isinstance(numbers := operation.properties.get(name), DenseArrayBase):
            operation.properties[name] = integers([int(number) for number in numbers.get_values()])
    if isinstance(operation, MultiReductionOp) and (kind := _KIND.fullmatch(str(operation.properties.get("kind")))):
        operation.properties["kind"] = WordAttr(kind[1])
    sizes = operation.properties.get(_SEGMENTS)
    if operation.name == "xegpu.create_nd_tdesc" and isinstance(sizes, DenseArrayBase) and len(sizes) == 3:
        source, *others = sizes.get_values()  # LLVM's has no offsets since version 23
        operation.properties[_SEGMENTS] = DenseArrayBase.from_list(i32, [int(source), 0, *map(int, others)])


def order_operands(operation: Operation) -> None:
    """Let a scattered load or store of LLVM's dialect, whose mask is its last operand, have it as the first."""
    if isinstance(operation, (LoadOp, StoreOp)) and \
            len(operation.operands) == len(operation.get_irdl_definition().operands):
        operation.operands = [operation.operands[-1], *operation.operands[:-1]]


def read_barrier_scope(parser: Any) -> Attribute:
    """Parse the parameter of ``#gpu.barrier_scope<workgroup>``."""
    with parser.in_angle_brackets():
        at = next_token(parser).span
        if (word := parser.parse_identifier()) != WORKGROUP.data:
            fail(parser, "XT2002", f"no execution has barriers of a {word}", "write gpu.barrier, of the work-group", at)
        return WORKGROUP


def _allocate(function: GpuFuncOp) -> None:
    """Arrays of a work-group are the first of the arguments behind those of the function's type."""
    shared = function.attributes.pop("workgroup_attributions", None)
    if not isinstance(shared, IntegerAttr) or not function.body.blocks:
        return
    count, block = shared.value.data, function.body.blocks[0]
    if 0 < count == len(block.args) - len(function.function_type.inputs):
        allocate_attributions(block, count)
