"""``xt.parse``: MLIR text to kernels that run like any other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntegerAttr, MemRefType, ModuleOp, StringAttr
from xdsl.ir import Attribute, Block, Operation
from xdsl.utils.exceptions import VerifyException

from xegpu.analysis import barriers, simt, uniformity
from xegpu.analysis.slm import verify_memory
from xegpu.ir.dtypes import DType, i64, of_mlir, u64
from xegpu.ir.memref import static_form
from xegpu.passes.normalize import plain
from xegpu.support.errors import (
    ArgumentError,
    ElementTypeError,
    Note,
    RankError,
    ShapeError,
    TargetError,
    TextError,
    XeError,
    said,
)
from xegpu.support.location import Location, SourceLocation
from xegpu.support.notes import parties
from xegpu.target.block2d import SERVED_BY
from xegpu.target.targets import TARGETS, Target, find_target
from xetile.compiler.arguments import Argument
from xetile.compiler.pipeline import PASSES
from xetile.dialect.stage import FIRST, STAGE, TARGET, stage_of
from xetile.jit.kernel import BaseKernel
from xetile.passes.distribute import is_dealt, subgroups_of
from xetile.runtime.numpy_executor import MEANINGS
from xetile.text.canonicalize import normalise, rewrite
from xetile.text.gpu_module import (
    SUBGROUPS,
    THREADS,
    block_size,
    counts_threads,
    functions,
    grid_size,
    printed,
    resolved,
    unknown,
)
from xetile.text.llvm import WRITTEN_FOR, UpstreamReader, converted
from xetile.text.parse_hints import hint_of
from xetile.text.read_module import read_module
from xetile.text.reader import GENERATION, OLDER, OlderReader, present

_STRUCTURE = (func.FuncOp, func.ReturnOp, scf.ForOp, scf.IfOp, scf.YieldOp)
_REACHED = {"block": "by 2D block IO", "block-columns": "by 2D block IO of its transpose", "rows": "row by row",
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
    """A kernel that was read from text, at any stage between XeTile and fully lowered XeGPU."""

    def __init__(self, function: func.FuncOp, attributes: Mapping[str, Attribute]) -> None:
        super().__init__()
        self.name = function.sym_name.data
        self._function = function
        self._module = ModuleOp([function], dict(attributes))
        arguments = function.body.block.args
        self.parameters = tuple(argument.name_hint or f"arg{i}" for i, argument in enumerate(arguments))
        self._specialised: dict[tuple[int, int] | None, ModuleOp] = {}
        if (counts := grid_size(function)) is not None:
            self.grid_function = lambda *args, **constants: counts
        named = function.attributes.get("xegpu.target") or attributes.get(TARGET)
        self.own_target = find_target(named.data) if isinstance(named, StringAttr) else None

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(self.parameters)}), parsed>"

    def __str__(self) -> str:
        return printed(self._module)

    @property
    def module(self) -> ModuleOp:
        """What was read, at its stage."""
        return self._module

    @property
    def argument_types(self) -> tuple[Attribute, ...]:
        """The MLIR types of its run-time arguments."""
        return tuple(argument.type for argument in self._function.body.block.args)

    def location(self) -> Location:
        """Where the function stands in the text."""
        return _place(self._function)

    def admit(self, target: Target, arguments: Sequence[Argument], access: Sequence[str]) -> None:
        """Raise if the text was lowered for another target, or for arrays that are easier to reach."""
        if self.own_target is not None and self.own_target.name != target.name:
            made = self.own_target.name
            raise TargetError("XT2020", f"{self.name} is text that was lowered for {made}, not for {target.name}",
                              f"choose target={made!r}, or lower the kernel again, starting from its "
                              "first stage")
        lanes = self._function.attributes.get(WRITTEN_FOR)
        if isinstance(lanes, IntegerAttr) and lanes.value.data != target.subgroup:
            fitting = [name for name, other in TARGETS.items() if other.subgroup == lanes.value.data]
            raise TargetError("XT2021",
                              f"{self.name} cuts its blocks up for subgroups of {lanes.value.data} lanes, and those of "
                              f"{target.name} have {target.subgroup}", f"choose one of {', '.join(fitting)}")
        self._admit_lanes(target)
        needed = self._function.attributes.get("xegpu.access")
        ways = [way.data for way in needed] if isinstance(needed, ArrayAttr) else []
        for argument, way, need in zip(arguments, access, ways, strict=False):
            if argument.kind == "usm" and need and way not in SERVED_BY[need]:  # NumPy reaches any memory
                raise ShapeError("XT2022",
                                 f"{self.name} reaches {argument.name} {_REACHED[need]}, as its text was lowered, "
                                 f"and this array can only be reached {_REACHED[way]}",
                                 f"pass a contiguous copy of {argument.name} on a 64-byte boundary, or lower the "
                                 "kernel for this array")

    def _admit_lanes(self, target: Target) -> None:
        """Raise if the text is written for the lanes of another subgroup than the target's."""
        lanes = self._function.attributes.get(simt.SUBGROUP_SIZE)
        if not isinstance(lanes, IntegerAttr) or (size := lanes.value.data) == target.subgroup:
            return
        fitting = ", ".join(name for name, other in TARGETS.items() if other.subgroup == size)
        rewritten = f"write its maps for {target.subgroup} lanes, as XeGPU.md's rules of sg_map have them"
        raise TargetError("XT2021",
                          f"{self.name} is written for subgroups of {size} lanes, and those of {target.name} have "
                          f"{target.subgroup}", f"choose one of {fitting}; or {rewritten}" if fitting else rewritten)

    def module_for(self, arguments: Sequence[Argument], constants: dict[str, Any],
                   subgroups: tuple[int, int] | None) -> ModuleOp:
        """The parsed module, for as many subgroups as it says or the caller does.

        Raises:
            ArgumentError: constants or subgroups are given, which the text has in it already.
            RankError, ElementTypeError: an argument is not what the function takes.
            ShapeError: the kernel asks for the position of its subgroup, and nothing says how many there are.
        """
        if constants:
            raise ArgumentError("XT2023", f"{self.name} was parsed from text, and takes no constant {min(constants)}",
                                "constants are fixed in the text: change it there")
        if subgroups is not None and self._says_subgroups():
            raise ArgumentError("XT2024", f"{self.name} was parsed from text, which says how many subgroups it has",
                                "change the function's attribute xegpu.subgroups, or drop subgroups=")
        for argument, parameter in zip(arguments, self._function.body.block.args, strict=True):
            _check(argument, parameter.type, Note(f"{self.name} says so here", self.location()))
        if subgroups not in self._specialised:
            self._specialised[subgroups] = self._for_subgroups(subgroups)
        return self._specialised[subgroups]

    def _says_subgroups(self) -> bool:
        """Whether the text says how many subgroups a work-group has, by an attribute or by a map."""
        return SUBGROUPS in self._function.attributes or is_dealt(self._function)

    def _for_subgroups(self, subgroups: tuple[int, int] | None) -> ModuleOp:
        function, threads = self._function, counts_threads(self._function)
        rows, columns = subgroups or subgroups_of(function)
        if threads is not None:
            if subgroups is None and SUBGROUPS not in function.attributes:
                raise unknown(threads)
            function = resolved(function, block_size(function) or (rows, columns, 1))
            uniformity.check(function, is_dealt(function), TextError)  # what differs between subgroups is seen now
        elif subgroups is None:
            barriers.check(function, rows * columns, TextError)
            return self._module
        else:
            function = function.clone()
        function.attributes[SUBGROUPS] = ArrayAttr([IntegerAttr(size, 64) for size in (rows, columns)])
        barriers.check(function, rows * columns, TextError)
        return ModuleOp([function], dict(self._module.attributes))


