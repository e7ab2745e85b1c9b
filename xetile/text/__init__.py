"""MLIR text: reader and printer for the spellings of XeTile.md, mlir-extensions and this package."""
