"""The tuner: what it tries, what it measures, and that the author's arrays see one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import require_device, require_dpnp, require_ocloc
from xetile.passes.to_xegpu import ToXeGPU
from xetile.runtime.device_executor import DeviceExecutor
from xetile.tools import tuner
from xetile.tools.tuner.space import configurations, seconds_of
from xetile.tools.tuner.timing import compare

RANDOM = np.random.default_rng(5)
SPACE = {"BM": [8, 16, 24], "BK": [32, 20]}


@xt.kernel(grid=lambda A, B, C, BM, **_: (-(-C.shape[0] // BM), -(-C.shape[1] // 32)))
def accumulate(A, B, C, *, BM=8, BK=32, scale=1.0):
    """C += A @ B: what it writes depends on what it finds."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * 32
    c = xt.init_tile(C, (m, n), (BM, 32))
    a, b = xt.init_tile(A, (m, 0), (BM, BK)), xt.init_tile(B, (0, n), (BK, 32))
    x = xt.zeros((BM, 32), xt.f32)
    for _ in xt.range(0, A.shape[1], BK):
        x = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), x)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(xt.load_tile(c) + x * scale, c)


@pytest.fixture
def arrays() -> tuple[Any, ...]:
    a, b = (RANDOM.integers(-4, 5, shape).astype(np.float16) for shape in ((50, 70), (70, 40)))
    return a, b, RANDOM.integers(-4, 5, (50, 40)).astype(np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XETILE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("XETILE_CACHE", "1")
    return tmp_path


def expected(a: Any, b: Any, c: Any) -> Any:
    return c + a.astype(np.float32) @ b.astype(np.float32)


def test_one_run_on_the_authors_arrays_and_times_are_kept(arrays: tuple[Any, ...]) -> None:
    require_device()
    c = arrays[2]
    wanted = expected(*arrays)
    result = xt.tune(accumulate, arrays, SPACE, where="opencl:cpu", target="pvc", budget="1min",
                     processes=2)
    np.testing.assert_array_equal(c, wanted)
    assert len(result.outcomes) == 6
    assert {outcome.how for outcome in result.outcomes if outcome.seconds} == {"timed"}
    assert {(f.configuration["BM"], f.configuration["BK"]) for f in result.failures} >= {(8, 20), (16, 20), (24, 20)}
    assert all(failure.stage == "tables" and "20" in failure.reason for failure in result.failures)
    times = [outcome.seconds for outcome in result.outcomes if outcome.seconds and not outcome.dropped]
    assert times == sorted(times)

    more = xt.tune(accumulate, arrays, [*result_configurations(result), {"BM": 32, "BK": 32}], where="opencl:cpu",
                   target="pvc", budget="1min", final=False)
    np.testing.assert_array_equal(c, wanted)
    hows = {outcome.configuration["BM"]: outcome.how for outcome in more.outcomes}
    assert hows == {8: "kept", 16: "kept", 24: "kept", 32: "timed"}


class Timer:
    """The tuner's clock: a build takes 20 s, everything else nothing; or every look at it takes 20 s."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.tick, self.built = 0.0, 0.0, 0
        build = DeviceExecutor.build

        def timed(executor: DeviceExecutor, compiled: Any) -> Any:
            if not compiled.programs:
                self.now += 20.0
                self.built += 1
            return build(executor, compiled)

        monkeypatch.setattr(DeviceExecutor, "build", timed)
        monkeypatch.setattr(tuner, "time", self)

    def perf_counter(self) -> float:
        self.now += self.tick
        return self.now


def test_the_budget_ends_building(arrays: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    require_device()
    timer = Timer(monkeypatch)
    where: dict[str, Any] = {"where": "opencl:cpu", "processes": 1, "final": False}
    result = xt.tune(accumulate, arrays, {"BM": [8, 16, 24, 32]}, budget=40, **where)
    assert [(late.configuration["BM"], late.stage) for late in result.failures] == [(24, "budget"), (32, "budget")]
    assert timer.built == 2
    assert {outcome.samples for outcome in result.outcomes[:2]} == {1}
    assert "2 not built: the budget ended before" in str(result)
    assert "BM=24: 2 of 4 were built in 30 s" in str(result)

    timer.tick = 20.0
    more = xt.tune(accumulate, arrays, {"BM": [8, 24]}, budget=20, **where)  # there is a time of 8: nothing is built
    assert [outcome.how for outcome in more.outcomes] == ["kept", ""]
    assert timer.built == 2
    one = xt.tune(accumulate, arrays, {"BM": [24, 32]}, budget=20, **where)  # one is built always
    assert [outcome.how for outcome in one.outcomes] == ["timed", ""]
    assert one.best == {"BM": 24}


def test_machine_code_is_timed_on_copies(arrays: tuple[Any, ...]) -> None:
    require_ocloc()
    wanted = expected(*arrays)
    result = xt.tune(accumulate, arrays, {"BM": [8, 16]}, where="machine:pvc", budget="10ms")
    np.testing.assert_array_equal(arrays[2], wanted)
    assert {outcome.how for outcome in result.outcomes} == {"timed"}


def result_configurations(result: Any) -> list[dict[str, Any]]:
    return [outcome.configuration for outcome in result.outcomes if outcome.seconds is not None]


def test_a_result_shows_itself(arrays: tuple[Any, ...]) -> None:
    result = xt.tune(accumulate, arrays, SPACE, budget="100ms")  # NumPy's arrays are worked on by NumPy
    text = str(result.table())
    assert "NumPy: 3 of 6 configurations" in text
    assert "3 not built: the kernel, or the target's tables, rule it out" in text
    assert "<table" in result._repr_html_()
    line = result.to_decorator()
    assert line == f"@xt.autotune([{{'BM': {result.best['BM']}, 'BK': 32}}])"
    again = eval(line[1:], {"xt": xt})(accumulate)
    assert again.best(*arrays) == result.best


def test_autotune_chooses_for_each_kind_of_arguments(arrays: tuple[Any, ...]) -> None:
    dpnp = require_dpnp()
    tuned = xt.autotune({"BM": [8, 16]}, key=["A", "C"], budget="50ms")(accumulate)
    a, b, c = (dpnp.asarray(array) for array in arrays)
    tuned(a, b, c)
    tuned(a, b, c)
    product = expected(*arrays) - arrays[2]
    np.testing.assert_array_equal(dpnp.asnumpy(c), arrays[2] + 2 * product)
    assert len(tuned.results) == 1
    tuned(a[:30], b, c[:30])
    assert len(tuned.results) == 2
    tuned(a, b, c, scale=2.0)
    assert len(tuned.results) == 3


def test_autotune_tries_configurations_with_the_constants_of_the_call() -> None:
    """A constant that has no default, with which half of the configurations do not fit, or that is tuned."""
    @xt.autotune({"rows": [4, 8]}, budget="50ms")
    @xt.kernel(grid=lambda A, C, rows, **_: (-(-A.shape[0] // rows),))
    def kernel(A, C, *, rows, halves):
        if rows * halves >= 16:
            raise ValueError("too many rows")
        at = xt.group_id(0) * rows, 0
        xt.store_tile(xt.load_tile(xt.init_tile(A, at, (rows, 32))) * halves, xt.init_tile(C, at, (rows, 32)))

    a = RANDOM.integers(-9, 9, (20, 32)).astype(np.float32)
    for constants, rows in (({"halves": 1}, {4, 8}), ({"halves": 2}, {4}), ({"halves": 1, "rows": 2}, {2})):
        c = np.zeros_like(a)
        kernel(a, c, **constants)
        np.testing.assert_array_equal(c, a * constants["halves"])
        best = kernel.best(a, c, **constants)
        assert best["rows"] in rows
        assert best["halves"] == constants["halves"]
    assert len(kernel.results) == 2
    failures = [failure.reason for result in kernel.results.values() for failure in result.failures]
    assert failures == ["ValueError: too many rows"]
    with pytest.raises(xt.ArgumentError, match="no constant columns"):
        kernel(a, c, columns=1)


@pytest.mark.parametrize("by_numpy", [False, True])
def test_only_what_an_author_raises_rules_a_configuration_out(by_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed assertion of a pass, or a ValueError there, is not hidden behind the other configurations."""
    require_ocloc()

    @xt.kernel
    def kernel(A, C, *, rows):
        if by_numpy:
            np.zeros(16).reshape(rows, -1)
        else:
            assert rows != 12
        xt.store_tile(xt.load_tile(xt.init_tile(A, (0, 0), (rows, 32))), xt.init_tile(C, (0, 0), (rows, 32)))

    arrays = [xt.Spec((32, 32), xt.f32)] * 2
    result = xt.tune(kernel, arrays, {"rows": [4, 12]}, grid=1, target="pvc", by="prediction", progress=False)
    assert [outcome.configuration["rows"] for outcome in result.failures] == [12]

    error = ValueError if by_numpy else AssertionError
    of_the_pass: dict[str, Any] = {"__name__": ToXeGPU.__module__}
    exec(f"def fail(*_):\n    raise {error.__name__}", of_the_pass)
    monkeypatch.setattr(ToXeGPU, "apply", of_the_pass["fail"])
    with pytest.raises(error):
        xt.tune(kernel, arrays, {"rows": [8]}, grid=1, target="pvc", by="prediction", progress=False)


def test_a_prediction_ranks_without_a_device() -> None:
    require_ocloc()
    a, b, c = xt.Spec((4096, 512), xt.bf16), xt.Spec((512, 512), xt.bf16), xt.Spec((4096, 512), xt.f32)
    result = xt.tune(accumulate, (a, b, c), {"BM": [8, 32]}, target="pvc", by="prediction")
    assert [outcome.how for outcome in result.outcomes] == ["predicted", "predicted"]
    assert result.best == {"BM": 32}
    assert "not by measurements" in str(result.table())


def test_a_prediction_without_ocloc_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's absence is one error of the call, not a failure of every configuration."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("XETILE_OCLOC", raising=False)
    matrix = xt.Spec((64, 64), xt.bf16)
    with pytest.raises(xt.ToolError, match="XT5102") as caught:
        xt.tune(accumulate, (matrix, matrix, xt.Spec((64, 64), xt.f32)), {"BM": [8, 32]}, target="pvc",
                by="prediction", final=False)
    assert "intel-ocloc" in str(caught.value)


def test_what_a_prediction_cannot_tell_apart_is_timed() -> None:
    """Factors that change no instruction predict the same; the tiles that are slower are not timed."""
    require_ocloc()
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-3, 4, (rows, 512)).astype(np.float16) for rows in (4096, 512))
    c, space = np.zeros((4096, 512), np.float32), {"BM": [8, 32], "scale": [1.0, 1.5]}
    ranked = xt.tune(accumulate, (a, b, c), space, target="pvc", by="prediction")
    assert [outcome.configuration["BM"] for outcome in ranked.tied] == [32, 32]
    assert "cannot tell apart" in str(ranked.table())
    timed = xt.tune(accumulate, (a, b, c), space, target="pvc", by="prediction", where="numpy", budget="50ms",
                    final=False)
    assert sorted((o.how, o.configuration["BM"]) for o in timed.outcomes) == [
        ("predicted", 8), ("predicted", 8), ("timed", 32), ("timed", 32)]
    assert timed.best["BM"] == 32
    assert not c.any()


