"""The earlier generation of the dialect (XeGPU-older.md): its operations, and the ways to the present one and back."""
