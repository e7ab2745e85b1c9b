"""What an author says about a loop on the device: attributes of ``scf.for`` that change its speed, and no result."""

UNROLL = "xegpu.unroll"
"""How many steps become one in the text of a kernel: a positive integer."""

BARRIER = "xegpu.barrier"
"""The subgroups of a work-group wait for each other in every so many steps, so that they stay together."""

OPTIONS = frozenset((UNROLL, BARRIER))
