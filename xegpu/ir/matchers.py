"""Numbers that are known when a kernel is compiled."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import SSAValue


def number(value: SSAValue) -> int | None:
    """The integer that an index value is, if it is a constant."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


# What an author says about a loop on the device: attributes of ``scf.for`` that change its speed, and no result.


UNROLL = "xegpu.unroll"
"""How many steps become one in the text of a kernel: a positive integer."""

BARRIER = "xegpu.barrier"
"""The subgroups of a work-group wait for each other in every so many steps, so that they stay together."""

OPTIONS = frozenset((UNROLL, BARRIER))

MAIN_LOOP = "xegpu.main_loop"
"""The loop behind it does the steps that it leaves: from where it ended, the last value that it carries."""

SKIP_IF_ROLLED = "xegpu.skip_if_rolled"
"""A main loop that a text for a device may leave out: the other one then does all steps."""

DISABLE_UNROLL = "xegpu.disable_unroll"
"""The device's compiler leaves the loop's steps as they are."""
