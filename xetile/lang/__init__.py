"""Language: the functions that an author calls inside a kernel."""
