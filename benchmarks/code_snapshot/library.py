"""The kernels that the library's functions launch: captured by their public names, not launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import xetile as xt

_LIBRARY: Any = xt
"""The functions by their public names, which are also those of modules: without types, no checker takes one for the
other."""
Array = np.ndarray[Any, Any]
_GPUS = ("pvc", "dg2")
_KINDS = (*_GPUS, "cpu")
_ALIGNMENT = 4096
"""Bytes: arrays begin on a page, so that 2D block messages may always reach them."""


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library function.

    Attributes:
        name: in a record.
        targets: for which its kernels are recorded.
        launches: kernels that it launches on each of them.
        call: makes it, for a target.
    """

    name: str
    targets: tuple[str, ...]
    launches: int
    call: Callable[[str], object]

    def lower(self, number: int, target: str) -> Any:
        """The ``number``-th kernel that it launches, compiled."""
        with _captured() as launched:
            self.call(target)
        if len(launched) != self.launches:
            raise AssertionError(f"{self.name} launches {len(launched)} kernels on {target}, not {self.launches}")
        return launched[number]()


class _Capture:
    """Takes the place of a kernel on its executor: keeps what would be launched."""

    def __init__(self, kernel: Any, target: str, launched: list[Callable[[], Any]]) -> None:
        self._kernel, self._launched, self.target = kernel, launched, xt.TARGETS[target]

    def __getitem__(self, grid: Any) -> _Capture:
        return self

    def __call__(self, *arguments: Any, **constants: Any) -> None:
        self._launched.append(lambda: self._kernel.lower(*arguments, target=self.target.name, **constants))


@contextmanager
def _captured() -> Iterator[list[Callable[[], Any]]]:
    """Launches of the kernels of library functions, which run nothing meanwhile; new arrays are aligned."""
    launched: list[Callable[[], Any]] = []
    on, empty = xt.Kernel.on, np.empty

    def capture(kernel: Any, where: Any, *, target: Any = None, **_: Any) -> _Capture:
        return _Capture(kernel, target if isinstance(target, str) else target.name, launched)

    xt.Kernel.on = capture  # type: ignore[assignment, method-assign]
    np.empty = _aligned  # type: ignore[misc, assignment]
    try:
        yield launched
    finally:
        xt.Kernel.on, np.empty = on, empty  # type: ignore[method-assign, misc]


def _aligned(shape: Any, dtype: Any = float, **_: Any) -> Array:
    """An array of no particular content that begins on a page; nothing is written to it."""
    kind, sizes = np.dtype(dtype), (shape,) if isinstance(shape, int) else tuple(shape)
    if not kind.itemsize:  # np.broadcast_shapes makes such
        return np.ndarray(sizes, kind)
    count = int(np.prod(sizes, dtype=np.int64)) * kind.itemsize
    raw = np.ndarray(count + _ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % _ALIGNMENT
    array: Array = raw[start:start + count].view(kind).reshape(sizes)
    return array


def _array(dtype: Any, *shape: int) -> Array:
    return _aligned(shape, dtype)


def _matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: Any = ml_dtypes.bfloat16, *, bias: bool = False,
            out_dtype: Any = None, transposed: bool = False, view: Any = None, **options: Any
            ) -> Callable[[str], object]:
    def call(target: str) -> object:
        left, right = _array(dtype, *a), _array(dtype, *b[:-2], *b[:-3:-1]) if transposed else _array(dtype, *b)
        right = right.swapaxes(-1, -2) if transposed else right
        row = _array(np.float32, 1, b[-1]) if bias else None
        beta = {"out": _array(np.float32, *a[:-1], b[-1])} if "beta" in options else {}
        if view is not None:
            return _LIBRARY.matmul(xt.view(left, view), xt.view(right, view), target=target, **options)
        return _LIBRARY.matmul(left, right, bias=row, target=target, out_dtype=out_dtype, **beta, **options)

    return call


def _scaled(target: str) -> object:
    a, b = _array(ml_dtypes.float8_e4m3fn, 1024, 1024), _array(ml_dtypes.float8_e4m3fn, 1024, 1024)
    return _LIBRARY.scaled_matmul(a, b, _array(np.float32, 1024, 1), _array(np.float32, 1, 1024), target=target)


def _scaled_integers(target: str) -> object:
    a, b = _array(np.int8, 1024, 1024), _array(np.int8, 1024, 1024)
    return _LIBRARY.scaled_matmul(a, b, 0.5, 0.25, activation="silu", target=target)


