"""Lexer of MLIR text: xDSL's, with its frequent tokens matched by one regular expression.

xDSL tries the kinds of tokens one after the other, in Python. That took a fourth of the time of reading a text.
"""

from __future__ import annotations

import re

from xdsl.utils.lexer import Span, Token
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind

MLIRLexer._unescaped_characters_regex = re.compile(  # private: the parser's constructor lexes the first token
    r'"(?:[^"\\\n\v\f]|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*"')
"""String literal, in the place of xDSL's private pattern, which takes exponential time where one is not closed."""

_SUFFIX = r"(?:[0-9]+|[a-zA-Z$._-][a-zA-Z0-9$._-]*)"
_KINDS = {
    r"%" + _SUFFIX: MLIRTokenKind.PERCENT_IDENT,
    r"[a-zA-Z_][a-zA-Z0-9_$.]*": MLIRTokenKind.BARE_IDENT,
    r",": MLIRTokenKind.COMMA, r":": MLIRTokenKind.COLON, r"=": MLIRTokenKind.EQUAL,
    r"<": MLIRTokenKind.LESS, r">": MLIRTokenKind.GREATER,
    r"\[": MLIRTokenKind.L_SQUARE, r"\]": MLIRTokenKind.R_SQUARE,
    r"\(": MLIRTokenKind.L_PAREN, r"\)": MLIRTokenKind.R_PAREN,
    r"(?!0x[0-9a-fA-F])[0-9]++(?!\.)": MLIRTokenKind.INTEGER_LIT,
    r"[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?": MLIRTokenKind.FLOAT_LIT,
    r"!" + _SUFFIX: MLIRTokenKind.EXCLAMATION_IDENT,
    r"#(?!-\})" + _SUFFIX: MLIRTokenKind.HASH_IDENT,
    r"\{(?!-#)": MLIRTokenKind.L_BRACE, r"\}": MLIRTokenKind.R_BRACE,
    r"->": MLIRTokenKind.ARROW, r"-(?!>)": MLIRTokenKind.MINUS,
}
"""Frequent tokens, by their patterns; no two match at one place."""
_KIND = (None, *_KINDS.values())
"""Kinds of tokens by the number of their group in :data:`_TOKEN`."""
_TOKEN = re.compile(r"(?>(?:[ \t\n\r\f\v]+|//[^\n]*\n?)*)(?:" + "|".join(f"({pattern})" for pattern in _KINDS) + ")")
"""White space and comments, as a whole (so that none is tried again in parts), and a frequent token."""


class Lexer(MLIRLexer):
    """xDSL's lexer; tokens that are none of the frequent ones, and errors, are its own."""

    def lex(self) -> MLIRToken:
        """The next token."""
        found = _TOKEN.match(self.input.content, self.pos)
        if found is None or (group := found.lastindex) is None or (kind := _KIND[group]) is None:
            return super().lex()
        start, self.pos = found.span(group)
        return Token(kind, Span(start, self.pos, self.input))
