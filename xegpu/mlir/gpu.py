"""``gpu.module`` and ``gpu.func`` in the form that MLIR prints, which xDSL's gpu dialect does not read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from xdsl.dialects import func, gpu, memref
from xdsl.dialects.builtin import (
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
    UnknownLoc,
    i64,
)
from xdsl.ir import Attribute, Block, BuiltinAttribute, Data, Dialect, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, NoTerminator, Pure, SymbolOpInterface, SymbolTable

from xegpu.ir.op_definition import operation_definition
from xegpu.mlir.combining_kind import check_kind
from xegpu.support.errors import Invalid, misread


@irdl_attr_definition
class ForeignAttr(Data[str], BuiltinAttribute):
    """Opaque attribute of an unregistered dialect, kept as its text: ``#spirv.entry_point_abi<>``."""

    name = "builtin.foreign"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        return parser.parse_str_literal()

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(self.data)

    def print_builtin(self, printer: Printer) -> None:
        """Print the attribute as it was read."""
        self.print_parameter(printer)


def _attributes(parser: Parser) -> dict[str, Attribute]:
    attributes = parser.parse_optional_attr_dict_with_keyword()
    return {} if attributes is None else dict(attributes.data)


def _print_attributes(printer: Printer, attributes: dict[str, Attribute]) -> None:
    if attributes:
        printer.print_string(" attributes ")
        printer.print_attribute(DictionaryAttr(attributes))


def allocate_attributions(entry: Block, count: int) -> None:
    """Make the last arguments of a kernel's entry block, its ``workgroup`` arrays, allocations at its start."""
    for argument in reversed(entry.args[-count:]):
        allocation = memref.AllocOp([], [], argument.type)  # type: ignore[arg-type]
        allocation.memref.name_hint = argument.name_hint
        if entry.first_op is None:
            entry.add_op(allocation)
        else:
            entry.insert_op_before(allocation, entry.first_op)
        argument.replace_all_uses_with(allocation.memref)
        entry.erase_arg(argument)


def allocated_in_head(operation: Operation) -> list[Operation]:
    """Allocations that are a kernel's ``workgroup`` arrays: those at its start without a location."""
    entry = operation.regions[0].first_block if isinstance(operation, GpuFuncOp) and operation.regions else None
    if entry is None:  # refused by the verifier
        return []
    first = takewhile(lambda each: isinstance(each, memref.AllocOp), entry.ops)
    return [each for each in first if isinstance(each.location, UnknownLoc)]


_RESULTS = "write what it computes to an array argument"


def check_results(kernel: func.FuncOp | GpuFuncOp) -> None:
    """Verify that a kernel returns nothing."""
    if kernel.function_type.outputs:
        raise Invalid("XT3282", f"@{kernel.sym_name.data} has results, and a kernel returns nothing\n{_RESULTS}")


@operation_definition
class GpuModuleOp(IRDLOperation):
    """``gpu.module @kernels attributes {...} { gpu.func ... }``."""

    name = "gpu.module"
    body = region_def("single_block")
    sym_name = prop_def(StringAttr)
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), SymbolTable())

    def __init__(self, name: str, body: Region, attributes: dict[str, Attribute]) -> None:
        super().__init__(properties={"sym_name": StringAttr(name)}, regions=[body], attributes=attributes)

    @classmethod
    def parse(cls, parser: Parser) -> GpuModuleOp:
        name = parser.parse_symbol_name().data
        parser.parse_optional_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_attribute)  # its targets
        attributes = _attributes(parser)
        return cls(name, parser.parse_region(()), attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        _print_attributes(printer, self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_empty_block=False)


@operation_definition
class GpuFuncOp(IRDLOperation):
    """``gpu.func @kernel(%A: memref<64x64xf16>) kernel attributes {known_block_size = array<i32: 8, 4>} { ... }``."""

    name = "gpu.func"
    body = region_def()
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    kernel = opt_prop_def(UnitAttr)
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(self, name: str, body: Region, kernel: bool, attributes: dict[str, Attribute],
                 results: Sequence[Attribute] = ()) -> None:
        type_ = FunctionType.from_lists([argument.type for argument in body.blocks[0].args], results)
        super().__init__(properties={"sym_name": StringAttr(name), "function_type": type_,
                                     "kernel": UnitAttr() if kernel else None},
                         regions=[body], attributes=attributes)

    @classmethod
    def parse(cls, parser: Parser) -> GpuFuncOp:
        name = parser.parse_symbol_name().data

        def argument() -> Parser.Argument:
            parsed = parser.parse_argument()
            parser.parse_optional_attr_dict()  # what a host compiler notes about an argument
            parser.parse_optional_location()
            return parsed

        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        results: Sequence[Attribute] = ()
        if parser.parse_optional_punctuation("->"):
            types = parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
            results = [parser.parse_type()] if types is None else types
        shared: list[Parser.Argument] = []
        if parser.parse_optional_keyword("workgroup"):
            shared = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
            if wrong := next((each for each in shared if not isinstance(each.type, MemRefType)), None):
                misread(parser, "XT3280", f"an array of a work-group is a memref, not {wrong.type}\n"
                        "write workgroup(%s : memref<64x32xf16, 3>)")
        if parser.parse_optional_keyword("private"):
            misread(parser, "XT3280", "gpu.func takes no private(...) arrays here\n"
                    "keep numbers in vectors; what all subgroups share is in workgroup(%s : memref<64x32xf16, 3>)")
        kernel = parser.parse_optional_keyword("kernel") is not None
        attributes = _attributes(parser)
        body = parser.parse_region([*arguments, *shared])
        if shared:
            allocate_attributions(body.blocks[0], len(shared))
        return cls(name, body, kernel, attributes, results)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name.data)
        with printer.in_parens():
            printer.print_list(self.body.block.args, printer.print_block_argument)
        if self.kernel is not None:
            printer.print_string(" kernel")
        _print_attributes(printer, self.attributes)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_block_terminators=True)

    def verify_(self) -> None:
        if not isinstance(self.body.block.last_op, GpuReturnOp):
            raise Invalid("XT3281",
                          f"{self.sym_name.data} does not end with gpu.return\nadd gpu.return as its last line")
        returned, wanted = list(self.body.block.last_op.operand_types), list(self.function_type.outputs)
        if self.kernel is not None:
            check_results(self)
        if self.kernel is None and returned != wanted:
            raise Invalid("XT3282", f"@{self.sym_name.data} returns ({', '.join(map(str, returned))}), and has results "
                          f"({', '.join(map(str, wanted))})\nreturn a value of each type behind the arrow")


