"""Configuration of all tests: selection of cases, missing devices and compilers, hypothesis profiles.

``pytest`` runs few cases of each test, ``pytest --everything`` more (selection.py). XETILE_TEST_NO_SKIP=1 turns every
skip into a failure. HYPOTHESIS_PROFILE chooses a profile; with "thorough" every program is optimised, and
:func:`chosen` gives full products (CONTRIBUTING.md, "How cases are chosen").
"""

from __future__ import annotations

import ctypes
import gc
import importlib.util
import os
import shutil
import sys
import tempfile
from pathlib import Path

# The products here are small. On few cores, with several test processes, BLAS threads only wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What an earlier version of the code had compiled must not stand for what this one makes.
os.environ.setdefault("XETILE_CACHE", "0")

from collections.abc import Callable, Generator
from typing import Any, NoReturn
from weakref import WeakSet

import pytest
from hypothesis import HealthCheck, settings

from codegen.runtime import devices
from codegen.simulator import simulator
from codegen.simulator.decoder import find_iga64
from codegen.toolchain.ocloc import find_ocloc
from codegen.toolchain.sycl import find_sycl_compiler
from tests import machine_code
from tests.level_zero import gpu
from tests.selection import COLLECTED, covered, default_run, everything_run, everything_twins
from xegpu.support.errors import DeviceError, ToolError
from xetile.jit.base import BaseKernel
from xetile.runtime.built_programs import PROGRAMS

FINDINGS = pytest.StashKey[Path]()
OPTIMISED = pytest.StashKey[set[pytest.Item]]()
"""Cases whose programs ``--everything`` has the CPU device optimise."""
ROOT = Path(__file__).resolve().parent.parent
collect_ignore = [] if importlib.util.find_spec("torch") else ["xetile/test_torch.py"]
"""PyTorch is not among the packages of ``.[all]``: its tests have an environment of their own (.ci/run)."""
NO_SKIP = os.environ.get("XETILE_TEST_NO_SKIP") == "1"
_QUIET = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("default", derandomize=True, max_examples=6, database=None, **_QUIET)
settings.register_profile("everything", derandomize=True, max_examples=40, database=None, **_QUIET)
settings.register_profile("thorough", max_examples=1000, **_QUIET)
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--everything``, ``--machine-code`` and ``--level-zero``."""
    parser.addoption("--everything", action="store_true", help="all tests, and more of their cases than by default")
    parser.addoption("--machine-code", action="store_true", help="the cases that run as machine code, all and alone")
    parser.addoption("--level-zero", metavar="TARGET", help="the tests that launch, on a software GPU of this target; "
                                                            "SYCL_UR_USE_LEVEL_ZERO_V2=0 or 1 chooses the adapter")


def pytest_configure(config: pytest.Config) -> None:
    """Load the hypothesis profile: before test files are imported, whose settings start from it."""
    profile = "everything" if config.getoption("everything") else "default"
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", profile))
    gc.disable()  # until all tests are collected: a third of the time of their imports, whose objects all stay
    PROGRAMS.capacity = 8  # a test launches few kernels, and each program takes 5 to 8 MB of a worker
    if target := config.getoption("level_zero"):
        folder = tempfile.mkdtemp(prefix="xetile-")
        config.add_cleanup(lambda: shutil.rmtree(folder))
        config.stash[FINDINGS] = Path(folder) / "findings"
        # Before anything imports dpctl. The device survives a kernel that fails, so that other tests run after it.
        gpu.load({**gpu.environment(target, config.stash[FINDINGS]), "SOFTWARE_GPU_FAULT": "finding"})


def _selects(config: pytest.Config) -> bool:
    """Whether the default selection runs: not with ``--everything``, nor for tests that are named by their ids."""
    everything = config.getoption("everything") or config.getoption("machine_code")
    return not everything and not _named(config)


def _named(config: pytest.Config) -> bool:
    return any("::" in argument for argument in config.args)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the cases that only ``--everything`` runs."""
    if config.getoption("level_zero"):
        items[:] = [item for item in items if item.get_closest_marker("launches")]
    config.stash[COLLECTED] = list(items)
    twins = [] if config.getoption("level_zero") else machine_code.twins(items)
    if config.getoption("machine_code"):
        items[:] = twins
    elif _selects(config):
        items[:], left_out = default_run(items)
        taken = machine_code.chosen(twins)
        config.hook.pytest_deselected(items=[*left_out, *(twin for twin in twins if twin not in taken)])
        items += taken
    elif config.getoption("everything"):
        taken = machine_code.in_turn(twins)
        if not THOROUGH and not _named(config):
            items[:], left_out = everything_run(items)
            config.stash[OPTIMISED] = covered(items)
            taken = everything_twins(twins)
            config.hook.pytest_deselected(items=[*left_out, *(twin for twin in twins if twin not in taken)])
        items += taken


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """A line that tells a selection from all cases."""
    if _selects(config):
        terminalreporter.write_line("A selection of the cases ran. A larger one: pytest --everything")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have the CPU device's compiler leave out its optimiser, which takes four fifths of its time.

    For tests marked ``unoptimised``; in the default run for all that are not marked ``optimised``, and with
    ``--everything`` for those of them that are not among the few in which every value of every parameter occurs.
    """
    quick = item.get_closest_marker("unoptimised") is not None or _selects(item.config) \
        or item not in item.config.stash.get(OPTIMISED, {item})
    quick &= item.get_closest_marker("optimised") is None and not THOROUGH
    os.environ["XETILE_BUILD_OPTIONS"] = "-cl-opt-disable" if quick else ""


@pytest.fixture(autouse=True)
def _module_search_path() -> Generator[None]:
    """Take away what a test adds to the module search path, as the command line does for an author's file."""
    before = sys.path.copy()
    yield
    sys.path[:] = before


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it where no test may be skipped."""
    if NO_SKIP:
        pytest.fail(reason)
    pytest.skip(reason)


def require_sycl_compiler() -> str:
    """The path of the SYCL runtime's compiler; without it the test is skipped."""
    try:
        return str(find_sycl_compiler())
    except ToolError as error:
        unavailable(f"needs the SYCL compiler: {error}")


