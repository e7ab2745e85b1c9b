"""Layouts: which lane and which register hold which element."""
