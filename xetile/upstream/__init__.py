"""XeTile to and from LLVM's XeGPU dialect: work-group tiles are its descriptors with ``sg_layout`` and ``sg_data``."""
