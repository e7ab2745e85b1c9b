"""Unresolved imports: functions that a SPIR-V program imports and its driver lacks.

Drivers say it in different ways: Intel's CPU driver refuses the program, a Level Zero driver builds it and then gives
none of its kernels.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from codegen.runtime.build_log import build_log
from codegen.runtime.devices import Queue
from codegen.toolchain.compile_error import author_line
from codegen.toolchain.spirv import demangled_name, imports
from xegpu.support.errors import ToolError

_FUNCTION = re.compile(r"^[^\n/#{};]*?\b(\w+)\([^;{}]*\)\n\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_SAYS_SO = re.compile(r"not found|undefined|unresolved", re.IGNORECASE)


def unresolved(queue: Queue, spirv: bytes, options: str, log: str, text: str) -> ToolError | None:
    """Error that names the functions that a driver lacks; None if a program imports none, or the log names none.

    Args:
        queue: the queue that the program was built for.
        spirv: the program.
        options: its build options.
        log: the driver's log of the failed build; "" if it built the program, but its kernel is not to be had.
        text: OpenCL C from which the SPIR-V was made, for the author's line; "" if there is none.
    """
    wanted = imports(spirv)
    said = log or (build_log(queue, spirv, options) if wanted else "")
    missing = [name for name in wanted if name in said] if not log or _SAYS_SO.search(log) else []
    if not log:
        missing = missing or wanted
    if not missing:
        return None
    names = sorted({demangled_name(name) for name in missing})
    line = _call_of(text, names)
    call = f", which the program calls{f' (in the code of {line})' if line else ''}"
    return ToolError("XT5111", f"{queue.sycl_device.name.strip()} has no function {', '.join(names)}{call}",
                     "install a newer driver, or run the kernel for another target", log=said)


def _call_of(text: str, names: Collection[str]) -> str:
    """Author's file and line of the first statement of a kernel that calls a function, itself or through helpers."""
    wanted = set(names)
    for name, body in _FUNCTION.findall(text):  # helpers stand before what calls them
        found = re.search(rf"\b(?:{'|'.join(map(re.escape, sorted(wanted)))})\(", body)
        if found and (line := author_line(text, text.count("\n", 0, text.index(body) + found.start()) + 1)):
            return line
        if found:
            wanted.add(name)
    return ""
