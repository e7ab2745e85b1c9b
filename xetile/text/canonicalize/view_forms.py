"""Views of arrays: their offset, sizes and strides, and the composition of views.

    %s = memref.subview %A[%i, 4] [8, 16] [1, 1] : memref<40x48xf32> to memref<8x16xf32, strided<[48, 1], offset: ?>>
is the array %A from its element 48 * %i + 4 on: sizes [8, 16], strides [48, 1], corner (%i, 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from xdsl.dialects import memref
from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, IntegerAttr, MemRefType
from xdsl.ir import Attribute, SSAValue

from xegpu.ir.dtypes import of_mlir
from xetile.text.canonicalize.diagnostics import fail_at
from xetile.text.canonicalize.sizes import Size, SizeBuilder, known
from xetile.text.canonicalize.subviews import kept_dimensions


@dataclass(frozen=True)
class View:
    """View of an array: where it begins, in elements of its type, and its sizes and strides.

    Attributes:
        array: a kernel's argument or an allocation.
        start: from the array to the view's pointer, from which a further cast counts.
        offset: from there to the first element.
        corner: indices of the first element in the array, if the view has the array's strides.
        axes: dimensions of the array along which those of such a view run; the others have one element.
        own: sizes and strides of the array.
    """

    array: SSAValue
    element: Attribute
    start: Size
    offset: Size
    sizes: tuple[Size, ...]
    strides: tuple[Size, ...]
    corner: tuple[Size, ...] | None = None
    axes: tuple[int, ...] = ()
    own: tuple[tuple[Size, ...], tuple[Size, ...]] = ((), ())

    @property
    def span(self) -> tuple[int, int] | None:
        """First byte and the one after the last; None if not known."""
        first = known(self.start), known(self.offset)
        sizes, strides = (list(map(known, values)) for values in (self.sizes, self.strides))
        if None in (*first, *sizes, *strides):
            return None
        begin, elements = sum(first), 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))  # type: ignore
        size = of_mlir(self.element).bytes
        return begin * size, (begin + elements) * size

    def of_array(self, values: Sequence[Size]) -> list[Size]:
        """Indices in the view as those in the array from the view's corner on: 0 along what the view leaves out."""
        assert self.corner is not None
        all_: list[Size] = [0] * len(self.corner)
        for axis, value in zip(self.axes, values, strict=True):
            all_[axis] = value
        return all_


def mixed(static: Any, dynamic: Sequence[SSAValue]) -> list[Size]:
    """Mixed static and dynamic values of an operation."""
    values = iter(dynamic)
    return [next(values) if entry == DYNAMIC_INDEX else entry for entry in static.get_values()]


def subview(build: SizeBuilder, view: memref.SubviewOp, source: View) -> View:
    """``memref.subview``: a part of a view, with steps, and without dimensions of one element."""
    offsets, sizes = mixed(view.static_offsets, view.offsets), mixed(view.static_sizes, view.sizes)
    steps = mixed(view.static_strides, view.strides)
    if not len(offsets) == len(sizes) == len(steps) == len(source.sizes):
        fail_at(view, "XT2085", f"a view of memory of {len(source.sizes)} dimensions takes as many offsets, sizes and "
                "strides", "the dimensions of size 1 that the view drops have them, too")
    kept = kept_dimensions(view, sizes)
    offset = source.offset
    for by, stride in zip(offsets, source.strides, strict=True):
        offset = build.sum(offset, build.product(by, stride))
    corner: tuple[Size, ...] | None = None
    if source.corner is not None and all(known(step) == 1 for step in steps):
        corner = tuple(build.sum(a, b) for a, b in zip(source.corner, source.of_array(offsets), strict=True))
    return replace(source, offset=offset, sizes=tuple(sizes[axis] for axis in kept),
                   strides=tuple(build.product(source.strides[axis], steps[axis]) for axis in kept), corner=corner,
                   axes=tuple(source.axes[axis] for axis in kept) if corner is not None else ())


