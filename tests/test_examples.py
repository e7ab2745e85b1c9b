"""The examples: they run where the README says, print what they should, and notice a wrong result."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import xetile as xt
from tests.conftest import require_device, require_ocloc

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
ODD = ["--m", "70", "--n", "51", "--k", "45"]
EXECUTIONS = [("numpy", "pvc"), ("numpy:xegpu", "pvc"), ("numpy:xegpu", "dg2"),
              ("opencl:cpu", "pvc"), ("opencl:cpu", "dg2"), ("opencl:cpu", "cpu")]


def _need(device: str) -> None:
    if not device.startswith("numpy"):
        require_device(device)


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run an example as from the command line; what it printed."""
    def call(module: ModuleType, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [str(module.__file__), *arguments])
        module.main()
        return capsys.readouterr().out

    return call


@pytest.mark.parametrize(("device", "target"), EXECUTIONS)
def test_gemm_runs(run: Any, device: str, target: str) -> None:
    _need(device)
    out = run(_load("gemm"), *ODD, "--device", device, "--target", target)
    assert f"({device}), code for {target}\n" in out
    assert "product  70 x 45 by 45 x 51, bf16 into float32\n" in out
    assert re.search(r"^time +[\d.]+ ms", out, re.MULTILINE)
    assert re.search(r"^rate +[\d.]+ GFLOP/s$", out, re.MULTILINE)
    error = re.search(r"^error +(\S+) of the largest element", out, re.MULTILINE)
    assert error is not None
    assert float(error[1]) < 1e-5


@pytest.mark.parametrize("dtype", ["f16", "tf32", "f32", "i8", "u8"])
@pytest.mark.parametrize(("device", "target"), [("numpy", "pvc"), ("opencl:cpu", "cpu")])
def test_gemm_runs_with_every_element_type(run: Any, device: str, target: str, dtype: str) -> None:
    _need(device)
    out = run(_load("gemm"), *ODD, "--dtype", dtype, "--device", device, "--target", target)
    assert f"{dtype} into {'int32' if dtype[1:] == '8' else 'float32'}\n" in out


def test_gemm_finds_a_place_by_itself(run: Any) -> None:
    assert f"({xt.best_device()})" in run(_load("gemm"), *ODD)


@pytest.mark.parametrize(("device", "target"), EXECUTIONS)
def test_gemm_subgroup_runs(run: Any, device: str, target: str) -> None:
    _need(device)
    out = run(_load("gemm_subgroup"), *ODD, "--device", device, "--target", target)
    assert out.startswith("70 x 45 by 45 x 51 on ")
    assert out.endswith(f", code for {target}: equal to NumPy\n")


SHOWN = {
    "xetile": (r"xetile\.tile_mma .* vector<256x256xf32>", r"xetile\.prefetch_tile", r"wg_map<sg_layout = \[8, 4\]"),
    "xegpu": (r"xegpu\.dpas .* vector<8x1xf32>", r"\{packed\}", r"xegpu\.payload_prefetch"),
    "opencl": (r"kernel void gemm\(", r"intel_sub_group_bf16_bf16_matrix_mad_k16", r"block_read_ap_prefetch"),
    "sycl": (r"void gemm\(unsigned short \*A_pointer", r"sycl::event launch\(", r"block_read_ap_prefetch"),
}


@pytest.mark.parametrize("stage", SHOWN)
def test_gemm_shows_a_stage_instead_of_running(run: Any, stage: str) -> None:
    out = run(_load("gemm"), "--show", stage)
    for pattern in SHOWN[stage]:
        assert re.search(pattern, out)
    assert "GFLOP/s" not in out


def test_what_gemm_shows_can_be_parsed(run: Any) -> None:
    module = _load("gemm")
    for stage in ("xetile", "xegpu"):
        assert list(xt.parse(run(module, "--show", stage))) == ["gemm"]


