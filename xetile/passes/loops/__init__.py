"""Passes over loops of matrix products in XeTile: masks split off, maxima and sums of rows, longer steps."""
