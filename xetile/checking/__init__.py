"""``kernel.on("numpy", check=True)``: what a kernel does that a device would not forgive, found in NumPy.

The checks are meanings of operations that wrap the plain ones (:mod:`xetile.checking.executor`); a launch without them
runs as ever.
"""
