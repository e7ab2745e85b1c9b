"""Source locations of MLIR's debug printing, ``loc(...)``: all forms are read, and none is kept.

``mlir-opt --mlir-print-debuginfo`` writes one behind each operation and argument, and defines their aliases at the end:

    %0 = arith.addf %a, %b : vector<8x16xf32> loc(#loc4)
    #loc4 = loc(fused["by hand"("kernel.mlir":7:3), callsite(#loc1 at unknown)])

Messages name the place in the text that was read.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import LocationAttr, UnknownLoc
from xdsl.parser import Parser
from xdsl.utils.mlir_lexer import MLIRTokenKind

from xegpu.support.lookahead import next_token
from xetile.text.types import fail


class LocationParser(Parser):
    """Parser of locations, in the place of xDSL's, which lacks ranges, metadata, and aliases that are defined below."""

    def parse_optional_location(self) -> LocationAttr | None:
        """Parse ``loc(...)``, if it is there."""
        if not self.parse_optional_keyword("loc"):
            return None
        with self.in_parens():
            self._read_location()
        return UnknownLoc()

    def parse_optional_attribute(self) -> Any:
        """Parse an optional attribute; a location is one."""
        return self.parse_optional_location() or super().parse_optional_attribute()

    def _read_location(self) -> None:
        if self._parse_optional_token(MLIRTokenKind.HASH_IDENT) is not None or self.parse_optional_keyword("unknown"):
            return
        if self.parse_optional_str_literal() is not None:
            self._read_position()
        elif self.parse_optional_keyword("callsite"):
            with self.in_parens():
                self._read_location()
                self.parse_keyword("at")
                self._read_location()
        elif self.parse_optional_keyword("fused"):
            if self.parse_optional_punctuation("<"):
                self.parse_attribute()
                self.parse_punctuation(">")
            self.parse_comma_separated_list(self.Delimiter.SQUARE, self._read_location)
        else:
            fail(self, "XT2002", f"{next_token(self).text} begins no location",
                 'write loc(unknown), or loc("kernel.mlir":7:3)', next_token(self).span)

    def _read_position(self) -> None:
        """Skip what follows a file or a name: line and column, also of an end; or what the name stands for."""
        if self.parse_optional_punctuation("("):
            self._read_location()
            self.parse_punctuation(")")
        elif self.parse_optional_punctuation(":"):
            self._read_line_and_column()
            if self.parse_optional_keyword("to"):
                self.parse_optional_integer(allow_boolean=False, allow_negative=False)
                self.parse_punctuation(":")
                self.parse_integer(allow_boolean=False, allow_negative=False)

    def _read_line_and_column(self) -> None:
        self.parse_integer(allow_boolean=False, allow_negative=False)
        self.parse_punctuation(":")
        self.parse_integer(allow_boolean=False, allow_negative=False)
