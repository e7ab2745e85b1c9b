"""Tracer: Python functions to XeTile operations."""