def _check(argument: Argument, type_: Any, note: Note) -> None:
    if isinstance(type_, MemRefType):
        rank = len(type_.get_shape())
        if argument.rank != rank:
            what = "a number" if argument.rank is None else f"an array of {argument.rank} dimensions"
            raise RankError("XT2026", f"{argument.name} is {what}, the kernel takes {type_}",
                            f"pass an array of {rank} dimensions", notes=[note])
        element = of_mlir(type_.element_type)
        if argument.dtype is not element:
            raise ElementTypeError("XT2027", f"{argument.name} holds {argument.dtype}, the kernel takes {type_}",
                                   f"pass an array of {element}, or view it: xt.view({argument.name}, xt.{element})",
                                   notes=[note])
        _check_layout(argument, type_, note)
    elif argument.rank is not None or argument.dtype is not of_mlir(type_):
        what = "an array" if argument.rank is not None else f"a number of type {argument.dtype}"
        raise ElementTypeError("XT2028", f"{argument.name} is {what}, the kernel takes a number of type {type_}",
                               _number_of(of_mlir(type_)), notes=[note])


def _number_of(dtype: DType) -> str:
    """What to pass for a number of a type."""
    if dtype in (i64, u64):
        return f"pass numpy.{dtype.numpy.name}(...)"
    return "pass a float" if dtype.is_float else "pass an integer of at most 32 bits"


