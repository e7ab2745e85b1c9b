"""Loop transformations of lowered kernels: unrolling, peeling, addresses hoisted out of loops, hints on loops."""
