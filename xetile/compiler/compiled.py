"""Compiled kernels, the result of ``kernel.lower(...)``: every stage of one kernel for one target.

Imports are lazy where not every kernel needs them: NumPy runs the traced module without the passes, a device needs no
text of a stage, and exports to other dialects and machine code are rare.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from xegpu.dialect.gather_scatter import CreateTdescOp
from xegpu.ir.use_def import arguments_of, written_arguments
from xegpu.support.errors import TargetError, XeError
from xegpu.support.gc_pause import gc_paused
from xegpu.support.location import Location
from xegpu.target.targets import DEFAULT_TARGET, Target
from xetile.compiler import dump as dumps
from xetile.compiler.stage_texts import StageTexts, printed
from xetile.dialect.stage import IN_XETILE, only_function, stage_of
from xetile.passes.row_major import check_orders

if TYPE_CHECKING:
    from codegen.opencl.source import Source
    from codegen.runtime.program_source import KernelSource
    from codegen.simulator.launch import Execution
    from codegen.toolchain.ocloc import DeviceBinary, Disassembly
    from xetile.compiler.export import Level
    from xetile.compiler.origin import Origin
    from xetile.compiler.report import Report
    from xetile.compiler.report.cost import Work
    from xetile.compiler.report.suggest_tile_sizes import Remedy
    from xetile.compiler.viewer import View


class CompiledKernel:
    """Kernel compiled for one target; stages are computed lazily.

    Args:
        module: the traced or parsed module, of one function.
        target: the device that code is generated for.
        access: for each argument its access kind.
        location: where the kernel is defined, for errors without a more precise location.
        origin: its constants, and how to lower it with others.
        opencl_text: OpenCL C that replaces the emitted text; None to emit it.
        large_buffers: whether an array is beyond a surface state (:mod:`xegpu.target.surface_state`).

    Attributes:
        programs: built device kernels, by queue and build settings.
        execution: what its last launch on a simulated GPU executed and moved; None before the first.
    """

    def __init__(self, module: ModuleOp, target: Target, access: tuple[str, ...], location: Location,
                 origin: Origin | None = None, opencl_text: str | None = None, large_buffers: bool = False) -> None:
        self.module, self.target, self.access = module, target, access
        self.location, self._origin, self._opencl_text = location, origin, opencl_text
        self._large_buffers = large_buffers
        self.programs: dict[Hashable, Any] = {}
        self.execution: Execution | None = None
        if stage_of(module) in IN_XETILE:  # also for NumPy, which runs the traced module
            check_orders(self.function, access)

    def __repr__(self) -> str:
        return f"<{self.name} for {self.target.name}>"

    @cached_property
    def function(self) -> func.FuncOp:
        """The kernel as recorded."""
        return only_function(self.module)

    @property
    def name(self) -> str:
        """The kernel's name."""
        return self.function.sym_name.data

    @cached_property
    def written(self) -> tuple[int, ...]:
        """Positions of the arguments that the kernel writes."""
        return written_arguments(self.function)

    @cached_property
    def scattered(self) -> dict[int, Operation]:
        """Positions of the arguments whose single elements the kernel addresses, each with its first such operation."""
        final = only_function(self.final)
        scattered = [operation for operation in final.walk() if isinstance(operation, CreateTdescOp)]
        return {position: operation for operation in reversed(scattered)
                for position in arguments_of(final, operation.operands[0])}

    @cached_property
    def modules(self) -> dict[str, ModuleOp]:
        """Every stage as IR, in order."""
        return self._run_passes(shares=True)

    @cached_property
    def without_shares(self) -> dict[str, ModuleOp]:
        """Every stage without cooperative loads, for dialects that cannot express them."""
        return self._run_passes(shares=False) if "cooperative-loads" in self.modules else self.modules

    def forget_stages(self) -> None:
        """Drop the IR of the stages, most of a kernel's memory; it is computed again when it is asked for."""
        for name in ("modules", "without_shares"):
            self.__dict__.pop(name, None)

    def after(self, name: str) -> ModuleOp | None:
        """The kernel after a pass, whether that changed something or not; None if it was read at a later stage."""
        from xetile.compiler.pipeline import after

        return after(self.modules, name)

    @property
    def final(self) -> ModuleOp:
        """The kernel after all passes, the input of the emitter."""
        return next(reversed(self.modules.values()))

    @property
    def legal(self) -> ModuleOp:
        """The kernel in operations that the target has, before its loops are rewritten; else, what was read later."""
        return self.after("legalize") or self.final

    def _run_passes(self, *, shares: bool) -> dict[str, ModuleOp]:
        modules: dict[str, ModuleOp] = {}
        try:
            with gc_paused():
                from xetile.compiler.pipeline import Options, stages

                for name, module in stages(self.module, Options.of(self.module, self.target, self.access,
                                                                            shares=shares)):
                    modules[name] = module
        except XeError as error:
            if dumps.is_on():
                dumps.write(self.name, self.target, modules, None)
            raise error.at(self.location) from None
        return modules

    @cached_property
    def _dumped(self) -> set[int]:
        return set()

    def dump(self, modules: dict[str, ModuleOp]) -> None:
        """Write the stages that NumPy runs, once, if XETILE_DEBUG=dump; :attr:`emitted` writes its own."""
        if len(modules) not in self._dumped and dumps.is_on():
            self._dumped.add(len(modules))
            dumps.write(self.name, self.target, modules, None)

    @cached_property
    def stages(self) -> StageTexts:
        """Every stage as MLIR text, in order; a text is printed when it is first looked at."""
        return StageTexts(lambda: self.modules)

    @property
    def xetile(self) -> str:
        """The kernel in XeTile as MLIR text; SuperVector transfers lowered to tiles."""
        if stage_of(self.module) in IN_XETILE:
            return printed(self.module)
        return printed(self.after("lower-supervector") or self.module)

    @property
    def xegpu(self) -> str:
        """The fully lowered kernel as MLIR text: fragments of one lane, VNNI form, chosen access."""
        return printed(self.final)

    @cached_property
    def xegpu_upstream(self) -> str:
        """The kernel as MLIR text in LLVM's present form of XeGPU, at subgroup level, on blocks of the device's sizes.

        Raises:
            TargetError: LLVM's dialect lacks the target, or something that the kernel needs.
        """
        return self._in_llvm("subgroup")

    @cached_property
    def xegpu_upstream_workgroup(self) -> str:
        """The kernel in LLVM's form of XeGPU at work-group level, each ``wg_map`` as a ``#xegpu.layout``.

        Raises:
            TargetError: the kernel has no ``wg_map``, or LLVM's dialect lacks something that it needs.
        """
        return self._in_llvm("workgroup")

    def _in_llvm(self, level: Level) -> str:
        from xetile.compiler.export import llvm_text

        try:
            return llvm_text(self.without_shares, level, self.target, self.access)
        except XeError as error:
            raise error.at(self.location) from None

    @cached_property
    def xegpu_older(self) -> str:
        """The kernel as MLIR text in the earlier generation of XeGPU (XeGPU-older.md), on blocks of the device's sizes.

        Raises:
            TargetError: the text that the kernel was read from is past that stage.
        """
        from xetile.compiler.export import v1_text

        try:
            return v1_text(self.modules)
        except XeError as error:
            raise error.at(self.location) from None

    @cached_property
    def emitted(self) -> Source:
        """The OpenCL C text with its launch parameters."""
        function = only_function(self.final)
        try:
            with gc_paused():
                from codegen import opencl

                source = opencl.emit(function, self.target, large_buffers=self._large_buffers)
        except XeError as error:
            raise error.at(self.location) from None
        if self._opencl_text is not None:
            source = replace(source, edited=self._opencl_text)
        if dumps.is_on():
            dumps.write(self.name, self.target, self.modules, source)
        return source

    @property
    def opencl(self) -> str:
        """The kernel as OpenCL C, the same text for every device.

        Kernel, arguments and variables keep the author's names where those are free. Names that are reserved in OpenCL
        C, C++ or the text itself (``exp``, ``max``, ``float4``, ``launch``) get a number as suffix, ``exp1``, or the
        prefix ``v_`` where a name pattern is reserved (``intel_sub_group_...``); non-ASCII letters become underscores.
        ``.emitted.name`` is the kernel's name in the text, ``.name`` the author's.
        """
        return self.emitted.text

    @property
    def sycl(self) -> str:
        """The kernel as a SYCL C++ file: a free-function kernel with the same body, and a host function ``launch``."""
        return self._sycl(None)

    def _sycl(self, prelude: str | None) -> str:
        from codegen import sycl

        try:
            return sycl.emit(self.emitted, prelude, surface_states=self.target.surface_states)
        except XeError as error:
            raise error.at(self.location) from None

    def spirv(self, compiler: str = "sycl", *, emulated: bool = False) -> bytes:
        """The kernel as SPIR-V.

        Args:
            compiler: ``"sycl"``, the SYCL runtime's compiler, or ``"ocloc"``.
            emulated: whether the device lacks Intel's builtins, so that the module must define them.

        Raises:
            ToolError: there is no such compiler, or it is missing or refused the kernel.
        """
        from codegen.runtime import program_source

        return program_source.make_spirv(compiler, self.source, emulated)

    @property
    def source(self) -> KernelSource:
        """The kernel's source in OpenCL C and SYCL, as :mod:`codegen.runtime.program_source` makes programs of it."""
        from codegen.runtime.program_source import KernelSource

        return KernelSource(self.emitted.name, self.opencl, self._sycl, self.target.name, self.emitted.options)

    @cached_property
    def _binary(self) -> DeviceBinary:
        from codegen.runtime.program_source import gpu_program
        from codegen.toolchain import ocloc

        if self.target.is_cpu:
            raise TargetError("XT4002", f"there is no machine code for {self.target.name}",
                              f"lower it for a GPU: target=\"{DEFAULT_TARGET}\"; .opencl is the text that its driver "
                              "compiles", self.location)
        try:
            program = gpu_program(self.source)
            return ocloc.compile_device(program.source, self.target.name, program.options)
        except XeError as error:
            raise error.at(self.location) from None

    def binary(self) -> bytes:
        """The device binary of Intel's offline compiler.

        Raises:
            ToolError: ocloc is missing (the message says how to get it), or it refused the text.
            TargetError: the target has no machine code of its own, or its registers cannot hold the kernel.
        """
        self.check_registers()
        return self._binary.data

    def check_registers(self) -> None:
        """Raise if the accumulators alone take the registers of a thread; the message says which constant to lower.

        It is a lower bound: refused kernels certainly spill, others may (see :meth:`report`).

        Raises:
            TargetError: no registers are left for the operands.
        """
        from xetile.compiler.report import register_check

        register_check.check(self.modules, self.target, self._origin, self.location)

    def accumulator_registers(self) -> float:
        """Registers a thread that the loop-carried accumulators of a product take."""
        from xetile.compiler.report import register_check

        return register_check.accumulator_registers(self.modules, self.target)

    def show(self) -> View:
        """A page with every stage beside the source, what each pass changed, the machine code, and pictures of maps.

        A notebook shows it; ``.save("page.html")`` writes a self-contained file.
        """
        from xetile.compiler.viewer import View

        return View(self)

    def isa(self) -> Disassembly:
        """The disassembled device binary; ``str()`` of it is the text.

        Raises:
            ToolError: ocloc is missing, or it refused the text.
            TargetError: the target has no machine code of its own.
        """
        from codegen.toolchain import ocloc

        return ocloc.disassemble(self._binary)

    def report(self, *, remedies: bool | float = True) -> Report:
        """Resource use of the machine code: registers, spills, private and shared memory, instruction mix, prediction.

        Args:
            remedies: whether smaller tile sizes are looked for where registers are spilled, and for how many seconds
                (True: five).

        Raises:
            ToolError: ocloc is missing, or it refused the text.
            TargetError: the target has no machine code of its own.
        """
        from xetile.compiler.report import Report
        from xetile.compiler.report.slow_functions import slow_parts
        from xetile.compiler.report.suggest_tile_sizes import SECONDS

        facts = self.isa().kernels[self.emitted.name]
        subgroups = self.emitted.local_size // self.target.subgroup_size
        slow = slow_parts(only_function(self.legal), self.target, self.access)
        seconds = SECONDS if remedies is True else float(remedies)
        remedy = partial(self._remedy, seconds) if self._origin and seconds else None
        return Report(facts, self.target, subgroups, self._work(subgroups), remedy, slow, self.execution,
                      self._guarded_arrays())

    def _guarded_arrays(self) -> tuple[str, ...]:
        """Conditions on arrays under which the first of two loops over a batch runs; none where there is one loop."""
        if "collapse-batch" not in self.modules:
            return ()
        from xegpu.passes.loops.collapse_batch import guarded_arrays

        before = self.after("coalesce-gathers")
        return () if before is None else guarded_arrays(before, self.target)

    def _work(self, subgroups: int) -> Work | None:
        recorded, distributed = self.after("lower-supervector"), self.after("distribute-subgroups")
        if recorded is None or distributed is None:
            return None  # text at a later stage has no work-group tiles
        from xetile.compiler.report.cost import work_of

        return work_of(only_function(recorded), only_function(distributed), subgroups)

    def live_bytes(self) -> int:
        """Peak live bytes of a lane's values: an estimate without a compiler."""
        from xegpu.analysis.register_pressure import live_bytes

        return live_bytes(only_function(self.legal))

    def tiles(self) -> func.FuncOp:
        """The kernel at subgroup level, on tiles; if it was read from text at a later stage, as it was read."""
        from xetile.compiler.pipeline import Options, steps

        passed = steps(self.module, Options.of(self.module, self.target, self.access))
        return only_function(next((made for name, made in passed if name == "distribute-subgroups"), self.module))

    def in_memory(self) -> int:
        """Bytes of a thread in memory instead of registers: spilled and private ones."""
        facts = self.isa().kernels[self.emitted.name]
        return facts.spill_size + facts.private_size

    def _remedy(self, seconds: float) -> Remedy:
        from xetile.compiler.report.suggest_tile_sizes import find_remedy

        assert self._origin is not None
        return find_remedy(self._origin, self, self.target, seconds)
