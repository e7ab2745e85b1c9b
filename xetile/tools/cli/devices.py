"""``xetile devices``: available devices and compilers, with install hints."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
from collections.abc import Callable
from typing import Any

from codegen.opencl.cpu_gemm import DOT_PRODUCTS
from codegen.runtime import devices
from codegen.runtime.program_source import multiplier
from codegen.simulator.decoder import decoded_targets
from codegen.toolchain import ocloc, sycl
from xegpu.support.errors import ToolError, XeError
from xegpu.target.targets import TARGETS, Target
from xetile.compiler.report.table import Row, Table
from xetile.runtime.executors import check_simulator
from xetile.tools.cli.output import show

_PACKAGES = (("dpctl", "launches on devices", 'pip install "xetile[device]"'),
             ("dpnp", "arrays on devices", 'pip install "xetile[dpnp]"'),
             ("rich", "tables on a terminal", "pip install rich"),
             ("matplotlib", "plots", "pip install matplotlib"))


def add(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser("devices", help="what is there to run on, and what is missing",
                                 description="Lists devices, compilers and packages, what works with each, and what to "
                                             "install for what is missing.")
    parser.set_defaults(command=command)


def command(args: argparse.Namespace) -> None:
    """Print the devices and tools."""
    for table in (_devices(), _tools()):
        show(table)


def _devices() -> Table:
    rows = [Row("numpy", ("NumPy", "every target", "everything, without a device")),
            Row("numpy:xegpu", ("NumPy", "every target", "the lowered program, lane by lane")),
            Row("machine:pvc", ("a simulator", ", ".join(decoded_targets()), _machine_code()))]
    notes: tuple[str, ...] = ()
    try:
        found = devices.all_devices()
    except XeError as error:
        return Table("where kernels run", tuple(rows), ("device", "code for", "what works"),
                     (), (f"no devices: {error.message}; {error.hint}",))
    for where, device in found:
        name, target = device.name.strip(), _target_of(where)
        rows.append(Row(where, (name, target.name if target else "unknown", _works(device, target))))
    if not any(device.is_gpu for _, device in found):
        notes = ("no GPU: an Intel GPU appears when its driver (Level Zero or OpenCL) is installed",)
    if not any(device.is_cpu for _, device in found):
        notes += ('no CPU device: pip install "xetile[device]" brings the OpenCL CPU driver',)
    return Table("where kernels run", tuple(rows), ("device", "code for", "what works"), (), notes)


def _machine_code() -> str:
    """State of the simulator: ready, or the tools that are missing."""
    try:
        check_simulator()
    except ToolError as error:
        return f"nothing yet: {error.message}"
    return "the machine code of GPUs, each access checked; its speed means nothing"


def _target_of(where: str) -> Target | None:
    try:
        return TARGETS[devices.device_target(devices.find_queue(where))]
    except (XeError, KeyError):
        return None


def _works(device: Any, target: Target | None) -> str:
    if device.is_cpu:
        if not devices.has_intel_cpu_compiler(device):
            return "portable code; the code of every GPU, with emulated builtins"
        products = ", ".join(f"{product.elements} products by {multiplier(product)}" for product in DOT_PRODUCTS)
        return f"CPU code, {products}; the code of every GPU, with emulated builtins"
    if target is None:
        return "no target's table knows it: give target= yourself"
    block = "2D block IO" if target.block_io else "no 2D block IO: rows are read one by one"
    return f"DPAS with subgroups of {target.subgroup_size}, {block} (written, never run by us on a real GPU)"


def _tools() -> Table:
    rows = [_tool("ocloc", "machine code, report()", ocloc.find_ocloc,
                  "the package intel-ocloc of Debian or Ubuntu, or XETILE_OCLOC"),
            _tool("SYCL compiler", "SPIR-V for Level Zero, .sycl", sycl.find_sycl_compiler,
                  'pip install "xetile[device]"')]
    for name, use, install in _PACKAGES:
        there = importlib.util.find_spec(name) is not None
        rows.append(Row(name, (_version(name) if there else "missing", use, "" if there else install)))
    return Table("tools and packages", tuple(rows), ("version or path", "for", "to install"))


def _tool(name: str, use: str, find: Callable[[], object], install: str) -> Row:
    try:
        return Row(name, (str(find()), use, ""))
    except XeError:
        return Row(name, ("missing", use, install))


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "there"
