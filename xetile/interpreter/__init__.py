"""NumPy semantics of XeTile operations."""
