"""Benchmarks of xetile: ``python -m benchmarks``; docs/benchmarks.md says what it prints.

The frame (``__main__``, ``rows``, ``goals``, ``timing``, ``machine``, ``plots``, ``kernels``) stands here, and measures
in folders: ``run_time`` is measured on this machine, ``gpu_code`` and ``trial_kernels`` are counted in machine code,
which needs ocloc. A measure has ``measure(quick, progress)``, which gives rows. ``code_snapshot`` compares the emitted
code before and after a change.
"""
