"""What ``kernel.lower(...)`` returns: every stage of one kernel for one target.

What not every kernel is asked for is imported when it is: NumPy runs the recorded kernel without the passes, a device
gets it without the text of any stage, and few look at another dialect or at machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from xegpu.ir.use_def import written_arguments
from xegpu.support.errors import TargetError, XeError
from xegpu.support.gc_pause import gc_paused
from xegpu.support.location import Location
from xegpu.target.targets import Target
from xetile.compiler import dump as dumps
from xetile.dialect.stage import IN_XETILE, stage_of
from xetile.passes.row_major import check_orders

if TYPE_CHECKING:
    from codegen.opencl.kernel import Source
    from codegen.toolchain.ocloc import DeviceBinary, Disassembly
    from xetile.compiler.origin import Origin
    from xetile.compiler.report import Report
    from xetile.compiler.report.cost import Work
    from xetile.compiler.report.suggest_tile_sizes import Remedy
    from xetile.compiler.viewer import View


class CompiledKernel:
    """One kernel, compiled for one target; stages are made when they are first asked for.

    Args:
        module: the kernel as recorded or parsed; it holds one function.
        target: the device that code is made for.
        access: for each argument, how its memory may be reached.
        location: where the kernel is defined, for errors that have no line of their own.
        origin: its constants, and how to lower it with others.
        opencl_text: OpenCL C in the place of what would be emitted; None for that.

    Attributes:
        programs: built device kernels, by queue and build settings.
    """

    def __init__(self, module: ModuleOp, target: Target, access: tuple[str, ...], location: Location,
                 origin: Origin | None = None, opencl_text: str | None = None) -> None:
        self.module, self.target, self.access = module, target, access
        self.location, self._origin, self._opencl_text = location, origin, opencl_text
        self.programs: dict[Hashable, Any] = {}
        if stage_of(module) in IN_XETILE:  # NumPy, which runs the recorded kernel, minds the promise of an order too
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
    def modules(self) -> dict[str, ModuleOp]:
        """Every stage as IR, in order."""
        return self._passed(shares=True)

    @cached_property
    def without_shares(self) -> dict[str, ModuleOp]:
        """The same, with no subgroup loading operands for another: for forms in which that cannot be said."""
        return self._passed(shares=False) if "cooperative-loads" in self.modules else self.modules

    def after(self, name: str) -> ModuleOp | None:
        """The kernel after a pass, whether that changed something or not; None if it was read at a later stage."""
        from xetile.compiler.pipeline import after

        return after(self.modules, name)

    @property
    def final(self) -> ModuleOp:
        """The kernel after all passes: what is emitted."""
        return next(reversed(self.modules.values()))

    @property
    def legal(self) -> ModuleOp:
        """The kernel in operations that the target has, before its loops are rewritten; else, what was read later."""
        return self.after("legalize") or self.final

    def _passed(self, *, shares: bool) -> dict[str, ModuleOp]:
        made: dict[str, ModuleOp] = {}
        try:
            with gc_paused():
                from xetile.compiler.pipeline import Options, stages

                for name, module in stages(self.module, Options.of(self.module, self.target, self.access,
                                                                            shares=shares)):
                    made[name] = module
        except XeError as error:
            if dumps.is_on():
                dumps.write(self.name, self.target, made, None)
            raise error.at(self.location) from None
        return made

    @cached_property
    def _dumped(self) -> set[int]:
        return set()

    def dump(self, modules: dict[str, ModuleOp]) -> None:
        """Write the stages that NumPy runs, once, if XETILE_DEBUG=dump asks for it; what is emitted is written then."""
        if len(modules) not in self._dumped and dumps.is_on():
            self._dumped.add(len(modules))
            dumps.write(self.name, self.target, modules, None)

    @cached_property
    def stages(self) -> dict[str, str]:
        """Every stage as MLIR text, in order."""
        return {name: _printed(module) for name, module in self.modules.items()}

    @property
    def xetile(self) -> str:
        """The recorded kernel as MLIR text; transfers of vectors as the tiles that they become."""
        if stage_of(self.module) in IN_XETILE:
            return _printed(self.module)
        return _printed(self.after("lower-supervector") or self.module)

    @property
    def xegpu(self) -> str:
        """The fully lowered kernel as MLIR text: fragments of one lane, VNNI form, chosen access."""
        return _printed(self.final)

    @cached_property
    def xegpu_upstream(self) -> str:
        """The kernel as MLIR text in LLVM's present form of XeGPU, at subgroup level, on blocks of the device's sizes.

        Raises:
            TargetError: LLVM's dialect lacks the target, or something that the kernel needs.
        """
        return upstream_text(self, "subgroup")

    @cached_property
    def xegpu_upstream_workgroup(self) -> str:
        """The same at work-group level: what was recorded, each ``wg_map`` as a ``#xegpu.layout``.

        Raises:
            TargetError: the kernel has no ``wg_map``, or LLVM's dialect lacks something that it needs.
        """
        return upstream_text(self, "workgroup")

    @cached_property
    def xegpu_older(self) -> str:
        """The kernel as MLIR text in the earlier generation of XeGPU (XeGPU-older.md), on blocks of the device's sizes.

        Raises:
            TargetError: the text that the kernel was read from is past that stage.
        """
        try:
            if (module := self.after("pack-vnni")) is None:
                raise TargetError("XT4003",
                                  f"the text of {self.name} is at the stage {stage_of(self.module)}, and the earlier "
                                  "generation's form is made after pack-vnni",
                                  "start from the kernel, or from its text at pack-vnni or before")
            from xetile.text.reader import older_text

            return older_text(module)
        except XeError as error:
            raise error.at(self.location) from None

    @cached_property
    def emitted(self) -> Source:
        """The OpenCL C text with what its launch needs."""
        function = only_function(self.final)
        try:
            with gc_paused():
                from codegen import opencl

                source = opencl.emit(function, self.target)
        except XeError as error:
            raise error.at(self.location) from None
        if self._opencl_text is not None:
            source = replace(source, text=self._opencl_text)
        if dumps.is_on():
            dumps.write(self.name, self.target, self.modules, source)
        return source

    @property
    def opencl(self) -> str:
        """The kernel as OpenCL C, the same text for every device.

        Kernel, arguments and variables keep the author's names where those are free. What OpenCL C, C++ or the text
        itself calls so (``exp``, ``max``, ``float4``, ``launch``) gets a number behind it, ``exp1``, or ``v_`` in front
        where a whole family is reserved (``intel_sub_group_...``); letters that are not of ASCII become underscores.
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
            return sycl.emit(self.emitted, only_function(self.final), prelude)
        except XeError as error:
            raise error.at(self.location) from None

    def spirv(self, compiler: str = "sycl", *, emulated: bool = False) -> bytes:
        """The kernel as SPIR-V.

        Args:
            compiler: what compiles it: ``"sycl"``, the SYCL runtime's compiler, or ``"ocloc"``.
            emulated: whether the device lacks Intel's builtins, so that they must be functions of the module.

        Raises:
            ToolError: there is no such compiler, or it is missing or refused the kernel.
        """
        from codegen.runtime import program_source

        source = program_source.KernelSource(self.emitted.name, self.opencl, self._sycl, self.target.name,
                                             self.emitted.options)
        return program_source.make_spirv(compiler, source, emulated)

    @cached_property
    def _binary(self) -> DeviceBinary:
        from codegen.toolchain import ocloc

        if self.target.ocloc is None:
            raise TargetError("XT4002", f"there is no machine code for {self.target.name} to look at",
                              "lower it for a GPU: target=\"pvc\"; .opencl is the text that its driver compiles",
                              self.location)
        try:
            return ocloc.compile_device(self.opencl, self.target.name, self.emitted.options)
        except XeError as error:
            raise error.at(self.location) from None

    def binary(self) -> bytes:
        """The device binary that Intel's offline compiler makes.

        Raises:
            ToolError: ocloc is missing (the message says how to get it), or it refused the text.
            TargetError: the target has no machine code of its own, or its registers cannot hold the kernel.
        """
        self.check_registers()
        return self._binary.data

    def check_registers(self) -> None:
        """Raise if the accumulators alone take the registers of a thread; the message says which constant to lower.

        What is refused surely spills. What is not may: only :meth:`report` knows.

        Raises:
            TargetError: nothing is left for the operands.
        """
        from xetile.compiler.report import register_check

        register_check.check(self.modules, self.target, self._origin, self.location)

    def accumulator_registers(self) -> float:
        """Registers a thread that what a loop with products carries from step to step takes."""
        from xetile.compiler.report import register_check

        return register_check.accumulator_registers(self.modules, self.target)

    def show(self) -> View:
        """A page with every stage beside the source, what each pass changed, the machine code, and pictures of maps.

        A notebook shows it; ``.save("page.html")`` writes it to a file that stands alone.
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

    def report(self) -> Report:
        """What the machine code uses: registers, spills, private and shared memory, the hot loop's mix; a prediction.

        Raises:
            ToolError: ocloc is missing, or it refused the text.
            TargetError: the target has no machine code of its own.
        """
        from xetile.compiler.report import Report
        from xetile.compiler.report.slow_access import slow_ways

        facts = self.isa().kernels[self.emitted.name]
        subgroups = self.emitted.local_size // self.target.subgroup_size
        slow = slow_ways(only_function(self.legal), self.target, self.access)
        remedy = self._remedy if self._origin else None
        return Report(facts, self.target, subgroups, self._work(subgroups), remedy, slow)

    def _work(self, subgroups: int) -> Work | None:
        recorded, distributed = self.after("lower-supervector"), self.after("distribute-subgroups")
        if recorded is None or distributed is None:
            return None  # text at a later stage no longer says what belongs to a work-group
        from xetile.compiler.report.cost import work_of

        return work_of(only_function(recorded), only_function(distributed), subgroups)

    def live_bytes(self) -> int:
        """Bytes of fragments that a lane keeps alive at once: an estimate, made without a compiler."""
        from xegpu.analysis.register_pressure import live_bytes

        return live_bytes(only_function(self.legal))

    def in_memory(self) -> int:
        """Bytes a thread that live in memory for lack of registers: spilled ones and private ones."""
        facts = self.isa().kernels[self.emitted.name]
        return facts.spill_size + facts.private_size

    def _remedy(self) -> Remedy:
        from xetile.compiler.report.suggest_tile_sizes import find_remedy

        assert self._origin is not None
        room = max(self.target.registers) * self.target.register_bytes / self.target.subgroup_size
        return find_remedy(self._origin, self.live_bytes(), room)


def upstream_text(compiled: CompiledKernel, level: str) -> str:
    """A kernel in LLVM's form of XeGPU, at ``"subgroup"`` or ``"workgroup"`` level."""
    from xetile.compiler.pipeline import after

    stage, export = _UPSTREAM[level]
    try:
        module = after(compiled.without_shares, stage)
        if module is None:
            raise TargetError("XT4003",
                              f"the text of {compiled.name} is at the stage {stage_of(compiled.module)}, and LLVM's "
                              f"form is made from {stage}",
                              f"start from the kernel, or from its text at {stage} or before")
        return str(export(only_function(module), compiled.target, compiled.access))
    except XeError as error:
        raise error.at(compiled.location) from None


def _to_subgroups(function: func.FuncOp, target: Target, access: Sequence[str]) -> ModuleOp:
    from xegpu.interop.llvm.export_blocks import export

    return export(function, target, access)


def _to_workgroups(function: func.FuncOp, target: Target, access: Sequence[str]) -> ModuleOp:
    from xetile.text.llvm.exporter import export

    return export(function, target, access)


_UPSTREAM: dict[str, tuple[str, Callable[[func.FuncOp, Target, Sequence[str]], ModuleOp]]] = {
    "subgroup": ("normalize", _to_subgroups),
    "workgroup": ("lower-supervector", _to_workgroups),
}


def _printed(module: ModuleOp) -> str:
    from xetile.text.gpu_module import printed

    return printed(module)


def only_function(module: ModuleOp) -> func.FuncOp:
    """The function of a module that holds one."""
    (function,) = (op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    return function
