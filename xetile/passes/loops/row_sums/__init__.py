"""Sums of rows that loops carry, in a form of several columns."""
