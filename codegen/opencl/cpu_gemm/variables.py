"""Variables of one product's text: names that no variable of its function has."""

from __future__ import annotations

from dataclasses import dataclass

from codegen.opencl.emitter import Emitter


@dataclass(frozen=True)
class Variables:
    """Names of the variables of one product, unique in its function."""

    lane: str
    first: str
    end: str
    k: str
    row: str
    b: str
    number: str
    rows: str
    columns: str
    scratch: str
    shared_scratch: str
    sum: str
    i: str
    v: str
    panel_first: str
    panel_end: str
    check: str
    sums_of_a: str
    sum_of_b: str
    is_inside: str
    zero: str

    @classmethod
    def of(cls, emitter: Emitter) -> Variables:
        """Fresh names."""
        hints = ("lane", "first", "end", "k", "row", "b_panel", "number", "rows", "columns", "scratch", "whole", "sum",
                 "i", "v", "panel_first", "panel_end", "check", "sums_of_a", "sum_of_b", "is_inside", "zero")
        return cls(*(emitter.name(hint) for hint in hints))
