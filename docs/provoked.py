"""Errors of the catalogue that take a fault of a device, a tool or a file, by their codes.

Each function makes the fault, often by putting something broken in the place of a part of the package, and calls what
an author calls. Only pages marked ``provoked`` are made so; where a few lines of an author's own make an error, the
page has them.
"""

from __future__ import annotations

import builtins
import contextlib
import io
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import xetile as xt
from codegen import opencl
from codegen.opencl import prelude
from codegen.opencl.emitter import Emitter
from codegen.opencl.vector import reduction
from codegen.runtime import devices, launcher, program_source, synchronize, usm
from codegen.runtime.devices import find_queue
from codegen.runtime.program_cache import build_kernel
from codegen.runtime.program_source import gpu_program
from codegen.simulator import decoder, scoreboard, simulator, zebin
from codegen.simulator.alu import arith
from codegen.simulator.instruction import Scoreboard
from codegen.simulator.messages import descriptor
from codegen.sycl import opencl_to_cxx
from codegen.toolchain import disk_cache, ocloc
from codegen.toolchain import sycl as sycl_compiler
from xegpu.rewrite.rewriter import ConvertedValues
from xetile.compiler.report import roofline
from xetile.dialect.stage import run_pass
from xetile.dialect.tile_ops import LoadTileOp
from xetile.dialect.wg_map import WgMap
from xetile.distributed.communication import agreement, transport
from xetile.distributed.executor import Epilogue
from xetile.distributed.grid import Grid, Region, check_size
from xetile.distributed.memory import HostMemory
from xetile.distributed.prediction import plot, simulation
from xetile.distributed.steps import Finish, Multiply, Receive, Schedule
from xetile.distributed.verify import VerifyingExecutor
from xetile.jit.kernel import Kernel
from xetile.passes import distribute_subgroups
from xetile.passes.distribute_subgroups.slm_exchange import DistributeSubgroupsRewriter
from xetile.passes.wg_offsets import Distributed
from xetile.runtime import device_executor, executors, machine_arena, numpy_executor
from xetile.tools import selftest
from xetile.tools.cli import selftest as selftest_command
from xetile.tools.cli.output import write_bytes

BY_CODE: dict[str, Callable[[], object]] = {}


