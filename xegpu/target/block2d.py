"""Surface legality of 2D block messages: alignment, pitch and width of an array (hardware.md, "2D block IO")."""

from __future__ import annotations

from collections.abc import Sequence

from xegpu.target.targets import Target

SURFACE_ALIGNMENT = 64
"""The surface of 2D block messages begins at a multiple of these bytes."""
PITCH_ALIGNMENT = 16
"""The pitch of a surface is a multiple of these bytes."""
COLUMN_ALIGNMENT = 4
"""A block begins at a multiple of these bytes in a row of its surface, and rows end at one."""
_LEAST_WIDTH = 64
_LIMIT = 1 << 24

SERVED_BY = {
    "block": {"block"},
    "rows": {"rows", "block"},
    "block-columns": {"block-columns"},
    "columns": {"columns", "block-columns"},
    "strided": {"strided", "rows", "block", "columns", "block-columns"},
}
"""Access kinds, each with the access kinds of the arrays that code compiled for it also serves."""


def block_io_fault(pointer: int | None, shape: tuple[int | None, ...], strides: tuple[int | None, ...],
                   itemsize: int) -> str:
    """Diagnose why 2D block IO may not access an array's matrices (its last two dimensions); empty if it may.

    Args:
        pointer: address of the first element, None if it is not known yet (then it counts as aligned).
        shape, strides: in elements; None where not known yet (then they count as legal).
        itemsize: bytes of an element.
    """
    if len(shape) < 2:
        return f"it has {len(shape)} dimensions"
    for size, stride in zip(shape[:-2], strides[:-2], strict=True):
        if size == 0:
            return "it has no matrices"
        if size != 1 and stride is not None and stride * itemsize % SURFACE_ALIGNMENT:
            return f"its matrices are {stride * itemsize} bytes apart, not a multiple of {SURFACE_ALIGNMENT}"
    if pointer is not None and pointer % SURFACE_ALIGNMENT:
        return f"its base is {pointer % SURFACE_ALIGNMENT} bytes off a {SURFACE_ALIGNMENT}-byte boundary"
    (height, width), (pitch, step) = shape[-2:], strides[-2:]
    if step not in (1, None):
        return f"its elements are {step} apart along a row"
    if height is not None and not 0 < height <= _LIMIT:
        return f"it has {height} rows"
    if width is not None and not _LEAST_WIDTH <= width * itemsize <= _LIMIT:
        return f"a row of {width * itemsize} bytes is not between {_LEAST_WIDTH} bytes and 16 MB"
    if width is not None and width * itemsize % COLUMN_ALIGNMENT:
        return f"a row of {width * itemsize} bytes is not a multiple of {COLUMN_ALIGNMENT}"
    if pitch is not None and (pitch * itemsize % PITCH_ALIGNMENT or not 0 < pitch * itemsize <= _LIMIT):
        return f"a pitch of {pitch * itemsize} bytes is not a multiple of {PITCH_ALIGNMENT}, up to 16 MB"
    if pitch is not None and width is not None and pitch < width:
        return f"a pitch of {pitch} elements is less than the width of {width}"
    return ""


MOST_OF_MATRIX = 64
"""Rows and columns of a small matrix at most: its product is a subgroup's."""


def matrix_sizes(target: Target, shapes: Sequence[tuple[int | None, ...]], strides: Sequence[tuple[int | None, ...]],
                 kinds: Sequence[str], itemsizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Rows and columns of the small matrices of batches, which lie behind each other: nothing for other arrays.

    Nothing at all where no batch has sizes that code for any sizes does badly with: rows that 2D block messages do not
    take, or rows and columns that no tile fits.

    Args:
        target: what code is compiled for.
        shapes, strides: of each argument, in elements; empty for a number.
        kinds: its access kind.
        itemsizes: bytes of an element.
    """
    if not target.block_io:
        return ()
    found = tuple(small_matrix(shape, apart, itemsize)
                  for shape, apart, itemsize in zip(shapes, strides, itemsizes, strict=True))
    fits = all(not sizes or (kind == "block" and sizes[0] % 8 == sizes[1] % 16 == 0)
               for sizes, kind in zip(found, kinds, strict=True))
    return () if fits else found


def small_matrix(shape: tuple[int | None, ...], strides: tuple[int | None, ...], itemsize: int) -> tuple[int, ...]:
    """Rows and columns of an array's matrices if it is a batch of small ones behind each other."""
    if len(shape) < 3:
        return ()
    rows, columns = shape[-2:]
    if rows is None or columns is None or not 0 < rows <= MOST_OF_MATRIX or not 0 < columns <= MOST_OF_MATRIX or \
            strides[-3:] != (rows * columns, columns, 1) or rows * columns * itemsize < 64:
        return ()
    return rows, columns


def access(
    target: Target, pointer: int | None, shape: tuple[int | None, ...], strides: tuple[int | None, ...], itemsize: int
) -> str:
    """Fastest legal access kind of an array on ``target``: ``"block"``, ``"rows"`` or ``"strided"``.

    An array that is stored column by column, such as a transposed view, is judged as its transpose; the answer is then
    ``"block-columns"`` or ``"columns"``. A single row or column whose strides are both 1 is stored either way, and
    is judged as a column: tiles of both orders fit it.
    """
    if len(shape) >= 2 and strides[-2] == 1 and (strides[-1] != 1 or 1 in shape[-2:]):
        sizes, steps = ((*numbers[:-2], numbers[-1], numbers[-2]) for numbers in (shape, strides))
        transposed = _row_access(target, pointer, sizes, steps, itemsize)
        return {"block": "block-columns", "rows": "columns"}[transposed]
    return _row_access(target, pointer, shape, strides, itemsize)


def _row_access(
    target: Target, pointer: int | None, shape: tuple[int | None, ...], strides: tuple[int | None, ...], itemsize: int
) -> str:
    """Fastest legal access kind of an array that is reached row by row."""
    if target.block_io and not block_io_fault(pointer, shape, strides, itemsize):
        return "block"
    return "rows" if not strides or strides[-1] in (1, None) else "strided"
