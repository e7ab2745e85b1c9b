"""Concatenated operands: a product with a concatenation of loads becomes products with the loads.

    %b = insert_strided_slice %b1, (insert_strided_slice %b0, %zeros [0, 0]) [0, 16] : vector<64x32xbf16>
    %c = tile_mma %a, %b, %acc : vector<16x32xf32>
becomes
    %c0 = tile_mma %a, %b0, (extract_strided_slice %acc [0, 0]) : vector<16x16xf32>
    %c1 = tile_mma %a, %b1, (extract_strided_slice %acc [0, 16]) : vector<16x16xf32>
    %c = insert_strided_slice %c1, (insert_strided_slice %c0, %zeros2 [0, 0]) [0, 16]
and where %b0 and %b1 are rows of %b
    %c0 = tile_mma (extract_strided_slice %a [0, 0]), %b0, %acc
    %c = tile_mma (extract_strided_slice %a [0, 16]), %b1, %c0

So are keys and values of several pages of a cache. Each load is then operand B by itself, in messages of one: in VNNI
form, and transposed, if the vector is transposed before the product (``%b = tile_transpose %v`` has columns where %v
has rows). In registers it would be moved element by element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.dialects.vector import BroadcastOp
from xdsl.ir import Operation, SSAValue

from xegpu.ir.dtypes import of_mlir
from xegpu.mlir.vector import ExtractStridedSliceOp, InsertStridedSliceOp, shape_of, values_of, vector_type
from xegpu.passes.distribute_lanes.operand_roles import CONVERSIONS
from xegpu.rewrite.dce import erase
from xegpu.rewrite.inserter import Inserter, rewrite_in_place
from xegpu.target.targets import Target
from xetile.dialect.gather_scatter import LoadGatherOp
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.tile_ops import LoadTileOp
from xetile.dialect.vector import TileTransposeOp, element_of
from xetile.dialect.wg_map import Pair


@dataclass(frozen=True)
class ConcatenatedOperands:
    """Pass ``concatenated-operands``.

    Attributes:
        target: whose products take the parts.
    """

    target: Target

    def apply(self, module: ModuleOp) -> ModuleOp:
        """The module with such products split; the module itself if there are none."""
        return rewrite_in_place(module, _products, self._parts, _split, erases=True)

    def _parts(self, product: TileMmaOp) -> _Parts | None:
        """The parts of operand B, if there is a product by each of them; None if it is in one piece."""
        parts = _parts_of(product.b)
        if parts is None or any(part.type == product.b.type for _, part in parts.each):
            return None
        types = [of_mlir(element_of(value)) for value in (product.a, product.b, product.result)]
        unit = self.target.subgroup_size if parts.axis else self.target.mma_shape(*types).k
        return None if any(size % unit for size in parts.sizes) else parts


def _products(around: Operation) -> Iterator[TileMmaOp]:
    return (operation for operation in around.walk() if isinstance(operation, TileMmaOp) and isinstance(
        _concatenation(operation.b).owner, InsertStridedSliceOp))


def _concatenation(value: SSAValue) -> SSAValue:
    """The value before a transposition, or the value itself."""
    return value.owner.source if isinstance(value.owner, TileTransposeOp) else value


@dataclass(frozen=True)
class _Parts:
    """Parts of operand B, in the order in which they lie.

    Attributes:
        axis: the dimension of the operand along which they follow each other.
        each: where each begins, and the part.
        transposed: whether the parts are transposed first.
    """

    axis: int
    each: tuple[tuple[int, SSAValue], ...]
    transposed: bool

    @property
    def sizes(self) -> list[int]:
        """Rows or columns of each part in the operand."""
        return [shape_of(part)[self.axis ^ self.transposed] for _, part in self.each]


def _parts_of(operand: SSAValue) -> _Parts | None:
    """The loads that an operand is put together from; None if it is something else."""
    value = whole = _concatenation(operand)
    found: list[tuple[Pair, SSAValue]] = []
    while isinstance(insert := value.owner, InsertStridedSliceOp):
        row, column = values_of(insert.offsets)
        found.append(((row, column), insert.source))
        value = insert.dest
    shape, parts = shape_of(whole), [part for _, part in found]
    axis = 0 if any(row for (row, _), _ in found) else 1
    each = tuple(sorted(((offsets[axis], part) for offsets, part in found), key=lambda pair: pair[0]))
    ends = [first + shape_of(part)[axis] for first, part in each]
    if [first for first, _ in each] != [0, *ends[:-1]] or ends[-1] != shape[axis] or \
            not all(_is_loaded(part) and shape_of(part)[1 - axis] == shape[1 - axis] for part in parts):
        return None
    transposed = whole is not operand
    return _Parts(axis ^ transposed, each, transposed)


def _is_loaded(value: SSAValue) -> bool:
    """Whether a value is a load's result, or a transpose or a conversion of one."""
    owner = value.owner
    if isinstance(owner, Operation) and isinstance(owner, (TileTransposeOp, *CONVERSIONS)):
        return _is_loaded(owner.operands[0])
    return isinstance(owner, (LoadTileOp, LoadGatherOp))


def _split(inserter: Inserter, product: TileMmaOp, parts: _Parts) -> None:
    """Put products by the parts in the place of a product."""
    def insert(operation: Operation) -> SSAValue:
        return inserter.before(product, operation)

    rows, element = shape_of(product.result)[0], element_of(product.result)
    result = product.acc  # of products by columns each gets a part: all of it is replaced
    if result is None and parts.axis:
        zero: Any = (FloatAttr if of_mlir(element).is_float else IntegerAttr)(0, element)  # type: ignore[call-overload]
        result = insert(BroadcastOp(insert(arith.ConstantOp(zero)), product.result.type))
    for (first, part), size in zip(parts.each, parts.sizes, strict=True):
        b = insert(TileTransposeOp(part)) if parts.transposed else part
        if parts.axis:
            assert result is not None
            acc = None if product.acc is None else insert(ExtractStridedSliceOp(product.acc, (0, first), (rows, size)))
            some = insert(TileMmaOp(product.a, b, acc, vector_type((rows, size), element)))
            result = insert(InsertStridedSliceOp(some, result, (0, first)))
        else:
            a = insert(ExtractStridedSliceOp(product.a, (0, first), (rows, size)))
            result = insert(TileMmaOp(a, b, result, product.result.type))
    assert result is not None
    result.name_hint = product.result.name_hint
    product.result.replace_all_uses_with(result)
    erase(product)
