"""Kernel objects: the decorator, parsed modules, overrides."""
