"""Random kernels: a generator, an evaluation in plain NumPy without the package, and what compares the two."""
