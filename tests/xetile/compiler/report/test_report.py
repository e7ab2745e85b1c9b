"""The report: facts of machine code, a prediction made of them, kernels side by side, and where to draw them."""

from __future__ import annotations

import io
import itertools
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import xetile as xt
from benchmarks.gpu_code.published import FIGURES, LARGEST_ERROR, table
from benchmarks.trial_kernels.attention_backward import backward_dq
from codegen.perf.performance_model import LoopIteration, Prediction, predict, product_traffic
from tests.conftest import require_ocloc
from xegpu.support.errors import ArgumentError, ShapeError, TargetError, ToolError
from xegpu.target.machine_model import MACHINES, find_machine
from xetile.compiler.compiled import CompiledKernel
from xetile.compiler.report import Report
from xetile.compiler.report.roofline import plot
from xetile.compiler.report.slow_access import slow_accesses
from xetile.compiler.report.suggest_tile_sizes import Remedy
from xetile.compiler.report.table import Row, Table
from xetile.dialect.stage import only_function
from xetile.tools.cli import main

SPECS = [xt.Spec((None, None), dtype) for dtype in ("bf16", "bf16", "f32")]


@xt.kernel
def gemm(A, B, C, *, BM=256, BN=256, BK=32, sg=(8, 4)):
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    map_c = xt.wg_map(sg, (BM // sg[0], BN // sg[1]))
    a = xt.init_tile(A, (m, 0), (BM, BK), wg_map=xt.wg_map(sg, (BM // sg[0], BK)))
    b = xt.init_tile(B, (0, n), (BK, BN), wg_map=xt.wg_map(sg, (BK, BN // sg[1])))
    acc = xt.zeros((BM, BN), xt.f32, wg_map=map_c)
    for _ in xt.range(0, A.shape[1], BK):
        acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
        a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN), wg_map=map_c))


@xt.kernel(subgroups=(2, 2))
def by_subgroup(A, B, C, *, BM=16, BN=32, BK=16):
    """Each subgroup has a tile of its own; two steps of K in a pass."""
    m = (xt.group_id(0) * 2 + xt.subgroup_id(0)) * BM
    n = (xt.group_id(1) * 2 + xt.subgroup_id(1)) * BN
    a = xt.init_tile(A, (m, 0), (BM, BK))
    b = xt.init_tile(B, (0, n), (BK, BN))
    acc = xt.zeros((BM, BN), xt.f32)
    for _ in xt.range(0, A.shape[1], 2 * BK):
        for _ in range(2):
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(b), acc)
            a, b = xt.update_tile_offset(a, 0, BK), xt.update_tile_offset(b, BK, 0)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


@xt.kernel
def doubled(X, Y):
    at = (xt.group_id(0) * 8, xt.group_id(1) * 32)
    xt.store_tile(xt.load_tile(xt.init_tile(X, at, (8, 32))) * 2, xt.init_tile(Y, at, (8, 32)))


def report_of(kernel: Any, target: str = "pvc", specs: Any = SPECS, **constants: Any) -> Report:
    require_ocloc()
    return kernel.lower(*specs, target=target, **constants).report()


def test_what_a_product_of_a_whole_core_is_predicted_to_take() -> None:
    """The figures of a 256x256 work-group: 32 dpas of 32 subgroups on 8 engines."""
    pvc, bmg = report_of(gemm), report_of(gemm, "bmg")
    assert (pvc.subgroups, pvc.lanes, pvc.step, pvc.dpas_rows) == (32, 16, 32 * pvc.unrolled, 256 * pvc.unrolled)
    assert pvc.work.distinct == 2 * 256 * 32 * 2
    assert pvc.work.loaded == 32 * (32 * 32 + 32 * 64) * 2  # every subgroup its rows of A and its columns of B
    assert pvc.intensity == 128
    one, other = pvc.predict((4096, 4096, 4096)), bmg.predict((4096, 4096, 4096))
    assert (one.work_groups, one.waves, other.waves) == (256, 4, 13)
    assert one.clocks["matrix engine"] == 1024 * pvc.unrolled
    assert one.clocks["issue"] == pvc.hot.total * 4
    assert other.clocks["matrix engine"] == 2048 * bmg.unrolled
    assert one.bound == "matrix engine"
    assert one.lower_bound == pytest.approx(4 * 128 * 1024 / 1.6e9)
    assert one.upper_bound == pytest.approx(2 * 4096**3 / one.lower_bound / 1e12)
    assert 1.5 < one.time / one.lower_bound < 2  # nothing is prefetched
    assert pvc.predict((4096, 4096, 4096), machine="max1100").waves == 5


def test_a_product_of_subgroups() -> None:
    report = report_of(by_subgroup)
    assert (report.work.tile, report.work.step, report.unrolled, report.subgroups) == ((32, 64), 32, 1, 4)
    found = report.predict((100, 100, 100))
    assert found.work_groups == 4 * 2
    assert found.bytes == 4 * 32 * 100 * 2 + 2 * 64 * 100 * 2 + 100 * 100 * 4
    launched = report.predict(grid=(4, 2), passes=4)
    assert (launched.clocks, launched.work_groups, launched.bytes) == (found.clocks, 8, 0)
    assert launched.flops == 2 * 128 * 128 * 128  # whole tiles


def test_a_kernel_without_a_loop_is_bound_by_memory() -> None:
    report = report_of(doubled, specs=[SPECS[2], SPECS[2]])
    found = report.predict((4096, 4096))
    assert (found.bytes, found.bound, found.flops) == (2 * 4 * 4096**2, "memory", 0)
    assert "instructions, no loop" in str(report)
    with pytest.raises(ShapeError, match=r"\(M, N\), 2 positive integers"):
        report.predict((4096, 4096, 4096))
    with pytest.raises(ArgumentError, match="no products or no memory traffic"):
        plot("unused.png", [(report, found)])


def test_spills_come_first_with_the_tile_that_avoids_them() -> None:
    lowered = by_subgroup.lower(*SPECS, target="pvc", BM=64, BN=128)
    require_ocloc()
    report = lowered.report(remedies=600)
    assert report.spill_size + report.private_size > 0
    remedy = report.remedy
    assert remedy is not None
    assert remedy.constants
    cured = report_of(by_subgroup, **{"BM": 64, "BN": 128, **remedy.constants})
    assert (cured.spill_size, cured.private_size, cured.remedy) == (0, 0, None)
    second = str(report).splitlines()[1]
    assert f"{report.spill_size} bytes of a thread are spilled" in second
    assert all(f"{name}={value}" in second for name, value in remedy.constants.items())


def test_a_tile_far_too_large() -> None:
    """The number of rows is halved, and not their length: the softmax of a shorter row is another one."""
    @xt.kernel(may_alias=True)  # else a loop over strips of rows would fit
    def softmax(X, Y, *, rows=16, columns=1024):
        x = xt.load_tile(xt.init_tile(X, (xt.group_id(0) * rows, 0), (rows, columns)))
        e = xt.exp(x - xt.tile_broadcast(xt.tile_reduce("maximumf", x, 1), (rows, columns)))
        total = xt.tile_broadcast(xt.tile_reduce("add", e, 1), (rows, columns))
        xt.store_tile(e / total, xt.init_tile(Y, (xt.group_id(0) * rows, 0), (rows, columns)))

    require_ocloc()
    remedy = softmax.lower(SPECS[2], SPECS[2], target="bmg").report(remedies=600).remedy
    assert remedy is not None
    assert remedy.constants is not None
    assert set(remedy.constants) == {"rows"}
    assert softmax.lower(SPECS[2], SPECS[2], target="bmg", **remedy.constants).report().remedy is None


@pytest.mark.parametrize("target", ["dg2", "arl"])
def test_a_tile_for_shorter_registers(target: str) -> None:
    """Rows that are read one by one take addresses beside values: what is proposed has room for both."""
    require_ocloc()
    sizes = {"BM": 32, "BN": 64, "BK": 32}
    report = by_subgroup.lower(*SPECS, target=target, **sizes).report(remedies=600)
    assert report.spill_size + report.private_size > 0
    remedy = report.remedy
    assert remedy is not None
    assert remedy.constants is not None
    assert len(remedy.tried) <= 1
    cured = by_subgroup.lower(*SPECS, target=target, **{**sizes, **remedy.constants}).report(remedies=False)
    assert (cured.spill_size, cured.private_size) == (0, 0)
    assert cured.loop["dpas"] > 0


@pytest.mark.parametrize("target", ["dg2", "arl"])
def test_few_variants_are_looked_at(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three halvings or more are foretold from those of each constant: few variants are lowered, and one is built."""
    require_ocloc()
    heads, rows, wide = (xt.Spec((4, 1024, size), dtype) for size, dtype in ((64, "bf16"), (1, "f32"), (64, "f32")))
    lowered = backward_dq.lower(heads, heads, heads, heads, rows, rows, wide, target=target)
    estimate, looked_at = CompiledKernel.live_bytes, []
    monkeypatch.setattr(CompiledKernel, "live_bytes", lambda self: looked_at.append(self) or estimate(self))
    remedy = lowered.report(remedies=600).remedy
    assert remedy is not None
    assert remedy.constants is not None
    assert remedy.tried == ()
    assert len(looked_at) <= 10
    assert set(remedy.constants) <= {"BM", "BN"}
    fitting = backward_dq.lower(heads, heads, heads, heads, rows, rows, wide, target=target, **remedy.constants)
    assert fitting.in_memory() == 0


def test_what_is_no_extent_is_not_proposed() -> None:
    """Half as many rows a scale would be another product, with half as many scales."""
    @xt.kernel
    def scaled(A, S, B, C, *, group=64, BM=32, BN=64):
        acc = xt.zeros((BM, BN), xt.f32)
        for k in xt.range(0, A.shape[1], 32):
            scale = xt.load_tile(xt.init_tile(S, (k // group, 0), (1, BN)))
            b = xt.load_tile(xt.init_tile(B, (k, 0), (32, BN))) * scale
            a = xt.init_tile(A, (xt.group_id(0) * BM, k), (BM, 32))
            acc = xt.tile_mma(xt.load_tile(a), b, acc)
        xt.store_tile(acc, xt.init_tile(C, (xt.group_id(0) * BM, 0), (BM, BN)))

    require_ocloc()
    specs = (SPECS[0], SPECS[0], SPECS[1], SPECS[2])
    remedy = scaled.lower(*specs, target="dg2").report(remedies=600).remedy
    assert remedy is not None
    assert remedy.constants is not None
    assert all("group" not in change for change in (remedy.constants, *(change for change, _ in remedy.tried)))


def test_a_row_that_no_tile_size_makes_shorter() -> None:
    """Where no constant helps, the vector that takes most registers is named, with the author's line."""
    @xt.kernel(may_alias=True)  # else loops over strips of columns would fit
    def centred(X, Y, *, columns=4096):
        x = xt.load_tile(xt.init_tile(X, (xt.group_id(0), 0), (1, columns)))
        middle = x - xt.tile_reduce("add", x, 1) * (1 / columns)
        xt.store_tile(middle * middle, xt.init_tile(Y, (xt.group_id(0), 0), (1, columns)))

    require_ocloc()
    wide = xt.Spec((None, 4096), "f32")
    remedy = centred.lower(wide, wide, target="bmg").report().remedy
    assert remedy is not None
    assert remedy.constants is None
    line = centred.function.__code__.co_firstlineno + 2
    assert f"the largest vector of a subgroup, 1x4096 f32 of line {line}, takes 256 registers, where about 224 " \
        "of 256 hold all vectors that are alive at once" in str(remedy)
    assert "no constant of the kernel is a tile size" in str(remedy)


def test_a_search_without_time_looks_at_the_most_promising_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is past any budget when it is first read again: BN, with most elements, is halved until it fits."""
    require_ocloc()
    lowered = by_subgroup.lower(*SPECS, target="dg2", BM=32, BN=64)
    ticks = itertools.count(0, 1000)
    clock = SimpleNamespace(thread_time=lambda: float(next(ticks)), monotonic=time.monotonic)
    monkeypatch.setattr("xetile.compiler.report.suggest_tile_sizes.time", clock)
    looked_at, estimate = [], CompiledKernel.live_bytes
    monkeypatch.setattr(CompiledKernel, "live_bytes", lambda self: looked_at.append(self) or estimate(self))
    remedy = lowered.report().remedy
    assert remedy is not None
    assert remedy.constants is not None
    assert set(remedy.constants) == {"BN"}
    assert len([each for each in looked_at if each is not lowered]) == 1


def test_constants_that_the_authors_python_does_not_take() -> None:
    """A kernel that raises an error with half of a constant is another one, and the report names what else helps."""
    @xt.kernel
    def pages(X, Y, *, page=32, BM=16):
        whole = {32: page}[page]  # no other size of a page
        parts = [xt.load_tile(xt.init_tile(X, (xt.group_id(0) * BM, part * whole), (BM, whole))) for part in range(8)]
        x = xt.concatenate(parts, 1)
        y = xt.load_tile(xt.init_tile(X, (xt.group_id(0) * BM, 0), (BM, 256)))
        xt.store_tile(x * y + xt.tile_reduce("add", x, 0), xt.init_tile(Y, (xt.group_id(0) * BM, 0), (BM, 256)))

    require_ocloc()
    remedy = pages.lower(SPECS[2], SPECS[2], target="dg2").report().remedy
    assert remedy is not None
    assert remedy.constants is not None
    assert set(remedy.constants) == {"BM"}


def test_what_is_said_where_nothing_was_built() -> None:
    change = {"BM": 2, "BN": 8}
    assert str(Remedy(None, cut_off=True, seconds=5)) == \
        "lower the tile sizes: the time for trying was up, report(remedies=60) has 60 seconds"
    assert str(Remedy(None, ((change, 64),), cut_off=True, seconds=60)) == \
        "lower the tile sizes: BM=2, BN=8 still leaves 64 bytes in memory; " \
        "the time for trying was up, report(remedies=600) has 600 seconds"
    assert "by an estimate BM=2, BN=8 still has 1500 bytes a lane alive, and all registers have 1024" in \
        str(Remedy(None, too_large=(change, 1500), room=1024.0))
    assert "still covers its arrays" in str(Remedy(None))
    assert "no constant of the kernel is a tile size" in str(Remedy(None, has_sizes=False, advice="other"))
    assert str(Remedy(None, ((change, 64),), advice="other")).endswith("64 bytes in memory; other")


def test_a_busy_machine_proposes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds are those of the processor: a clock that shows two more each time it is read ends no search."""
    require_ocloc()
    lowered = by_subgroup.lower(*SPECS, target="dg2", BM=32, BN=64)
    expected = lowered.report(remedies=600).remedy
    ticks = itertools.count(0, 2)
    clock = SimpleNamespace(thread_time=time.thread_time, monotonic=lambda: float(next(ticks)))
    monkeypatch.setattr("xetile.compiler.report.suggest_tile_sizes.time", clock)
    assert lowered.report().remedy == expected


def test_remedies_take_no_longer_than_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first candidate is built in any case; none is looked for on demand."""
    require_ocloc()
    lowered = by_subgroup.lower(*SPECS, target="pvc", BM=128, BN=128)
    assert lowered.report(remedies=False).remedy is None
    built = []
    monkeypatch.setattr("xetile.compiler.compiled.CompiledKernel.in_memory", lambda self: built.append(self) or 64)
    remedy = lowered.report(remedies=1e-9).remedy
    assert remedy is not None
    assert (remedy.constants, remedy.cut_off, len(built)) == (None, True, 1)
    assert "the time for trying was up" in str(remedy)


def test_what_block_messages_do_not_reach_is_said_first() -> None:
    @xt.kernel
    def part(A, B, C, *, even=False):
        share = A.shape[1] // 3 // 16 * 16 if even else A.shape[1] // 3
        acc = xt.zeros((16, 32), xt.f32)
        for k in xt.range(0, share, 16):
            a = xt.init_tile(A, (0, xt.group_id(0) * share + k), (16, 16))
            acc = xt.tile_mma(xt.load_tile(a), xt.load_tile(xt.init_tile(B, (k, 0), (16, 32))), acc)
        xt.store_tile(acc, xt.init_tile(C, (0, 0), (16, 32)))

    require_ocloc()
    odd = part.lower(*SPECS[:2], xt.Spec((64, 77), "f32"), target="pvc").report()
    assert [sentence.partition(":")[0] for sentence in odd.slow] == [
        "A is read row by row, not by block messages", "C is written row by row, not by block messages"]
    assert "columns that are not known to be multiples of 2; make them so" in str(odd).splitlines()[1]
    assert "a pitch that is a multiple of 16 bytes" in str(odd).splitlines()[2]
    even = part.lower(*SPECS, target="pvc", even=True).report()
    assert (even.slow, even.loop["load_block2d"]) == ((), 2)
    assert part.lower(*SPECS, target="dg2").report().slow == ()


def test_memory_described_anew_is_slow_for_want_of_the_authors_word() -> None:
    @xt.kernel
    def copied(A, C, pitch, *, aligned):
        tile = xt.init_tile(A, (0, 0), (16, 32), base_shape=(16, pitch), base_strides=(pitch, 1), aligned=aligned)
        xt.store_tile(xt.load_tile(tile), xt.init_tile(C, (0, 0), (16, 32)))

    def slow(aligned: bool) -> tuple[str, ...]:
        spec = xt.Spec((None, 64), "f16")
        lowered = copied.lower(spec, spec, 64, aligned=aligned, target="pvc")
        return slow_accesses(only_function(lowered.legal), lowered.target, lowered.access)

    assert slow(True) == ()
    sentence, = slow(False)
    assert sentence.startswith("A is read row by row, not by block messages: base_shape and base_strides describe")
    assert sentence.endswith("xt.init_tile(..., aligned=True)")


def test_two_kernels_side_by_side() -> None:
    a, b = report_of(gemm), report_of(gemm, "bmg")
    table = a.compare(b)
    assert table.columns == ("pvc", "bmg", "difference")
    waves = next(row for row in table.rows if row.label == "waves")
    assert waves.cells() == ["4", "13", "+9 (+225%)"]
    assert "<td>+9 (+225%)</td>" in table._repr_html_()
    assert "<td>128.0 operations a byte</td>" in a._repr_html_()
    with pytest.raises(ArgumentError, match="compare takes the reports"):
        a.compare()


def test_what_the_model_cannot_tell_apart() -> None:
    """A kernel and itself; one that waits for memory twice as often is slower."""
    first, second, shorter = report_of(gemm), report_of(gemm), report_of(gemm, BK=16)
    said = [note for note in first.compare(second, shorter).notes if "cannot tell apart" in note]
    assert said == ["predicted times of gemm (1) and gemm (2) are within 5%, which the model cannot tell apart; "
                    "gemm (1) takes least without any overlap; xt.tune times both"]
    assert not any("cannot tell apart" in note for note in first.compare(shorter).notes)


def test_tables() -> None:
    one = Table("one <1>", (Row("bytes", (1024,), unit=" B"), Row("share", (0.5,), ".1%"), Row("name", ("x",))))
    two = Table("two", (Row("bytes", (512,), unit=" B"), Row("more", (1,)), Row("share", (0.5,), ".1%")),
                warnings=("hot",))
    both = Table.side_by_side("both", ["1", "2"], [one, two])
    assert str(both) == ("both\n"
                         "  ! 2: hot\n"
                         "         1        2      difference\n"
                         "  bytes  1,024 B  512 B  -512 B (-50%)\n"
                         "  more   -        1\n"
                         "  share  50.0%    50.0%\n"
                         "  name   x        -")
    assert "one &lt;1&gt;" in one._repr_html_()
    console = pytest.importorskip("rich.console")
    shown = io.StringIO()
    console.Console(file=shown, width=80).print(both)
    assert "-512 B (-50%)" in shown.getvalue()
    assert "! 2: hot" in shown.getvalue()


@pytest.mark.parametrize(("changed", "bound"), [
    ({"messages": 40}, ""), ({"scattered": 200}, "messages"), ({"atomics": 300}, "messages"), ({"barriers": 3}, ""),
    ({"waits": 1}, "latency"), ({"outside": 5000}, "")])
def test_what_makes_a_kernel_slower_than_its_bound(changed: dict[str, int], bound: str) -> None:
    step = LoopIteration(32, 64, 100, 1e6, 1e5)

    def of(step: LoopIteration) -> Prediction:
        return predict(MACHINES["b580"], "", step, work_groups=20, passes=10, large=True, traffic=0, flops=1)
    plain, slower = of(step), of(replace(step, **changed))
    assert slower.time > plain.time * 1.01
    assert slower.lower_bound == plain.lower_bound
    assert slower.bound == (bound or plain.bound)


def test_published_figures() -> None:
    """Of each published design a kernel: those of B580 in their order, and what is more than 15 % off is known."""
    require_ocloc()
    predicted = [figure.predicted() for figure in FIGURES]
    assert [figure.machine for figure in FIGURES[:3]] == ["b580"] * 3
    assert predicted[0] < predicted[1] * 0.9 < predicted[1] < predicted[2] * 0.96
    wrong = [(figure.machine, figure.dtype) for figure, rate in zip(FIGURES, predicted, strict=True)
             if abs(figure.error(rate)) > LARGEST_ERROR]
    assert wrong == [("max1100", "bf16"), ("max1100", "bf16"), ("aurora", "tf32"), ("a770", "f16")]
    named = [line for line in table().splitlines() if line.endswith(", WRONG")]
    assert len(named) == len(wrong)
    for figure, rate in zip(FIGURES, predicted, strict=True):  # but for kernels that we do not know, errors are as said
        assert "unknown" in figure.source or abs(figure.error(rate)) <= MACHINES[figure.machine].error + 0.005


def test_the_model() -> None:
    machine = MACHINES["b580"]
    step = LoopIteration(8, 64, 100, 1e6, 1e5)
    assert step.clocks(machine) == {"matrix engine": 128, "issue": 100}  # no published rate of its L1 and L2
    pipes = replace(step, alu_passes={"integer": 150, "math": 40}).clocks(machine)
    assert (pipes["integer pipe"], pipes["math pipe"], max(pipes.values())) == (150, 160, 160)
    small = predict(machine, "", step, work_groups=161, passes=10, large=False, traffic=0, flops=1)
    large = predict(machine, "", step, work_groups=161, passes=10, large=True, traffic=0, flops=1)
    assert (small.waves, large.waves) == (2, 3)  # a core holds 8 and 4 work-groups
    assert small.lower_bound == pytest.approx(9 * 10 * 128 / 2.85e9)  # 161 work-groups of 20 cores
    one = replace(step, subgroups=1, dpas_rows=8)
    few, many = (predict(machine, "", one, work_groups=groups, passes=10, large=True, traffic=0, flops=1)
                 for groups in (20, 161))
    assert few.lower_bound == pytest.approx(10 * max(one.clocks(machine).values()) * 8 / 2.85e9)  # one of eight engines
    assert many.lower_bound == pytest.approx(2 * few.lower_bound)  # nine subgroups on eight engines
    slow = predict(machine, "", step, work_groups=1, passes=1, large=True, traffic=456e9, flops=1)
    assert (slow.lower_bound, slow.bound) == (1, "memory")
    assert slow.time == pytest.approx(1, rel=1e-4)
    assert product_traffic(machine, (4, 4), (1e5, 1e5), 1e5, 20) == 9e5  # all fits in L2
    assert product_traffic(machine, (4, 4), (1e7, 1e7), 1e5, 8) == 2 * (2e7 + 4e7) + 1e5  # two waves of two rows


def test_what_is_wrong_with_a_prediction() -> None:
    report = report_of(gemm)
    for wrong in ({"shape": (4096, 4096)}, {"shape": (4096, 4096, 0)}, {"shape": (4096.0, 1, 1)}):
        with pytest.raises(ShapeError, match=r"\(M, N, K\), 3 positive integers"):
            report.predict(**wrong)
    with pytest.raises(ShapeError, match="needs a problem"):
        report.predict()
    with pytest.raises(ShapeError, match="passes= does not say"):
        report.predict(grid=(16, 16))
    with pytest.raises(ShapeError, match="describe no launch"):
        report.predict(grid=(16, 0), passes=1)
    with pytest.raises(TargetError, match="b580 runs code for bmg"):
        report.predict((64, 64, 64), machine="b580")
    with pytest.raises(TargetError, match="no machine with code for lnl"):
        find_machine(None, "lnl")
    with pytest.raises(TargetError, match="no machine 'a100'"):
        find_machine("a100", "pvc")


def test_the_roofline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = report_of(gemm)
    points = [(report, report.predict((4096, 4096, 4096)))]
    plot(tmp_path / "roof.png", points)
    assert (tmp_path / "roof.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ArgumentError, match="does not end as an image file"):
        plot(tmp_path / "roof.txt", points)
    with pytest.raises(ArgumentError, match="cannot be written"):
        plot(tmp_path / "no" / "roof.png", points)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ToolError, match=r"xetile\[plot\]"):
        plot(tmp_path / "roof.png", points)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_ocloc()
    file, picture = f"{Path(__file__)}:gemm", str(tmp_path / "roof.svg")
    said = ("A=bf16[512,256]", "B=bf16[256,?]", "C=f32[512,1024]")
    assert main(["report", file, "--target", "pvc,bmg", *said, "BM=256", "--plot", picture]) == 0
    out = capsys.readouterr().out
    assert "predicted for 512 x 1024 x 256" in out
    assert "difference" in out
    assert "Arc B580" in Path(picture).read_text()
    assert main(["report", file, "--shape", "8192x8192x8192", "--machine", "max1100"]) == 0
    printed = capsys.readouterr()
    assert "taken are A=bf16[?,?] B=bf16[?,?] C=f32[?,?]" in printed.err
    assert "predicted for 8192 x 8192 x 8192   Data Center GPU Max 1100" in printed.out


@pytest.mark.parametrize(("words", "message"), [
    (("--target", "pvc,abc"), "there is no target 'abc'"),
    (("A=bf16[64,64]",), "nothing describes B"),
    (("A=bf16[64,64", "B=1", "C=1"), "describes no argument"),
    (("--shape", "64"), "is not a problem size"),
    (("BQ=64",), "no constant BQ"),
])
def test_what_is_wrong_with_the_command(words: tuple[str, ...], message: str,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", f"{Path(__file__)}:gemm", *words]) == 1
    assert message in capsys.readouterr().err


@xt.kernel
def moved(X: Any, where: Any, Y: Any, Z: Any, counts: Any, table: Any) -> None:
    """A kernel without a loop with each kind of access to single elements, beside a tile that is loaded and stored."""
    at = (xt.group_id(0) * 8, xt.group_id(1) * 32)
    rows = xt.load_tile(xt.init_tile(where, at, (8, 32))).to(xt.index)
    everywhere = xt.full((8, 32), True, xt.i1)
    found = xt.load_gather(xt.init_tile(X, rows), everywhere)
    xt.store_scatter(found, xt.init_tile(Z, rows), everywhere)
    xt.atomic_rmw_tile("addi", xt.full((8, 32), 1, xt.i32), xt.init_tile(counts, rows))
    xt.store_tile(found * xt.load_scalar(table, (0, 0)), xt.init_tile(Y, at, (8, 32)))


@xt.kernel
def looked_up(A: Any, rows: Any, B: Any, C: Any, scales: Any, counts: Any, *, BM: int = 32, BN: int = 64,
              BK: int = 32) -> None:
    """A product of gathered rows of A, with a number and an atomic update in each step, and a scatter behind it."""
    m, n = xt.group_id(0) * BM, xt.group_id(1) * BN
    index = xt.load_tile(xt.init_tile(rows, (m, 0), (BM, BK))).to(xt.index)
    everywhere = xt.full((BM, BK), True, xt.i1)
    a = xt.init_tile(A, index)
    acc = xt.zeros((BM, BN), xt.f32)
    for k in xt.range(0, B.shape[0], BK):
        left = xt.load_gather(a, everywhere)
        acc = xt.tile_mma(left, xt.load_tile(xt.init_tile(B, (k, n), (BK, BN))), acc) * xt.load_scalar(scales, (0, k))
        xt.atomic_rmw_tile("addi", xt.full((1, 16), 1, xt.i32), xt.init_tile(counts, (0, 0), (1, 16)))
    xt.store_scatter(xt.full((BM, BK), 1, xt.bf16), a, everywhere)
    xt.store_tile(acc, xt.init_tile(C, (m, n), (BM, BN)))


def test_accesses_of_single_elements_are_memory_traffic() -> None:
    """Gathers, scatters, numbers and atomic updates, which read and write; elements of shared local memory are none."""
    matrix, integers = xt.Spec((None, None), "f32"), xt.Spec((None, None), "i32")
    found = report_of(moved, specs=[matrix, integers, matrix, matrix, integers, matrix])
    assert (found.work.distinct, found.work.stored) == (3 * 8 * 32 * 4 + 4, 3 * 8 * 32 * 4)
    groups = (64 // 8) * (64 // 32)
    assert found.predict((64, 64)).bytes == groups * (6 * 8 * 32 * 4 + 4)
    bf16 = xt.Spec((None, None), "bf16")
    found = report_of(looked_up, specs=[bf16, integers, bf16, matrix, matrix, integers])
    assert (found.work.a.name, found.work.b.name, found.work.step) == ("bf16", "bf16", 32)
    assert found.work.distinct == (32 + 64) * 32 * 2 + 4 + 64
    assert (found.work.beside, found.work.once) == (4 + 2 * 64, 32 * 32 * 2)
    assert found.predict((32, 64, 320)).bytes == (32 + 64) * 320 * 2 + 32 * 64 * 4 + 10 * (4 + 128) + 2048
    exchanged = report_of(through_shared, specs=[matrix, matrix])
    assert (exchanged.work.distinct, exchanged.work.loaded) == (8 * 32 * 4, 2 * 8 * 32 * 4)


@xt.kernel
def through_shared(X: Any, Y: Any) -> None:
    at, shared = (xt.group_id(0) * 8, xt.group_id(1) * 32), xt.alloc_slm((8, 32), xt.f32)
    xt.store_tile(xt.load_tile(xt.init_tile(X, at, (8, 32))), xt.init_tile(shared, (0, 0), (8, 32)))
    xt.barrier()
    xt.store_tile(xt.load_tile(xt.init_tile(shared, (0, 0), (8, 32))), xt.init_tile(Y, at, (8, 32)))