def provokes(code: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Put a function down as the one that makes the error of a code."""
    def put(act: Callable[[], object]) -> Callable[[], object]:
        BY_CODE[code] = act
        return act
    return put


@contextlib.contextmanager
def without_module(name: str) -> Iterator[None]:
    """Imports of a package fail, as they do where it is not installed."""
    real = builtins.__import__

    def refuse(wanted: str, *rest: Any, **more: Any) -> Any:
        if wanted.partition(".")[0] == name:
            raise ImportError(f"No module named {name!r}")
        return real(wanted, *rest, **more)

    with mock.patch.object(builtins, "__import__", refuse):
        yield


@provokes("XT8003")
def machine_code_on_a_terminal() -> object:
    """Standard output is a terminal, as it is for somebody who forgets ``-o``."""
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with contextlib.redirect_stdout(Terminal()):
        return write_bytes(b"\x7fELF", None)


@provokes("XT7162")
def no_matplotlib() -> object:
    """matplotlib does not import."""
    with without_module("matplotlib"):
        return roofline.plot("roofline.png", [])


@xt.kernel
def copy(A, C):
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.init_tile(C, (0, 0), (8, 16)))


ARRAY = xt.Spec((None, None), "f32")
PLAIN = "kernel void fill(global int *a) { a[get_global_id(0)] = 1; }"


def _built() -> Any:
    """The kernel of a plain program, and the queue that it is for."""
    queue = find_queue("opencl:cpu")
    return queue, launcher.find_kernel(launcher.build_program(queue, PLAIN), "fill")


def _level_zero() -> Any:
    """The CPU device passes for one that takes SPIR-V only."""
    return mock.patch.multiple(launcher, needs_spirv=lambda queue: True)


@provokes("XT5000")
def no_dpctl() -> object:
    with without_module("dpctl"):
        return copy.on("opencl:cpu")[1](np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32))


@provokes("XT5003")
def no_matrix_engine() -> object:
    return devices.gpu_target(min(devices._WITHOUT_DPAS), "Intel(R) Graphics")


@provokes("XT5004")
def unknown_gpu() -> object:
    return devices.gpu_target(0x1234, "Intel(R) Graphics of tomorrow")


@provokes("XT5005")
def text_for_level_zero() -> object:
    with _level_zero():
        return launcher.build_program(find_queue("opencl:cpu"), PLAIN)


@provokes("XT5010")
def fewer_than_no_groups() -> object:
    return launcher.launch(*_built(), [], (-1,), 16)


@provokes("XT5011")
def no_argument() -> object:
    return launcher.launch(*_built(), [], (1,), 16)


@provokes("XT5012")
def large_group() -> object:
    queue, kernel = _built()
    memory = devices.import_dpctl("dpctl.memory").MemoryUSMDevice(64, queue=queue)
    return launcher.launch(queue, kernel, [memory], (1,), 1 << 20)


@provokes("XT5013")
def odd_argument() -> object:
    return launcher.launch(*_built(), ["a text"], (1,), 16)


@provokes("XT5014")
def lost_device() -> object:
    """The CPU device, in the place of a Level Zero device whose driver says that an event never came."""
    with mock.patch.multiple(synchronize, needs_spirv=lambda queue: True, _has_come=lambda event: False):
        return synchronize.finish(find_queue("opencl:cpu"))


@provokes("XT5020")
def a_list_as_memory() -> object:
    return usm.usm_interface([1, 2, 3])


def _as_edited(function: xt.Kernel, edits: dict[str, str], *arguments: Any) -> object:
    """Run machine code of edited OpenCL C on a simulated pvc."""
    edited = Kernel(function.function, subgroups=function.subgroups)
    text = edited.lower(*arguments, target="pvc").opencl
    for old, new in edits.items():
        assert re.search(old, text), text
        text = re.sub(old, new, text)
    Path("edited.cl").write_text(text)
    edited.override("opencl", "edited.cl")
    return edited.on("machine:pvc")[1](*arguments)


@xt.kernel(subgroups=(4, 1))
def pairs(A: Any, C: Any) -> None:
    mine = xt.subgroup_id()
    shared, barrier = xt.alloc_slm((32, 16), xt.f32), xt.nbarrier(mine // 2, 2)
    xt.store_tile(xt.load_tile(xt.init_tile(A, (mine * 8, 0), (8, 16))), xt.init_tile(shared, (mine * 8, 0), (8, 16)))
    barrier.arrive()
    barrier.wait()
    xt.store_tile(xt.load_tile(xt.init_tile(shared, (mine * 8, 0), (8, 16))), xt.init_tile(C, (mine * 8, 0), (8, 16)))


def _ones(rows: int = 8, columns: int = 16, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.ones((rows, columns), dtype)


@provokes("XT1055")
def no_list_of_memory() -> object:
    with mock.patch.object(Path, "read_text", side_effect=OSError("no such file")):
        return machine_arena.process_memory([])


@provokes("XT6102")
def behind_shared_memory() -> object:
    return _as_edited(pairs, {r"(store_slm\w+)\(slm, 32, ": r"\1(slm + 512, 32, "}, _ones(32), _ones(32))


@provokes("XT6103")
def block_off_its_words() -> object:
    rows = _ones(8, 21)[:, :20], _ones(8, 21)[:, :20]
    return _as_edited(copy, {r"(kernel void [^{]*{)": r"\1 A = (global float *)((global char *)A + 2);"}, *rows)


@provokes("XT6106")
def too_few_arrive() -> object:
    return _as_edited(pairs, {r"(\n  NBARRIER_SIGNAL_AT.*), 2\)": r"\1, 3)"}, _ones(32), _ones(32))


@provokes("XT6107")
def counts_that_differ() -> object:
    both = "NBARRIER_SIGNAL_AT((ushort)(1), 6); NBARRIER_SIGNAL_AT((ushort)(1), 2);"
    return _as_edited(pairs, {r"\n  NBARRIER_SIGNAL_AT\(.*, 2\);": both}, _ones(32), _ones(32))


@provokes("XT6109")
def unknown_message() -> object:
    simulator.load.cache_clear()
    with mock.patch.dict(descriptor._OPERATIONS, {3: ""}):
        return copy.on("machine:pvc")[1](_ones(), _ones())


@provokes("XT6110")
def pitch_off_the_rules() -> object:
    return _as_edited(copy, {r"A_stride0 \* 4": "A_stride0 * 4 + 4"}, _ones(), _ones())


@provokes("XT6111")
def column_inside_a_word() -> object:
    return _as_edited(copy, {r"(block_read.*\(int2\)\()": r"\g<1>1 + "}, _ones(8, 32, np.float16),
                      _ones(8, 32, np.float16))


@provokes("XT5100")
def bytes_of_no_program() -> object:
    return launcher.build_program(find_queue("opencl:cpu"), b"kernel")


@provokes("XT5140")
def iga64_named_wrongly() -> object:
    with mock.patch.dict(os.environ, {"XETILE_IGA64": "/nowhere/iga64"}):
        return decoder.find_iga64()


@provokes("XT5141")
def no_iga64() -> object:
    with mock.patch.dict(os.environ, {"XETILE_IGA64": "", "PATH": ""}):
        return decoder.find_iga64()


@provokes("XT5142")
def undecodable_target() -> object:
    return decoder.decode(b"", "ptl")


@provokes("XT5143")
def failing_iga64() -> object:
    with mock.patch.dict(os.environ, {"XETILE_IGA64": str(shutil.which("false"))}):
        return decoder.decode(b"no code", "pvc")


@provokes("XT5144")
def no_such_kernel() -> object:
    binary = ocloc.compile_device("kernel void copy(global int *A) { A[0] = 1; }", "pvc")
    return simulator.load(binary.data, "copied", "pvc")


@provokes("XT5145")
def unknown_instruction() -> object:
    with mock.patch.dict(arith.BUILDERS):
        del arith.BUILDERS["and"]
        return copy.on("machine:pvc")[1](_ones(), _ones())


@provokes("XT5146")
def no_device_binary() -> object:
    return zebin.read_kernels(b"no ELF")


@provokes("XT6120")
def undefined_register() -> object:
    nothing = scoreboard.State((), (), 0)
    with mock.patch.object(scoreboard.ScoreboardChecker, "started", return_value=nothing):
        return copy.on("machine:pvc")[1](_ones(), _ones())


@provokes("XT6121")
def dropped_waits() -> object:
    simulator.load.cache_clear()
    try:
        with mock.patch.object(decoder, "_scoreboard", return_value=Scoreboard()):
            return copy.on("machine:pvc")[1](_ones(), _ones())
    finally:
        simulator.load.cache_clear()


@provokes("XT5101")
def wrong_path_of_ocloc() -> object:
    with mock.patch.dict(os.environ, XETILE_OCLOC="/nowhere/ocloc"):
        return copy.lower(ARRAY, ARRAY, target="pvc").report()


@provokes("XT5103")
def ocloc_that_does_nothing() -> object:
    """A program that ends well and leaves nothing."""
    with _ocloc("#!/bin/sh\nexit 0\n"):
        return ocloc.compile_device(PLAIN, "pvc")


@provokes("XT5104")
def machine_code_for_the_cpu() -> object:
    """Some ocloc is there: without any, that would be the error."""
    with _ocloc("#!/bin/sh\nexit 0\n"):
        return ocloc.compile_device(PLAIN, "cpu")


@provokes("XT5105")
def ocloc_that_is_no_program() -> object:
    with _ocloc("\0no program"):
        return ocloc.compile_device(PLAIN, "pvc")


@contextlib.contextmanager
def _ocloc(text: str) -> Iterator[None]:
    """Another file in the place of ocloc."""
    file = Path("ocloc").resolve()
    file.write_text(text)
    file.chmod(0o755)
    with mock.patch.dict(os.environ, XETILE_OCLOC=str(file)):
        yield


@provokes("XT5106")
def nobody_makes_spirv() -> object:
    with mock.patch.multiple(program_source, needs_spirv=lambda queue: True, has_sycl_compiler=lambda: False,
                             has_ocloc=lambda: False):
        return program_source.spirv_compiler_for(find_queue("opencl:cpu"))


@provokes("XT5107")
def unknown_spirv_compiler() -> object:
    with mock.patch.dict(os.environ, XETILE_SPIRV="spirv"):
        return copy.on("opencl:cpu")[1](np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32))


@provokes("XT5111")
def builtin_of_a_gpu() -> object:
    """The CPU device gets what is made for a GPU, without the emulation of its builtins."""
    matrix = xt.Spec((None, None), "f32")

    @xt.kernel
    def copy(A, C):
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))), xt.init_tile(C, (0, 0), (8, 16)))

    program = gpu_program(copy.lower(matrix, matrix, target="pvc").source, "sycl")
    return build_kernel(find_queue("opencl:cpu"), program.source, program.options, program.name)


@provokes("XT5120")
def unbounded_cache() -> object:
    with mock.patch.dict(os.environ, XETILE_CACHE_SIZE="large"):
        return disk_cache.bound()


@provokes("XT5130")
def no_sycl_compiler() -> object:
    with mock.patch.object(Path, "exists", return_value=False):
        return sycl_compiler.find_sycl_compiler()


@provokes("XT5131")
def call_of_nothing() -> object:
    with mock.patch.object(sycl_compiler, "imports", return_value=["_Z7mysteryv"]):
        return sycl_compiler.compile_sycl(copy.lower(ARRAY, ARRAY, target="cpu").sycl)


@provokes("XT5132")
def compiler_that_is_killed() -> object:
    return _compiler_that_ends_with(-9)


@provokes("XT5133")
def compiler_of_tomorrow() -> object:
    return _compiler_that_ends_with(sycl_compiler.sycl_jit.CHANGED)


def _compiler_that_ends_with(code: int) -> object:
    said = mock.Mock(returncode=code, stdout=b"", stderr=b"it has no function compileSYCL" if code > 0 else b"")
    with mock.patch.object(sycl_compiler.subprocess, "run", return_value=said):
        return sycl_compiler.compile_sycl(f"// a text that nobody has compiled before: {code}")


@provokes("XT5021")
def results_for_another_array() -> object:
    return usm.copy_out(_on_the_device(np.zeros((8, 16), np.float32)), np.zeros((16, 8), np.float32))


@provokes("XT5022")
def results_for_a_read_only_array() -> object:
    host = np.zeros((8, 16), np.float32)
    there = _on_the_device(host)
    host.flags.writeable = False
    return usm.copy_out(there, host)


@provokes("XT5023")
def odd_strides() -> object:
    host = np.ndarray((4, 4), np.float32, np.zeros(256, np.uint8), strides=(18, 4))
    return _on_the_device(host)


@provokes("XT5024")
def full_memory() -> object:
    memory = devices.import_dpctl("dpctl.memory")
    with mock.patch.object(memory, "MemoryUSMDevice", mock.Mock(side_effect=memory.USMAllocationError)):
        return _on_the_device(np.zeros((1024, 1024), np.float32))


def _on_the_device(host: Any) -> Any:
    return usm.copy_in([host], find_queue("opencl:cpu"))[0]


@provokes("XT9405")
def unknown_builtin_of_cpp() -> object:
    return opencl_to_cxx._dpas("intel_sub_group_unknown", 16)


@provokes("XT9406")
def unknown_builtin_of_the_prelude() -> object:
    return prelude._family_prelude(next(iter(prelude._FAMILIES)), frozenset({"intel_sub_group_unknown"}))


@provokes("XT9400")
def row_in_two_words() -> object:
    emitter = Emitter(opencl.RULES, xt.TARGETS["pvc"], 16)
    return reduction._fetched(emitter, ["low", "high"], [0, 0], [0, 1], 1, xt.f32)


@provokes("XT9401")
def no_rules() -> object:
    with mock.patch.dict(opencl.RULES, clear=True):
        module = copy.lower(ARRAY, ARRAY, target="pvc").final
        return opencl.emit(next(iter(module.body.block.ops)), xt.TARGETS["pvc"])


@provokes("XT9402")
def no_meanings() -> object:
    """The executor's table lacks an operation of the kernel."""
    with mock.patch.dict(numpy_executor.SEMANTICS, clear=True):  # type: ignore[arg-type]
        return copy.on("numpy")[1](np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32))