def _check_layout(argument: Argument, type_: MemRefType, note: Note) -> None:
    """Raise unless an array has the sizes and strides that a static memref has; what is not known yet passes."""
    static = static_form(type_)
    shape, strides = static or (type_.get_shape(), (None,) * len(type_.get_shape()))
    for what, has, wanted in zip(("size", "stride"), (argument.shape, argument.strides), (shape, strides), strict=True):
        for axis, (mine, its) in enumerate(zip(has, wanted, strict=True)):
            free = its in (None, DYNAMIC_INDEX) or mine is None or (what == "stride" and shape[axis] == 1)
            if not free and mine != its:
                raise ShapeError("XT2029", f"{what} {axis} of {argument.name} is {mine}, and the kernel takes {type_}",
                                 f"pass an array of shape {shape} with strides {strides}, in elements" if static else
                                 f"pass an array with {its} elements along dimension {axis}", notes=[note])


def _place(operation: Operation) -> Location:
    place = operation.location
    assert isinstance(place, SourceLocation)
    return place.data


def parse(text: str, name: str = "<text>") -> Module:
    """Read MLIR text and give its kernels by name.

    Args:
        text: functions in the XeTile or XeGPU dialect, as ``lower(...).stages`` prints them.
        name: what the text is called in messages.

    Raises:
        TextError: the text does not parse or does not verify; the message names line and column.
    """
    module, reader = read_module(text, name)
    _check_names(module)
    for operation in module.walk():
        _verify(operation)
    _check_stage(module)
    found = functions(module, reader.host)
    if not found:
        raise TextError("XT2009", "the text holds no function with a body",
                        "put the kernel's operations in a func.func, or in a gpu.func of a gpu.module", _place(module))
    if isinstance(reader, UpstreamReader):
        modules = [converted(function) for function in found]
        for made in modules:
            _settle(made)
        return Module(_kernels(pair for made in modules for pair in _apart(made)), text)
    if isinstance(reader, OlderReader):
        text = printed(ModuleOp([function.clone() for function in found],
                                {**module.attributes, GENERATION: StringAttr(OLDER)}))
        module.attributes.pop(GENERATION, None)
        found = present(found)
    whole = ModuleOp(found, dict(module.attributes))
    if stage_of(whole) == "xegpu-blocks":
        for function in found:
            simt.settle(function)
        text = text if isinstance(reader, OlderReader) else printed(whole)
        whole = ModuleOp([plain(function) for function in found], dict(module.attributes))
        _settle(whole)
    else:
        _settle(whole)
        text = printed(whole)
    return Module(_kernels(_apart(whole)), text)


