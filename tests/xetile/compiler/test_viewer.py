"""The page about a kernel, in a browser; and the command that lists devices."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xetile as xt
from tests.conftest import ROOT, require_chromium, require_ocloc
from xegpu.layout import lane_map
from xegpu.layout.lane_map import LaneMap
from xetile.compiler.viewer import layout_svg
from xetile.tools.cli import main

PROBE = """<script>
const third = document.querySelector('#s-to-xegpu');
document.querySelector('nav a[href="#s-to-xegpu"]').click();
const load = all('[data-line]', third).find(e => e.textContent.includes('load_nd'));
load.click();
const lit = all('.lit').map(e => e.parentElement.parentElement.id || e.parentElement.parentElement.parentElement.id);
document.title = JSON.stringify({
  shown: all('section.on').map(s => s.id), line: load.dataset.line,
  source: document.querySelector('#source .lit').textContent, places: [...new Set(lit)],
  hot: all('#s-machine-code .hot').filter(e => e.textContent.includes('dpas')).length,
  outside: all('script[src], link[href], img').length, pictures: all('svg').length});
</script>"""


def test_the_page_in_a_browser(tmp_path: Path) -> None:
    require_ocloc()
    page = tmp_path / "page.html"
    file = ROOT / "examples" / "gemm.py"
    assert main(["view", f"{file}:gemm", "A=bf16[?,?]", "B=bf16[?,?]", "C=f32[?,?]", "-o", str(page)]) == 0
    page.write_text(page.read_text().replace("</body>", f"{PROBE}</body>"))
    done = subprocess.run([require_chromium(), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
                           f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()], capture_output=True, text=True,
                          timeout=120, check=True)
    found = re.search(r"<title>(.*?)</title>", done.stdout)
    assert found is not None
    told = found[1]
    assert '"shown":["s-to-xegpu"]' in told
    assert f'"line":"{line_of_the_product()}"' in told
    assert "tile_mma(xt.load_tile(a)" in told
    assert '"outside":0' in told
    low = _lowered()
    assert f'"hot":{low.report().loop["dpas"]},' in told
    assert '"pictures":8' in told  # tiles of A, B, C and two prefetches; the blocks of A, B and the accumulator


def line_of_the_product() -> int:
    lines = (ROOT / "examples" / "gemm.py").read_text().splitlines()
    return next(number for number, text in enumerate(lines, 1) if "tile_mma" in text)


def _lowered():  # type: ignore[no-untyped-def]
    import sys

    sys.path.append(str(ROOT / "examples"))
    from gemm import gemm

    spec = xt.Spec((None, None), xt.bf16)
    return gemm.lower(spec, spec, xt.Spec((None, None), xt.f32), target="pvc")


def test_what_a_pass_changed_is_marked_and_linked() -> None:
    from xetile.compiler.viewer.lines import stages_of

    low = _lowered()
    stages = {text.name: text for text in stages_of(low, low.location.positions[0].file)}
    assert not any(line.mark for line in stages["xetile"].lines)
    dealt = stages["distribute-subgroups"]
    assert dealt.removed > 0
    assert any("32x64xf32" in line.text and line.mark == "+" for line in dealt.lines)
    for name in ("xetile", "distribute-lanes", "OpenCL C"):
        dpas = [line for line in stages[name].lines if "tile_mma" in line.text or "dpas" in line.text
                or "matrix_mad" in line.text]
        assert dpas
        assert {line.origin for line in dpas} == {line_of_the_product()}


@pytest.mark.parametrize(("lanes", "shape"), [
    (lane_map.operand_a(16, 16), (8, 16)), (lane_map.operand_b(16, 16), (16, 16)), (lane_map.operand_b(8, 8), (32, 8)),
    (LaneMap((16, 1)), (16, 8))])
def test_a_picture_shows_the_lane_of_every_element(lanes: LaneMap, shape: tuple[int, int]) -> None:
    text = layout_svg.block("x", lanes, shape)
    shown = re.findall(r"row (\d+), column (\d+): lane (\d+), element (\d+)", text)
    assert len(shown) == shape[0] * shape[1]
    elements = np.arange(shape[0] * shape[1]).reshape(shape)
    fragments = lane_map.scatter(elements, lanes).reshape(lanes.lanes, -1)
    assert all(fragments[int(lane), int(at)] == elements[int(row), int(column)] for row, column, lane, at in shown)


def test_a_picture_of_a_tile_names_every_owner() -> None:
    map_ = xt.wg_map((2, 2), (32, 32))
    text = layout_svg.work_group("a", map_, (128, 32))
    assert re.findall(r"rows (\d+) to \d+, columns 0 to 31: subgroup ([\d, ]+)<", text) == [
        ("0", "0, 1"), ("32", "2, 3"), ("64", "0, 1"), ("96", "2, 3")]


def test_a_notebook_gets_the_page_and_a_wrong_path_is_an_error() -> None:
    view = _lowered().show()
    assert view._repr_html_().startswith("<iframe srcdoc=")
    with pytest.raises(xt.ArgumentError, match="XT8002"):
        view.save("/nowhere/page.html")


def test_the_machine_code_of_a_kernel_whose_name_is_another_in_c(tmp_path: Path) -> None:
    require_ocloc()

    @xt.kernel
    def float_(A: Any) -> None:
        xt.store_tile(xt.zeros((8, 16), xt.f32), xt.init_tile(A, (0, 0), (8, 16)))

    page = tmp_path / "page.html"
    float_.lower(xt.Spec((None, None), "f32"), target="pvc").show().save(page)
    assert "store_block2d" in page.read_text()


def test_devices_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 0
    text = capsys.readouterr().out
    for name in ("numpy:xegpu", "ocloc", "SYCL compiler", "dpctl", "matplotlib"):
        assert name in text
