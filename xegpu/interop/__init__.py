"""Other forms of the XeGPU dialect."""