@provokes("XT9403")
def program_without_the_kernel() -> object:
    return launcher.find_kernel(launcher.build_program(find_queue("opencl:cpu"), PLAIN), "other")


@xt.kernel
def clear(C):
    xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(C, (0, 0), (8, 16)))


MATRIX = xt.Spec((None, None), "f32")


def edited(old: str, new: str) -> Path:
    """A file with the subgroup stage of :func:`clear`, edited."""
    path = Path("subgroup.mlir")
    path.write_text(clear.lower(MATRIX).stages["distribute-subgroups"].replace(old, new), encoding="utf-8")
    return path


@contextlib.contextmanager
def asked(**variables: str) -> Iterator[None]:
    """Environment variables, set for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@provokes("XT1612")
def another_stage() -> None:
    clear.override("legalize", edited("", ""))


@provokes("XT1613")
def another_kernel() -> None:
    clear.override("distribute-subgroups", edited("@clear", "@cleared"))


@provokes("XT1614")
def other_arguments() -> None:
    clear.override("distribute-subgroups", edited("@clear(", "@clear(%n: index, "))


@provokes("XT1620")
def another_debugging() -> None:
    clear.forget()
    with asked(XETILE_DEBUG="trace"):
        _ = clear.lower(MATRIX).opencl


@provokes("XT1621")
def dumps_into_a_file() -> None:
    clear.forget()
    Path("taken").write_text("a file stands where the folder should be", encoding="utf-8")
    with asked(XETILE_DEBUG="dump", XETILE_DEBUG_DIR="taken"):
        _ = clear.lower(MATRIX).opencl


@provokes("XT4000")
def another_gpu() -> None:
    with mock.patch.multiple(device_executor, device_target=lambda queue: "dg2"):
        clear.on("opencl:cpu", target="pvc")


def _distributed_otherwise(change: Callable[[ConvertedValues], ConvertedValues]) -> None:
    """Distribute the second of a kernel's loads in another way than a rule of the pass does, and lower the kernel."""
    seen = []

    def other(rewriter: DistributeSubgroupsRewriter, operation: LoadTileOp) -> None:
        rewriter.each_part(operation)
        seen.append(operation)
        if len(seen) == 2:
            rewriter.converted_values[operation.result] = change(rewriter.lookup(operation.result))

    @xt.kernel
    def rows(X, Y):
        share = xt.wg_map((4, 1), (8, 32))
        x, y = (xt.init_tile(array, (0, 0), (64, 32), wg_map=share) for array in (X, Y))
        total = xt.load_tile(x)
        for _ in xt.range(0, 4):
            total = xt.load_tile(x) + total
        xt.store_tile(total, y)

    matrix = xt.Spec((64, 64), "f32")
    with mock.patch.dict(distribute_subgroups.RULES, {LoadTileOp: other}):
        _ = rows.lower(matrix, matrix).xegpu


