"""Rows of any alignment as runs of memory, in OpenCL C: blocks of small matrices of a batch, read and written whole."""
