"""Control flow of text: block graphs lifted to ``scf`` (MLIR's ``lift-cf-to-scf``), loops that count in integers."""
