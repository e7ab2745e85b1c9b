"""Operations of upstream MLIR dialects (arith, vector, gpu) that xDSL lacks or declares otherwise."""
