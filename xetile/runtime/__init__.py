"""Executors and launching: NumPy, devices, eager mode, launch caches."""
