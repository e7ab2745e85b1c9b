"""LLVM's form of XeGPU: reader, and conversion of its kernels to ours.

A text is in that form if it has a ``#xegpu.layout``, offsets on an operation that accesses memory, a descriptor
without offsets, a matrix in shared local memory, a product of fragments or batches, or a function with results; ours
has none of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Operation

from xegpu.dialect.sync import CompileHintOp
from xegpu.interop.llvm import block_level
from xegpu.interop.llvm.dialect import context
from xegpu.interop.llvm.import_blocks import needs_blocks
from xegpu.interop.llvm.import_matrix import allocate_shared
from xegpu.interop.llvm.importer import LANES
from xegpu.ir.assembly_format import WordAttr
from xegpu.ir.kernel_attributes import SUBGROUPS
from xegpu.mlir.vector import ShapeCastOp
from xegpu.passes.normalize import Normalize
from xegpu.rewrite.dce import erase
from xegpu.rewrite.verifier import verify
from xegpu.support.lookahead import next_token
from xetile.dialect.stage import FIRST, RECORDED, STAGE, is_supervector, run_pass
from xetile.text import xegpu_ops
from xetile.text.canonicalize.reshape import lower_reshape
from xetile.text.llvm import tile_level
from xetile.text.llvm.signatures import describe_arguments, store_results
from xetile.text.reader import FOREIGN_READERS, Reader
from xetile.text.reader.generic_form import order_operands

_COMMENT = re.compile(r"//[^\n]*")
_SIGNS = re.compile(r"#xegpu\.(layout|slice|range|mem_layout)\b|xegpu\.(create_mem_desc|mem_desc|truncf|dpas_mx)\b"
                    r"|xegpu\.fence\s+memory_kind\b|xegpu\.dpas\s[^\n]*->\s*vector<(\d+x|\d+x\d+x\d+x)[a-z]"
                    r"|xegpu\.(load_nd|prefetch_nd)\s+%[\w$.#-]+\s*\["
                    r"|xegpu\.store_nd\s+%[\w$.#-]+\s*,\s*%[\w$.#-]+\s*\["
                    r"|xegpu\.(load|prefetch)\s+%[\w$.#-]+\s*\[|xegpu\.store\s+%[\w$.#-]+\s*,\s*%[\w$.#-]+\s*\["
                    r"|xegpu\.create_nd_tdesc\s+%[\w$.#-]+\s*(:|\[|\{|,\s*shape\b)"
                    r'|"xegpu\.(load|store|prefetch|load_matrix|store_matrix)"\s*\(|"xegpu\.\w+"[^\n]*\bconst_(offsets|shape)\b'
                    r'|"xegpu\.create_nd_tdesc"[^\n]*\boperandSegmentSizes = array<i32: \d+, \d+, \d+>|#xegpu<'
                    r"|func\s+@[\w$.-]+\([^)]*\)\s*->\s*\(?vector<[^{]*\{[^}]*\bxegpu\.")
_THREADS = ("known_block_size", "gpu.known_block_size")
LANES_OF_TEXT = "xegpu.written_for"
"""A function's attribute: the lanes of a subgroup for which it cuts its blocks up."""
_CONSUMED = (*_THREADS, SUBGROUPS)


def is_llvm(text: str) -> bool:
    """Whether a text is in LLVM's form."""
    if not isinstance(text, str):
        return False
    return _SIGNS.search(_COMMENT.sub("", text)) is not None


class LLVMReader(Reader):
    """Reader of LLVM's form; launches by host functions count threads."""

    readers: Mapping[str, Callable[[Any, str, Any], Operation]] = {
        **{name: read for name, read in FOREIGN_READERS.items() if name not in ("memref.load", "memref.store")},
        CompileHintOp.name: xegpu_ops.read_operation}  # of mlir-extensions, in the same form otherwise
    descriptor = None

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, name)
        self.ctx = context()

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        operation = super()._parse_generic_operation(op_type)
        order_operands(operation)
        return operation

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        """Parse a type or attribute of a dialect, also ``#xegpu<fence_scope workgroup>``: a word with its kind."""
        if is_type or attr_or_dialect_name != "xegpu" or next_token(self).text != "<":
            return super()._parse_extended_type_or_attribute(attr_or_dialect_name, is_type)
        with self.in_angle_brackets():
            self.parse_identifier()
            return WordAttr(self.parse_identifier())


def converted(function: func.FuncOp) -> ModuleOp:
    """Kernel in LLVM's form as a module of ours: XeTile, or XeGPU on whole blocks if it slices them.

    Raises:
        TextError: something in it cannot be read; it points at the text's line.
    """
    threads = _threads(function)
    describe_arguments(function)
    store_results(function)
    allocate_shared(function)
    blocks = needs_blocks(function)
    new = (block_level if blocks else tile_level).imported(function, threads)
    for name in _CONSUMED:
        new.attributes.pop(name, None)
    count = 1 if threads is None else max(threads // LANES, 1)
    if count > 1:
        new.attributes[SUBGROUPS] = ArrayAttr([IntegerAttr(size, i64) for size in (count, 1)])
    if blocks:
        new.attributes[LANES_OF_TEXT] = IntegerAttr(LANES, i64)
    if not blocks:
        _lower_shape_casts(new)
    verify(new)
    if blocks:
        return run_pass("normalize", Normalize(), ModuleOp([new], {STAGE: StringAttr("to-xegpu")}))
    return ModuleOp([new], {STAGE: StringAttr(FIRST if is_supervector(new) else RECORDED)})


def _lower_shape_casts(function: func.FuncOp) -> None:
    """Lower the casts of tiles that are used, through shared local memory."""
    casts = [operation for operation in function.walk() if isinstance(operation, ShapeCastOp)]
    for cast in reversed(casts):
        if not cast.result.uses:
            erase(cast)
    for cast in casts:
        if cast.parent is not None:
            lower_reshape(function, cast)


def _threads(function: func.FuncOp) -> int | None:
    """Threads of a work-group, from the kernel or its launch."""
    attribute = next((function.attributes[name] for name in _THREADS if name in function.attributes), None)
    return prod(int(size) for size in attribute.get_values()) if isinstance(attribute, DenseArrayBase) else None  # type: ignore
