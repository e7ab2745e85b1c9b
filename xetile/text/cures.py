"""What to do about mistakes that the parser and the verifiers of xDSL find, which say only what is wrong."""

from __future__ import annotations

import re

COMPARE = "kernel.lower(...).stages shows every stage of a kernel as text that reads back"
_CURES = (
    (r"operand is used with type (\S+),", "a value has one type: change this one, or that of its definition"),
    (r"Unexpected attribute (.+)", "give it an attribute of the kind that the operation takes, or leave it out"),
    (r"property '(\w+)' is not defined by", "leave {0} out: the operation has no such property"),
    (r"property '(\w+)' expected in", "add {0} = ..."),
    (r"Expected '(\w+)'", "write {0} = ... here"),
    (r"operand '(\w+)' at position \d+ does not verify", "pass a value of the type that {0} must have"),
)


def cure_of(message: str) -> str:
    """A hint for a message of xDSL's; where to look, if it is none that is known."""
    for pattern, hint in _CURES:
        if found := re.search(pattern, message):
            return hint.format(*found.groups())
    return COMPARE
