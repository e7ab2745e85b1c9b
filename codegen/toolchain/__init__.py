"""External compilers and what they need: ocloc, the SYCL compiler, SPIR-V, the disk cache."""
