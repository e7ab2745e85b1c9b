"""Reader of ``xt.parse``: MLIR's syntax with the spellings of the specification and mlir-extensions."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    VectorType,
    f16,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.parser.generic_parser import ParserState
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Span
from xdsl.utils.mlir_lexer import MLIRTokenKind, StringLiteral

from xegpu.dialect.types import SgMapAttr, TensorDescType
from xegpu.ir.dtypes import unsigned_type
from xegpu.mlir.gpu import ForeignAttr, allocated_in_head
from xegpu.support.errors import TextError, misread
from xegpu.support.location import Location, SourceLocation
from xegpu.support.lookahead import next_token
from xetile.dialect import context
from xetile.dialect.types import CacheHintAttr, TileAttr, TileEncoding, TileType, WgMapAttr
from xetile.text import index_ops, memref_ops, other_dialects, xegpu_ops, xetile_ops
from xetile.text.gpu_module import Launch, has_kernels, joined, launches, skip_host_function
from xetile.text.grammar import Bits16Type, Custom
from xetile.text.parse_hints import COMPARE, hint_of_unknown
from xetile.text.reader.dense_literals import DenseLiteralParser
from xetile.text.reader.generic_form import DECLARED, SKETCHED, complete, read_barrier_scope, sketched
from xetile.text.reader.lexer import Lexer
from xetile.text.reader.locations import LocationParser
from xetile.text.types import (
    SCATTERED,
    TdescAttr,
    fail,
    guess,
    read_address_space,
    read_hint,
    read_memref,
    read_sg_map,
    read_tensor_desc,
    read_tile,
    read_tile_attr,
    read_wg_map,
)
from xetile.text.vector import rules as vector_rules
from xetile.text.vector import supervector

_ATTRIBUTES: dict[str, Callable[[Any], Attribute]] = {
    "wg_map": lambda parser: WgMapAttr(read_wg_map(parser)),
    "tile_attr": lambda parser: TileAttr(read_tile_attr(parser)),
    "sg_map": lambda parser: SgMapAttr(read_sg_map(parser)),
    "cache_hint": lambda parser: CacheHintAttr(read_hint(parser)),
}
"""Attributes of XeTile, which the specification also writes without their dialect's name."""
_PREFIXES = ("XeGPU.", "XeGpu.", "xegpu.")
_LINE_BREAK = re.compile(r"\s*\n\s*")
_HEADERS = ("gpu.module", "gpu.func", "builtin.module", "module")
"""Operations that carry attributes of dialects that only a host compiler knows."""
FOREIGN_READERS: dict[str, Callable[[Any, str, Any], Operation]] = {
    **dict.fromkeys(xetile_ops.RULES, xetile_ops.read_operation), **dict.fromkeys(other_dialects.RULES,
                                                                                  other_dialects.read_operation),
    **dict.fromkeys(index_ops.RULES, index_ops.read_operation),
    **dict.fromkeys(memref_ops.RULES, memref_ops.read_operation),
    **dict.fromkeys(supervector.NAMES, supervector.read_operation),
    **dict.fromkeys(other_dialects.EARLY_RULES, other_dialects.read_early_operation),
}
_DIALECT_READERS = {**FOREIGN_READERS, **dict.fromkeys(xegpu_ops.RULES, xegpu_ops.read_operation),
                    **dict.fromkeys(vector_rules.NAMES, vector_rules.read_operation)}
