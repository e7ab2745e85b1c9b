"""Hints for errors of xDSL's parser and verifiers, whose messages have none.

Mistakes of authors get a code and a message of ours.
"""

from __future__ import annotations

import re

from xegpu.support.errors import UNREADABLE

COMPARE = "kernel.lower(...).stages shows every stage of a kernel as text that reads back"
_ELSEWHERE = {
    "affine.": "mlir-opt --lower-affine makes arith and scf of it",
    "linalg.": "mlir-opt vectorizes it: transform.structured.vectorize, or write vector.transfer_read and what follows",
    "bufferization.": "mlir-opt --one-shot-bufferize makes memrefs of tensors",
    "tensor.": "mlir-opt --one-shot-bufferize makes memrefs of tensors",
    "gpu.launch": "mlir-opt --gpu-launch-sink-index-computations --gpu-kernel-outlining makes a gpu.module of it",
    "scf.parallel": "mlir-opt --gpu-map-parallel-loops --convert-parallel-loops-to-gpu makes gpu.launch of it, and "
                    "--gpu-kernel-outlining a gpu.module of that; or write gpu.block_id",
    "scf.forall": "mlir-opt --scf-forall-to-for makes scf.for of it; or write gpu.block_id",
    "memref.global": "write arith.constant dense<...> : vector<...>, or pass an array",
    "memref.get_global": "write arith.constant dense<...> : vector<...>, or pass an array",
    "vector.print": "store the vector to an array, and look at that",
}
"""What makes operations that are read of those of a dialect, or of one operation, that are not."""
_NO_FORMAT = re.compile(r"^Operation (\S+) does not have a custom format")
_HINTS = (
    (r"^Expected '(\W+)'", "write {0} here, and what belongs behind it"),
    (r"^'(\S+)' expected", "write {0} here, or a comma if there is more"),
    (r"Unexpected attribute (.+)", "give it an attribute of the kind that the operation takes, or leave it out"),
    (r"property '(\w+)' is not defined by", "leave {0} out: the operation has no such property"),
    (r"property '(\w+)' expected in", "add {0} = ..."),
    (r"Expected '(\w+)'", "write {0} = ... here"),
    (r"operand '(\w+)' at position \d+ does not verify", "pass a value of the type that {0} must have"),
)
_REWORDED = (
    (r"operand is used with type (.+), but has been previously used or defined with type (.+)", "XT2039",
     "{word} is {1}, and the text has {0}", "a value has one type: write {1}"),
    (r"Expected shape type", "XT2016", "{word} is not an element type",
     "write one that MLIR has, such as f32, bf16, f16, tf32, i32, i8, ui8 or index"),
    (r"^in block definition", "XT2004", "an operation is expected, not {word}",
     "begin with the operation's name, as in func.func, or close the open braces"),
)


_COUNTED = re.compile(r"expected (\d+) operand types but had (\d+)")
_NO_VECTOR = re.compile(r"^(.+) should be of base attribute vector")
_OPERAND = re.compile(r"^operand '(\w+)' at position \d+ does not verify")
_LOADED = (("!xegpu.tensor_desc", "load its block first: xegpu.load_nd"),
           ("!xetile.tile", "load it first: xetile.load_tile"),
           ("memref", "describe a block of the array, and load that"))


def hint_of_unknown(name: str) -> str:
    """Hint for an operation of an unknown name."""
    return next((hint for dialect, hint in _ELSEWHERE.items() if name.startswith(dialect)), COMPARE)


def is_miscounted(message: str) -> bool:
    """Whether a message of xDSL's parser is about the number of types of an operation."""
    return _COUNTED.search(message) is not None


def vector_expected(message: str, hint: str) -> tuple[str, str]:
    """Message and hint for an operand or result that is no vector; others are unchanged."""
    operand = _OPERAND.search(message)
    found = _NO_VECTOR.search(hint if operand else message)
    if found is None:
        return message, hint
    cure = next((cure for begin, cure in _LOADED if found[1].startswith(begin)),
                "repeat a number with vector.broadcast")
    return f"{operand[1] if operand else 'what it takes here'} is {found[1]}, and no vector", cure


def reworded(message: str, word: str) -> tuple[str, str, str]:
    """Code, message and hint for a message of xDSL's parser at ``word``, which is empty at the end of the text."""
    if counts := _COUNTED.search(message):
        return "XT2035", f"it has {counts[2]} operands there, and the text has {counts[1]} types of them", \
            "write the type of each operand behind the colon, in their order"
    if not word:
        return "XT2017", "the text ends too early", "close open braces, as with } for a function"
    for pattern, code, text, hint in _REWORDED:
        if found := re.search(pattern, message):
            return code, text.format(*found.groups(), word=word), hint.format(*found.groups(), word=word)
    message = f"something is missing {message}" if message.startswith("in ") else message or "this does not parse"
    return UNREADABLE, message, hint_of(message)


def hint_of(message: str) -> str:
    """Hint for a message of xDSL; a general one for an unknown message."""
    if found := _NO_FORMAT.search(message):
        return hint_of_unknown(found[1])
    for pattern, hint in _HINTS:
        if found := re.search(pattern, message):
            return hint.format(*found.groups())
    return COMPARE
