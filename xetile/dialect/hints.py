"""Cache hints of loads, stores and prefetches, as mlir-extensions has them."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

POLICIES = ("cached", "uncached", "streaming", "read_invalidate", "write_back", "write_through")
"""What a hint may say of a cache level."""
LEVELS = ("l1_hint", "l2_hint", "l3_hint")
"""The attributes that hold hints, one a cache level."""


@irdl_attr_definition
class CacheHintAttr(Data[str]):
    """``#xetile.cache_hint<cached>``.

    It is kept and printed. OpenCL's block messages take no hint, so it changes no code, but a prefetch that leaves a
    level uncached has a smaller ``locality``.
    """

    name = "xetile.cache_hint"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> str:
        with parser.in_angle_brackets():
            return parser.parse_identifier()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data)
