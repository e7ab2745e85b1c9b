"""External compilers and their support: ocloc, the SYCL compiler, SPIR-V, the disk cache."""
