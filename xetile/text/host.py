"""Host functions beside a ``gpu.module``: they are passed over, and tell how the kernels are launched.

    func.func @main(...) {
      %c8 = arith.constant 8 : index
      gpu.launch_func @test_kernel::@test_kernel blocks in (%c16, %c16, %c1) threads in (%c8, %c4, %c1) args(...)
    }
says that a work-group of ``test_kernel`` has 8 x 4 subgroups: in such files threads count subgroups.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

Counts = tuple[int, int, int]
_COMMENT = re.compile(r"//[^\n]*")
_MODULE = re.compile(r"^\s*\"?gpu\.module\b", re.MULTILINE)
_CONSTANT = re.compile(r"%([\w$.-]+)\s*=\s*arith\.constant\s+(\d+)\s*:\s*index")
_LAUNCH = re.compile(r"gpu\.launch_func\b[^@]*@([\w$.-]+)::@([\w$.-]+)\s+blocks\s+in\s*\(([^)]*)\)\s*"
                     r"threads\s+in\s*\(([^)]*)\)")


@dataclass(frozen=True)
class Launch:
    """One launch: work-groups of the grid and subgroups of a work-group, each along x, y, z; None if not constant."""

    blocks: Counts | None
    threads: Counts | None


def has_kernels(text: str) -> bool:
    """Whether a text has a ``gpu.module``, so that functions outside it are the host's."""
    return _MODULE.search(_COMMENT.sub("", text)) is not None


def launches(function: str) -> dict[tuple[str, str], Launch]:
    """The launches of a host function's text, by the names of module and kernel; those that differ count as unknown."""
    text = _COMMENT.sub("", function)
    constants = {name: int(number) for name, number in _CONSTANT.findall(text)}
    found: dict[tuple[str, str], Launch] = {}
    for module, kernel, blocks, threads in _LAUNCH.findall(text):
        launch = Launch(_counts(blocks, constants), _counts(threads, constants))
        found[module, kernel] = joined(found.get((module, kernel)), launch)
    return found


def joined(first: Launch | None, second: Launch) -> Launch:
    """What two launches of one kernel have in common."""
    if first is None:
        return second
    return Launch(first.blocks if first.blocks == second.blocks else None,
                  first.threads if first.threads == second.threads else None)


def _counts(listed: str, constants: dict[str, int]) -> Counts | None:
    found = [constants.get(name.strip().removeprefix("%")) for name in listed.split(",")]
    if len(found) != 3 or None in found:
        return None
    x, y, z = (count or 0 for count in found)
    return x, y, z
