"""``gpu.module`` and ``gpu.func``: conversion to the functions that the passes work on, and back for printing.

    gpu.module @m attributes {a} { gpu.func @f(%A: memref<64x64xf16>) kernel attributes {b} { ... gpu.return } }
becomes
    func.func @f(%A: memref<64x64xf16>) attributes {b, gpu.module = {name = "m", attributes = {a}}, gpu.kernel} {...}
and is printed in the original form at every stage.

Host functions beside a ``gpu.module`` are skipped, but for the launch sizes of the kernels:

    func.func @main(...) {
      %c8 = arith.constant 8 : index
      gpu.launch_func @test_kernel::@test_kernel blocks in (%c16, %c16, %c1) threads in (%c8, %c4, %c1) args(...)
    }

A work-group of ``test_kernel`` has 8 x 4 subgroups: in such files threads count subgroups. ``gpu.thread_id`` is then
lowered to ``gpu.subgroup_id``:

    %x = gpu.thread_id x ; %y = gpu.thread_id y ; %n = gpu.block_dim x          with 8 x 4 subgroups
becomes
    %s = gpu.subgroup_id ; %x = %s floordiv 4 ; %y = %s - %x * 4 ; %n = 8

x counts rows of subgroups, as the first number of ``sg_layout`` does, and y columns; subgroup ids are row-major.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, func, gpu
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.builtin import i32 as i32_type
from xdsl.dialects.builtin import i64 as i64_type
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser
from xdsl.utils.mlir_lexer import MLIRTokenKind

from xegpu.ir.kernel_attributes import SUBGROUPS
from xegpu.mlir.gpu import GpuFuncOp, GpuModuleOp, GpuReturnOp
from xegpu.rewrite.rewriter import Rewriter
from xegpu.support.errors import ShapeError, TextError
from xegpu.support.location import author_location
from xegpu.support.lookahead import next_token

Counts = tuple[int, int, int]
_COMMENT = re.compile(r"//[^\n]*")
_MODULE = re.compile(r"^[^\S\n]*\"?gpu\.module\b", re.MULTILINE)  # no \s, which would try each run of empty lines
_CONSTANT = re.compile(r"%([\w$.-]+)\s*=\s*arith\.constant\s+(\d+)\s*:\s*index")
_LAUNCH = re.compile(r"gpu\.launch_func\b[^@]*@([\w$.-]+)::@([\w$.-]+)\s+blocks\s+in\s*\(([^)]*)\)\s*"
                     r"threads\s+in\s*\(([^)]*)\)")
_GENERIC_CONSTANT = re.compile(r'%([\w$.-]+)\s*=\s*"arith\.constant"\(\)\s*<\{value\s*=\s*(\d+)\s*:\s*index')
_GENERIC_LAUNCH = re.compile(r'"gpu\.launch_func"\(([^)]*)\)\s*<\{[^\n]*?\bkernel\s*=\s*@([\w$.-]+)::@([\w$.-]+)'
                             r"[^\n]*?operandSegmentSizes\s*=\s*array<i32:\s*(\d+)")


@dataclass(frozen=True)
class Launch:
    """Launch sizes: work-groups of the grid and subgroups of a work-group, each along x, y, z; None if not constant."""

    blocks: Counts | None
    threads: Counts | None


def has_kernels(text: str) -> bool:
    """Whether a text has a ``gpu.module``; functions outside it are then host functions."""
    return _MODULE.search(_COMMENT.sub("", text)) is not None


def skip_host_function(parser: Parser) -> str:
    """Skip the function or global at a parser's next token; returns its text."""
    start, content = next_token(parser).span.start, next_token(parser).span.input.content
    generic = next_token(parser).kind is MLIRTokenKind.STRING_LIT  # "func.func"() <{...}> ({...}) {...} : () -> ()
    parser._consume_token()  # private: the public methods consume what they parse, and this is not parsed
    depth, previous = 0, ""
    while next_token(parser).kind is not MLIRTokenKind.EOF:
        token = next_token(parser)
        if depth == 0 and _ends_declaration(token.text, token.kind):
            break
        depth += (token.text in ("{", "(", "[")) - (token.text in ("}", ")", "]"))
        parser._consume_token()  # private, as above
        if depth == 0 and token.text == "}" and previous != "attributes" and not generic:
            break
        if depth == 0:
            previous = token.text
    return content[start:next_token(parser).span.start]


