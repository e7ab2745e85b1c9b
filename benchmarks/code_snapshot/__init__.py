"""Regression check of the generated code: OpenCL C and machine-code counts of many kernels, recorded and compared.

    python -m benchmarks.code_snapshot record before.json
    python -m benchmarks.code_snapshot record after.json --opencl-only
    python -m benchmarks.code_snapshot compare before.json after.json
    python -m benchmarks.code_snapshot compare before.json after.json --text --diff gemm.bf16@pvc

A record holds one entry for each pair of kernel and target. Machine code needs Intel's offline compiler, ocloc.
"""
