"""Semantics of XeGPU operations: the same on whole blocks and on the fragments of all lanes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import VectorType
from xdsl.ir import SSAValue

from xegpu.dialect.block_io import LoadNdOp, StoreNdOp
from xegpu.dialect.convert_layout import ConvertLayoutOp
from xegpu.dialect.dpas import DpasOp
from xegpu.dialect.types import BlockTdesc, TensorDesc, TensorDescType
from xegpu.dialect.vector import PackOp
from xegpu.interpreter.interpreter import TileView
from xegpu.interpreter.semantics import SEMANTICS
from xegpu.ir import dtypes
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xegpu.layout.vnni import from_vnni

SHAPES = [(16, "bf16", "f32", (8, 16, 16)), (16, "f16", "f16", (4, 16, 16)), (16, "tf32", "f32", (8, 16, 8)),
          (16, "i8", "i32", (8, 16, 32)), (8, "bf16", "f32", (8, 8, 16)), (8, "u8", "i32", (2, 8, 32))]


def value(type_: Any) -> SSAValue:
    return xdsl_test.TestOp(result_types=[type_]).results[0]


def run(operation: Any, *operands: Any, lanes: bool = False) -> Any:
    machine = SimpleNamespace(batch=3 if lanes else 2, active=None, lanes=None)
    return SEMANTICS[type(operation)](machine, operation, operands)


def numbers(dtype: str, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    element = dtypes.of(dtype)
    low = 0 if element.kind == "u" else -5
    return np.random.default_rng(seed).integers(low, 6, (2, 3, *shape)).astype(element.compute)


@pytest.mark.parametrize(("lanes", "dtype", "acc", "size"), SHAPES)
def test_a_product_of_fragments_is_the_product_of_blocks(lanes: int, dtype: str, acc: str,
                                                         size: tuple[int, int, int]) -> None:
    (m, n, k), bits = size, dtypes.of(dtype).bits
    maps = lane_map.operand_a(lanes, bits), lane_map.operand_b(lanes, bits), lane_map.default(lanes, n)
    a, b, c = numbers(dtype, m, k), numbers(dtype, k, n, seed=1), numbers(acc, m, n, seed=2)
    element, total = dtypes.of(dtype).mlir, dtypes.of(acc).mlir
    whole = DpasOp(*(value(VectorType(t, x.shape[-2:])) for t, x in ((element, a), (element, b), (total, c))))
    expected = run(whole, a, b, c)
    np.testing.assert_array_equal(expected, a.astype(np.float64) @ b.astype(np.float64) + c)
    parts = [lane_map.scatter(x, map_) for x, map_ in zip((a, b, c), maps, strict=True)]
    types = [VectorType(t, x.shape[-2:]) for t, x in zip((element, element, total), parts, strict=True)]
    spread = DpasOp(*(value(t) for t in types), None, maps)
    spread.verify()
    assert spread.sizes() == (m, n, k)
    np.testing.assert_array_equal(lane_map.gather(run(spread, *parts, lanes=True), (m, n), maps[2]), expected)


@pytest.mark.parametrize("dtype", ["bf16", "i8"])
def test_packing_a_block_and_packing_its_fragments_agree(dtype: str) -> None:
    element = dtypes.of(dtype)
    factor = 32 // element.bits
    block = numbers(dtype, 8 * factor, 16)
    packed = run(PackOp(value(VectorType(element.mlir, block.shape[-2:]))), block)
    np.testing.assert_array_equal(from_vnni(packed), block)
    np.testing.assert_array_equal(packed[..., 3, 5, :], block[..., 3 * factor:4 * factor, 5])
    plain, vnni = lane_map.default(16, 16), lane_map.operand_b(16, element.bits)
    lanes = lane_map.scatter(block, plain)
    operation = PackOp(value(VectorType(element.mlir, lanes.shape[-2:])), vnni)
    np.testing.assert_array_equal(run(operation, lanes, lanes=True), lane_map.scatter(block, vnni))


@pytest.mark.parametrize(("source", "target", "shape"), [
    (lane_map.default(16, 16), LaneMap((2, 8)), (8, 16)),
    (lane_map.default(16, 32), lane_map.operand_a(16, 8), (8, 32)),
    (lane_map.default(8, 16), lane_map.operand_a(8, 16), (8, 16)),
    (LaneMap((2, 8)), lane_map.default(16, 16), (4, 16))])
def test_a_converted_layout_holds_the_same_block(source: LaneMap, target: LaneMap, shape: tuple[int, int]) -> None:
    block = numbers("f32", *shape)
    fragment = VectorType(dtypes.f32.mlir, source.fragment(shape))
    operation = ConvertLayoutOp(value(fragment), source, target, shape)
    assert operation.block_shape() == shape
    found = run(operation, lane_map.scatter(block, source), lanes=True)
    np.testing.assert_array_equal(found, lane_map.scatter(block, target))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("length", [1, 2])
def test_loads_of_blocks_and_of_fragments_agree_with_the_array(length: int, packed: bool) -> None:
    array = np.arange(50 * 70).reshape(50, 70).astype(dtypes.i16.numpy)
    lanes = LaneMap((1, 16), (2, 1) if packed else (1, 1))
    rows, columns = (np.array([[-4], [30]]), np.array([[8, 60, 3]]))
    padded = np.pad(array, 64)
    block = BlockTdesc(array_length=length)
    desc = TensorDesc((16, 16), dtypes.i16.mlir, block)
    window = TileView(array, rows, columns)
    whole = run(LoadNdOp(value(TensorDescType(desc)), packed=packed), window)
    spread = run(LoadNdOp(value(TensorDescType(TensorDesc((16, 16), dtypes.i16.mlir, block, lanes)))),
                 window, lanes=True)
    for i, j, part in np.ndindex(2, 3, length):
        top, left = rows[i, 0] + 64, columns[0, j] + 64 + 16 * part
        expected = padded[top:top + 16, left:left + 16]
        found = whole[i, j, part] if length > 1 else whole[i, j]
        np.testing.assert_array_equal(from_vnni(found) if packed else found, expected)
        fragments = spread[i, j, :, part] if length > 1 else spread[i, j]
        np.testing.assert_array_equal(lane_map.gather(fragments, (16, 16), lanes), expected)


def test_a_store_of_fragments_drops_what_is_outside() -> None:
    array, lanes = np.full((20, 20), -1, np.int32), lane_map.default(16, 16)
    block = numbers("i32", 8, 16)
    operation = StoreNdOp(value(VectorType(dtypes.i32.mlir, lanes.fragment((8, 16)))),
                              value(TensorDescType(TensorDesc((8, 16), dtypes.i32.mlir, BlockTdesc(), lanes))))
    operation.verify()
    run(operation, lane_map.scatter(block[:1, :1], lanes), TileView(array, 15, -3), lanes=True)
    expected = np.full((20, 20), -1)
    expected[15:, :13] = block[0, 0, :5, 3:]
    np.testing.assert_array_equal(array, expected)
