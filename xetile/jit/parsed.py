"""Kernels of MLIR text: ``xt.parse``, and ``kernel.override``, which compiles a kernel from an edited stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute

from xegpu.analysis import barriers, uniformity
from xegpu.ir.dtypes import DType, i1, i32, i64, index, of_mlir, u64
from xegpu.ir.kernel_attributes import MAY_ALIAS, SUBGROUP_SIZE, SUBGROUPS
from xegpu.ir.memref import static_form
from xegpu.support.errors import (
    ArgumentError,
    ElementTypeError,
    Note,
    RankError,
    ShapeError,
    TargetError,
    TextError,
)
from xegpu.support.location import Location
from xegpu.target.block2d import SERVED_BY
from xegpu.target.targets import TARGETS, Target, find_target
from xetile.compiler.arguments import Argument, AtTheCall
from xetile.compiler.pipeline import NAMES
from xetile.dialect.stage import IN_XEGPU, TARGET, only_function, stage_of
from xetile.jit.base import BaseKernel
from xetile.jit.import_text import import_text, text_location
from xetile.passes.distribute_subgroups import is_distributed, subgroups_of
from xetile.text.gpu_module import (
    block_size,
    counts_threads,
    grid_size,
    printed,
    resolved,
    unknown,
)
from xetile.text.llvm import LANES_OF_TEXT

_OPENCL = "opencl"
_STAGES = ("xetile", *NAMES, _OPENCL)
"""Names for ``override``: the stages of the pipeline, and the emitted text."""
_ACCESS_PHRASES = {"block": "by 2D block IO", "block-columns": "by 2D block IO of its transpose", "rows": "row by row",
            "columns": "column by column", "strided": "element by element"}


class Module(Mapping[str, "ParsedKernel"]):
    """The kernels of a parsed text, by name."""

    def __init__(self, kernels: dict[str, ParsedKernel], text: str) -> None:
        self._kernels, self._text = kernels, text

    def __str__(self) -> str:
        return self._text

    def __getitem__(self, name: str) -> ParsedKernel:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


class ParsedKernel(BaseKernel):
    """A kernel of MLIR text, at any stage between XeTile and fully lowered XeGPU."""

    def __init__(self, function: func.FuncOp, attributes: Mapping[str, Attribute]) -> None:
        super().__init__()
        self.name = function.sym_name.data
        self._function = function
        self._module = ModuleOp([function], dict(attributes))
        arguments = function.body.block.args
        self.parameters = tuple(argument.name_hint or f"arg{i}" for i, argument in enumerate(arguments))
        if (counts := grid_size(function)) is not None:
            self.grid_function = lambda *args, **constants: counts
        named = function.attributes.get("xegpu.target") or attributes.get(TARGET)
        self.fixed_target = find_target(named.data) if isinstance(named, StringAttr) else None

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)}), parsed>"

    def __str__(self) -> str:
        return printed(self._module)

    @property
    def module(self) -> ModuleOp:
        """The parsed module, at its stage."""
        return self._module

    @property
    def argument_types(self) -> tuple[Attribute, ...]:
        """The MLIR types of its run-time arguments."""
        return tuple(argument.type for argument in self._function.body.block.args)

    def bind_arguments(self, args: Sequence[Any], constants: Mapping[str, Any] | None = None) -> tuple[Argument, ...]:
        """The arguments of a call; a parameter of type ``i1`` takes a truth value."""
        types = [*self.argument_types, *[None] * len(args)]  # too many arguments are an error there
        return super().bind_arguments(
            [Argument(parameter, i1, None, (), (), bool(value), "number")
             if type_ == i1.mlir and isinstance(value, (bool, np.bool_)) else value
             for parameter, value, type_ in zip([*self.parameters, *[""] * len(args)], args, types, strict=False)],
            constants)

    def location(self) -> Location:
        """Location of the function in the text."""
        return text_location(self._function)

    def check_target(self, target: Target, arguments: Sequence[Argument], access: Sequence[str]) -> None:
        """Raise if the text was lowered for another target, or for arrays of a faster access kind."""
        if self.fixed_target is not None and self.fixed_target.name != target.name:
            lowered_for = self.fixed_target.name
            raise TargetError("XT2020",
                              f"{self.name} is text that was lowered for {lowered_for}, not for {target.name}",
                              f"choose target={lowered_for!r}, or lower the kernel again, starting from its "
                              "first stage")
        lanes = self._function.attributes.get(LANES_OF_TEXT)
        if isinstance(lanes, IntegerAttr) and lanes.value.data != target.subgroup_size:
            fitting = [name for name, each in TARGETS.items() if each.subgroup_size == lanes.value.data]
            raise TargetError("XT2021",
                              f"{self.name} has blocks for subgroups of {lanes.value.data} lanes, and those of "
                              f"{target.name} have {target.subgroup_size}", f"choose one of {', '.join(fitting)}")
        self._check_lanes(target)
        attribute = self._function.attributes.get("xegpu.access")
        required = [kind.data for kind in attribute] if isinstance(attribute, ArrayAttr) else []
        for argument, kind, need in zip(arguments, access, required, strict=False):
            if argument.kind == "usm" and need and kind not in SERVED_BY[need]:  # NumPy reaches any memory
                raise ShapeError("XT2022",
                                 f"{self.name} accesses {argument.name} {_ACCESS_PHRASES[need]}, as its text was "
                                 f"lowered, and this array can only be accessed {_ACCESS_PHRASES[kind]}",
                                 f"pass a contiguous copy of {argument.name} on a 64-byte boundary, or lower the "
                                 "kernel for this array")

    def _check_lanes(self, target: Target) -> None:
        """Raise if the text is written for the lanes of another subgroup than the target's."""
        lanes = self._function.attributes.get(SUBGROUP_SIZE)
        if not isinstance(lanes, IntegerAttr) or (size := lanes.value.data) == target.subgroup_size:
            return
        fitting = ", ".join(name for name, each in TARGETS.items() if each.subgroup_size == size)
        rewritten = f"write its maps for {target.subgroup_size} lanes, as XeGPU.md's rules of sg_map have them"
        raise TargetError("XT2021",
                          f"{self.name} is written for subgroups of {size} lanes, and those of {target.name} have "
                          f"{target.subgroup_size}",
                          f"choose one of {fitting}; or {rewritten}" if fitting else rewritten)

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        """The parsed module, with its own number of subgroups or the caller's.

        Raises:
            ArgumentError: there are constants or subgroups, which the text has already.
            RankError, ElementTypeError: an argument does not have the parameter's type.
            ShapeError: the kernel uses subgroup ids, and neither the text nor the caller has the number of subgroups.
        """
        if constants:
            raise ArgumentError("XT2023", f"{self.name} was parsed from text, and takes no constant {min(constants)}",
                                "constants are fixed in the text: change it there")
        if subgroups is not None and self._has_subgroups():
            raise ArgumentError("XT2024", f"{self.name} was parsed from text, which has the number of its subgroups",
                                "change the function's attribute xegpu.subgroups, or drop subgroups=")
        for argument, parameter in zip(arguments, self._function.body.block.args, strict=True):
            _check_argument(argument, parameter.type, Note(f"{self.name} is declared here", self.location()))
        if subgroups not in self.cache.modules:
            module = self._for_subgroups(subgroups)
            if self.may_alias:
                module = module.clone()
                only_function(module).attributes[MAY_ALIAS] = UnitAttr()
            self.cache.modules[subgroups] = module
        return self.cache.modules[subgroups]

    def override(self, stage: str | None, path: str | Path | None = None) -> None:
        override(self, stage, path)

    def _has_subgroups(self) -> bool:
        """Whether the text has the number of subgroups of a work-group, as an attribute or in a map."""
        return SUBGROUPS in self._function.attributes or is_distributed(self._function)

    def _for_subgroups(self, subgroups: tuple[int, int] | None) -> ModuleOp:
        function, threads = self._function, counts_threads(self._function)
        rows, columns = subgroups or subgroups_of(function)
        if threads is not None:
            if subgroups is None and SUBGROUPS not in function.attributes:
                raise unknown(threads)
            function = resolved(function, block_size(function) or (rows, columns, 1))
            uniformity.check(function, is_distributed(function),
                             TextError)  # subgroup ids are visible only after resolution
        elif subgroups is None:
            barriers.check(function, rows * columns, TextError)
            return self._module
        else:
            function = function.clone()
        function.attributes[SUBGROUPS] = ArrayAttr([IntegerAttr(size, 64) for size in (rows, columns)])
        barriers.check(function, rows * columns, TextError)
        return ModuleOp([function], dict(self._module.attributes))


