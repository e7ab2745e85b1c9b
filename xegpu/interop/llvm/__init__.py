"""LLVM's XeGPU dialect: its operations, import from it and export to it."""
