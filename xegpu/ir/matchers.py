"""Matchers of constants (as MLIR's ``m_Constant``), and the loop attributes."""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, UnrealizedConversionCastOp
from xdsl.dialects.vector import BroadcastOp as SplatOp
from xdsl.ir import SSAValue


def number(value: SSAValue) -> int | None:
    """Integer value of an ``arith.constant``; None for any other value."""
    owner = value.owner
    if type(owner) is arith.ConstantOp and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def splat_of(value: SSAValue) -> int | None:
    """The constant that all elements of a vector are."""
    if not isinstance(value.owner, SplatOp):
        return None
    source = value.owner.source
    if isinstance(source.owner, UnrealizedConversionCastOp):
        source = source.owner.inputs[0]
    return number(source)


def same_number(a: SSAValue, b: SSAValue) -> bool:
    """Whether two values are one, or equal integer constants."""
    return a is b or (number(a) is not None and number(a) == number(b))


UNROLL = "xegpu.unroll"
"""Attribute of ``scf.for``: the unroll factor, a positive integer. It changes the speed and no result."""

BARRIER = "xegpu.barrier"
"""Attribute of ``scf.for``: a work-group barrier every so many iterations, so that subgroups stay in step and share
cache lines. It changes the speed and no result."""

VERSIONED = "xegpu.versioned"
"""Attribute of ``scf.if`` whose branches are versions of a loop: the first for columns that block messages take."""

OPTIONS = frozenset((UNROLL, BARRIER))

MAIN_LOOP = "xegpu.main_loop"
"""The loop behind it does the steps that it leaves: from where it ended, the last value that it carries."""


def main_loop_of(loop: scf.ForOp) -> scf.ForOp | None:
    """Main loop of which a loop does the steps that are left; None for other loops."""
    before = loop.lb.owner
    return before if isinstance(before, scf.ForOp) and MAIN_LOOP in before.attributes else None


SKIP_IF_ROLLED = "xegpu.skip_if_rolled"
"""A main loop that a text for a device may leave out: the other one then does all steps."""

DISABLE_UNROLL = "xegpu.disable_unroll"
"""The device's compiler leaves the loop's steps as they are."""

DISABLE_LICM = "xegpu.disable_licm"
"""The device's compiler computes addresses of rows in each step of the loop, not in front of it."""

DISABLE_ROTATE = "xegpu.disable_rotate"
"""The device's compiler does not rotate the loop: its condition is tested at the head of the body, not at its end."""
