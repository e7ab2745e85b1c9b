"""The pairs of kernel and target that a record holds, by name: ``gemm.bf16@pvc``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import xetile as xt
from benchmarks.code_snapshot import kernels
from benchmarks.code_snapshot.library import library_calls

ROOT = Path(xt.__file__).resolve().parent.parent
"""The tree whose compiler is imported: its examples and texts are recorded."""

BLOCK_IO = tuple(target.name for target in xt.TARGETS.values() if target.block_io)
DPAS8 = tuple(target.name for target in xt.TARGETS.values() if target.subgroup_size == 8)
"""Targets with matrix engines of 8 lanes and no 2D block IO."""
MOST = ("pvc", "bmg", "dg2", "cpu")
KINDS = ("pvc", "dg2", "cpu")
"""A target of each kind: with 2D block IO, with dpas alone, without either."""
ACCUMULATORS = {"bf16": "f32", "f16": "f32", "tf32": "f32", "f32": "f32", "i8": "i32", "u8": "i32"}
STEPS = {"tf32": 16, "f32": 16, "i8": 64, "u8": 64}
SMALL = {"BM": 128, "BN": 128, "sg": (8, 4)}
"""Tiles for 128 registers a thread."""


@dataclass(frozen=True)
class Pair:
    """One kernel for one target.

    Attributes:
        name: the case's name, without the target.
        target: the target's name.
        lower: compiles it: takes the target, returns what ``Kernel.lower`` returns.
    """

    name: str
    target: str
    lower: Callable[[str], Any]

    @property
    def key(self) -> str:
        """The name in a record."""
        return f"{self.name}@{self.target}"


@cache
def all_pairs() -> dict[str, Pair]:
    """Every pair by its key, in order.

    Raises:
        ValueError: two have one name.
    """
    pairs: dict[str, Pair] = {}
    for group in (_gemms, _subgroup_gemms, _cpu_gemms, _features, _examples, _library, _texts):
        for pair in group():
            if pair.key in pairs:
                raise ValueError(f"two pairs are named {pair.key}")
            pairs[pair.key] = pair
    return pairs


def spec(dtype: str, *shape: int | None, strides: tuple[int | None, ...] | None = None) -> xt.Spec:
    """An array for a kernel; a matrix of unknown size without a shape."""
    return xt.Spec(shape or (None, None), dtype, strides)


def _pairs(name: str, targets: Iterable[str], kernel: Any, *specs: Any, **constants: Any) -> Iterator[Pair]:
    def lower(target: str) -> Any:
        return kernel.lower(*specs, target=target, **constants)

    return (Pair(name, target, lower) for target in targets)


def _matrices(a: str, b: str, c: str, size: int | None = 4096) -> tuple[xt.Spec, ...]:
    return tuple(spec(dtype, size, size) for dtype in (a, b, c))


def _gemms() -> Iterator[Pair]:
    """Work-group products: element types, sizes, pitches, operands stored by columns, loop options."""
    types = [("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("f16", "f16", "f16"), ("bf16", "bf16", "bf16"),
             ("tf32", "tf32", "f32"), ("i8", "i8", "i32"), ("u8", "i8", "i32"), ("i8", "u8", "i32"),
             ("u8", "u8", "i32")]
    for a, b, c in types:
        step, plain = STEPS.get(a, 32), c == ACCUMULATORS[a] and a == b and a != "u8"
        name = f"gemm.{a}" if plain else f"gemm.{a}-{b}-{c}"
        yield from _pairs(name, BLOCK_IO if a in ("bf16", "i8") and plain else BLOCK_IO[:2], kernels.gemm,
                          *_matrices(a, b, c), BK=step, acc=getattr(xt, c))
        if a == b and c == ACCUMULATORS[a] and a not in ("tf32", "u8"):
            yield from _pairs(f"gemm_small.{a}", ("pvc", *DPAS8), kernels.gemm, *_matrices(a, b, c), **SMALL,
                              BK=step, acc=getattr(xt, c))
    for dtype in ("e4m3", "e5m2"):
        yield from _pairs(f"gemm.{dtype}", ("cri",), kernels.gemm, *_matrices(dtype, dtype, "f32"), BK=64)
    yield from _pairs("gemm_small.f32", ("pvc", "bmg", "dg2"), kernels.gemm, *_matrices("f32", "f32", "f32"), **SMALL,
                      BK=16)
    yield from _stored_by_columns()
    bf16 = "bf16", "bf16", "f32"
    yield from _pairs("gemm.dynamic", ("pvc", "bmg", "cri"), kernels.gemm, *_matrices(*bf16, None))
    yield from _pairs("gemm_small.dynamic", (*BLOCK_IO[:2], *DPAS8), kernels.gemm, *_matrices(*bf16, None), **SMALL)
    for label, strides in (("odd_pitch", (4099, 1)), ("strided", (8198, 2)), ("any_pitch", (None, 1))):
        specs = [spec(dtype, None, None, strides=strides) for dtype in bf16]
        yield from _pairs(f"gemm_small.{label}", ("pvc", "bmg", "dg2"), kernels.gemm, *specs, **SMALL)
    odd = spec("bf16", 1000, 777), spec("bf16", 777, 501), spec("f32", 1000, 501)
    yield from _pairs("gemm_small.odd_size", ("pvc", "bmg", "dg2"), kernels.gemm, *odd, **SMALL)
    even = spec("bf16", 1000, 800), spec("bf16", 800, 512), spec("f32", 1000, 512)
    yield from _pairs("gemm_small.static", ("pvc", "bmg", *DPAS8), kernels.gemm, *even, **SMALL)
    narrow = spec("bf16", 64, 26), spec("bf16", 26, 64), spec("f32", 64, 64)
    yield from _pairs("gemm_small.narrow", ("pvc", "dg2"), kernels.gemm, *narrow, BM=64, BN=64, sg=(2, 2), ahead=0)
    yield from _pairs("gemm.split_barrier", ("pvc", "bmg"), kernels.gemm, *_matrices(*bf16), barrier=1)
    yield from _pairs("gemm.split_barrier_4", ("pvc",), kernels.gemm, *_matrices(*bf16), barrier=4)
    for unroll in (1, 2, 4):
        yield from _pairs(f"gemm.unroll_{unroll}", ("pvc", "bmg"), kernels.gemm, *_matrices(*bf16), unroll=unroll)
    yield from _pairs("gemm.no_prefetch", ("pvc", "bmg"), kernels.gemm, *_matrices(*bf16), ahead=0)
    yield from _pairs("indexed_gemm", MOST, kernels.indexed_gemm, *_matrices(*bf16, None))
    yield from _pairs("transposed_gemm", MOST, kernels.transposed_gemm, *_matrices(*bf16, 1024))
    yield from _pairs("conditional_gemm", MOST, kernels.conditional_gemm, *_matrices(*bf16, None))
    yield from _pairs("table_gemm", MOST, kernels.table_gemm, spec("i64"))
    yield from _pairs("table_gemm.aligned", ("pvc", "bmg"), kernels.table_gemm, spec("i64"), aligned=True)


def _stored_by_columns() -> Iterator[Pair]:
    by_columns = (1, 4096)
    for dtype, targets in (("bf16", ("pvc", "bmg", "cri")), ("tf32", ("pvc", "bmg")), ("i8", ("pvc",))):
        for side in ("A", "B", "AB"):
            specs = [spec(dtype, 4096, 4096, strides=by_columns if name in side else None) for name in "AB"]
            acc = ACCUMULATORS[dtype]
            yield from _pairs(f"gemm.{dtype}.{side}_columns", targets, kernels.gemm, *specs, spec(acc, 4096, 4096),
                              BK=STEPS.get(dtype, 32), acc=getattr(xt, acc))
    for side in ("A", "B"):
        specs = [spec("bf16", 4096, 4096, strides=by_columns if name in side else None) for name in "AB"]
        yield from _pairs(f"gemm_small.bf16.{side}_columns", DPAS8, kernels.gemm, *specs, spec("f32", 4096, 4096),
                          **SMALL)


def _subgroup_gemms() -> Iterator[Pair]:
    """Kernels without a map: products of one subgroup, unrolled and straight loops."""
    for dtype in ("bf16", "tf32", "i8"):
        acc, step = ACCUMULATORS[dtype], STEPS.get(dtype, 32)
        yield from _pairs(f"subgroup_gemm.{dtype}", ("pvc", "bmg", "cri"), kernels.subgroup_gemm,
                          *_matrices(dtype, dtype, acc), BK=step, acc=getattr(xt, acc))
    small = {"BM": 16, "BN": 32}
    for dtype in ("bf16", "f16", "i8"):
        acc, step = ACCUMULATORS[dtype], STEPS.get(dtype, 32)
        yield from _pairs(f"subgroup_gemm_small.{dtype}", DPAS8, kernels.subgroup_gemm, *_matrices(dtype, dtype, acc),
                          BK=step, acc=getattr(xt, acc), **small)
    bf16 = "bf16", "bf16", "f32"
    for label, strides in (("dynamic", None), ("odd_pitch", (4099, 1)), ("strided", (8198, 2))):
        specs = [spec(dtype, None, None, strides=strides) for dtype in bf16]
        yield from _pairs(f"subgroup_gemm_small.{label}", ("pvc", *DPAS8), kernels.subgroup_gemm, *specs,
                          **small)
    for unroll in (1, 2, 8):
        yield from _pairs(f"subgroup_gemm_small.unroll_{unroll}", ("pvc", "dg2"), kernels.subgroup_gemm,
                          *_matrices(*bf16, None), unroll=unroll, **small)
    short = spec("bf16", 64, 64), spec("bf16", 64, 64), spec("f32", 64, 64)
    yield from _pairs("subgroup_gemm_small.short_k", ("pvc", "dg2", "arl"), kernels.subgroup_gemm, *short, **small)
    yield from _pairs("subgroup_gemm_small.onto", KINDS, kernels.subgroup_gemm, *_matrices(*bf16, None),
                      start="C", **small)
    for rows in (1, 4):
        yield from _pairs(f"subgroup_gemm_small.rows_{rows}", ("pvc", "dg2"), kernels.subgroup_gemm,
                          *_matrices(*bf16, None), BM=rows, BN=32)
    yield from _pairs("converted_gemm.i8-bf16", KINDS, kernels.converted_gemm, *_matrices("i8", "i8", "f32", None),
                      dtype=xt.bf16)
    yield from _pairs("scaled_gemm", ("cri",), kernels.scaled_gemm, spec("e4m3"), spec("e5m2"), spec("u8"), spec("u8"),
                      spec("f32"))


def _cpu_gemms() -> Iterator[Pair]:
    """Products on a CPU: micro-kernels of each type, few rows, odd columns, stores fused with the product or not."""
    cpu, tile = ("cpu",), {"BM": 64, "BN": 64}
    for a, b, c in (("bf16", "bf16", "f32"), ("f16", "f16", "f32"), ("f32", "f32", "f32"), ("tf32", "tf32", "f32"),
                    ("i8", "i8", "i32"), ("u8", "i8", "i32"), ("f16", "f16", "f16"), ("bf16", "bf16", "bf16")):
        acc = getattr(xt, c)
        yield from _pairs(f"cpu_gemm.{a}-{b}-{c}", cpu, kernels.subgroup_gemm, *_matrices(a, b, c, None), **tile,
                          acc=acc)
    f32 = "f32", "f32", "f32"
    yield from _pairs("cpu_gemm.work_group", cpu, kernels.gemm, *_matrices(*f32, None), BM=64, BN=64, sg=(2, 2),
                      ahead=0)
    yield from _pairs("cpu_gemm.prefetch", cpu, kernels.gemm, *_matrices(*f32), **SMALL)
    yield from _pairs("cpu_gemm.static", cpu, kernels.subgroup_gemm, *_matrices(*f32, 1024), **tile)
    yield from _pairs("cpu_gemm.onto", cpu, kernels.subgroup_gemm, *_matrices(*f32, None), **tile, start="C")
    yield from _pairs("cpu_gemm.bias", cpu, kernels.subgroup_gemm, *_matrices(*f32, None), **tile, bias=2.0)
    yield from _pairs("cpu_gemm.unroll", cpu, kernels.subgroup_gemm, *_matrices(*f32, None), **tile, unroll=2)
    for rows, columns in ((1, 512), (2, 256), (4, 256), (32, 80), (24, 48)):
        yield from _pairs(f"cpu_gemm.{rows}x{columns}", cpu, kernels.subgroup_gemm, *_matrices(*f32, None), BM=rows,
                          BN=columns)
    for side in ("A", "B"):
        specs = [spec("f32", None, None, strides=(1, None) if name in side else None) for name in "AB"]
        yield from _pairs(f"cpu_gemm.{side}_columns", cpu, kernels.subgroup_gemm, *specs, spec("f32"), **tile)
    strided = [spec("bf16", None, None, strides=(8198, 2))] * 2
    yield from _pairs("cpu_gemm.strided", cpu, kernels.subgroup_gemm, *strided, spec("f32"), **tile)


def _features() -> Iterator[Pair]:
    """One kernel for each feature beside the plain product."""
    f32, i32, f16 = spec("f32"), spec("i32"), spec("f16")
    targets: tuple[str, ...]
    for unroll in (None, 3):
        yield from _pairs(f"carried_rotation.{unroll or 'rolled'}", MOST, kernels.carried_rotation, f32, f32, 9,
                          steps=unroll)
    for step in (1, 2):
        yield from _pairs(f"column_sum.step_{step}", ("pvc", "bmg", "dg2"), kernels.column_sum,
                          spec("bf16", 64, 64), spec("f32", 8, 16), 3, step=step)
    for dtype in ("f32", "f16", "bf16"):
        yield from _pairs(f"elementwise.{dtype}", KINDS, kernels.elementwise, *[spec(dtype)] * 3)
    for dtype in ("i32", "i16", "u8", "i64"):
        targets = KINDS if dtype == "i32" else ("pvc", "cpu")
        yield from _pairs(f"integer_elementwise.{dtype}", targets, kernels.integer_elementwise, *[spec(dtype)] * 3)
    for dtype, kinds in (("f32", ("add", "mul", "max", "min")), ("i32", ("add", "max", "min", "and", "or", "xor")),
                         ("bf16", ("add", "max"))):
        yield from _pairs(f"reductions.{dtype}", KINDS, kernels.reductions, *[spec(dtype)] * 4, kinds=kinds)
    yield from _pairs("layout_conversion", MOST, kernels.layout_conversion, spec("i32", 16, 32),
                      spec("i32", 32, 16))
    yield from _pairs("broadcasts.f32", KINDS, kernels.broadcasts, *[f32] * 5)
    yield from _pairs("broadcasts.f16", ("pvc", "dg2"), kernels.broadcasts, *[f16] * 5, rows=24, columns=48)
    for dtype in ("f32", "bf16", "i8"):
        targets = MOST if dtype == "f32" else ("pvc", "cpu")
        yield from _pairs(f"gather_scatter.{dtype}", targets, kernels.gather_scatter, spec(dtype, None), i32,
                          spec(dtype, None))
    yield from _pairs("gather_scatter.work_group", ("pvc", "dg2"), kernels.gather_scatter, spec("f32", None), i32,
                      spec("f32", None), wg_map=xt.wg_map((2, 2), (8, 16)))
    yield from _pairs("cached_gather_scatter", (*MOST, "cri"), kernels.cached_gather_scatter, spec("f32", None),
                      spec("f32", None))
    yield from _pairs("cached_product", (*MOST, "cri"), kernels.cached_product, spec("bf16"), spec("bf16"), f32)
    yield from _pairs("atomics.i32", KINDS, kernels.atomics, *[i32] * 4, kinds=("add", "max", "min", "and", "exchange"))
    yield from _pairs("atomics.f32", KINDS, kernels.atomics, f32, f32, i32, f32, kinds=("add", "max", "mul"))
    yield from _pairs("padded_loads.f32", KINDS, kernels.padded_loads, f32, f32)
    yield from _pairs("padded_loads.i8", ("pvc", "dg2"), kernels.padded_loads, spec("i8"), spec("i8"))
    yield from _pairs("inner_blocks", KINDS, kernels.inner_blocks, f32, f32)
    yield from _pairs("bitcasts", ("pvc", "bmg", "cpu"), kernels.bitcasts, spec("u32"), f16, f32)
    yield from _pairs("barriers", MOST, kernels.barriers, f32, f32, 4)
    yield from _pairs("named_barriers", ("pvc", "bmg", "cri", "dg2"), kernels.named_barriers, f32, f32, 4)
    yield from _pairs("debug_output", ("pvc", "dg2", "cpu"), kernels.debug_output, f32, f32, 4)
    yield from _pairs("vector_transfers", MOST, kernels.vector_transfers, spec("f32", 40, 70), spec("f32", 6, 5, 40),
                      spec("f32", 100), spec("f32", 8, 9, 16), 0.5)
    yield from _pairs("vector_slice.transposed", KINDS, kernels.vector_slice, spec("f32", 40, 70), spec("f32", 16, 32),
                      indices=(20, -1), shape=(16, 32), permutation=(1, 0))
    yield from _pairs("vector_slice.4d", ("pvc", "dg2", "cpu"), kernels.vector_slice, spec("f32", 2, 9, 20, 12),
                      spec("f32", 8, 4, 16), indices=(1, 2, 3, 5), shape=(8, 4, 16), permutation=(3, 1, 2))
    yield from _pairs("layernorm", KINDS, kernels.layernorm, f16, spec("f32", 1, None), f16)
    yield from _pairs("running_max", KINDS, kernels.running_max, f16, f32)


def _examples() -> Iterator[Pair]:
    """The kernels of examples/, with the tile sizes that they choose for a target."""
    bf16, f16, f32 = spec("bf16"), spec("f16"), spec("f32")
    batch = [spec(dtype, None, None, None) for dtype in ("bf16", "bf16", "f32")]
    heads = [spec(dtype, None, None, 64) for dtype in ("bf16", "bf16", "bf16", "f32")]
    row, column = spec("f32", 1, None), spec("f32", None, 1)
    for name, specs, constants in (
            ("batched_gemm", batch, {}), ("flash_attention", heads, {}), ("flash_attention", heads, {"causal": True}),
            ("gemm_gelu", [f16, f16, row, f16], {}), ("gemm_reduce", [bf16, bf16, row, column], {}),
            ("gemm_slm", [bf16, bf16, f32], {}), ("gemm_transposed", [bf16, bf16, f32], {}),
            ("gemm_two_levels", [bf16, bf16, f32], {}), ("split_k", [bf16, bf16, f32], {}),
            ("softmax", [f16, f16], {}), ("gemm_subgroup", [bf16, bf16, f32], {})):
        label = "".join(f".{option}" for option in constants)
        lower, targets = partial(_lower_example, name, specs, constants), MOST if "gemm" in name else KINDS
        yield from (Pair(f"examples.{name}{label}", target, lower) for target in targets)


_EXAMPLE_KERNELS = {"flash_attention": "attention", "gemm_subgroup": "gemm"}
"""Kernels that are not named as their file."""


def _lower_example(name: str, specs: list[xt.Spec], constants: dict[str, Any], target: str) -> Any:
    module = example(name)
    if name == "gemm_subgroup":
        sizes = {"M": 8, "N": 64} if target in (*DPAS8, "cpu") else {}
    else:
        sizes = module.constants(target) if hasattr(module, "constants") else {}
    return getattr(module, _EXAMPLE_KERNELS.get(name, name)).lower(*specs, target=target, **sizes, **constants)


@cache
def example(name: str) -> ModuleType:
    """The module of a file of ``examples/``."""
    folder = str(ROOT / "examples")
    if folder not in sys.path:
        sys.path.append(folder)  # for their helper module, running
    found = importlib.util.spec_from_file_location(f"example_{name}", f"{folder}/{name}.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _library() -> Iterator[Pair]:
    """The kernels that the functions of the library launch."""
    for call in library_calls():
        for number in range(call.launches):
            label = f".{number}" if call.launches > 1 else ""
            yield from (Pair(f"library.{call.name}{label}", target, partial(call.lower, number))
                        for target in call.targets)


def _texts() -> Iterator[Pair]:
    """Kernels that are read from MLIR text: printed by the compiler itself, and files of the tests."""
    bf16 = _matrices("bf16", "bf16", "f32", 1024)
    for form, targets in (("xetile", KINDS), ("xegpu", KINDS), ("xegpu_upstream", ("pvc", "bmg")),
                          ("xegpu_upstream_workgroup", ("pvc", "bmg")), ("xegpu_older", ("pvc", "bmg"))):
        lower = partial(_lower_printed, form, kernels.gemm, bf16, {**SMALL, "ahead": 0})
        yield from (Pair(f"text.gemm.{form}", target, lower) for target in targets)
    running_max = partial(_lower_printed, "xetile", kernels.running_max, (spec("f16"), spec("f32")), {})
    yield from (Pair("text.running_max.xetile", target, running_max) for target in KINDS)
    f16 = _matrices("f16", "f16", "f32", 256)
    for path in sorted(ROOT.glob("tests/**/llvm/**/*gemm.mlir")):
        yield from (Pair(f"text.llvm.{path.stem}", target, partial(_lower_file, path, f16))
                    for target in ("pvc", "cpu"))


def _lower_printed(form: str, kernel: Any, specs: tuple[xt.Spec, ...], constants: dict[str, Any], target: str) -> Any:
    return _lower_text(getattr(kernel.lower(*specs, target=target, **constants), form), specs, target)


def _lower_file(path: Path, specs: tuple[xt.Spec, ...], target: str) -> Any:
    return _lower_text(path.read_text(), specs, target)


def _lower_text(text: str, specs: tuple[xt.Spec, ...], target: str) -> Any:
    (kernel,) = xt.parse(text).values()
    return kernel.lower(*specs, target=target)