def _int4(rows: int, group: int, zeros: bool) -> Callable[[str], object]:
    def call(target: str) -> object:
        scales = _array(np.float16, 1024 // group, 1024)
        offsets = _array(np.float16, 1024 // group, 1024) if zeros else None
        return _LIBRARY.int4_matmul(_array(np.float16, rows, 1024), _array(np.uint32, 128, 1024), scales, offsets,
                              target=target)

    return call


def _grouped(target: str) -> object:
    sizes = ((256, 512, 256), (1024, 256, 512), (64, 128, 128))
    a, b = ([_array(ml_dtypes.bfloat16, *shape) for shape in shapes]
            for shapes in ([(m, k) for m, _, k in sizes], [(k, n) for _, n, k in sizes]))
    return _LIBRARY.grouped_matmul(a, b, target=target, out=[_array(np.float32, m, n) for m, n, _ in sizes])


def _attention(size: int, *, causal: bool, queries: int = 1024, dtype: Any = ml_dtypes.bfloat16
               ) -> Callable[[str], object]:
    def call(target: str) -> object:
        q = _array(dtype, 2, 8, queries, size)
        k, v = _array(dtype, 2, 2, 1024, size), _array(dtype, 2, 2, 1024, size)
        return _LIBRARY.attention(q, k, v, causal=causal, target=target)

    return call


def library_calls() -> tuple[LibraryCall, ...]:
    """The calls, with small and large products, parts of K that work-groups share, and each function's options."""
    square = (4096, 4096)
    i8, f32 = np.int8, np.float32
    return (
        LibraryCall("matmul", (*_KINDS, "bmg"), 1, _matmul(square, square)),
        LibraryCall("matmul.f32", _KINDS, 1, _matmul(square, square, f32)),
        LibraryCall("matmul.tf32", ("pvc", "bmg"), 1, _matmul(square, square, f32, view=xt.tf32)),
        LibraryCall("matmul.i8", _KINDS, 1, _matmul(square, square, i8, out_dtype="i32")),
        LibraryCall("matmul.transposed", _KINDS, 1, _matmul(square, square, transposed=True)),
        LibraryCall("matmul.batch", _KINDS, 1, _matmul((16, 512, 512), (16, 512, 512))),
        LibraryCall("matmul.row", _KINDS, 1, _matmul((1, 4096), (4096, 16384))),
        LibraryCall("matmul.odd", ("dg2", "cpu"), 1, _matmul((1000, 777), (777, 1001))),
        LibraryCall("matmul.odd", ("pvc",), 1, _matmul((1000, 777), (777, 1001))),  # its tiles are moved inside
        LibraryCall("matmul.copied", ("pvc",), 4, _matmul((2048, 2049), (2049, 2113))),  # A, B, the product, its sums
        LibraryCall("matmul.remainder", ("pvc",), 3, _matmul((2048, 2049), (2049, 2049))),  # B's last column is copied
        LibraryCall("matmul.bias_gelu", _KINDS, 1,
                    _matmul(square, square, bias=True, activation="gelu", out_dtype="f32")),
        LibraryCall("matmul.alpha_beta", _KINDS, 1, _matmul((2048, 2048), (2048, 2048), alpha=0.5, beta=2.0)),
        LibraryCall("matmul.shared_k", _GPUS, 2, _matmul((256, 16384), (16384, 256))),
        LibraryCall("matmul.stream_k", ("pvc",), 2, _matmul((2304, 8192), (8192, 2304))),
        LibraryCall("scaled_matmul", ("pvc", "bmg", "cri", "cpu"), 1, _scaled),
        LibraryCall("scaled_matmul.i8", _KINDS, 1, _scaled_integers),
        LibraryCall("int4_matmul", (*_KINDS, "bmg"), 1, _int4(1024, 128, True)),
        LibraryCall("int4_matmul.rows", ("pvc", "bmg"), 1, _int4(8, 32, False)),
        LibraryCall("grouped_matmul", (*_KINDS, "bmg"), 1, _grouped),
        LibraryCall("attention.64", (*_KINDS, "bmg", "arl"), 1, _attention(64, causal=True)),
        LibraryCall("attention.128", _KINDS, 1, _attention(128, causal=False, dtype=np.float16)),
        LibraryCall("attention.256", ("pvc", "dg2"), 1, _attention(256, causal=True)),
        LibraryCall("attention.decode", ("pvc", "bmg"), 1, _attention(128, causal=True, queries=1)),
    )
