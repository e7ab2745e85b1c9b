"""Masked loads and stores of one row on a processor, in the place of calls.

    static float load_..._masked(global const float *base, int height, int width, int pitch, int step, int y, int x)
    {
      const int lane = get_sub_group_local_id();
      const int row = y, column = x + lane;
      float words = 0;
      if ((uint)(row) < (uint)height && (uint)(column) < (uint)width) words = base[(row) * (long)pitch + column];
      return words;
    }

Each lane has one element, so that a compiler makes one masked instruction of it: less than a call takes at each end of
a row. A block of more elements a lane is a loop over them, which it compiles once, in a function that is called.
"""

from __future__ import annotations

from codegen.opencl.block_io.block_slice import BlockSlice
from codegen.opencl.emitter import Emitter
from codegen.opencl.values import Fragment
from xegpu.layout.lane_map import LaneMap

MOST_INLINED = 256
"""Words of a processor's lanes that a kernel accesses without calls: Intel's compiler takes 2.5 ms for each."""


def fits(emitter: Emitter, fragment: Fragment, lanes: LaneMap) -> bool:
    """Whether an access at an edge is masked, and not called; it is counted if so."""
    words = len(fragment.names)
    is_row = lanes.wi_layout == (1, emitter.subgroup) and fragment.width == 1 and fragment.per_lane == 1
    if not emitter.target.is_cpu or not is_row or emitter.inlined_words + words > MOST_INLINED:
        return False
    emitter.inlined_words += words
    return True


def is_in_bounds(piece: BlockSlice) -> str:
    """C condition: this lane's element is in bounds."""
    row, column = piece.coordinates(0)[0]
    return f"(uint)({row}) < (uint)height && (uint)({column}) < (uint)width"