def _settle(module: ModuleOp) -> None:
    """Bring what was read to the form that the language records, and check it."""
    for function in module.body.block.ops:
        assert isinstance(function, func.FuncOp)
        if (stage := stage_of(module)) in (FIRST, "xetile"):
            normalise(function, any_rank=stage == FIRST)
        else:
            if not stage.startswith("xegpu"):
                rewrite(function)
            simt.settle(function)
        for operation in function.walk():
            _verify(operation)
            _check_known(operation)


def _kernels(functions: Iterable[tuple[func.FuncOp, Mapping[str, Attribute]]]) -> dict[str, ParsedKernel]:
    """Kernels of functions with the attributes of their modules, by name."""
    kernels: dict[str, ParsedKernel] = {}
    for function, attributes in functions:
        uniformity.check(function, is_dealt(function), TextError)
        if is_dealt(function) or SUBGROUPS in function.attributes:
            barriers.check(function, prod(subgroups_of(function)), TextError)
        if (kernel := ParsedKernel(function, attributes)).name in kernels:
            raise _same_name(kernel.name, function, kernels[kernel.name].location())
        kernels[kernel.name] = kernel
    return kernels


def _apart(module: ModuleOp) -> list[tuple[func.FuncOp, Mapping[str, Attribute]]]:
    """The functions of a module, taken out of it, each with its attributes."""
    functions = [operation for operation in module.body.block.ops if isinstance(operation, func.FuncOp)]
    for function in functions:
        function.detach()  # type: ignore[no-untyped-call]
    return [(function, module.attributes) for function in functions]


def _check_names(module: ModuleOp) -> None:
    """Raise if two functions of one module have the same name."""
    seen: dict[tuple[Block | None, str], Operation] = {}
    for operation in module.walk():
        if isinstance(operation, func.FuncOp):
            name = operation.sym_name.data
            if (first := seen.setdefault((operation.parent, name), operation)) is not operation:
                raise _same_name(name, operation, _place(first))


def _same_name(name: str, function: Operation, first: Location) -> TextError:
    return TextError("XT2010", f"two kernels have the name {name}", "give each a name of its own", _place(function),
                     [Note("the other one is here", first)])


def _check_known(operation: Operation) -> None:
    """Raise unless an operation has a meaning here; xDSL knows many more."""
    if not isinstance(operation, (*_STRUCTURE, *THREADS)) and type(operation) not in MEANINGS:
        raise TextError("XT2011", f"{operation.name} cannot be a part of a kernel",
                        "write it with operations of xetile, arith, math, scf and gpu; docs/text.md lists what reads",
                        _place(operation))


def _verify(operation: Operation) -> None:
    try:
        operation.verify(verify_nested_ops=False)
        verify_memory(operation)
    except VerifyException as error:
        code, message, hint = said(error)
        hint = "" if "\n" in hint else hint or hint_of(message)  # more lines are xDSL's account of a type
        raise TextError(code, f"{operation.name}: {message}", hint, _place(operation),
                        parties(operation, error)) from None
    except XeError as error:
        raise error.at(_place(operation)) from None


def _check_stage(module: ModuleOp) -> None:
    stage, target = module.attributes.get(STAGE), module.attributes.get(TARGET)
    known = (FIRST, *(name for name, _ in PASSES))
    if stage is not None and not (isinstance(stage, StringAttr) and stage.data in known):
        raise TextError("XT2014", f"there is no stage {stage}", f"{STAGE} is one of {', '.join(known)}", _place(module))
    if target is not None and not (isinstance(target, StringAttr) and target.data in TARGETS):
        raise TextError("XT2015",
                        f"there is no target {target}", f"{TARGET} is one of {', '.join(TARGETS)}", _place(module))