def collapsed(build: SizeBuilder, view: memref.CollapseShapeOp, source: View) -> View:
    """``memref.collapse_shape``: each group of dimensions, whose elements follow each other, as one."""
    sizes: list[Size] = []
    strides: list[Size] = []
    for group in _groups(view, view.reassociation, len(source.sizes)):
        size: Size = 1
        stride: Size | None = None
        for axis in reversed(group):
            here, step = source.sizes[axis], source.strides[axis]
            if known(here) == 1 and len(group) > 1:
                continue
            if stride is None:
                stride = step
            elif None not in (known(step), known(stride), known(size)) and \
                    known(step) != known(stride) * known(size):  # type: ignore[operator]
                fail_at(view, "XT2081", f"the rows of {view.src.type} are apart, and are collapsed",
                        "collapse dimensions whose elements follow each other")
            size = build.product(size, here)
        sizes.append(size)
        strides.append(1 if stride is None else stride)
    return replace(source, sizes=tuple(sizes), strides=tuple(strides), corner=None, axes=())


def expanded(build: SizeBuilder, view: memref.ExpandShapeOp, source: View) -> View:
    """``memref.expand_shape``: a dimension as several, the last of which has its stride."""
    sizes = mixed(view.static_output_shape, view.output_shape)
    strides: list[Size] = [1] * len(sizes)
    groups = _groups(view, view.reassociation, len(sizes))
    if len(groups) != len(source.sizes):
        fail_at(view, "XT2082", f"it has {len(groups)} groups of dimensions, and {view.src.type} {len(source.sizes)} "
                "dimensions", "write a group for each dimension of the source")
    for axis, group in enumerate(groups):
        whole, parts = known(source.sizes[axis]), [known(sizes[each]) for each in group]
        if None not in (whole, *parts) and whole != prod(parts):  # type: ignore[arg-type]
            fail_at(view, "XT2082", f"{whole} elements are expanded to {'x'.join(map(str, parts))}",
                    "give the dimensions of a group as many elements as the one that they expand")
        stride = source.strides[axis]
        for each in reversed(group):
            strides[each] = stride
            stride = build.product(stride, sizes[each])
    return replace(source, sizes=tuple(sizes), strides=tuple(strides), corner=None, axes=())


def _groups(view: memref.CollapseShapeOp | memref.ExpandShapeOp, stated: ArrayAttr[Any], rank: int) -> list[list[int]]:
    """Groups of dimensions of a change of shape, which together are all, in their order."""
    groups = [[each.value.data for each in group if isinstance(each, IntegerAttr)] for group in stated]
    if [axis for group in groups for axis in group] != list(range(rank)):
        fail_at(view, "XT2082", f"its groups are not the {rank} dimensions in their order",
                "write each dimension once: [[0, 1], [2]]")
    return groups


def of_all(array: SSAValue, sizes: Sequence[Size], strides: Sequence[Size]) -> View:
    """The view of all of an array."""
    assert isinstance(array.type, MemRefType)
    own, rank = (tuple(sizes), tuple(strides)), len(sizes)
    return View(array, array.type.element_type, 0, 0, *own, corner=(0,) * rank, axes=tuple(range(rank)), own=own)


def in_array(build: SizeBuilder, view: View, offsets: Sequence[Size]) -> tuple[list[Size], list[Size]] | None:
    """Offsets of a tile on a view as offsets in the array, and the sizes up to the view's end.

    None for a view that has other strides than its array, or other last dimensions.
    """
    if view.corner is None or len(offsets) != len(view.sizes):
        return None
    rank, moved = len(view.corner), min(len(view.corner), 2)
    if view.axes[-moved:] != tuple(range(rank - moved, rank)):
        return None
    starts = [build.sum(a, b) for a, b in zip(view.corner, view.of_array(offsets), strict=True)]
    ends = [build.sum(view.corner[axis], size) for axis, size in zip(view.axes, view.sizes, strict=True)]
    return starts, [*view.own[0][:-moved], *ends[-moved:]]
