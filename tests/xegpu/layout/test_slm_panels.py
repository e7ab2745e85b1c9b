"""Panel layouts of shared local memory: every element has a place of its own, and offsets are what the strides say."""

from __future__ import annotations

import numpy as np
import pytest

from xegpu.layout.slm_panels import Panels, runs

LAYOUTS = [Panels.row_major(32, 64), Panels(32, 64, 1, 16), Panels(32, 64, 2, 16), Panels(32, 64, 1, 32, 8),
           Panels(48, 32, 1, 16, 8), Panels(32, 64, 2, 16, 8)]


@pytest.mark.parametrize("panels", LAYOUTS, ids=str)
def test_positions(panels: Panels) -> None:
    """No two elements share a place, and a block at multiples of a unit lies as one at the origin does."""
    assert panels.fits
    row, column = np.mgrid[:panels.height, :panels.width]
    position = panels.position(row, column)
    assert sorted(position.ravel()) == list(range(panels.height * panels.width))
    (down, across), (rows, columns) = panels.weights, panels.unit
    for y in range(0, panels.height, rows):
        for x in range(0, panels.width, columns):
            np.testing.assert_array_equal(position[y:, x:] - (y * down + x * across),
                                          position[:panels.height - y, :panels.width - x])


def test_a_message_has_rows_for_all_products_of_a_step() -> None:
    """Eight rows of 32 columns, in two panels, are 512 bytes side by side: two runs of 256."""
    lane, row, block = np.ogrid[:16, :8, :2]
    positions = Panels(512, 32, 1, 16, 8).position(row + 8, 16 * block + lane)
    found = runs(positions.transpose(0, 2, 1).reshape(16, 16), 2, 64)
    assert [(run.start, len(run.words), run.together) for run in found] == [(256, 8, True), (384, 8, True)]
