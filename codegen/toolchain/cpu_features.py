"""CPU feature flags, which OpenCL does not report."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path


@cache
def description() -> str:
    """Names and feature flags of the CPUs from Linux's /proc/cpuinfo; elsewhere Python's ``platform``."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags"))}))


def has_feature(name: str) -> bool:
    """Whether all CPUs have a feature, by its name in Linux; False where that is unknown."""
    flags = [line.split() for line in description().splitlines() if line.startswith("flags")]
    return bool(flags) and all(name in words for words in flags)