def _ends_declaration(text: str, kind: MLIRTokenKind) -> bool:
    """Whether a token after a declaration begins another construct."""
    return text == "}" or kind is MLIRTokenKind.PERCENT_IDENT or (kind is MLIRTokenKind.STRING_LIT and "." in text) or \
        (kind is MLIRTokenKind.BARE_IDENT and ("." in text or text == "module"))


def launches(function: str) -> dict[tuple[str, str], Launch]:
    """Launches in a host function's text, by the names of module and kernel; contradicting ones are unknown."""
    text = _COMMENT.sub("", function)
    constants = {name: int(number) for pattern in (_CONSTANT, _GENERIC_CONSTANT)
                 for name, number in pattern.findall(text)}
    found: dict[tuple[str, str], Launch] = {}
    for module, kernel, blocks, threads in [*_LAUNCH.findall(text), *_generic_launches(text)]:
        launch = Launch(_listed_counts(blocks, constants), _listed_counts(threads, constants))
        found[module, kernel] = joined(found.get((module, kernel)), launch)
    return found


def _generic_launches(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Module, kernel, blocks and threads of launches in the generic form, behind what they wait for."""
    for operands, module, kernel, waits in _GENERIC_LAUNCH.findall(text):
        sizes = operands.split(",")[int(waits):]
        yield module, kernel, ",".join(sizes[:3]), ",".join(sizes[3:6])


def joined(first: Launch | None, second: Launch) -> Launch:
    """Common sizes of two launches of one kernel."""
    if first is None:
        return second
    return Launch(first.blocks if first.blocks == second.blocks else None,
                  first.threads if first.threads == second.threads else None)


def _listed_counts(listed: str, constants: dict[str, int]) -> Counts | None:
    """Constant counts of a list of three operands."""
    found = [constants.get(name.strip().removeprefix("%")) for name in listed.split(",")]
    if len(found) != 3 or None in found:
        return None
    x, y, z = (count or 0 for count in found)
    return x, y, z


_MOST = (1 << 31) - 1
"""Largest size of a launch along a dimension."""
_HOME, _KERNEL = "gpu.module", "gpu.kernel"
_BLOCK_SIZES = ("known_block_size", "gpu.known_block_size")
_GRID_SIZES = ("known_grid_size", "gpu.known_grid_size")


def functions(module: ModuleOp, host: Mapping[tuple[str, str], Launch]) -> list[func.FuncOp]:
    """Kernels of a parsed module as functions; those of a gpu.module record it as an attribute.

    Args:
        module: what was read; it loses its kernels.
        host: how host functions launch them.
    """
    found: list[func.FuncOp] = []
    for operation in list(module.body.block.ops):
        if isinstance(operation, func.FuncOp) and operation.body.blocks:
            operation.detach()  # type: ignore[no-untyped-call]
            found.append(operation)
        elif isinstance(operation, GpuModuleOp):
            found += _of_module(operation, host)
    return found


def _of_module(module: GpuModuleOp, host: Mapping[tuple[str, str], Launch]) -> Iterator[func.FuncOp]:
    """Kernels of one gpu.module."""
    home = DictionaryAttr({"name": module.sym_name, "attributes": DictionaryAttr(dict(module.attributes))})
    for operation in list(module.body.block.ops):
        if isinstance(operation, func.FuncOp) and operation.body.blocks:
            operation.detach()  # type: ignore[no-untyped-call]
            operation.attributes[_HOME] = home
            yield operation
        if not isinstance(operation, GpuFuncOp):
            continue
        launch = host.get((module.sym_name.data, operation.sym_name.data))
        _check_sizes(operation, launch)
        attributes = {**operation.attributes, **_launch_attributes(operation.attributes, launch), _HOME: home}
        if operation.kernel is not None:
            attributes[_KERNEL] = UnitAttr()
        yield _as_func(operation, attributes)


def _check_sizes(kernel: GpuFuncOp, launch: Launch | None) -> None:
    """Check that a host function launches a kernel with sizes that a launch can have."""
    sizes = () if launch is None else (*(launch.blocks or ()), *(launch.threads or ()))
    if (largest := max(sizes, default=0)) > _MOST:
        raise TextError("XT2068", f"@{kernel.sym_name.data} is launched with a size of {largest}, beyond 32 bits",
                        f"launch at most {_MOST} work-groups along a dimension", author_location(kernel))


def _launch_attributes(attributes: Mapping[str, Attribute], launch: Launch | None) -> dict[str, Attribute]:
    """Attributes of a kernel that its launch determines."""
    properties: dict[str, Attribute] = {}
    if launch is not None and launch.threads and not any(name in attributes for name in _BLOCK_SIZES):
        properties["known_block_size"] = DenseArrayBase.from_list(i32_type, launch.threads)
    if launch is not None and launch.blocks and not any(name in attributes for name in _GRID_SIZES):
        properties["known_grid_size"] = DenseArrayBase.from_list(i32_type, launch.blocks)
    counts = _counts({**attributes, **properties}, _BLOCK_SIZES)
    if counts is not None and SUBGROUPS not in attributes:
        properties[SUBGROUPS] = ArrayAttr([IntegerAttr(size, i64_type) for size in (counts[0], counts[1] * counts[2])])
    return properties


def _counts(attributes: Mapping[str, Attribute], names: tuple[str, ...]) -> Counts | None:
    """Three integers of an attribute."""
    attribute = next((attributes[name] for name in names if name in attributes), None)
    if not isinstance(attribute, DenseArrayBase):
        return None
    x, y, z = (*(int(size) for size in attribute.get_values()), 1, 1, 1)[:3]
    return x, y, z


def block_size(function: func.FuncOp) -> Counts | None:
    """Subgroups of a work-group along x, y and z, if the text has them."""
    return _counts(function.attributes, _BLOCK_SIZES)


def grid_size(function: func.FuncOp) -> Counts | None:
    """Work-groups of a launch along x, y and z, if the text has them."""
    return _counts(function.attributes, _GRID_SIZES)


def _as_func(kernel: GpuFuncOp, attributes: Mapping[str, Attribute]) -> func.FuncOp:
    """``gpu.func`` as ``func.func``."""
    body = kernel.body
    kernel.detach_region(body)
    last = body.block.last_op
    assert isinstance(last, GpuReturnOp)  # it verifies
    end = func.ReturnOp(*last.values)
    end.location = last.location
    body.block.insert_op_before(end, last)
    last.detach()  # type: ignore[no-untyped-call]
    function = func.FuncOp(kernel.sym_name.data, kernel.function_type, body)
    function.attributes.update(attributes)
    function.location = kernel.location
    return function


def printed(module: ModuleOp) -> str:
    """Text of a module, with the kernels of a gpu.module in their original form."""
    if not any(_HOME in operation.attributes for operation in module.body.block.ops):
        return str(module)
    block, homes = Block(), dict[Attribute, Block]()
    for operation in module.body.block.ops:
        home = operation.attributes.get(_HOME)
        if not isinstance(operation, func.FuncOp) or not isinstance(home, DictionaryAttr):
            block.add_op(operation.clone())
            continue
        if home not in homes:
            homes[home] = Block()
            block.add_op(_gpu_module(home, homes[home]))
        homes[home].add_op(_gpu_function(operation.clone()))
    return str(ModuleOp(Region(block), dict(module.attributes), module.sym_name))


def _gpu_module(home: DictionaryAttr, block: Block) -> GpuModuleOp:
    name, attributes = home.data["name"], home.data["attributes"]
    assert isinstance(name, StringAttr)
    assert isinstance(attributes, DictionaryAttr)
    return GpuModuleOp(name.data, Region(block), dict(attributes.data))


def _gpu_function(function: func.FuncOp) -> Operation:
    body = function.body
    function.detach_region(body)
    last = body.block.last_op
    assert isinstance(last, func.ReturnOp)
    body.block.insert_op_before(GpuReturnOp(), last)
    last.detach()  # type: ignore[no-untyped-call]
    attributes = {name: value for name, value in function.attributes.items() if name not in (_HOME, _KERNEL)}
    return GpuFuncOp(function.sym_name.data, body, _KERNEL in function.attributes, attributes)


#
#     %x = gpu.thread_id x ; %y = gpu.thread_id y ; %n = gpu.block_dim x          with 8 x 4 subgroups
# becomes
#     %s = gpu.subgroup_id ; %x = %s floordiv 4 ; %y = %s - %x * 4 ; %n = 8
#
# x counts rows of subgroups, as the first number of ``sg_layout`` does, and y columns; subgroup ids run row by row.


THREADS = (gpu.ThreadIdOp, gpu.BlockDimOp, gpu.GlobalIdOp, gpu.NumSubgroupsOp)
"""Operations that ask where a subgroup is, or how many there are."""


def counts_threads(function: func.FuncOp) -> Operation | None:
    """First operation of a function that uses a thread id or block size."""
    return next((operation for operation in function.walk() if isinstance(operation, THREADS)), None)


def unknown(operation: Operation) -> ShapeError:
    """Error for an unknown number of subgroups of a work-group."""
    return ShapeError("XT2025", f"{operation.name} counts subgroups, and nothing says how many a work-group has",
                      "give the gpu.func the attribute known_block_size = array<i32: 8, 4, 1>, or launch it with "
                      ".on(where, subgroups=(8, 4))",
                      author_location(operation))


def resolved(function: func.FuncOp, block: Counts) -> func.FuncOp:
    """Copy of a function with thread ids resolved for work-groups of ``block`` subgroups along x, y and z."""
    def rule(of: Callable[[Rewriter, int, Counts], SSAValue]) -> Callable[[Rewriter, Any], None]:
        def apply(build: Rewriter, operation: Any) -> None:
            build.set(operation.result, of(build, "xyz".index(operation.dimension.data.value), block))
        return apply

    count = block[0] * block[1] * block[2]
    return Rewriter({
        gpu.ThreadIdOp: rule(_thread), gpu.GlobalIdOp: rule(_global),
        gpu.BlockDimOp: rule(lambda build, axis, block: build.constant(block[axis])),
        gpu.NumSubgroupsOp: lambda build, operation: build.set(operation.result, build.constant(count)),
    }).function(function)


def _thread(build: Rewriter, axis: int, block: Counts) -> SSAValue:
    """Thread id along an axis, from the linear subgroup id."""
    linear = build.shared("subgroup", lambda: build.emit(gpu.SubgroupIdOp()))  # type: ignore[no-untyped-call]
    inner = (block[1] * block[2], block[2], 1)[axis]
    position = build.index(arith.FloorDivSIOp, linear, build.constant(inner))
    if block[axis] == 1:
        return build.constant(0)
    return position if axis == 0 else _modulo(build, position, block[axis])


def _modulo(build: Rewriter, value: SSAValue, size: int) -> SSAValue:
    """Remainder of an index by a constant."""
    multiple = build.index(arith.MuliOp, build.index(arith.FloorDivSIOp, value, build.constant(size)),
                           build.constant(size))
    return build.index(arith.SubiOp, value, multiple)


def _global(build: Rewriter, axis: int, block: Counts) -> SSAValue:
    """Global id along an axis."""
    dimension = gpu.DimensionAttr(tuple(gpu.DimensionEnum)[axis])
    group = build.shared(("group", axis), lambda: build.emit(gpu.BlockIdOp(dimension)))
    first = build.index(arith.MuliOp, group, build.constant(block[axis]))
    return build.index(arith.AddiOp, first, _thread(build, axis, block))