@xt.kernel(grid=lambda A, B, C, BM, BN, **_: (C.shape[0] // BM, C.shape[1] // BN))
def converted(A, B, C, *, BM=32, BN=64):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    a, b = xt.init_tile(A, (m, 0), (BM, 32)), xt.init_tile(B, (0, n), (32, BN))
    x = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], 32):
        x = xt.tile_mma(xt.load_tile(a), xt.load_tile(b).to(A.dtype), x)
        a, b = xt.update_tile_offset(a, 0, 32), xt.update_tile_offset(b, 32, 0)
    xt.store_tile(x, xt.init_tile(C, (m, n), (BM, BN)))


def test_a_prediction_prefers_tiles_whose_converted_operand_is_small() -> None:
    """Of predictions that are tied the one whose resources take least; steps that are unrolled count once each."""
    require_ocloc()
    space = [{"BM": rows, "BN": columns} for rows, columns in ((32, 64), (128, 16))]
    a, c = xt.Spec((4096, 4096), xt.bf16), xt.Spec((4096, 4096), xt.f32)
    for dtype, best in ((xt.i8, 128), (xt.bf16, 32)):
        args = a, xt.Spec((4096, 4096), dtype), c
        result = xt.tune(converted, args, space, target="bmg", by="prediction")
        assert (len(result.tied), result.best["BM"]) == (2, best)
        report = converted.lower(*args, target="bmg", **result.best).report()
        assert result.outcomes[0].seconds == pytest.approx(report.predict((4096, 4096, 4096)).time, rel=0.01)


