"""``xetile selftest``: right results pass, wrong ones and failures are told with their place, whatever fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.device import DEVICE_FILTER
from xegpu.support.errors import DeviceError
from xetile.tools import selftest
from xetile.tools.cli import main
from xetile.tools.selftest import PROBES, Execution, outcome

BY_NAME = {probe.name: probe for probe in PROBES}


@pytest.mark.parametrize("where", ["numpy", DEVICE_FILTER])
def test_this_machine_passes(where: str, capsys: pytest.CaptureFixture[str]) -> None:
    if where != "numpy":
        pytest.importorskip("dpctl")
    assert main(["selftest", "--where", where]) == 0
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.split()[:1] and line.split()[0].startswith(where)]
    assert rows
    assert all(line.count(" ok") == len(PROBES) for line in rows)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.name)
def test_a_kernel_that_does_nothing_fails(probe: Any) -> None:
    """Each expected result is another one than what the array held before."""
    result, expected = probe.run(lambda *args, **constants: None)
    assert (result != expected).any()

    @xt.kernel
    def nothing() -> None:
        pass

    silent = replace(probe, run=lambda launch: probe.run(lambda *args, **constants: launch()), kernel=nothing)
    assert "numbers are wrong; at (" in outcome(silent, Execution("numpy")).fault


def test_one_wrong_number_is_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(launch: Any) -> tuple[Any, Any]:
        result, expected = BY_NAME["transposes"].run(launch)
        expected = expected.copy()
        expected[17, 3] += 1
        return result, expected

    monkeypatch.setattr(selftest, "PROBES", (BY_NAME["atomics"], replace(BY_NAME["transposes"], run=run)))
    assert main(["selftest", "--where", "numpy:program"]) == 1
    printed = capsys.readouterr()
    assert "! numpy:program, transposes: 1 of 522 numbers are wrong; at (17, 3) is" in printed.out
    assert printed.err.startswith("error[XT8071]: 1 of 2 self-tests fail")


def test_what_a_driver_raises_is_a_result() -> None:
    def run(launch: Any) -> tuple[Any, Any]:
        raise RuntimeError("the driver gave up")

    assert outcome(replace(PROBES[0], run=run), Execution("numpy")).fault == "RuntimeError: the driver gave up"
    refused = outcome(PROBES[0], Execution("numpy:xetile"))
    assert refused.fault.startswith("[XT")


def test_functions_may_differ_by_their_bound_only() -> None:
    probe = BY_NAME["functions"]
    _, expected = probe.run(lambda *args: None)
    for ulps, fault in ((probe.ulps - 1, False), (probe.ulps + 1, True)):
        result = (expected + ulps * np.spacing(np.abs(expected).astype(np.float32)))
        given = replace(probe, run=lambda launch, result=result: (result, expected))
        assert bool(outcome(given, Execution("numpy")).fault) is fault


def test_without_a_device_numpy_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise DeviceError("XT5001", "no dpctl", "install it")

    monkeypatch.setattr(selftest.devices, "all_devices", missing)
    monkeypatch.setattr(selftest, "check_simulator", missing)
    assert [each.where for each in selftest.executions()] == ["numpy", "numpy:program", "numpy:xegpu"]
