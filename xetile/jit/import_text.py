"""Import of MLIR text: verified functions in the tracer's canonical form, at any stage of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod

from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IndexType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnrealizedConversionCastOp,
    UnregisteredOp,
    VectorType,
)
from xdsl.dialects.vector import InsertOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.utils.exceptions import VerifyException

from xegpu.analysis import barriers, simt, uniformity
from xegpu.analysis.slm import PANELS, verify_memory
from xegpu.ir.kernel_attributes import SUBGROUPS
from xegpu.ir.matchers import number
from xegpu.mlir.gpu import GpuFuncOp, check_results
from xegpu.mlir.scf import verify_step
from xegpu.mlir.vector import ExtractOp
from xegpu.passes.normalize import Normalize
from xegpu.support.errors import (
    Note,
    TextError,
    XeError,
    error_parts,
)
from xegpu.support.location import Location, author_location
from xegpu.support.notes import operand_notes
from xegpu.target.targets import TARGETS
from xetile.compiler.pipeline import STAGES, precedes
from xetile.dialect.stage import FIRST, IN_XETILE, STAGE, TARGET, run_pass, stage_of
from xetile.interpreter.semantics import SEMANTICS
from xetile.passes.distribute_subgroups import is_distributed, subgroups_of
from xetile.text.canonicalize import canonicalize, complete_slices, name_maps, rewrite
from xetile.text.canonicalize.control_flow.index_loops import count_in_indices
from xetile.text.canonicalize.control_flow.lift_cf_to_scf import lift_control_flow
from xetile.text.canonicalize.float8 import lower_float8
from xetile.text.canonicalize.fused_multiply import fma_as_math
from xetile.text.canonicalize.inline_calls import inline_calls
from xetile.text.canonicalize.one_bit import use_bitwise_kinds
from xetile.text.canonicalize.views import resolve_views
from xetile.text.gpu_module import (
    THREADS,
    functions,
    printed,
)
from xetile.text.llvm import LLVMReader, converted
from xetile.text.llvm.scales import scales_as_bytes
from xetile.text.llvm.sg_maps import lower_sg_maps
from xetile.text.parse_hints import COMPARE, hint_of, hint_of_unknown, vector_expected
from xetile.text.read_module import GENERATION, OLDER, V1Reader, from_v1, read_module

_STRUCTURE = (func.FuncOp, func.ReturnOp, scf.ForOp, scf.IfOp, scf.YieldOp, scf.WhileOp, scf.ConditionOp)
_MOST_ELEMENTS = 1 << 28
"""Elements of the largest vector that a text may compute; NumPy computes it as one array."""
_MOST_REPEATED = 1 << 48
"""Elements of the largest constant that a text may have: it costs nothing by its size while nothing is computed."""
ImportedFunction = tuple[func.FuncOp, Mapping[str, Attribute]]
"""A function with the attributes of its module."""


def import_text(text: str, name: str) -> tuple[list[ImportedFunction], str]:
    """The functions of a text, and the text as it is printed at its stage.

    Args:
        text: functions in the XeTile or XeGPU dialect, as ``lower(...).stages`` prints them.
        name: what the text is called in messages.

    Raises:
        TextError: the text does not parse or does not verify; the message names line and column.
    """
    module, reader = read_module(text, name)
    if isinstance(reader, LLVMReader) and "sg_map" in text:
        lower_sg_maps(module)
    _resolve_and_check(module, has_scales="f8E8M0FNU" in text)
    imported = functions(module, reader.host)
    if not imported:
        raise TextError("XT2009", "the text contains no function with a body",
                        "put the kernel's operations in a func.func, or in a gpu.func of a gpu.module",
                        text_location(module))
    if isinstance(reader, LLVMReader):
        modules = [converted(function) for function in imported]
        for converted_module in modules:
            _canonicalize(converted_module)
        return _verified_functions(pair for each in modules for pair in _detached(each)), text
    for function in imported:
        _verified(function, partial(check_results, function))
    if isinstance(reader, V1Reader):
        text = printed(ModuleOp([function.clone() for function in imported],
                                {**module.attributes, GENERATION: StringAttr(OLDER)}))
        module.attributes.pop(GENERATION, None)
        imported = from_v1(imported)
    combined = ModuleOp(imported, dict(module.attributes))
    if stage_of(combined) == "to-xegpu":
        for function in imported:
            simt.settle(function)
        text = text if isinstance(reader, V1Reader) else printed(combined)
        combined = run_pass("normalize", Normalize(), combined)
        _canonicalize(combined)
    else:
        _canonicalize(combined)
        text = printed(combined)
    return _verified_functions(_detached(combined)), text


def _resolve_and_check(module: ModuleOp, *, has_scales: bool) -> None:
    """Verify a module as it was read, once its control flow, views and named maps are resolved.

    Raises:
        TextError: an operation does not verify.
    """
    if has_scales:
        scales_as_bytes(module)
    use_bitwise_kinds(module)
    fma_as_math(module)
    lower_float8(module)
    _check_regions(module)
    complete_slices(module)
    lift_control_flow(module)
    inline_calls(module)
    count_in_indices(module)
    resolve_views(module)
    name_maps(module)
    _check_names(module)
    _check_dominance(module)
    for operation in module.walk():
        _check_blocks(operation)
        _check_sizes(operation)
        _check_yield(operation)
        _check_position(operation)
        _check_number(operation)
        _verify(operation)
    _check_stage(module)


def _verified_functions(functions: Iterable[ImportedFunction]) -> list[ImportedFunction]:
    """Imported functions after checks of control flow, barriers and names.

    Raises:
        TextError: one of the checks fails.
    """
    seen: dict[str, func.FuncOp] = {}
    checked = []
    for function, attributes in functions:
        uniformity.check(function, is_distributed(function), TextError)
        if is_distributed(function) or SUBGROUPS in function.attributes:
            barriers.check(function, prod(subgroups_of(function)), TextError)
        if (first := seen.setdefault(function.sym_name.data, function)) is not function:
            raise _same_name(function.sym_name.data, function, text_location(first))
        checked.append((function, attributes))
    return checked


def _canonicalize(module: ModuleOp) -> None:
    """Rewrite a module to the canonical form that the tracer records, and verify it."""
    for function in module.body.block.ops:
        assert isinstance(function, func.FuncOp)
        if (stage := stage_of(module)) in (FIRST, "assign-wg-map", *IN_XETILE):
            canonicalize(function, any_rank=stage not in IN_XETILE)
        else:
            if precedes(stage, "to-xegpu"):
                rewrite(function)
            simt.settle(function)
        for operation in function.walk():
            _verify(operation)
            _check_known(operation)


def _detached(module: ModuleOp) -> list[ImportedFunction]:
    """The functions of a module, detached from it, each with the module's attributes."""
    functions = [operation for operation in module.body.block.ops if isinstance(operation, func.FuncOp)]
    for function in functions:
        function.detach()  # type: ignore[no-untyped-call]
    return [(function, module.attributes) for function in functions]


