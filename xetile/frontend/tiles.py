"""Memory values of a kernel: array arguments and tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from xdsl.ir import SSAValue

from xegpu.ir.dtypes import ELEMENTS, DType
from xegpu.support.errors import ElementTypeError, RankError
from xegpu.support.location import Location
from xegpu.support.notes import notes_at
from xetile.dialect.tile_ops import text, tile_of
from xetile.dialect.types import TileEncoding
from xetile.dialect.wg_map import WgMap
from xetile.frontend.ssa_value import Value
from xetile.frontend.tracer import current
from xetile.frontend.values import Scalar, Vector


class Addressed(Value):
    """Base of values that refer to memory and have no arithmetic."""

    __slots__ = ()

    def _no_arithmetic(self, *others: object) -> NoReturn:
        """Raise for an arithmetic operator."""
        raise ElementTypeError("XT1123", f"a {self.describe()} takes no part in arithmetic",
                               "calculate with vectors and run-time numbers: xt.load_tile(tile) gives a vector, "
                               "array.shape and array.strides give numbers", current("arithmetic").location())

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_arithmetic
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __and__ = __or__ = __xor__ = _no_arithmetic
    __lshift__ = __rshift__ = __neg__ = __pos__ = __invert__ = __abs__ = _no_arithmetic


class Tile(Addressed):
    """Tile: a 2D window on an array, an address without data.

    Attributes:
        shape: rows and columns.
        dtype: the element type.
        wg_map: distribution to the subgroups, None on a subgroup's tile.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return tile_of(self.ssa).shape

    @property
    def blocked_shape(self) -> tuple[int, ...]:
        """Shape of the vectors that are loaded and stored: 4D with ``inner_blocks``."""
        return tile_of(self.ssa).blocked_shape()

    @property
    def dtype(self) -> DType:
        """The element type."""
        return tile_of(self.ssa).dtype

    @property
    def encoding(self) -> TileEncoding:
        """Order, work-group map and inner blocks."""
        return tile_of(self.ssa).encoding

    @property
    def wg_map(self) -> WgMap | None:
        """Distribution of the tile to the subgroups."""
        return self.encoding.wg_map

    def describe(self) -> str:
        return f"{'scattered ' if self.encoding.scatter else ''}tile of {text(self.shape)} {self.dtype}"


class LineTile(Tile):
    """Tile of one dimension: part of a row, which is loaded and stored as a vector of one dimension.

    Attributes:
        shape: its length, in a tuple.
    """

    __slots__ = ()

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape: a tuple of the length."""
        return (tile_of(self.ssa).shape[1],)


@dataclass(frozen=True)
class RowTile:
    """Tile of rows of an array that an index vector names. It is several values, which a loop carries each by itself.

    Attributes:
        array: the array.
        lead: indices of the matrix, where the array is a batch.
        indices: the rows, a column.
        column: the first column.
        shape: rows and columns.
        wg_map: distribution to the subgroups.
    """

    array: Array
    lead: tuple[Scalar, ...]
    indices: Vector
    column: Scalar
    shape: tuple[int, int]
    wg_map: WgMap | None = None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.array.dtype

    def describe(self) -> str:
        """Kind, shape and element type, for messages."""
        return f"tile of {self.shape[0]} rows, {text(self.shape)} {self.dtype}"


class Array(Addressed):
    """Array argument of a kernel.

    Attributes:
        name: the parameter's name.
        rank: number of dimensions.
        dtype: the element type it is read as.
        shape, strides: run-time sizes and strides in elements.
    """

    __slots__ = ("_metadata", "dtype", "name", "rank")

    def __init__(self, ssa: SSAValue, name: str, rank: int, dtype: DType, metadata: Any = None) -> None:
        super().__init__(ssa)
        self.name, self.rank, self.dtype = name, rank, dtype
        self._metadata = metadata

    def describe(self) -> str:
        return f"{self.rank}-dimensional array of {self.dtype}"

    def number_hint(self) -> str:
        if self.rank:
            return ""
        return f"its element is xt.load_scalar({self.name}, ()); or launch with the number, {self.name}.item()"

    def of_rank(self, rank: int) -> str:
        """Hint for an array of more dimensions."""
        if (self.rank, rank) == (1, 2):
            return f"launch with {self.name}.reshape(1, -1), a row, or {self.name}.reshape(-1, 1), a column"
        return f"launch with {self.name}.reshape({'1, ' * (rank - self.rank)}*{self.name}.shape)"

    def definition(self) -> list[tuple[str, Location | None]]:
        """Origin of the tile, for a note of a message."""
        return [(f"{self.name} is passed here", Location.of_definition(current().code))]

    def seen_as(self, ssa: SSAValue, dtype: DType) -> Array:
        """Reinterpret the array as another element type, with the same sizes."""
        return Array(ssa, self.name, self.rank, dtype, self.metadata())

    def metadata(self) -> tuple[list[SSAValue], list[SSAValue]]:
        """SSA values of sizes and strides."""
        if self._metadata is None:
            self._metadata = current("an array's shape").metadata(self.ssa, self.name)
        return self._metadata  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[Scalar, ...]:
        """Run-time sizes, in elements."""
        return tuple(Scalar(size) for size in self.metadata()[0])

    @property
    def strides(self) -> tuple[Scalar, ...]:
        """Run-time strides, in elements."""
        return tuple(Scalar(stride) for stride in self.metadata()[1])


class SubByteArray(Addressed):
    """Array argument of 4-bit integers, two in a byte along one dimension.

    Attributes:
        array: the array of bytes.
        dtype: i4 or u4.
        axis: the dimension along which a byte holds two, 0 or 1 of the last two.
        shape, strides: run-time sizes and strides in elements.
    """

    __slots__ = ("array", "axis", "dtype")

    def __init__(self, array: Array, packed: int) -> None:
        super().__init__(array.ssa)
        self.array, self.axis, self.dtype = array, packed + 2, ELEMENTS[array.dtype]

    def clone(self) -> SubByteArray:
        return type(self)(self.array, self.axis - 2)

    def describe(self) -> str:
        return f"{self.array.rank}-dimensional array of {self.dtype}"

    @property
    def name(self) -> str:
        """The parameter's name."""
        return self.array.name

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.array.rank

    @property
    def shape(self) -> tuple[Scalar, ...]:
        """Run-time sizes, in elements."""
        return tuple(size * 2 if axis == self.axis else size
                     for axis, size in enumerate(self.array.shape, 2 - self.rank))

    @property
    def strides(self) -> tuple[Scalar, ...]:
        """Run-time strides, in elements."""
        return tuple(stride if axis == self.axis else stride * 2
                     for axis, stride in enumerate(self.array.strides, 2 - self.rank))


def check_rank(array: Array, rank: int, what: str) -> None:
    """Check that ``array`` has at least ``rank`` dimensions."""
    if array.rank < rank:
        location = current().location()
        line = f", or make a tile of one dimension: xt.init_tile({array.name}, (n,), (64,))" if array.rank == 1 else ""
        raise RankError("XT1102", f"{what} takes an array of {rank} dimensions or more, and {array.name} has "
                        f"{array.rank} dimension{'' if array.rank == 1 else 's'}", f"{array.of_rank(rank)}{line}",
                        location, notes_at(location, array.definition()))
