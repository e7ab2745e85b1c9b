"""Compiler driver: the list of passes, compiled kernels, dumps and reports."""
