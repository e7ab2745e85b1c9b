"""Cache hints of memory operations (XeGPU.md, ``L1_hint``, ``L2_hint``, ``L3_hint``)."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

READS = ("cached", "uncached", "streaming", "read_invalidate")
"""What a load or a prefetch may say of a cache level."""
LEVELS = ("l1_hint", "l2_hint", "l3_hint")
"""The properties that hold hints, one a cache level; a GPU without one of the levels leaves its hint out."""


@irdl_attr_definition
class CacheHintAttr(Data[str]):
    """``#xegpu.cache_hint<cached>``."""

    name = "xegpu.cache_hint"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            name = parser.parse_identifier()
            if name not in READS:
                parser.raise_error(f"{name} is no cache hint of a prefetch: use one of {', '.join(READS)}")
            return name

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)


_HINTS = {3: ("cached", "cached"), 2: ("uncached", "cached"), 1: ("uncached", "streaming"), 0: ("uncached", "uncached")}


def of_locality(locality: int) -> Mapping[str, CacheHintAttr]:
    """The hints for a locality of ``memref.prefetch``.

    3 keeps a block close, in L1 and L3; 2 keeps it in L3; 1 does so for as long as nothing else needs the place; 0
    keeps it nowhere.
    """
    first, last = (CacheHintAttr(hint) for hint in _HINTS[locality])
    return {"l1_hint": first, "l3_hint": last}


def keeps_nothing(hints: Mapping[str, object]) -> bool:
    """Whether the hints, of which there are some, leave a block in no cache."""
    said = [hint.data for hint in hints.values() if isinstance(hint, CacheHintAttr)]
    return bool(said) and set(said) == {"uncached"}
