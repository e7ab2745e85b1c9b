"""Rewriting infrastructure: builder with CSE, 1:N dialect conversion, DCE, verification."""
