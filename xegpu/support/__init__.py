"""Errors, source locations and notes: what every layer needs and nothing of the IR."""
