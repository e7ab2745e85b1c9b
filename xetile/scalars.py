"""``xt.load_scalar``: a number of an array as a run-time number."""

from __future__ import annotations

from typing import Any

from xegpu.dialect.block_io import TYPES, LoadScalarOp
from xegpu.support.errors import ElementTypeError, RankError
from xetile.numbers import scalar
from xetile.parties import notes
from xetile.shared import SharedArray
from xetile.tiles import Array
from xetile.tracer import current
from xetile.values import Scalar, Value


def load_scalar(array: Array, indices: Any) -> Scalar:
    """The number that an array holds at an index: an address, a size, where a tile lies, a bound of a loop.

    A table of what work-groups have to do is such an array. The number is one for a whole subgroup, as an argument is;
    ``.to(xt.index)`` makes a size or an offset of it, and an ``i64`` or ``u64`` is an address for :func:`init_tile`.

    Args:
        array: an array argument of i32, u32, i64, u64 or f32, of any number of dimensions.
        indices: an integer or a run-time index for each dimension; one alone needs no tuple. It must lie in the array:
            NumPy checks it, devices do not.

    Raises:
        ElementTypeError: not an array argument, or one of another element type; an index that is none.
        RankError: not as many indices as the array has dimensions.
    """
    tracer = current("xt.load_scalar")
    if not isinstance(array, Array) or isinstance(array, SharedArray):
        what = f"a {array.describe()}" if isinstance(array, Value) else f"{type(array).__name__} {array!r:.40}"
        raise ElementTypeError("XT1240", f"load_scalar takes an array argument of the kernel, not {what}",
                               "pass the array itself; of a vector or of shared local memory there are only vectors",
                               tracer.location(), notes(tracer.location(), it=array))
    if array.dtype not in TYPES:
        raise ElementTypeError("XT1241", f"load_scalar gives {', '.join(map(str, TYPES))}, and {array.name} holds "
                               f"{array.dtype}", f"launch with {array.name}.astype(numpy.int32), or load a tile",
                               tracer.location())
    places = indices if isinstance(indices, (tuple, list)) else (indices,)
    if len(places) != array.rank:
        raise RankError("XT1242", f"{array.name} has {array.rank} dimension{'s' * (array.rank != 1)}, and load_scalar "
                        f"got {len(places)} {'index' if len(places) == 1 else 'indices'}",
                        "give an index for each dimension", tracer.location())
    return Scalar(tracer.emit(LoadScalarOp(array.ssa, [scalar(place) for place in places])))