def test_all_fail() -> None:
    arrays = tuple(np.zeros((32, 32), np.float16) for _ in range(2)), np.zeros((32, 32), np.float32)
    with pytest.raises(xt.TargetError, match="XT7110"):
        xt.tune(accumulate, (*arrays[0], arrays[1]), {"BK": [20, 12]})


class Clock:
    """A clock that the candidates themselves move on."""

    def __init__(self) -> None:
        self.now, self.calls = 0.0, 0

    def __call__(self) -> float:
        return self.now

    def candidate(self, seconds: float, noise: float = 0.01) -> Any:
        def run(times: int) -> None:
            self.calls += times
            self.now += times * seconds * (1 + noise * RANDOM.uniform(-1, 1))

        return run


def test_the_fastest_is_found_and_the_hopeless_are_dropped_early() -> None:
    clock = Clock()
    series = compare([clock.candidate(seconds) for seconds in (0.010, 0.011, 0.013, 0.1)], 10.0, clock=clock)
    assert min(series, key=lambda one: one.median) is series[0]
    assert len(series[3].samples) == 1
    assert series[3].dropped
    assert series[2].dropped
    assert len(series[2].samples) < 10
    low, high = series[0].interval
    assert low <= 0.010 <= high
    assert (high - low) / 2 <= 0.02 * series[0].median


