"""Communication of ranks: messages over MPI, agreement, errors of other ranks, whole matrices."""
