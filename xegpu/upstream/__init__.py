"""LLVM's present form of the XeGPU dialect: offsets on the operations that move data, layouts as ``#xegpu.layout``.

The operations have the names of ours and other operands, so they live in a context of their own.
"""
