"""Lookahead of xDSL's parser."""

from __future__ import annotations

from xdsl.parser import AttrParser
from xdsl.utils.mlir_lexer import MLIRToken


def next_token(parser: AttrParser) -> MLIRToken:
    """Next token of the text, which stays to be parsed."""
    return parser._current_token  # private: xDSL has no public lookahead that tells kind, text and span
