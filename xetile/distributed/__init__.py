"""Products over many ranks, on MPI."""