def _check_dominance(module: ModuleOp) -> None:
    """Raise if a value is used above its definition, or outside the region that defines it."""
    visible: set[SSAValue] = set()

    def check(block: Block) -> None:
        own: list[SSAValue] = list(block.args)
        visible.update(own)
        for operation in block.ops:
            for operand in operation.operands:
                if operand not in visible:
                    name = f"%{operand.name_hint}" if operand.name_hint else "a value"
                    raise TextError("XT2005", f"{operation.name}: {name} is used where it is not defined yet",
                                    "define it above its uses, in the same block or around it",
                                    text_location(operation))
            for region in operation.regions:
                for inner in region.blocks:
                    check(inner)
            own += operation.results
            visible.update(operation.results)
        visible.difference_update(own)

    for block in module.body.blocks:
        check(block)


def _check_regions(module: ModuleOp) -> None:
    """Raise if an operation lacks a region, or if a ``scf.while`` forwards other values than it takes."""
    for operation in module.walk():
        declared = len(operation.get_irdl_definition().regions) if isinstance(operation, IRDLOperation) else 0
        if len(operation.regions) != declared and not isinstance(operation, UnregisteredOp):
            raise TextError("XT2001", f"{operation.name} has {declared} regions, and the text gives it "
                            f"{len(operation.regions)}", "write its body in braces", text_location(operation))
        if isinstance(operation, scf.WhileOp):
            for region in operation.regions:
                _check_one_block(operation, region)
            _verified(operation, partial(uniformity.check_forwarded, operation))


