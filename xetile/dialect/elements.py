"""What a verifier demands of elements and of how they lie in memory (XeTile.md): types, ``order``, ``padding``."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import FloatAttr, IntegerAttr, VectorType
from xdsl.ir import Attribute

from xegpu.ir.dtypes import DType, i1, of_mlir
from xegpu.support.errors import ElementTypeError, Invalid
from xegpu.target.targets import TARGETS
from xetile.dialect.attributes import TileParameters


def _dtype(element: Attribute) -> DType:
    """The element type of an MLIR type; a verifier's error for one that the language lacks."""
    try:
        return of_mlir(element)
    except ElementTypeError as error:
        raise Invalid.of(error) from None


def verify_element(tile: TileParameters) -> None:
    """Raise unless the language has a tile's element type."""
    _dtype(tile.element_type)


def verify_order(tile: TileParameters, what: str, sizes: Sequence[int | None], strides: Sequence[int | None],
                 *, described: bool) -> None:
    """Raise where ``order`` contradicts what is known of the matrix below a tile (XeTile.md, Appendix 1).

    Args:
        tile: the tile.
        what: how messages call what it stands on.
        sizes, strides: rows and columns of the matrix, and elements from one to the next; None where they are known
            at run time only, when launches check them.
        described: whether operands say them; then rows need not be contiguous, as those of a run-time array need not.
    """
    (rows, columns), (down, across) = sizes, strides
    blocked = tile.encoding.inner_blocks is not None  # ``order`` then says how a block is read, not how it lies
    if tile.encoding.order == (1, 0) and not described and not blocked and down == 1 and across not in (None, 1) \
            and columns != 1:
        raise Invalid("XT2130",
                      f"the tile has order [1, 0], and its {what} is stored column by column: its strides are "
                      f"[{down}, {across}]\ngive the tile order = [0, 1], or the {what} a row-major layout")
    if tile.encoding.order == (0, 1) and down not in (None, 1) and rows != 1:
        raise Invalid("XT2131",
                      f"the tile has order [0, 1], and its {what} is not stored column by column: its strides "
                      f"are [{down}, {'?' if across is None else across}]\ndrop the order, or give a memref "
                      "the layout affine_map<(d0, d1) -> (d1, d0)>, an address the strides [1, pitch]")


def verify_padding(padding: Attribute, tile: TileParameters) -> None:
    """Raise unless a padding is a number of the tile's element type."""
    dtype = tile.dtype
    if not isinstance(padding, FloatAttr if dtype.is_float else IntegerAttr) or padding.type != dtype.mlir:  # type: ignore
        raise Invalid("XT2132", f"padding is {padding}, and the tile has elements of {dtype}\n"
                      f"give a number that {dtype} holds")
    if dtype.is_float or not isinstance(padding, IntegerAttr):
        return
    number = padding.value.data
    if number not in limits_of(dtype):
        raise Invalid("XT1125", f"padding {number} does not fit {dtype}\ngive a whole number that {dtype} holds")


def limits_of(dtype: DType) -> range:
    """The whole numbers that an integer type holds."""
    if dtype is i1:
        return range(-1, 2)  # MLIR's true is -1
    low = -(1 << dtype.bits - 1) if dtype.signed else 0
    return range(low, low + (1 << dtype.bits))


def verify_product_types(a: Attribute, b: Attribute, result: Attribute) -> None:
    """Raise unless some target multiplies vectors of these element types, and adds up in that of the result."""
    kinds = [_dtype(type_.element_type) for type_ in (a, b, result) if isinstance(type_, VectorType)]
    forms = [form for target in TARGETS.values() for form in target.forms]
    sums = {kind for form in forms if [form.a, form.b] == kinds[:2] for kind in form.accumulators}
    if not sums:
        pairs = ", ".join(sorted({f"{form.a} x {form.b}" for form in forms}))
        raise Invalid("XT1251", f"no matrix engine multiplies {kinds[0]} by {kinds[1]}\ntile_mma takes {pairs}")
    if kinds[2] not in sums:
        names = " or ".join(sorted(map(str, sums)))
        raise Invalid("XT1252", f"{kinds[0]} by {kinds[1]} does not accumulate in {kinds[2]}\n"
                      f"make the result of {names}")