def test_what_lucky_first_samples_drop_comes_back() -> None:
    clock = Clock()
    steady, first = clock.candidate(0.02), [0.01]

    def lucky(times: int) -> None:
        clock.now += times * (first.pop() if first else 0.04)

    series = compare([lucky, steady], 10.0, clock=clock)
    assert series[1].median < series[0].median
    assert not series[1].dropped
    assert len(series[1].samples) >= 5


def test_the_budget_ends_it() -> None:
    clock = Clock()
    compare([clock.candidate(0.01, 0.9), clock.candidate(0.01, 0.9)], 0.3, clock=clock)
    assert clock.now < 0.4


@pytest.mark.parametrize(("space", "text"), [
    ({}, "BM"), ([], "XT7103"), ({"BN": [1]}, "XT1012"), ({"BM": 8}, "XT7102")])
def test_spaces_that_are_none(space: Any, text: str) -> None:
    if space == {}:
        assert configurations(space, ["BM"], "k") == [{}]
        return
    with pytest.raises(xt.ArgumentError, match=text):
        configurations(space, ["BM"], "k")


def whatever() -> None:
    """No kernel."""


def test_mistakes(arrays: tuple[Any, ...]) -> None:
    with pytest.raises(xt.ArgumentError, match="XT7106"):
        xt.tune(accumulate, arrays, SPACE, by="luck")
    with pytest.raises(xt.ArgumentError, match="XT7101"):
        xt.autotune(SPACE, key=["M"])(accumulate)
    with pytest.raises(xt.ArgumentError, match="XT7100"):
        xt.tune(xt.autotune(SPACE)(accumulate), arrays, SPACE)  # type: ignore[arg-type]
    with pytest.raises(xt.ArgumentError, match="XT7100"):
        xt.tune(whatever, arrays, SPACE)  # type: ignore[arg-type]
    with pytest.raises(xt.ArgumentError, match="XT7107"):
        xt.tune(accumulate, arrays, [16, 32])  # type: ignore[list-item]
    for space in (3, None, "BM"):
        with pytest.raises(xt.ArgumentError, match=f"XT7107.*{space!r} is not a configuration"):
            xt.tune(accumulate, arrays, space)  # type: ignore[arg-type]
    described = [xt.Spec((None, 32), "f16")] * 3
    with pytest.raises(xt.ArgumentError, match="XT1041"):
        xt.tune(accumulate, described, SPACE)
    with pytest.raises(xt.ArgumentError, match="XT7108"):
        xt.tune(accumulate, described, SPACE, by="prediction")
    with pytest.raises(xt.ArgumentError, match="XT7100"):
        xt.autotune(SPACE)(print)
    for budget in ("soon", -1, "0s"):
        with pytest.raises(xt.ArgumentError, match="XT7105"):
            seconds_of(budget)
    assert [seconds_of(budget) for budget in ("500ms", 2, "1.5min")] == [0.5, 2.0, 90.0]
