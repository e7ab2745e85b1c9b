"""Import and export of other versions of the XeGPU dialect: v1 (2024-04) and LLVM's."""
