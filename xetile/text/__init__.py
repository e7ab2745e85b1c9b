"""Reading and printing MLIR text: the spellings of XeTile.md and of mlir-extensions beside our own."""
