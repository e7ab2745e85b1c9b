"""``XETILE_DEBUG=dump``: every stage of every kernel that is compiled, as files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp

from xegpu.support.errors import ToolError, XeError
from xegpu.target.targets import Target

if TYPE_CHECKING:
    from codegen.opencl.source import Source

_FOLDER = "xetile-dump"


def is_on() -> bool:
    """Whether XETILE_DEBUG is ``dump``.

    Raises:
        ToolError: it has another value.
    """
    value = os.environ.get("XETILE_DEBUG", "")
    if value not in ("", "0", "dump"):
        raise ToolError("XT1620",
                        f"XETILE_DEBUG is {value!r}, which is not a debug option", "set XETILE_DEBUG=dump, or unset it")
    return value == "dump"


def write(name: str, target: Target, modules: Mapping[str, ModuleOp], source: Source | None) -> Path:
    """Write the stages of a kernel, and its code if it is emitted, to a folder; print its name to stderr.

    Args:
        name: the kernel's name.
        target: the device that it is compiled for.
        modules: the stages so far.
        source: the emitted code, None before emission.

    Returns:
        the folder: XETILE_DEBUG_DIR, by default ``xetile-dump``, and in it one named by the kernel, the target and
        a hash of the first stage.

    Raises:
        ToolError: the folder cannot be written.
    """
    import hashlib  # lazy imports: only programs that dump need these

    files = dict(_files(target, modules, source))
    first = next(iter(files.values()), "")
    digest = hashlib.sha256(first.encode()).hexdigest()[:8]
    folder = Path(os.environ.get("XETILE_DEBUG_DIR", _FOLDER)) / f"{name}-{target.name}-{digest}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            (folder / file).write_text(text.rstrip("\n") + "\n")
    except OSError as error:
        raise ToolError("XT1621", f"XETILE_DEBUG=dump: {folder} cannot be written: {error.strerror}",
                        "set XETILE_DEBUG_DIR to a folder that can") from None
    print(f"xetile: {name} for {target.name}: {len(files)} files in {folder}", file=sys.stderr)
    return folder


def _files(target: Target, modules: Mapping[str, ModuleOp], source: Source | None) -> Iterator[tuple[str, str]]:
    from xetile.text.gpu_module import printed

    for number, (stage, module) in enumerate(modules.items()):
        yield f"{number:02}-{stage}.mlir", printed(module)
    if source is None:
        return
    yield "kernel.cl", source.text
    if not target.is_cpu:
        yield "kernel.asm", _assembly(target, source)


def _assembly(target: Target, source: Source) -> str:
    from codegen.toolchain import ocloc

    try:
        binary = ocloc.compile_device(source.text, target.name, source.options)
        return str(ocloc.disassemble(binary))
    except XeError as error:
        return f"// no machine code: {error}"
