"""Times and memory measured on this machine: NumPy, the CPU device, launches, and the compiler itself."""