@provokes("XT2603")
def _nested_branches() -> None:
    blocks = [f"^b{k}:\n  cf.cond_br %m, ^b{k + 1}, ^e{k}" for k in range(64)]
    ends = [f"^e{k}:\n  gpu.barrier\n  cf.br ^e{k - 1}" for k in range(63, 0, -1)]
    xt.parse("\n".join(["func.func @kernel(%m: i1) {", "  cf.br ^b0", *blocks, "^b64:\n  cf.br ^e63", *ends,
                        "^e0:\n  func.return", "}"]), "kernel.mlir")


@provokes("XT9301")
def _another_form() -> None:
    _distributed_otherwise(lambda parts: ConvertedValues(parts.values, Distributed(WgMap((4, 1), (16, 32)), (64, 32))))


@provokes("XT9302")
def _another_number() -> None:
    _distributed_otherwise(lambda parts: ConvertedValues((*parts.values, parts.values[0]), parts.encoding))


class _LosesStores:
    """A pass after which no function has its last two operations, a store and the return."""

    def apply(self, module: ModuleOp) -> ModuleOp:
        new = module.clone()
        for function in new.body.block.ops:
            for _ in range(2):
                function.regions[0].block.last_op.detach()  # type: ignore[union-attr]
        return new


@provokes("XT9303")
def _without_return() -> None:
    run_pass("licm", _LosesStores(), copy.lower(ARRAY, ARRAY, target="pvc").module)


