"""Hints of memory operations: the padding of out-of-bounds elements, and cache policies (``l1=``, ``l3=``)."""

from __future__ import annotations

from typing import Any, TypeVar

from xdsl.ir import Attribute, Operation

from xegpu.ir import dtypes
from xegpu.ir.dtypes import DType
from xegpu.support.errors import ElementTypeError
from xegpu.target.cache_policy import BY_KIND
from xetile.dialect.types import CacheHintAttr, check_padding, padding_attribute
from xetile.frontend.constants import python_number
from xetile.frontend.notes import at_author_line
from xetile.frontend.tracer import current
from xetile.lang.checks import describe_argument


def padding_of(padding: Any, dtype: DType) -> Attribute | None:
    """Padding attribute; None for zero without a sign, which is the default padding.

    Args:
        padding: a Python number.
        dtype: the element type of the tile.

    Raises:
        ElementTypeError: it is no number, or the type does not hold it.
    """
    number = python_number(padding)
    if dtype is dtypes.i1 and isinstance(number, bool):
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise ElementTypeError("XT1124", f"padding is {describe_argument(padding)}, and must be a "
                               "compile-time constant",
                               "give a Python number, such as padding=0 or a keyword-only parameter; to choose by a "
                               "run-time value use xt.where", current().location())
    if dtype.kind == "s":
        check_zero_padding(number, dtype, dtypes.f16)
    at_author_line(lambda: check_padding(number, dtype))
    return padding_attribute(number, dtype)


def check_zero_padding(padding: float, dtype: DType, wider: DType) -> None:
    """Check the padding of elements that are padded with zeros alone.

    Args:
        padding: the number.
        dtype: the element type.
        wider: an element type to which vectors of it are widened, for the message.

    Raises:
        ElementTypeError: it is not zero.
    """
    if padding != 0:
        raise ElementTypeError("XT1125", f"padding {padding} does not fit {dtype}, which is padded with zeros",
                               "widen the loaded vector, and select by position: xt.where(inside, "
                               f"v.to(xt.{wider}), padding)", current().location())


_Operation = TypeVar("_Operation", bound=Operation)


def with_cache_hints(operation: _Operation, kind: str, l1: str | None, l3: str | None) -> _Operation:
    """Attach cache hints to a memory operation.

    Args:
        operation: the operation.
        kind: ``"load"``, ``"store"`` or ``"prefetch"``.
        l1, l3: a policy for each level, None for the default.

    Raises:
        ElementTypeError: the kind of operation takes no such hint.
    """
    for name, policy in (("l1", l1), ("l3", l3)):
        if policy is None:
            continue
        if policy not in BY_KIND[kind]:
            raise ElementTypeError("XT1127", f"a {kind} takes no cache hint {name}={policy!r}",
                                   f"use {', '.join(map(repr, BY_KIND[kind]))}", current().location())
        operation.attributes[f"{name}_hint"] = CacheHintAttr(policy)
    return operation
