"""The lexer of text against xDSL's: the same tokens at the same places, and the same errors, of whole and cut texts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRTokenKind

import xetile.text.reader as reader  # xDSL's pattern of string literals is replaced there
from xetile.text.reader.lexer import _KIND, Lexer

DOCUMENTS = sorted((Path(__file__).parent / "documents").glob("*.mlir"))
TOKENS = [
    "%a0.b-", "%12", "#map", "#-}", "{-#", "{", "}", "!t.x", "^bb0", "@f", '@"f g"', "->", "-", "--", "...", "0x1F",
    "0xi32", "4x5xf32", "12", "1.5", "1.", "2.5e-3", "1.e", "0x1.5", "007.", '"a\\n\\22"', '"\\FF"', "abc.d$e_", "_",
    "é", "aé", "²", "?", "+", "*", "/", "|", ":", ",", "=", "<", ">", "(", ")", "[", "]", "//", "// c\n", "/", "\t",
    "\r\n", "\v", "\f", "\xa0", "\u2003", "%", "%é", "#", "!", "^", "@", ".", "..", '"', ";", "&", "%-", "#-", "-x"]


def lexed(lexer: MLIRLexer) -> list[tuple[str, int, int, str]]:
    """Tokens of a text with their places, and the error that ends them."""
    found = []
    try:
        while not found or found[-1][0] != MLIRTokenKind.EOF.name:
            token = lexer.lex()
            found.append((token.kind.name, token.span.start, token.span.end, type(token.span).__name__))
    except ParseError as error:
        found.append((error.msg, error.span.start, error.span.end, "error"))
    return found


def check(text: str) -> set[str]:
    found = lexed(Lexer(Input(text, "text")))
    assert found == lexed(MLIRLexer(Input(text, "text"))), text
    return {kind for kind, *_ in found}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_documents(document: Path) -> None:
    """Whole, and in the characters of the reader."""
    text = document.read_text()
    assert len(check(text) & {kind.name for kind in _KIND if kind}) > 10
    check(reader.normalize_characters(text))


def test_random_tokens() -> None:
    """Tokens side by side, with and without spaces: every kind occurs, and texts that are refused."""
    rng = random.Random(1)
    kinds = set[str]()
    for _ in range(3000):
        tokens = rng.choices(TOKENS, k=rng.randrange(1, 7))
        kinds |= check("".join(token + rng.choice(["", "", " ", "\n"]) for token in tokens))
    assert kinds >= {kind.name for kind in MLIRTokenKind}
    assert len(kinds) > len(MLIRTokenKind)


def test_long_white_space_takes_no_longer_for_each_character() -> None:
    """White space before what no frequent token begins with is matched once."""
    assert lexed(Lexer(Input(" \n" * 20_000 + "&", "text")))[-1][1:3] == (40_000, 40_001)