def _check_blocks(operation: Operation) -> None:
    """Raise if blocks are left that no branch reaches, or regions without a block."""
    if isinstance(operation, (GpuFuncOp, scf.ForOp)) or (isinstance(operation, func.FuncOp) and operation.body.blocks):
        _check_one_block(operation, operation.regions[0])
    elif isinstance(operation, scf.IfOp):
        for region in operation.regions:
            if region.blocks:
                _check_one_block(operation, region)


def _check_one_block(operation: Operation, region: Region) -> None:
    if len(region.blocks) != 1:
        raise TextError("XT2001", f"{operation.name}: a body of one block is needed, and this one has "
                        f"{len(region.blocks)}", "leave out the blocks that nothing branches to",
                        text_location(operation))


def _check_sizes(operation: Operation) -> None:
    """Raise if a vector has a dimension without elements, or a negative one, or more elements than memory holds."""
    values = [*operation.results, *(argument for region in operation.regions for block in region.blocks
                                    for argument in block.args)]
    for value in values:
        if isinstance(value.type, VectorType) and any(size < 1 for size in value.type.get_shape()):
            raise TextError("XT2001", f"{operation.name}: a vector has a dimension without elements: {value.type}",
                            "write sizes of 1 and more", text_location(operation))
        computed = any(isinstance(operand.type, VectorType) for operand in operation.operands)
        most = _MOST_ELEMENTS if computed else _MOST_REPEATED
        if isinstance(value.type, VectorType) and prod(value.type.get_shape()) > most:
            raise TextError("XT2001", f"{operation.name}: {value.type} has more than {most} elements, which no "
                            "work-group holds", "write smaller vectors, and more work-groups or a loop",
                            text_location(operation))


def _check_position(operation: Operation) -> None:
    """Raise if an element or a part is extracted from behind the end of a vector, or put there."""
    if not isinstance(operation, (ExtractOp, InsertOp)):
        return
    vector = operation.vector if isinstance(operation, ExtractOp) else operation.dest
    sizes = vector.type.get_shape()  # type: ignore[attr-defined]
    for position, size in zip(operation.static_position.get_values(), sizes, strict=False):
        if position not in (DYNAMIC_INDEX, *range(size)):
            raise TextError("XT2001", f"{operation.name}: position {position} is outside of a vector whose size is "
                            f"{size}", f"write a position from 0 to {size - 1}", text_location(operation))


def _check_number(operation: Operation) -> None:
    """Raise if an index constant exceeds 64 bits, or if the panels of an allocation are no numbers."""
    value = operation.properties.get("value") if isinstance(operation, arith.ConstantOp) else None
    if isinstance(value, IntegerAttr) and isinstance(value.type, IndexType) and \
            not -1 << 63 <= value.value.data < 1 << 63:
        raise TextError("XT2068", f"{value.value.data} is not an index", "an index has 64 bits",
                        text_location(operation))
    panels = operation.attributes.get(PANELS)
    if panels is not None and not (isinstance(panels, ArrayAttr) and len(panels) in (2, 3) and all(
            isinstance(number, IntegerAttr) and number.value.data >= 0 for number in panels)):
        raise TextError("XT2001", f"{operation.name}: {PANELS} is two or three numbers",
                        f"write {PANELS} = [1, 16], or leave it out", text_location(operation))


