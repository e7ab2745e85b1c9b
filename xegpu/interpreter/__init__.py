"""NumPy interpreter of XeGPU functions: semantics by operation family, memory, subgroup scheduling."""