class _TwoRanks(transport.Alone):
    """Two ranks, of which this is the first; the other one says something else."""

    def __init__(self, other: Any, troubled: bool) -> None:
        super().__init__()
        self.size, self.other, self.troubled = 2, other, troubled

    def maximum(self, numbers: Any, timeout: float | None = None) -> list[int]:
        return [numbers[0] + 1, numbers[1], int(self.troubled)]

    def collect(self, value: Any) -> list[Any]:
        return [value, self.other]


@provokes("XT7210")
def ranks_that_differ() -> None:
    agreement.agree(_TwoRanks({"out_dtype": "f16"}, False), {"out_dtype": "f32"})


@provokes("XT7211")
def a_rank_without_memory() -> None:
    said = "DeviceError", "XT7211", "MemoryError: no room", "no rank has sent anything"
    agreement.agree(_TwoRanks(said, True), {})


@provokes("XT7214")
def no_communicator() -> None:
    mpi = SimpleNamespace(Intracomm=transport.Transport, Comm=transport.Transport, COMM_NULL=None)
    with mock.patch.object(transport, "import_mpi", return_value=mpi):
        transport.communicator(4)


@provokes("XT7216")
def blocks_of_dpnp_for_a_plan_of_numpy() -> None:
    block: Any = SimpleNamespace(name="a", library="dpnp")
    HostMemory().check_holds(block)


