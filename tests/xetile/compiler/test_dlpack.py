"""DLPack: memory of other libraries as arguments, without a copy, by both forms of its capsules."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import xetile as xt
from xetile.compiler.arguments import Argument


class Memory(np.ndarray[Any, Any]):
    """An array that weak references see, to find out when its memory is let go."""


class Exporter:
    """An array of another library: it has DLPack's protocol and nothing else."""

    def __init__(self, array: np.ndarray[Any, Any], versioned: bool = True, device: int = 1) -> None:
        self.array, self.versioned, self.device = array, versioned, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("__dlpack__() got an unexpected keyword argument 'max_version'")
        return self.array.__dlpack__(**options)


@xt.kernel
def doubled(A: Any, C: Any) -> None:
    xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (8, 16))) * 2, xt.init_tile(C, (0, 0), (8, 16)))


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("where", [None, "numpy", "numpy:xegpu", "numpy:program"])
def test_arguments_share_the_memory(where: str | None, versioned: bool) -> None:
    rng = np.random.default_rng(7)
    a = rng.integers(-99, 99, (30, 40)).astype(np.float32)[3:21:3, -4:2:-2]
    c = np.full((19, 11), 5, np.float32).T
    wanted = c.copy()
    wanted[:6, :16] = 0
    wanted[:6, :min(16, a.shape[1])] = 2 * a[:, :16]
    wanted[6:8, :16] = 0
    (doubled if where is None else doubled.on(where))[1](Exporter(a, versioned), Exporter(c, versioned))
    assert np.array_equal(c, wanted)


@pytest.mark.parametrize("versioned", [False, True])
def test_the_memory_is_kept_as_long_as_the_argument(versioned: bool) -> None:
    memory = np.arange(12, dtype=np.int16).reshape(3, 4).view(Memory)
    seen = weakref.ref(memory)
    argument = Argument.of("A", Exporter(memory, versioned))
    del memory
    gc.collect()
    assert seen() is not None
    assert np.array_equal(argument.source, np.arange(12).reshape(3, 4))
    del argument
    gc.collect()
    assert seen() is None


def test_memory_that_is_read_only() -> None:
    a = np.ones((8, 16), np.float32)
    a.flags.writeable = False
    c = np.zeros((8, 16), np.float32)
    doubled[1](Exporter(a), c)
    assert (c == 2).all()
    with pytest.raises(xt.ElementTypeError, match="XT1045"):
        doubled[1](c, Exporter(a))


def test_arrays_without_elements_and_of_other_types() -> None:
    assert Argument.of("A", Exporter(np.zeros((0, 5), np.float64))).shape == (0, 5)
    with pytest.raises(xt.ElementTypeError, match="XT1032"):
        Argument.of("A", Exporter(np.zeros((2, 2), np.complex64)))


@pytest.mark.parametrize(("device", "named"), [(2, "a CUDA device"), (10, "a ROCm device"), (99, "type 99")])
def test_memory_of_other_devices(device: int, named: str) -> None:
    with pytest.raises(xt.DeviceError, match=f"XT1090.*A is in the memory of .*{named}"):
        doubled[1](Exporter(np.ones((8, 16), np.float32), device=device), np.ones((8, 16), np.float32))


def test_the_library() -> None:
    a, b = (np.arange(4.0 * n, dtype=np.float32).reshape(shape) for n, shape in ((3, (3, 4)), (5, (4, 5))))
    out = np.zeros((3, 5), np.float32)
    exported = Exporter(out)
    assert xt.matmul(Exporter(a), Exporter(b), out=exported) is exported
    assert np.array_equal(out, a @ b)