@pytest.mark.parametrize("target", ["pvc", "bmg", "dg2"])
def test_gemm_shows_machine_code(run: Any, target: str) -> None:
    require_ocloc()
    out = run(_load("gemm"), "--show", "isa", "--target", target)
    assert len(re.findall(r"\bdpas\.8x", out)) >= (32 if target != "dg2" else 1)
    if target != "dg2":
        assert re.search(r"load_block2d", out)
        assert re.search(r"store_block2d", out)


@pytest.mark.parametrize("dtype", ["bf16", "i8"])
@pytest.mark.parametrize("target", [name for name, target in xt.TARGETS.items() if target.ocloc])
def test_the_machine_code_of_gemm(target: str, dtype: str) -> None:
    """32 x 64 a subgroup and one step of K: 4 x 4 x 2 products of 8 x 16 x depth, three loads, nothing in memory."""
    require_ocloc()
    module = _load("gemm")
    operand, result = xt.Spec((None, None), dtype), xt.Spec((None, None), module.TYPES[dtype][1])
    report = module.gemm.lower(operand, operand, result, target=target, **module.constants(target, dtype)).report()
    assert (report.spill_size, report.private_size) == (0, 0)
    assert report.mix.whole.categories["dpas"] >= 16
    if xt.TARGETS[target].block_io:
        counted = [report.loop[kind] for kind in ("dpas", "load_block2d", "prefetch")]
        assert counted == [32 * report.unrolled, 3 * report.unrolled, 2 * report.unrolled]
        assert report.mix.whole.categories["store_block2d"] == 16


@pytest.mark.parametrize("causal", [False, True])
def test_attention_on_dg2_keeps_its_sums_in_registers(causal: bool) -> None:
    """Most spilled bytes are those of the steps at the edges: where the main loop spills, there are 3900 and more."""
    require_ocloc()
    example, matrix = _load("flash_attention"), xt.Spec((None, None, 64), "bf16")
    report = example.attention.lower(matrix, matrix, matrix, xt.Spec((None, None, 64), "f32"), target="dg2",
                                     causal=causal, **example.constants("dg2")).report()
    assert report.spill_size <= 1728
    assert report.loop.get("scratch", 0) <= 2
    assert report.loop["dpas"] == 16


class _Spoiled:
    """A kernel that gets the last element of its result wrong."""

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def on(self, *args: Any, **options: Any) -> _Spoiled:
        return _Spoiled(self._kernel.on(*args, **options))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def __getitem__(self, grid: Any) -> Any:
        def launch(a: Any, b: Any, c: Any, **constants: Any) -> None:
            self._kernel[grid](a, b, c, **constants)
            c[-1, -1] += 1

        return launch


@pytest.mark.parametrize("name", ["gemm", "gemm_subgroup"])
def test_a_wrong_result_is_noticed(run: Any, name: str) -> None:
    module = _load(name)
    module.gemm = _Spoiled(module.gemm)  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match="the result is wrong"):
        run(module, *ODD, "--device", "numpy")


@pytest.mark.parametrize("name", ["gemm", "gemm_subgroup"])
def test_a_missing_result_is_noticed(run: Any, name: str) -> None:
    class Idle(_Spoiled):
        def on(self, *args: Any, **options: Any) -> Idle:
            return Idle(self._kernel.on(*args, **options))

        def __getitem__(self, grid: Any) -> Any:
            return lambda *args, **constants: None

    module = _load(name)
    module.gemm = Idle(module.gemm)  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match="the result is wrong"):
        run(module, *ODD, "--device", "numpy")


SMALL = {
    "gemm_reduce": ["--m", "150", "--n", "140", "--k", "70"],
    "gemm_transposed": ["--m", "150", "--n", "140", "--k", "70"],
    "gemm_slm": ["--m", "150", "--n", "140", "--k", "150"],
    "int4_gemm": ["--m", "150", "--n", "140", "--k", "150"],
    "gemm_two_levels": ["--m", "150", "--n", "140", "--k", "300"],
    "batched_gemm": ["--batch", "3", "--m", "70", "--n", "50", "--k", "45"],
    "gemm_gelu": ["--m", "150", "--n", "140", "--k", "70"],
    "softmax": ["--m", "70", "--n", "300"],
    "histogram": ["--n", "17000"],
    "split_k": ["--m", "50", "--n", "60", "--k", "500", "--parts", "5"],
    "flash_attention": ["--heads", "2", "--m", "70", "--n", "90"],
}
"""The worked programs of the specification, and those beside them, at sizes that no tile divides."""
KERNELS = {"flash_attention": "attention"}


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load an example that shares its frame with others."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return _load