@provokes("XT7220")
def no_mpi() -> None:
    with without_module("mpi4py"):
        transport.import_mpi()


@provokes("XT7221")
def too_few_ranks() -> None:
    check_size(Grid(2, 3, 1, m=64, n=64, k=64), 4)


def _wait_for_a_message(answer: Any) -> None:
    """Wait with an MPI whose requests answer so."""
    mpi = SimpleNamespace(Request=SimpleNamespace(Testall=answer), Exception=OSError)
    with mock.patch.object(transport, "import_mpi", return_value=mpi):
        transport.Alone().wait(transport.Pending([], "a message of 4096 bytes, a1[0:32, 64:96], from rank 1", None), 0)


@provokes("XT7222")
def a_late_message() -> None:
    _wait_for_a_message(lambda requests, statuses: False)


@provokes("XT7223")
def a_failing_mpi() -> None:
    def answer(requests: Any, statuses: Any) -> bool:
        raise OSError("MPI_ERR_OTHER: known error not in list")

    _wait_for_a_message(answer)


@contextlib.contextmanager
def _torch() -> Iterator[Any]:
    """``xetile.torch``, imported with something in the place of torch that keeps an operator's function."""
    def custom_op(name: str, function: Any = None, **options: Any) -> Any:
        return SimpleNamespace(launch=function, register_fake=lambda fake: None, register_autograd=lambda *a, **b: None)

    library = SimpleNamespace(custom_op=custom_op, register_fake=lambda *a: None)
    fake = SimpleNamespace(Tensor=np.ndarray, library=library)
    with mock.patch.dict(sys.modules, {"torch": fake}):
        sys.modules.pop("xetile.torch", None)
        yield import_module("xetile.torch")