@operation_definition
class GpuReturnOp(IRDLOperation):
    """``gpu.return``: the terminator of a kernel, or of a function with results."""

    name = "gpu.return"
    values = var_operand_def(Attribute)
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, values: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[list(values)])

    def verify_(self) -> None:
        function = self.parent_op()
        if self.values and isinstance(function, GpuFuncOp) and function.kernel is not None:
            raise Invalid("XT3282", f"a kernel returns nothing\n{_RESULTS}")


@operation_definition
class SubgroupReduceOp(IRDLOperation):
    """Reduction over the lanes of a subgroup, which all get it: ``gpu.subgroup_reduce add %v : (f32) -> f32``."""

    name = "gpu.subgroup_reduce"
    kind = prop_def(StringAttr)
    uniform = opt_prop_def(UnitAttr)
    cluster_size = opt_prop_def(IntegerAttr)
    source = operand_def(Attribute)
    result = result_def(Attribute)
    traits = traits_def(Pure())

    @classmethod
    def parse(cls, parser: Parser) -> SubgroupReduceOp:
        """Parse ``add %v uniform cluster(size = 4, stride = 2) : (f32) -> f32``."""
        properties: dict[str, Attribute] = {"kind": StringAttr(parser.parse_identifier())}
        source = parser.parse_unresolved_operand()
        if parser.parse_optional_keyword("uniform"):
            properties["uniform"] = UnitAttr()
        if parser.parse_optional_keyword("cluster"):
            sizes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _cluster_field(parser))
            properties["cluster_size"] = IntegerAttr(sizes[0], i64)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type_ = parser.parse_type()
        if not isinstance(type_, FunctionType) or len(type_.inputs) != 1 or len(type_.outputs) != 1:
            misread(parser, "XT2035", "its types are missing\nwrite : (f32) -> f32")
        return cls.create(operands=[parser.resolve_operand(source, type_.inputs.data[0])],
                          result_types=[type_.outputs.data[0]], properties=properties, attributes=attributes)

    def verify_(self) -> None:
        check_kind(self.kind.data)
        if self.source.type != self.result.type:
            raise Invalid("XT3641", f"{self.source.type} of each lane is reduced to the same, not to "
                          f"{self.result.type}\nchange the type of the result")
        if self.cluster_size is not None:
            raise Invalid("XT3639", "clusters of lanes are not reduced\n"
                          "reduce over the subgroup, without cluster(...); or store the block, and load its parts")


def _cluster_field(parser: Parser) -> int:
    parser.parse_identifier()
    parser.parse_punctuation("=")
    return parser.parse_integer()


_OWN = (GpuModuleOp, GpuFuncOp, GpuReturnOp, SubgroupReduceOp)
_NAMES = {operation.name for operation in _OWN}

Gpu = Dialect("gpu", [*(operation for operation in gpu.GPU.operations if operation.name not in _NAMES), *_OWN],
              list(gpu.GPU.attributes))
"""The gpu dialect with these operations instead of xDSL's."""