def _worked() -> list[Any]:
    """Every program in every execution; the text of a GPU is built without the optimiser."""
    fast = [("opencl:cpu", "pvc"), ("opencl:cpu", "dg2")]
    return [pytest.param(name, device, target, marks=pytest.mark.unoptimised if (device, target) in fast else ())
            for name in SMALL for device, target in EXECUTIONS]


@pytest.mark.parametrize(("name", "device", "target"), _worked())
def test_worked_programs_run(run: Any, worked: Any, name: str, device: str, target: str) -> None:
    _need(device)
    out = run(worked(name), *SMALL[name], "--device", device, "--target", target)
    assert re.search(rf", code for {target}: (equal to|within \S+ of) NumPy, ", out)


@pytest.mark.parametrize(("device", "target"), EXECUTIONS)
def test_causal_attention_runs(run: Any, worked: Any, device: str, target: str) -> None:
    _need(device)
    out = run(worked("flash_attention"), *SMALL["flash_attention"], "--causal", "--device", device, "--target", target)
    assert out.startswith("causal attention of 2 heads")


@pytest.mark.parametrize("name", SMALL)
def test_a_wrong_result_of_a_worked_program_is_noticed(run: Any, worked: Any, monkeypatch: pytest.MonkeyPatch,
                                                       name: str) -> None:
    class Spoiled(_Spoiled):
        def on(self, *args: Any, **options: Any) -> Spoiled:
            return Spoiled(self._kernel.on(*args, **options))

        def __getitem__(self, grid: Any) -> Any:
            def launch(*arguments: Any, **constants: Any) -> None:
                self._kernel[grid](*arguments, **constants)
                arguments[-1][..., -1] += 100

            return launch

    module = worked(name)
    kernel = KERNELS.get(name, name)
    monkeypatch.setattr(module, kernel, Spoiled(getattr(module, kernel)))
    with pytest.raises(SystemExit, match="the result is wrong"):
        run(module, *SMALL[name], "--device", "numpy")


# Example to what the report of its machine code must say: bytes of shared local memory, and products in the hot loop.
MADE: dict[str, tuple[int | None, int]] = {
    "gemm_reduce": (None, 32), "gemm_transposed": (0, 32), "gemm_slm": (None, 8), "gemm_two_levels": (0, 32),
    "batched_gemm": (0, 16), "int4_gemm": (0, 8), "gemm_gelu": (0, 32),
    "softmax": (0, 0), "split_k": (0, 16), "flash_attention": (0, 72),
}


@pytest.mark.parametrize("target", ["pvc", "bmg"])
@pytest.mark.parametrize("name", MADE)
def test_the_machine_code_of_worked_programs(run: Any, worked: Any, name: str, target: str) -> None:
    """Nothing spills; the optimised transpose of Appendix 2.3 has no traffic of shared local memory."""
    require_ocloc()
    out = run(worked(name), "--show", "report", "--target", target)
    slm, products = MADE[name]
    assert re.search(r"^  spilled +0 bytes$", out, re.MULTILINE)
    assert slm is None or re.search(rf"shared local memory +{slm:,} bytes", out)
    counted = {kind: int(count) for kind, count in re.findall(r"^    (\w+) +(\d+)$", out, re.MULTILINE)}
    assert counted.get("dpas", 0) >= products
    assert products == 0 or counted.get("load_block2d", 0) >= 2
    assert ("slm" in counted) == (name == "gemm_slm")
    assert "scratch" not in counted
