"""Kernel objects: ``@xt.kernel``, ``xt.parse``, ``kernel.override``."""
