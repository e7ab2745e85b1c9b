"""The XeGPU dialect of 2024-04 (version 1): read into, and printed from, the present one."""
