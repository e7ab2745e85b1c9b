"""What an author says about a loop on the device: attributes of ``scf.for`` that change its speed, and no result."""

UNROLL = "xegpu.unroll"
"""How many steps become one in the text of a kernel: a positive integer."""
