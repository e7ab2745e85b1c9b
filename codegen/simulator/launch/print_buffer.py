"""Buffer of a kernel's ``printf``: the driver gives it to the kernel, and prints it when the kernel has run.

The first word counts the bytes in use, itself among them. An entry is the address of the format string and, for each
conversion, a word with the kind of value and the value.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from codegen.simulator.findings import Finding

BYTES = 1 << 22
_HEADER = 4
_CONVERSION = re.compile(r"%([-+ 0#]*\d*(?:\.\d+)?)(?:hh|h|ll|l|hl|v\d+)?([diouxXeEfFgGaAcsp%])")
_STRING = 5
_VALUES = {1: "<b3x", 2: "<h2x", 3: "<i", 4: "<f", _STRING: "<Q", 6: "<q", 7: "<Q", 8: "<d"}
"""Layout of a value by its kind, as in the driver: char, short, int, float, string, long, pointer, double."""


def new_buffer() -> NDArray[np.uint8]:
    """An empty buffer."""
    buffer = np.zeros(BYTES, np.uint8)
    buffer[:_HEADER] = np.frombuffer(struct.pack("<I", _HEADER), np.uint8)
    return buffer


def printed(buffer: NDArray[np.uint8], string_at: Callable[[int], bytes]) -> Iterator[str]:
    """The texts that a kernel printed, in the order of the buffer.

    Args:
        buffer: the buffer.
        string_at: the bytes of the string at an address.

    Raises:
        Finding: the buffer holds an invalid entry.
    """
    data = buffer.tobytes()
    end, at = min(struct.unpack_from("<I", data)[0], len(data)), _HEADER
    while at < end:
        template = string_at(struct.unpack_from("<Q", data, at)[0]).decode(errors="replace")
        at += 8
        pieces, last = [], 0
        for match in _CONVERSION.finditer(template):
            pieces.append(template[last:match.start()])
            last = match.end()
            if match[2] == "%":
                pieces.append("%")
                continue
            kind = struct.unpack_from("<I", data, at)[0]
            if kind not in _VALUES:
                raise Finding("XT6109", f"printed a value of kind {kind}, which is not simulated",
                              "print numbers, one by one")
            (value,) = struct.unpack_from(_VALUES[kind], data, at + 4)
            at += 4 + struct.calcsize(_VALUES[kind])
            pieces.append(_formatted(match[1], match[2], value, kind, string_at))
        yield "".join([*pieces, template[last:]])


def _formatted(flags: str, letter: str, value: float, kind: int, string_at: Callable[[int], bytes]) -> str:
    if kind == _STRING:
        return f"%{flags}s" % string_at(int(value)).decode(errors="replace")
    if letter in "uoxXp" and value < 0:
        value += 1 << (64 if kind == 6 else 32)
    letter = {"i": "d", "u": "d", "p": "x", "a": "g", "A": "G"}.get(letter, letter)
    return f"%{flags}{letter}" % value
