"""Description of the machine that measures: processor, cores, and versions of the packages that take part."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path

_PACKAGES = ("xetile", "numpy", "ml_dtypes", "xdsl", "dpctl", "dpnp", "intel-opencl-rt", "torch")


def describe() -> dict[str, str]:
    """Facts in the order in which they are printed."""
    versions = {name: _version(name) for name in _PACKAGES}
    return {"processor": _processor(), "cores": str(os.cpu_count()), "load": f"{os.getloadavg()[0]:.1f} at the start",
            "system": platform.platform(), "python": platform.python_version(),
            **{name: version for name, version in versions.items() if version}}


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
                platform.processor() or "unknown")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
