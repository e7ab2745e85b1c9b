"""Weights of 4 and 8 bits where bf16 is computed in: the vISA as machine code of bmg, and what cri takes for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from benchmarks.trial_kernels.quantized_weights import TRIALS
from tests.conftest import require_ocloc, require_simulator
from tests.kernels import DEVICE, Execution
from tests.xetile.lang.matmul import test_dequantized_bytes as of_bytes
from tests.xetile.lang.matmul import test_dequantized_columns as of_columns
from tests.xetile.lang.matmul import test_dequantized_integers as of_integers
from tests.xetile.lang.matmul import test_dequantized_operands as of_words
from tests.xetile.lang.matmul import test_dequantized_signs as of_signs
from xegpu.target.targets import TARGETS

pytestmark = pytest.mark.unoptimised


@dataclass(frozen=True)
class _NativeExecution(Execution):
    """bmg's machine code for vISA that computes in bf16, which Intel's compiler takes apart there."""

    def __str__(self) -> str:
        return "machine:bmg-bf16"

    def bind(self, kernel: Any) -> Any:
        require_simulator()
        return kernel.on(self.where, target=replace(TARGETS[self.target], bf16_arithmetic=True))


NATIVE = _NativeExecution("machine:bmg", "bmg")
PORTABLE = [Execution(device.where, "cri") for device in DEVICE[:1]]


def _forms(test: Callable[..., None], first: str, names: Any) -> list[Any]:
    """The first of a test's forms, and the others with ``--everything`` alone."""
    return [pytest.param(test, name, marks=() if name == first else pytest.mark.everything,
                         id=f"{test.__name__}-{name}") for name in names]


@pytest.mark.parametrize("execution", [NATIVE, *PORTABLE], ids=str)
@pytest.mark.parametrize(("test", "form"), [
    *_forms(of_bytes.test_bytes, "rows less a number", of_bytes.FORMS),
    *_forms(of_integers.test_whole_bytes, next(iter(of_integers.FORMS)), of_integers.FORMS),
    *_forms(of_words.test_integer_zero_points, "u8", of_words.ZEROS),
    *_forms(of_words.test_rows_of_one_word, next(iter(of_words.FORMS)), of_words.FORMS),
    *_forms(of_signs.test_forms, next(iter(of_signs.FORMS)), of_signs.FORMS),
    *_forms(of_columns.test_columns_of_a_word, next(iter(of_columns.FORMS)), of_columns.FORMS)])
def test_weights_in_bf16(test: Callable[..., None], form: str, execution: Execution) -> None:
    """Each weight is rounded as it is written, bit for bit."""
    test("bf16", form, execution)


@pytest.mark.parametrize(("name", "most"), [
    ("4-bit weights, bf16", 330), ("signed 4-bit weights, bf16", 295), ("8-bit weights, a scale a group, bf16", 262)])
def test_instructions_on_cri(name: str, most: int) -> None:
    require_ocloc()
    trial = next(trial for trial in TRIALS if trial.name == name)
    report = trial.report("cri")
    assert report.spill_size + report.private_size == 0
    assert trial.vector(report) <= most