def _check_argument(argument: Argument, type_: Any, note: Note) -> None:
    if isinstance(type_, VectorType):
        array = MemRefType(type_.element_type, type_.get_shape())
        raise ElementTypeError("XT2083", f"{argument.name} is {type_}, and a launch passes arrays and numbers",
                               f"make it {array}, and load it in the kernel", notes=[note])
    if isinstance(type_, MemRefType):
        rank = len(type_.get_shape())
        if argument.rank != rank:
            actual = "a number" if argument.rank is None else f"an array of {argument.rank} dimensions"
            raise RankError("XT2026", f"{argument.name} is {actual}, the kernel takes {type_}",
                            f"pass an array of {rank} dimensions", notes=[note])
        element = of_mlir(type_.element_type)
        if argument.dtype is not element:
            raise ElementTypeError("XT2027",
                                   f"{argument.name} has elements of type {argument.dtype}, the kernel takes {type_}",
                                   f"pass an array of {element}, or view it: xt.view({argument.name}, xt.{element})",
                                   notes=[note])
        _check_layout(argument, type_, note)
    elif argument.rank is not None or (argument.dtype is not of_mlir(type_) and
                                       (argument.dtype, of_mlir(type_)) != (index, i32)):  # 32 bits of devices' index
        actual = "an array" if argument.rank is not None else f"a number of type {argument.dtype}"
        raise ElementTypeError("XT2028", f"{argument.name} is {actual}, the kernel takes a number of type {type_}",
                               _number_hint(of_mlir(type_)), notes=[note])