_NUMBERS: dict[str, Attribute] = {
    "float": f32, "fp32": f32, "fp16": f16, "Uint8_t": unsigned_type(8),
    **{f"int{bits}": IntegerType(bits) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": unsigned_type(bits) for bits in (8, 16, 32, 64)},
}
"""Names of number types in the specifications."""
_INTEGER = re.compile(r"[su]?i(\d+)")
_MOST_BITS = 64
"""Bits of the widest integers; xDSL would compute the limits of any width."""
_WORDS = ("tile", "memref", "tensor_desc", "b16", *_NUMBERS)
_VECTOR = re.compile(r"vector<(?:\d+x)+(?!b16\b)[a-z]+\d*>")
"""Vector types of built-in elements, which mean the same wherever they stand; ``b16`` depends on the text."""
_SPACED_DIMENSIONS = re.compile(r"(?<=[<x])(\d+) x (\w+)")


def normalize_characters(text: str) -> str:
    """Text in the characters of MLIR's lexer, of the same length: ASCII quotes, ``vector<16xindex  >``."""
    normalized = text.replace("\u201c", '"').replace("\u201d", '"').replace("Vector<", "vector<")
    return _SPACED_DIMENSIONS.sub(lambda found: f"{found[1]}x{found[2]}  ", normalized)


_PROMISES = ("exact", "disjoint", "nneg", "overflow", "fastmath", "to_nearest_even")
"""Flags of arith whose operations mean the same without them, on operands that keep the promise."""
_ROUNDINGS = ("downward", "upward", "toward_zero", "to_nearest_away")


class Reader(LocationParser, DenseLiteralParser):
    """Parser that records the location of each operation.

    It overrides and calls methods of xDSL's parser that are private (``_parse_*``, ``_get_op_by_name``,
    ``_consume_token``): the public ones have no hook for other spellings. ``pyproject.toml`` pins xDSL's version.

    Attributes:
        readers: functions that parse operations instead of their assembly format, by name.
        descriptor: constructor of descriptor types, None where a dialect parses its own.
        text: the complete text.
        b16: whether ``b16`` is accepted for element types of 16 bits.
        on_descriptor: whether a descriptor's type is being read, where ``#scatter`` is no tile's.
        host: launches of kernels that host functions in the text make.
    """

    readers: Mapping[str, Callable[[Any, str, Any], Operation]] = _DIALECT_READERS
    descriptor: type[Any] | None = TensorDescType

    def __init__(self, text: str, name: str) -> None:
        super().__init__(context(), normalize_characters(text), name)
        self._parser_state = ParserState(Lexer(self.lexer.input))
        self.text, self._name = text, name
        self._starts = [0, *(i + 1 for i, letter in enumerate(text) if letter == "\n")]
        self._start = 0
        self._within = False
        self._pending: list[Operation] = []
        self._vectors: dict[str, Any] = {}
        self._bound: list[Any] = []
        self._foreign = self._has_flags = False
        self._has_kernels = has_kernels(text)
        self.b16, self.on_descriptor = False, False
        self.host: dict[tuple[str, str], Launch] = {}

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse the text; functions without a module get one."""
        block = Block()
        self._parse_block_body(block)
        if next_token(self).kind is not MLIRTokenKind.EOF:
            misread(self, "XT2004", f"an operation is expected, not {next_token(self).text}\n"
                    "begin with the operation's name, as in func.func, or close the braces before this")
        if block.first_op is None:
            misread(self, "XT2003", "the text contains no operation\nput the kernel's operations in a func.func")
        if self.forward_ssa_references:
            names = ", ".join(f"%{name}" for name in self.forward_ssa_references)
            misread(self, "XT2005", f"values used but not defined: [{names}]\ndefine them above their uses, as "
                    "results of operations or as arguments, or correct their names")
        only = block.first_op
        if isinstance(only, ModuleOp) and only is block.last_op:
            only.detach()  # type: ignore[no-untyped-call]
            return only
        operations_ = list(block.ops)
        for operation in operations_:
            operation.detach()  # type: ignore[no-untyped-call]
        return ModuleOp(operations_)

    def parse_optional_str_literal(self) -> str | None:
        """Parse a text. MLIR prints letters beyond ASCII as escapes of UTF-8, which are bytes to xDSL's parser."""
        token = next_token(self)
        if token.kind is not MLIRTokenKind.BYTES_LIT:
            return super().parse_optional_str_literal()
        try:
            found: str = StringLiteral.from_span(token.span).string_contents
        except UnicodeDecodeError:
            return None
        self._consume_token()
        return found

    def _parse_block_body(self, block: Block) -> None:
        """Parse the operations of a block; aliases may be defined between them, as in the specification."""
        while True:
            if next_token(self).kind in (MLIRTokenKind.HASH_IDENT, MLIRTokenKind.EXCLAMATION_IDENT):
                self._parse_alias_def()  # type: ignore[no-untyped-call]
                continue
            if next_token(self).kind is MLIRTokenKind.FILE_METADATA_BEGIN:
                self._parse_file_metadata_dictionary()
                continue
            if self._pass_over_host():
                continue
            operation = self.parse_optional_operation()
            if operation is None:
                return
            block.add_ops(self._pending)
            self._pending.clear()
            block.add_op(operation)

    def _pass_over_host(self) -> bool:
        """Skip a function beside a gpu.module, recording its launches."""
        if not self._has_kernels or "gpu" in self._parser_state.dialect_stack or \
                next_token(self).text.strip('"') not in ("func.func", "memref.global"):
            return False
        for name, launch in launches(skip_host_function(self)).items():
            self.host[name] = joined(self.host.get(name), launch)
        self.parse_optional_location()
        return True

    def parse_operation(self) -> Operation:
        """Parse the next operation, with its location."""
        self._start = start = next_token(self).span.start
        self._within = True
        operation = super().parse_operation()
        self._within = False
        line_end = self.text.find("\n", start)
        location = self.location_of(start, len(self.text) if line_end < 0 else line_end)
        for each in (*self._pending, operation, *allocated_in_head(operation)):
            each.location = SourceLocation(location)  # type: ignore[assignment]
        return operation

    def _parse_op_result_list(self) -> list[Any]:
        self._bound = super()._parse_op_result_list()
        return self._bound

    def forget_results(self) -> None:
        """Accept a name before an operation without results: the specification writes ``%v = xetile.store_tile``."""
        self._bound.clear()

    def constant(self, number: int) -> SSAValue:
        """Index constant, inserted before the operation that is being parsed."""
        self._pending.append(arith.ConstantOp(IntegerAttr(number, IndexType())))
        return self._pending[-1].results[0]

    def insert_before(self, operation: Operation) -> None:
        """Insert an operation before the one that is being parsed."""
        self._pending.append(operation)

    def _get_op_by_name(self, name: str) -> type[Operation]:
        """Class of an operation, or its :class:`Custom` parser; an unknown name is an error at the name."""
        self._foreign, self._has_flags = name in _HEADERS, name.startswith(("arith.", "math."))
        start, spelled = self.text.find(name, self._start), name
        if name.startswith(_PREFIXES):
            name = _PREFIXES[-1] + name.partition(".")[2]
        if name in self.readers:
            span = Span(start, start + len(spelled), next_token(self).span.input)
            return Custom(name, span, self.readers[name])  # type: ignore[return-value]
        try:
            return super()._get_op_by_name(name)
        except ParseError:
            known = [*(operation.name for operation in self.ctx.loaded_ops), *self.readers]
            hint = hint_of_unknown(name)
            near = difflib.get_close_matches(name, known, 1, 0.7) if hint == COMPARE else []
            raise TextError("XT2006",
                            f"there is no operation {spelled}", f"did you mean {near[0]}?" if near else hint,
                            self.location_of(start, start + len(spelled))) from None

    def parse_punctuation(self, punctuation: Any, context_msg: str = "") -> Any:
        """Parse a punctuation; in front of the types of arith and math operations stand flags, which are read."""
        if punctuation == ":" and self._has_flags:
            self._read_flags()
        return super().parse_punctuation(punctuation, context_msg)

    def _read_flags(self) -> None:
        """Skip flags that promise something of the operands, and the rounding that all conversions have."""
        while (word := next_token(self).text) in _PROMISES:
            self._consume_token()
            if next_token(self).text == "<":
                self.parse_comma_separated_list(self.Delimiter.ANGLE, self.parse_identifier)
        if word in _ROUNDINGS:
            fail(self, "XT2018", f"no execution rounds {word}", "leave it out: results are rounded to nearest, ties to "
                 "even; or compute the wanted neighbour from that", next_token(self).span)

    def _parse_generic_operation(self, op_type: type[Operation]) -> Operation:
        if isinstance(op_type, Custom) and op_type.name in SKETCHED:
            return super()._parse_generic_operation(sketched(self, op_type))
        if isinstance(op_type, Custom):
            op_type = DECLARED.get(op_type.name) or super()._get_op_by_name(op_type.name)
        operation = super()._parse_generic_operation(op_type)
        complete(operation)
        return operation

    def parse_optional_type(self) -> Any:
        """Parse an optional type: also ``tile<...>``, ``float``, and memrefs in the specification's spelling."""
        token = next_token(self)
        if (integer := _INTEGER.fullmatch(token.text)) and (len(integer[1]) > 4 or int(integer[1]) > _MOST_BITS):
            fail(self, "XT2078", f"there are no integers of {integer[1]:.20} bits here",
                 f"use at most {_MOST_BITS}: i8, i16, i32, i64", token.span)
        if token.text in ("f80", "f128"):  # xDSL has the types, but cannot print their numbers
            fail(self, "XT2016", f"{token.text} is not an element type", "write f64, or a smaller one", token.span)
        if token.kind is not MLIRTokenKind.BARE_IDENT or token.text not in _WORDS:
            found = _VECTOR.match(token.span.input.content, token.span.start)
            type_ = super().parse_optional_type() if found is None else self._parse_vector_type(found)
            if isinstance(type_, VectorType) and any(type_.scalable_dims):
                fail(self, "XT2059", f"{type_} has a size that the device decides", "write its sizes as numbers: "
                     f"{VectorType(type_.element_type, type_.shape)}", token.span)
            return type_
        self._consume_token()
        if token.text in _NUMBERS:
            return _NUMBERS[token.text]
        if token.text == "tensor_desc" and self.descriptor is not None:
            return self.descriptor(read_tensor_desc(self))
        if token.text == "b16":
            return Bits16Type() if self.b16 else \
                fail(self, "XT2007",
                     "b16 does not say which type of 16 bits it is", "write bf16, f16 or i16", token.span)
        return TileType(read_tile(self)) if token.text == "tile" else read_memref(self)

    def _parse_vector_type(self, found: re.Match[str]) -> Any:
        """Type of a vector, parsed once for each spelling: a third of the time of reading a lowered kernel."""
        if (known := self._vectors.get(found[0])) is None:
            known = self._vectors[found[0]] = super().parse_optional_type()
        else:
            self._resume_from(found.end())  # private: behind the type, whose tokens need not be lexed
        return known

    def _parse_extended_type_or_attribute(self, attr_or_dialect_name: str, is_type: bool) -> Any:
        name = attr_or_dialect_name
        if name.startswith(_PREFIXES):
            name = _PREFIXES[-1] + name.partition(".")[2]
        if is_type:
            return self._parse_extended_type(name)
        opened, alias = next_token(self).text == "<", f"#{name}" in self.attribute_aliases
        short = name.removeprefix("xetile.")
        if opened and not alias and short in _ATTRIBUTES:
            return _ATTRIBUTES[short](self)
        if name == "scatter" and not opened and not alias and not self.on_descriptor:
            return TileAttr(TileEncoding(scatter=True))
        if name == "gpu.address_space" and opened:
            return read_address_space(self)
        if name == "gpu.barrier_scope" and opened:
            return read_barrier_scope(self)
        if name == "vector.iterator_type" and opened:
            with self.in_angle_brackets():
                return StringAttr(self.parse_identifier())
        if name == "xegpu.tdesc_attr" and opened:
            return TdescAttr(TdescAttr.parse_parameter(self))
        if name in SCATTERED and not opened and not alias:
            return TdescAttr((("scattered", True),))
        if not opened and not alias and "." not in name:
            defined = [known for known in self.attribute_aliases if known.startswith("#")]
            defined += [f"#{SCATTERED[0]}"] if self.on_descriptor else []
            end = next_token(self).span.start
            fail(self, "XT2008", f"#{name} is not defined",
                 guess(f"#{name}", defined) if defined else f"write #{name} = ... above",
                 Span(max(self.text.rfind(f"#{name}", 0, end), 0), end, next_token(self).span.input))
        if self._foreign and "." in name and self.ctx.get_optional_attr(name) is None:
            body = f"<{_LINE_BREAK.sub(' ', self._parse_dialect_symbol_body())}>" if opened else ""
            return ForeignAttr(f"#{name}{body}")
        return super()._parse_extended_type_or_attribute(name, False)

    def _parse_extended_type(self, name: str) -> Any:
        if name == "xetile.tile":
            return TileType(read_tile(self))
        if name == "xegpu.tdesc_attr":  # the specification writes this attribute with the letter of types
            return TdescAttr(TdescAttr.parse_parameter(self))
        if name == "xegpu.tensor_desc" and self.descriptor is not None:
            return self.descriptor(read_tensor_desc(self))
        return super()._parse_extended_type_or_attribute(name, True)

    def parse_optional_attribute(self) -> Any:
        """Parse an optional attribute: also ``xegpu.sg_map<...>`` after an alias, as in the specification."""
        token = next_token(self)
        if token.kind is MLIRTokenKind.BARE_IDENT and token.text.startswith(_PREFIXES):
            self._consume_token()
            return self._parse_extended_type_or_attribute(token.text, False)
        return super().parse_optional_attribute()

    def parse_comma_separated_list(self, delimiter: Any, parse: Any, context_msg: str = "") -> Any:
        """Parse a list; that of a single type, as behind the arrow of ``scf.for``, needs no parentheses."""
        if delimiter is self.Delimiter.PAREN and parse == self.parse_attribute and next_token(self).text != "(":
            return [self.parse_type()]
        return super().parse_comma_separated_list(delimiter, parse, context_msg)

    def is_descriptor(self, type_: Attribute) -> bool:
        """Whether a type is a tensor descriptor."""
        return self.descriptor is not None and isinstance(type_, self.descriptor)

    def location_of(self, start: int, end: int) -> Location:
        """Location of a range of the text within one line."""
        line = bisect_right(self._starts, start)
        column = start - self._starts[line - 1]
        return Location.at(self._name, line, column, column + max(end - start, 1), self.text)

    def here(self) -> Location:
        """Location of the next word, or of the last one of a line that ends too early."""
        span = next_token(self).span
        return self.location_of(*self.within(span.start, span.end))

    def operation_name(self) -> tuple[int, int]:
        """Range of the name of the operation that was begun last."""
        words = self.text[self._start:].split(maxsplit=3)
        name = words[2] if words[1:2] == ["="] else words[0]
        start = self.text.find(name, self._start)
        return start, start + len(name)

    def within(self, start: int, end: int) -> tuple[int, int]:
        """Range, or the last word before it if that ends the line of the current operation.

        What is wrong with a type at a line's end is found when the word behind it has been read.
        """
        before = self.text[:start].rstrip()
        if not self._within or start <= self._start or "\n" not in self.text[len(before):start]:
            return start, end
        return len(before) - len(before.split()[-1]), len(before)
