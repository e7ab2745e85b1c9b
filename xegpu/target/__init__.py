"""Target records: shapes of matrix products and block messages, registers, caches."""
