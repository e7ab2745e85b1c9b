"""Analyses of XeGPU functions: facts that passes and emitters ask for; none rewrites."""
