"""Traits by which analyses and passes of one dialect know the operations of another."""

from __future__ import annotations

from xdsl.traits import OpTrait


class MovesView(OpTrait):
    """A view of memory at another offset: the first operand, a tile or descriptor, is the only result, moved.

    It is what ViewLikeOpInterface is in MLIR.
    """