@provokes("XT1092")
def an_operator_of_an_unknown_parameter() -> None:
    with _torch() as module:
        module.register(copy, "mine::copy", outputs=("D",))


@provokes("XT1093")
def an_operator_without_its_output() -> None:
    array = np.zeros((8, 16), np.float32)
    with _torch() as module:
        module.register(copy, "mine::copy", outputs=()).launch([1], array, array.copy())


def _verify(memory: HostMemory, step: Receive | Multiply | Finish) -> None:
    """Run one step, verified; messages and their checksums are zeros."""
    schedule = Schedule(Grid(1, 1, 1, m=32, n=32, k=32), 0, (step,), {"a1": 1024, "sums": 1024})
    ones = np.ones((32, 32), np.float32)

    def receive(view: Any, peer: int, description: str) -> transport.Pending:
        view[...] = 0
        return transport.Pending([], description, view)

    mpi = SimpleNamespace(Request=SimpleNamespace(Testall=lambda requests, statuses: True), Exception=OSError)
    with mock.patch.object(transport, "import_mpi", return_value=mpi):
        alone = transport.Alone()
        with mock.patch.object(alone, "receive", receive):
            VerifyingExecutor(schedule, memory, alone, None).run(ones, ones, ones, None, Epilogue(None, 1, 0, None))


@provokes("XT7224")
def a_changed_message() -> None:
    _verify(HostMemory(), Receive("a1", Region((0, 32), (0, 32)), 1, 4096))


@provokes("XT7225")
def a_wrong_product() -> None:
    class Wrong(HostMemory):
        def on_host(self, array: Any, dtype: Any) -> Any:
            return super().on_host(array, dtype) + (array[0, 0] == 32)

    _verify(Wrong(), Multiply("a", "b", Region((0, 32), (0, 32)), (0, 32), True))


@provokes("XT7226")
def a_wrong_epilogue() -> None:
    class Wrong(HostMemory):
        def on_host(self, array: Any, dtype: Any) -> Any:
            return np.ones(array.shape, np.float32)

    _verify(Wrong(), Finish(Region((0, 32), (0, 32))))


@provokes("XT7252")
def no_simgrid() -> None:
    with mock.patch.dict(os.environ, {simulation.VARIABLE: "/nowhere/python3"}):
        simulation.find_python()


@provokes("XT7251")
def no_matplotlib_for_scaling() -> None:
    with without_module("matplotlib"):
        plot.plot("scaling.png", [])


@provokes("XT8071")
def a_selftest_of_a_wrong_result() -> None:
    wrong = replace(selftest.PROBES[0], run=lambda launch: (np.zeros(1), np.ones(1)))
    with mock.patch.object(selftest, "PROBES", (wrong,)), contextlib.redirect_stdout(io.StringIO()):
        selftest_command.command(SimpleNamespace(where=["numpy:program"]))  # type: ignore[arg-type]


@provokes("XT5147")
def no_yaml() -> object:
    name = "xetile.runtime.machine_executor"
    with without_module("yaml"), mock.patch.dict(sys.modules):
        for module in ["yaml", name, *(module for module in sys.modules if module.startswith("codegen.simulator"))]:
            sys.modules.pop(module, None)
        return executors.machine_executor("machine:pvc", None, check=False)
