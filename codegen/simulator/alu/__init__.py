"""Arithmetic of Xe instructions on all threads at once."""
