"""``gpu.module`` and ``gpu.func`` to the functions that the passes work on, and back for printing.

    gpu.module @m attributes {a} { gpu.func @f(%A: memref<64x64xf16>) kernel attributes {b} { ... gpu.return } }
becomes
    func.func @f(%A: memref<64x64xf16>) attributes {b, gpu.module = {name = "m", attributes = {a}}, gpu.kernel} {...}
and is printed as it was, at every stage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, UnitAttr
from xdsl.dialects.builtin import i32 as i32_type
from xdsl.dialects.builtin import i64 as i64_type
from xdsl.ir import Attribute, Block, Operation, Region

from xegpu.mlir.gpu import GpuFuncOp, GpuModuleOp, GpuReturnOp
from xetile.text.host import Counts, Launch

_HOME, _KERNEL = "gpu.module", "gpu.kernel"
SUBGROUPS = "xegpu.subgroups"
_BLOCK_SIZES = ("known_block_size", "gpu.known_block_size")
_GRID_SIZES = ("known_grid_size", "gpu.known_grid_size")


def functions(module: ModuleOp, host: Mapping[tuple[str, str], Launch]) -> list[func.FuncOp]:
    """The kernels of a module that was read, as functions; those of a gpu.module keep where they were.

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
    home = DictionaryAttr({"name": module.sym_name, "attributes": DictionaryAttr(dict(module.attributes))})
    for operation in module.body.block.ops:
        if not isinstance(operation, GpuFuncOp):
            continue
        launch = host.get((module.sym_name.data, operation.sym_name.data))
        attributes = {**operation.attributes, **_known(operation.attributes, launch), _HOME: home}
        if operation.kernel is not None:
            attributes[_KERNEL] = UnitAttr()
        yield _function(operation, attributes)


def _known(attributes: Mapping[str, Attribute], launch: Launch | None) -> dict[str, Attribute]:
    """What a launch tells of a kernel that the kernel does not say itself, and the subgroups of its work-groups."""
    told: dict[str, Attribute] = {}
    if launch is not None and launch.threads and not any(name in attributes for name in _BLOCK_SIZES):
        told["known_block_size"] = DenseArrayBase.from_list(i32_type, launch.threads)
    if launch is not None and launch.blocks and not any(name in attributes for name in _GRID_SIZES):
        told["known_grid_size"] = DenseArrayBase.from_list(i32_type, launch.blocks)
    counts = _counts({**attributes, **told}, _BLOCK_SIZES)
    if counts is not None and SUBGROUPS not in attributes:
        told[SUBGROUPS] = ArrayAttr([IntegerAttr(size, i64_type) for size in (counts[0], counts[1] * counts[2])])
    return told


def _counts(attributes: Mapping[str, Attribute], names: tuple[str, ...]) -> Counts | None:
    given = next((attributes[name] for name in names if name in attributes), None)
    if not isinstance(given, DenseArrayBase):
        return None
    x, y, z = (*(int(size) for size in given.get_values()), 1, 1, 1)[:3]
    return x, y, z


def block_size(function: func.FuncOp) -> Counts | None:
    """Subgroups of a work-group along x, y and z, if the text says them."""
    return _counts(function.attributes, _BLOCK_SIZES)


def grid_size(function: func.FuncOp) -> Counts | None:
    """Work-groups of a launch along x, y and z, if the text says them."""
    return _counts(function.attributes, _GRID_SIZES)


def _function(kernel: GpuFuncOp, attributes: Mapping[str, Attribute]) -> func.FuncOp:
    body = kernel.body
    kernel.detach_region(body)
    last = body.block.last_op
    assert isinstance(last, GpuReturnOp)  # it verifies
    end = func.ReturnOp()
    end.location = last.location
    body.block.insert_op_before(end, last)
    last.detach()  # type: ignore[no-untyped-call]
    made = func.FuncOp(kernel.sym_name.data, ([argument.type for argument in body.block.args], []), body)
    made.attributes.update(attributes)
    made.location = kernel.location
    return made


def printed(module: ModuleOp) -> str:
    """A module as text, kernels of a gpu.module as they were read."""
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
