"""What xetile's speed is measured by: ``python -m benchmarks``, and docs/benchmarks.md for what it prints.

Each file but the frame's (``__main__``, ``rows``, ``goals``, ``timing``, ``machine``, ``plots``, ``kernels``) measures
one thing and has ``measure(quick, progress)``, which gives rows.
"""
