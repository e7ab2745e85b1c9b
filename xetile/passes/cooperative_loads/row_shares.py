"""Shares of operands that are read row by row, on targets without 2D block IO.

    %b = load_tile %t : tile<32x128xbf16, wg_map<sg_layout = [8, 4], sg_data = [32, 32]>>        bf16, 32 subgroups
is loaded in shares of
    wg_map<sg_layout = [8, 4], sg_data = [4, 32]>            4 messages for rows of memory, 4 to shared local memory

Without 2D block IO each row of an operand takes a message, its address an instruction, and each word of B two moves,
in every subgroup that multiplies it. A share has registers as DPAS takes them, and the operands come back from shared
local memory by messages of eight registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xegpu.ir.dtypes import DType, element_type
from xegpu.mlir.vector import shape_of
from xegpu.target.targets import Target
from xetile.dialect.mma import TileMmaOp
from xetile.dialect.wg_map import Pair, WgMap

_LEAST_PRODUCTS = 8
"""The fewest instructions of the matrix engine in a step of a subgroup for which a barrier in each step pays."""
_POWERS = (1, 2, 4, 8, 16, 32, 64)
_LINE = 128
"""Bytes of a row that one message brings, as a share has them."""
_REGISTERS = 8
"""Registers that a message moves to shared local memory."""


def row_shares(shape: Pair, dtype: DType, side: str, map_: WgMap, target: Target) -> WgMap | None:
    """The map in which subgroups load operand ``a`` or ``b`` in equal shares, of those with the fewest messages.

    None where no block of it is a share: if there were fewer blocks than subgroups, some would load the same, and which
    ones is not known when bounds are checked before the loop.
    """
    if not target.multiplies(dtype, dtype) or (form := target.mma_shape(dtype, dtype)).engine != "dpas":
        return None
    unit = (1, form.k) if side == "a" else (32 // dtype.bits, target.subgroup_size)
    wanted = prod(shape) // map_.subgroups
    found = [(rows, columns) for rows in _POWERS for columns in (unit[1] * count for count in _POWERS)
             if rows * columns == wanted and not (rows % unit[0] or shape[0] % rows or shape[1] % columns)]
    if not found or wanted * map_.subgroups != prod(shape):
        return None
    data = min(found, key=lambda share: (_messages(share, dtype, side, unit[1]), -share[0]))
    return WgMap((shape[0] // data[0], shape[1] // data[1]), data)


def pays_by_rows(products: Sequence[TileMmaOp], target: Target) -> bool:
    """Whether shares pay for the barrier of a step: of both operands of a product, which has enough to multiply.

    Args:
        products: one of each operand that is shared.
        target: its lanes.
    """
    shared = [product for product in products if products.count(product) > 1]
    if not shared or (map_ := shared[0].wg_map) is None:
        return False
    (rows, columns), (_, depth) = map_.data.sg_data, shape_of(shared[0].a)
    steps = depth // target.mma_shape(element_type(shared[0].a.type), element_type(shared[0].b.type)).k
    return rows * columns * steps >= _LEAST_PRODUCTS * max(target.repeat_counts) * target.subgroup_size


def _messages(share: Pair, dtype: DType, side: str, width: int) -> int:
    """Messages that bring a share from memory, row by row, and to shared local memory, block by block."""
    (rows, columns), blocks = share, share[1] // width
    if side == "a":  # a row of each block of K fills a register
        return rows * blocks + blocks * -(-rows // _REGISTERS)
    registers = rows * dtype.bits // 32
    return rows * -(-columns * dtype.bytes // _LINE) + blocks * -(-registers // _REGISTERS)
