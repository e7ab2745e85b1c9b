"""The example notebook, run in Jupyter's kernel: what its cells show, and that none fails."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NOTEBOOK = EXAMPLES / "first_kernel_to_tuned_product.ipynb"


@pytest.mark.everything
def test_the_notebook_runs_and_shows_pages_and_tables() -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3",
                            resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    shown = {cell.source: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}

    def of(line: str) -> Any:
        """The outputs of the one cell with a line."""
        (outputs,) = [outputs for source, outputs in shown.items() if line in source.splitlines()]
        return outputs

    (page,) = of("lowered.show()")
    assert "<iframe" in page.data["text/html"]
    assert "distribute-lanes" in page.data["text/html"]
    (finding,) = of('    overlapping.on("numpy", check=True)[3](X, np.zeros_like(X))')
    assert "XT6002" in finding.text
    assert "xt.store_tile(xt.load_tile(xt.init_tile(X, (row, 0), (16, 16)))" in finding.text  # the cell's own line
    (table,) = of("result.table()")
    timed = re.search(r"(\d+)(?: of 8)? configurations", table.data["text/html"])  # as many as are built in the time
    assert timed
    assert table.data["text/html"].count("<tr>") == 1 + int(timed[1]) >= 3
    (line,) = of("result.to_decorator()")
    assert line.data["text/plain"].startswith(("\"@xt.autotune(", "'@xt.autotune("))
    report = of("report")[-1]
    assert "dpas" in report.data["text/html"] if "data" in report else "XT51" in report.text


def test_the_notebook_is_committed_without_outputs() -> None:
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook.cells)
