"""The stand-in for libze_loader.so.1: which GPU it shows, how it is built, and what a process needs to load it."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import platformdirs

from xegpu.target.targets import find_target

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCES = Path(__file__).with_name("driver")
LIBRARY = "libze_loader.so.1"
NEW_DRIVER = "1.14.37435"
"""A driver's version from which on adapter 2 launches by another function than before 1.14.36035."""
_FLAGS = ("-std=c++17", "-O1", "-Wall", "-Wextra", "-fPIC", "-shared", "-fvisibility=hidden", f"-Wl,-soname,{LIBRARY}")


@dataclass(frozen=True)
class Product:
    """GPU as its driver describes it.

    Attributes:
        device_id: PCI device id.
        name: the driver's name for it.
        ip: GMDID version: architecture, release, revision.
        threads: hardware threads of an Xe core.
    """

    device_id: int
    name: str
    ip: tuple[int, int, int]
    threads: int = 64


PRODUCTS = {
    "pvc": Product(0x0BD5, "Intel(R) Data Center GPU Max 1550", (12, 60, 7)),
    "bmg": Product(0xE20B, "Intel(R) Arc(TM) B580 Graphics", (20, 1, 4)),
    "lnl": Product(0x64A0, "Intel(R) Arc(TM) 140V GPU", (20, 4, 4)),
    "dg2": Product(0x56A0, "Intel(R) Arc(TM) A770 Graphics", (12, 55, 8), 128),
    "arl": Product(0x7D51, "Intel(R) Arc(TM) 140T GPU", (12, 74, 4), 128),
}


def find_cxx_compiler() -> str | None:
    """Path of a C++ compiler; None without any."""
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("clang++")


def build_library() -> Path:
    """Compile the stand-in, once for each content of its sources.

    Raises:
        FileNotFoundError: there is no C++ compiler.
        subprocess.CalledProcessError: it does not compile.
    """
    compiler = find_cxx_compiler()
    if compiler is None:
        raise FileNotFoundError("no C++ compiler")
    sources = sorted(SOURCES.iterdir())
    key = hashlib.sha256(b"\0".join([compiler.encode(), *map(str.encode, _FLAGS), *(s.read_bytes() for s in sources)]))
    folder = platformdirs.user_cache_path("xetile") / "level_zero" / key.hexdigest()[:16]
    library = folder / LIBRARY
    if not library.exists():
        folder.mkdir(parents=True, exist_ok=True)
        made = folder / f"{os.getpid()}.so"  # renamed when it is complete: other processes may build it as well
        files = [str(source) for source in sources if source.suffix == ".cpp"]
        subprocess.run([compiler, *_FLAGS, *files, "-o", str(made), "-ldl", "-lpthread"], check=True)
        made.rename(library)
    return library


def environment(
    target: str, findings: Path, *, adapter: int | None = None, driver: str = "", order: str = ""
) -> dict[str, str]:
    """Environment variables of a process that shall see a software GPU as ``level_zero:gpu``.

    Args:
        target: whose GPU, a key of :data:`PRODUCTS`.
        findings: the file that findings are appended to.
        adapter: version of the SYCL runtime's adapter, 1 or 2; None for the runtime's choice.
        driver: the driver's version, by default 1.6.33578; from 1.14.36035 on adapter 2 launches by another function.
        order: ``"late"``, the default, or ``"early"``: commands run when they are appended.
    """
    product, record = PRODUCTS[target], find_target(target)
    architecture, release, revision = product.ip
    settings = {
        "ID": product.device_id, "NAME": product.name, "IP": architecture << 22 | release << 14 | revision,
        "SIMD": record.subgroup_size, "SLM": record.slm_bytes, "CORES": record.cores, "THREADS": product.threads,
        "DRIVER": driver, "ORDER": order, "FINDINGS": findings, "TARGET": target,
        "EXECUTOR": f"env PYTHONPATH='{ROOT}' '{sys.executable}' -m tests.level_zero.executor",
    }
    variables = {f"SOFTWARE_GPU_{name}": str(value) for name, value in settings.items() if value != ""}
    variables["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, (str(build_library().parent),
                                                                 os.environ.get("LD_LIBRARY_PATH", ""))))
    variables["UR_L0_DISABLE_USM_ALLOCATOR"] = "1"  # each allocation, and each release, reaches the stand-in
    if adapter is not None:
        variables["SYCL_UR_USE_LEVEL_ZERO_V2"] = str(adapter - 1)
    return variables


def load(variables: dict[str, str]) -> None:
    """Load the stand-in into this process, before anything imports dpctl, and set its environment."""
    os.environ.update(variables)
    load_library()


@cache
def load_library() -> ctypes.CDLL:
    """The stand-in. The SYCL runtime, which opens libze_loader.so.1, gets a library of that name that is loaded."""
    return ctypes.CDLL(str(build_library()), mode=ctypes.RTLD_GLOBAL)


def take_findings(file: Path) -> list[str]:
    """Findings since the last call: what a GPU would have done wrong without a word."""
    found = read_findings(file)
    file.unlink(missing_ok=True)
    return found


def read_findings(file: Path) -> list[str]:
    """Findings so far: what a GPU would have done wrong without a word."""
    return file.read_text().splitlines() if file.exists() else []


def run_on_gpu(command: Sequence[str], variables: dict[str, str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a process of its own that sees the software GPU."""
    return subprocess.run([sys.executable, *command], cwd=ROOT, env={**os.environ, **variables}, text=True,
                          capture_output=True, timeout=timeout, check=False)
