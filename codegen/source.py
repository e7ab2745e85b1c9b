"""A kernel as OpenCL C, with what its build and its launch need."""

from __future__ import annotations

from dataclasses import dataclass

from codegen import diagnostics


@dataclass(frozen=True)
class Source:
    """OpenCL C with what its launch needs.

    Attributes:
        name: the kernel's name in the text.
        text: the whole program.
        options: build options on the device that it was made for.
        subgroups: subgroups of a work-group.
        lanes: work-items of a subgroup.
        arguments: for each argument of the kernel its dimensions, None for a number: an array passes its pointer,
            then its sizes, then its strides, as 32-bit integers.
        apart: whether subgroups wait for each other in places where not all of a work-group come by.
        assertions: the kernel's own, which it reports in a buffer that it gets behind its arguments.
        prints: whether the kernel prints.
    """

    name: str
    text: str
    options: str
    subgroups: int
    lanes: int
    arguments: tuple[int | None, ...]
    apart: bool = False
    assertions: tuple[diagnostics.Assertion, ...] = ()
    prints: bool = False

    @property
    def is_watched(self) -> bool:
        """Whether a launch waits for the kernel, for what it says of itself."""
        return self.prints or bool(self.assertions)

    @property
    def local_size(self) -> int:
        """Work-items of a work-group."""
        return self.subgroups * self.lanes
