"""Sweep of block operations: each construct x element type x execution, on bits that hurt, against plain NumPy."""
