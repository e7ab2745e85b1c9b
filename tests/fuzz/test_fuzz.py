"""Random kernels of fixed seeds in all executions; the generator, the comparison and the minimiser."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.conftest import require_device
from tests.fuzz.cases import Plan, program_of, run_case
from tests.fuzz.choices import Choices
from tests.fuzz.execute import Launch, Mismatch, buffer, check, kernel_of
from tests.fuzz.minimise import fails_like, minimised
from tests.fuzz.numerics import HOLDS
from tests.fuzz.program import ArrayArg
from xegpu.mlir import combining_kind
from xetile.interpreter import reduction

LOWERED = {"numpy:xegpu/pvc": 2, "numpy:xegpu/dg2": 2, "opencl:cpu/cpu": 3, "opencl:cpu/pvc": 3, "opencl:cpu/dg2": 3}
"""Cases of each execution of a default run."""


def _cases(execution: str, seeds: range) -> int:
    if execution.startswith("opencl"):
        require_device("opencl:cpu")
    launches = 0
    for seed in seeds:
        done, found = run_case(seed, Plan((execution,)))
        assert found is None, f"python -m tests.fuzz --seed {seed} --count 1 --executions {execution}\n{found}"
        launches += sum(done.values())
    return launches


@pytest.mark.parametrize("first", [0, 20])
def test_numpy(first: int) -> None:
    assert _cases("numpy", range(first, first + 20)) > 20


@pytest.mark.unoptimised
@pytest.mark.parametrize("execution", LOWERED)
def test_lowered(execution: str) -> None:
    first = 100 + 10 * list(LOWERED).index(execution)
    assert _cases(execution, range(first, first + LOWERED[execution]))


@pytest.mark.everything
@pytest.mark.parametrize("name", ["numpy", "numpy:program", *LOWERED, "machine:pvc", "machine:bmg"])
def test_more(name: str) -> None:
    assert _cases(name, range(1000, 1000 + (10 if name.startswith("machine") else 20 if "opencl" in name else 40)))


def test_a_seed_is_a_program() -> None:
    assert program_of(Choices(7)).source() == program_of(Choices(7)).source() != program_of(Choices(8)).source()
    first = Choices(7)
    program = program_of(first)
    assert program_of(Choices(replay=first.record)).source() == program.source()


def test_features_occur() -> None:
    """Every feature of the generator occurs in a few hundred programs."""
    found = {feature for seed in range(400) for feature in program_of(Choices(seed)).features}
    assert {"arithmetic", "bitwise", "shift", "float division", "integer division", "unary", "comparison", "where",
            "conversion", "function", "bitcast", "transpose", "reduction", "broadcast", "convert layout", "iota",
            "gather", "scatter", "atomic", "shared memory", "load_scalar", "loop", "run-time loop", "when", "padding",
            "product bf16", "product i8", "product tf32", "transposed operand", "rows=", "columns=", "while loop",
            "rows gathered", "rows scattered", "rows updated", "one dimension", "one dimension stored", "helper",
            "reduce", "item"} <= found
    assert {f"store {each}" for each in HOLDS if each not in ("index", "tf32", "e4m3", "e5m2")} <= found


def test_a_wrong_result_is_found_and_minimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums that leave out a column, of which little more than the sum is left."""

    def wrong(kind: str, values: Any, axes: Any, dtype: Any) -> Any:
        summed = values.copy()
        summed[..., -1] = 0
        return combining_kind.reduce(kind, summed if kind == "add" else values, axes, dtype)

    monkeypatch.setattr(reduction, "reduce", wrong)
    plan = Plan(("numpy",))
    short = [seed for seed in range(200) if 18 < len(program_of(Choices(seed)).source().splitlines()) < 30]
    seed, found = next((seed, found) for seed in short if (found := run_case(seed, plan)[1]) is not None)
    assert "differ" in found.message
    choices = Choices(seed)
    before = program_of(choices)
    program = minimised(choices.record, fails_like(found, optimise=False), seconds=60)
    assert "tile_reduce" in program.source()
    assert len(program.source().splitlines()) < len(before.source().splitlines()) - 4
    monkeypatch.undo()
    check(program, ["numpy"])


@pytest.mark.parametrize("layout", [
    {}, {"aligned": True}, {"order": "F"}, {"step": 2, "pad": 3}, {"rank": 3, "batch": 2}, {"rank": 1}])
def test_elements_around_an_array_are_no_part_of_it(layout: dict[str, Any]) -> None:
    array = ArrayArg("A", "i16", (5, 0), (7, 0), 0, 1, **layout)
    made = buffer(array, array.sizes((1, 1)))
    made.whole[...] = 1
    made.view[...] = 0
    assert made.view.shape == array.sizes((1, 1))
    assert np.count_nonzero(made.whole == 0) == made.view.size
    assert made.whole.size > made.view.size
    if array.aligned:
        assert made.view.ctypes.data % 64 == 0


class _Spoiled:
    """A kernel that changes one byte more: in its first output, or in front of it."""

    def __init__(self, kernel: Any, written: int, offset: int) -> None:
        self.kernel, self.written, self.offset = kernel, written, offset

    def on(self, where: str, target: str | None) -> _Spoiled:
        return self

    def __getitem__(self, grid: Any) -> Any:
        def launch(*arguments: Any) -> None:
            self.kernel[grid](*arguments)
            address = arguments[self.written].ctypes.data + self.offset
            ctypes.c_uint8.from_address(address).value ^= 3

        return launch


@pytest.mark.parametrize(("offset", "message"), [(0, "differ"), (-1, "outside the array")])
def test_what_is_wrong_in_memory_is_a_mismatch(offset: int, message: str) -> None:
    program = next(program for seed in range(100) if (program := program_of(Choices(seed))).arrays[-1].written
                   and program.arrays[-1].dtype == "i32" and not program.packed)
    kernel = kernel_of(program.source(), "spoiled")
    launch = Launch(program, *program.launches[0])
    launch.run(kernel, "numpy")
    with pytest.raises(Mismatch, match=message):
        launch.run(_Spoiled(kernel, len(program.arrays) - 1, offset), "numpy")