def _check_yield(operation: Operation) -> None:
    """Raise if a branch or a loop body does not end in a yield of the operation's results."""
    if not isinstance(operation, (scf.IfOp, scf.ForOp)) or not operation.results:
        return
    for region in filter(lambda region: region.blocks, operation.regions):  # XT1340 is for a missing else branch
        last = region.block.last_op
        if not isinstance(last, scf.YieldOp) or len(last.operands) != len(operation.results):
            raise TextError("XT2001", f"{operation.name}: a part of it does not yield its {len(operation.results)} "
                            "results", "end the body, and each branch, with scf.yield of one value for each result",
                            text_location(operation))


def _check_names(module: ModuleOp) -> None:
    """Raise if two functions of one module have the same name."""
    seen: dict[tuple[Block | None, str], Operation] = {}
    for operation in module.walk():
        if isinstance(operation, func.FuncOp):
            name = operation.sym_name.data
            if (first := seen.setdefault((operation.parent, name), operation)) is not operation:
                raise _same_name(name, operation, text_location(first))


def _same_name(name: str, function: Operation, first: Location) -> TextError:
    return TextError("XT2010", f"two kernels have the name {name}", "give each another name",
                     text_location(function), [Note("the other one is here", first)])


def _check_known(operation: Operation) -> None:
    """Raise unless an operation has semantics here; xDSL's dialects have many more."""
    counts = len(operation.operands), len(operation.results)
    if isinstance(operation, UnrealizedConversionCastOp) and counts != (1, 1):
        raise TextError("XT2011", f"{operation.name}: it converts {counts[0]} values to {counts[1]}",
                        "convert one value to one", text_location(operation))
    if not isinstance(operation, (*_STRUCTURE, *THREADS)) and type(operation) not in SEMANTICS:
        cure = hint_of_unknown(operation.name)
        raise TextError("XT2011", f"{operation.name} cannot be a part of a kernel", cure if cure != COMPARE else
                        "write it with operations of xetile, arith, math, scf and gpu; docs/text.md lists what reads",
                        text_location(operation))


def _verify(operation: Operation) -> None:
    def check() -> None:
        operation.verify(verify_nested_ops=False)
        verify_memory(operation)
        if isinstance(operation, scf.ForOp) and (step := number(operation.step)) is not None:
            verify_step(step)

    _verified(operation, check)


def _verified(operation: Operation, check: Callable[[], None]) -> None:
    """Run a check of an operation, whose errors get the operation's name and line.

    Raises:
        XeError: the check failed.
    """
    try:
        check()
    except VerifyException as error:
        code, message, hint = error_parts(error)
        message, hint = vector_expected(message, hint)
        hint = "" if "\n" in hint else hint or hint_of(message)  # several lines are xDSL's own message about a type
        raise TextError(code, f"{operation.name}: {message}", hint, text_location(operation),
                        operand_notes(operation, error)) from None
    except XeError as error:
        raise error.at(text_location(operation)) from None


def _check_stage(module: ModuleOp) -> None:
    stage, target = module.attributes.get(STAGE), module.attributes.get(TARGET)
    if stage is not None and not (isinstance(stage, StringAttr) and stage.data in STAGES):
        raise TextError("XT2014", f"there is no stage {stage}", f"{STAGE} is one of {', '.join(STAGES)}",
                        text_location(module))
    if target is not None and not (isinstance(target, StringAttr) and target.data in TARGETS):
        raise TextError("XT2015",
                        f"there is no target {target}", f"{TARGET} is one of {', '.join(TARGETS)}",
                        text_location(module))


def text_location(operation: Operation) -> Location:
    """Location of an operation that was read from text; each has one."""
    location = author_location(operation)
    assert location is not None
    return location
