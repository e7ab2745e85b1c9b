"""A software GPU below dpctl: a stand-in for Level Zero's loader, whose kernels the simulator runs as machine code."""
