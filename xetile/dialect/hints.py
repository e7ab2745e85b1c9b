"""Cache hints of loads, stores and prefetches, as mlir-extensions has them."""

from __future__ import annotations

from xdsl.irdl import irdl_attr_definition

from xegpu.dialect.hints import Hint


@irdl_attr_definition
class CacheHintAttr(Hint):
    """``#xetile.cache_hint<cached>``; the messages that a tile becomes take it over."""

    name = "xetile.cache_hint"
