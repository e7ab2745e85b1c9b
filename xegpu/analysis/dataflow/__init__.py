"""Data-flow analyses of values: ranges, divisors, constants, affine forms over the lanes."""