def _number_hint(dtype: DType) -> str:
    """The hint that says which number to pass for a type."""
    if dtype is i1:
        return "pass True or False"
    if dtype in (i64, u64):
        return f"pass numpy.{dtype.numpy.name}(...)"
    return "pass a float" if dtype.is_float else "pass an integer of at most 32 bits"


def _check_layout(argument: Argument, type_: MemRefType, note: Note) -> None:
    """Raise unless an array has the sizes and strides of a memref type; dynamic ones are not compared."""
    static = static_form(type_)
    shape, strides = static or (type_.get_shape(), (None,) * len(type_.get_shape()))
    for quantity, actual, expected in zip(("size", "stride"), (argument.shape, argument.strides), (shape, strides),
                                          strict=True):
        for axis, (one, other) in enumerate(zip(actual, expected, strict=True)):
            is_dynamic = other in (None, DYNAMIC_INDEX) or one is None or (quantity == "stride" and shape[axis] == 1)
            if not is_dynamic and one != other:
                raise ShapeError("XT2029",
                                 f"{quantity} {axis} of {argument.name} is {one}, and the kernel takes {type_}",
                                 f"pass an array of shape {shape} with strides {strides}, in elements" if static else
                                 f"pass an array with {other} elements along dimension {axis}", notes=[note])


def parse(text: str, name: str = "<text>") -> Module:
    """Parse MLIR text; its kernels by name.

    Args:
        text: functions in the XeTile or XeGPU dialect, as ``lower(...).stages`` prints them.
        name: the text's name in messages.

    Raises:
        TextError: the text does not parse or does not verify; the message names line and column.
    """
    functions, printed_text = import_text(text, name)
    kernels = [ParsedKernel(function, attributes) for function, attributes in functions]
    return Module({kernel.name: kernel for kernel in kernels}, printed_text)


def override(kernel: BaseKernel, stage: str | None, path: str | Path | None) -> None:
    """Compile ``kernel`` from the text in a file; see :meth:`BaseKernel.override`."""
    with AtTheCall():
        if stage is None:
            kernel.compile_from(None, None)
            return
        _check_stage(stage)
        if path is None:
            raise ArgumentError("XT1615", f"override({stage!r}) names no file", "name the file of the "
                                f"stage: override({stage!r}, \"edited.mlir\"); override(None) ends all overrides")
        text = _read_file(path)
        if stage == _OPENCL:
            kernel.compile_from(None, text)
        else:
            kernel.compile_from(_kernel_of_stage(text, stage, str(path), kernel), None)


def _kernel_of_stage(text: str, stage: str, path: str, original: BaseKernel) -> ParsedKernel:
    """The kernel in the text of a stage that replaces ``original``.

    Args:
        text: the content of the file.
        stage: the expected stage.
        path: the file, for messages.
        original: the kernel, whose name and arguments the text keeps.

    Raises:
        TextError: the text does not parse, is another stage, or contains another kernel.
    """
    name, kernels = original.name, parse(text, path)
    (actual,) = {stage_of(kernel.module) for kernel in kernels.values()}
    if actual != stage and (stage, actual) != IN_XEGPU:  # text in XeGPU is normalized when it is read
        raise TextError("XT1612",
                        f"{path} contains the stage {actual}, and not {stage}",
                        f"write kernel.override({actual!r}, ...)")
    if name not in kernels:
        raise TextError("XT1613", f"{path} contains {', '.join(kernels)}, and no {name}",
                        f"name the function in the file {name}: func.func @{name}(...)")
    kernel = kernels[name]
    if (count := len(kernel.parameters)) != len(original.parameters):
        there = Note("in the file it is here", kernel.location())
        raise TextError("XT1614", f"{name} takes {count} argument{'' if count == 1 else 's'} in {path}, and "
                        f"{len(original.parameters)} in Python",
                        f"keep the arguments, {', '.join(original.parameters)}, or begin with the text of "
                        f"{name}.lower(...).stages", notes=[*original.defined(), there])
    return kernel


def _check_stage(stage: Any) -> None:
    """Raise unless there is a stage of that name that can be overridden."""
    if stage not in _STAGES:
        raise ArgumentError("XT1610", f"there is no stage {stage!r} to override",
                            f"the stages are {', '.join(_STAGES)}")


def _read_file(path: str | Path) -> str:
    """The text in a file.

    Raises:
        ArgumentError: it cannot be read.
    """
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError, TypeError) as error:
        raise ArgumentError("XT1611", f"{path} cannot be read: {getattr(error, 'strerror', None) or error}",
                            "XETILE_DEBUG=dump writes the stages to files that can be edited") from None
