"""Functional simulator of Intel Xe GPUs: executes machine code of device binaries in NumPy."""
