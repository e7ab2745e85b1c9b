"""Verification of the step of ``scf.for``: MLIR leaves one that is not positive undefined, and xDSL accepts it."""

from __future__ import annotations

from xegpu.support.errors import Invalid, TraceError


def verify_step(step: int) -> None:
    """Verify that the step of a loop is positive."""
    if step <= 0:
        raise Invalid("XT1331", f"the step of a loop is {step}, and a loop on the device counts up\n"
                      f"use a positive step, such as {abs(step) or 1}; to count down from n, loop upwards over k and "
                      "use n - k", alone=True, kind=TraceError)