def require_device(where: str = "") -> Any:
    """The queue of a device, by default that of launching tests; without it the test is skipped."""
    from tests.device import DEVICE_FILTER  # known when pytest is configured

    where = where or DEVICE_FILTER
    try:
        return devices.find_queue(where)
    except DeviceError as error:
        unavailable(f"needs the device {where}: {error}")


def require_ocloc() -> str:
    """The path of Intel's offline compiler; without it the test is skipped."""
    try:
        return str(find_ocloc())
    except ToolError as error:
        unavailable(f"needs ocloc: {error}")


def require_software_gpu() -> None:
    """Requirements of a software GPU; without them the test is skipped."""
    if gpu.find_cxx_compiler() is None:
        unavailable("needs a C++ compiler: install g++")
    require_simulator()


def require_simulator() -> None:
    """Requirements of machine code: the offline compiler and a disassembler; without them the test is skipped."""
    require_ocloc()
    try:
        find_iga64()
    except ToolError as error:
        unavailable(f"needs iga64: {error}")


def require_mlir_opt() -> str:
    """The path of LLVM's mlir-opt, in which the xegpu dialect is; without it the test is skipped."""
    program = os.environ.get("XETILE_MLIR_OPT") or shutil.which("mlir-opt")
    if not program or not shutil.which(program):
        unavailable("needs mlir-opt of LLVM 23: set XETILE_MLIR_OPT")
    return program


def require_chromium() -> str:
    """The path of a Chromium; without it the test is skipped."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        unavailable("needs a Chromium: install the package chromium")
    return program


def require_dpnp() -> Any:
    """dpnp, and a device for its arrays; without them the test is skipped."""
    require_device()
    try:
        import dpnp
    except ImportError as error:
        unavailable(f"needs dpnp: {error}")
    return dpnp


def pytest_collection_finish() -> None:
    """Freeze the objects that are there before the first test, which the garbage collector need not look at again."""
    gc.set_threshold(200_000, 20, 100)  # IR lives as long as its kernel: scanned often, it is scanned for nothing
    gc.enable()
    gc.collect()
    gc.freeze()


KERNELS: WeakSet[BaseKernel] = WeakSet(each for each in gc.get_objects() if issubclass(type(each), BaseKernel))
"""All kernels of this process: of test files, of the package, and those that a cached function of a test made."""


def _note(kernel: BaseKernel, init: Callable[[BaseKernel], None] = BaseKernel.__init__) -> None:
    init(kernel)
    KERNELS.add(kernel)


BaseKernel.__init__ = _note  # type: ignore[method-assign]


def forget_kernels() -> None:
    """Let go of what kernels were lowered to; for tests, too, that lower hundreds of them."""
    for kernel in KERNELS:
        kernel.forget()


@pytest.fixture(scope="module", autouse=True)
def compiled_kernels() -> Generator[None, None, None]:
    """After a file, kernels and the simulator forget what was made; what stays is not collected again for later files.

    Without this a quarter of the time of all tests is spent in collections of the oldest generation.
    """
    yield
    forget_kernels()
    simulator.load.cache_clear()
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":  # glibc keeps what was freed between blocks in use: half of a worker's memory
        ctypes.CDLL(None).malloc_trim(0)


@pytest.fixture(autouse=True)
def no_findings(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """A test fails for what a GPU would do wrong without a word."""
    file = request.config.stash.get(FINDINGS, None)
    yield
    if file is not None and (found := gpu.take_findings(file)):
        pytest.fail("\n".join(found))


@pytest.fixture(scope="session")
def device_queue() -> Any:
    """The queue of the device that launching tests use."""
    return require_device()


@pytest.fixture(autouse=True)
def launches_as_machine_code(request: pytest.FixtureRequest) -> Generator[None, None, None]:
    """In the twin of a case, launches of a GPU's text on the CPU device go to the simulator; there must be some."""
    gpu = machine_code.gpu_of(request.node)
    if gpu is None:
        yield
        return
    require_simulator()
    ran: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BaseKernel, "_bound", machine_code.redirected(gpu, ran))
        yield
    assert ran, "nothing ran as machine code: mark the test on_devices_only"


@pytest.fixture(scope="session")
def cpu_queue() -> Any:
    """The queue of the OpenCL CPU device."""
    return require_device("opencl:cpu")


def _forbid_skip(report: Any) -> None:
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome, report.longrepr = "failed", f"no test may be skipped here. {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, Any, Any]:
    report = yield
    _forbid_skip(report)
    return report
