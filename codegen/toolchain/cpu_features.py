"""What the processor is and can do, which OpenCL does not say."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path


@cache
def description() -> str:
    """Names and features of the processors, as Linux lists them; elsewhere what Python knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def has_feature(name: str) -> bool:
    """Whether all processors have a feature, by its name in Linux; False where that cannot be told."""
    flags = [line.split() for line in description().splitlines() if line.startswith("flags")]
    return bool(flags) and all(name in words for words in flags)
