"""Benchmarks of xetile: ``python -m benchmarks``; docs/benchmarks.md says what it prints.

Each file but the frame's (``__main__``, ``rows``, ``goals``, ``timing``, ``machine``, ``plots``, ``kernels``) measures
one thing and has ``measure(quick, progress)``, which gives rows.
"""
