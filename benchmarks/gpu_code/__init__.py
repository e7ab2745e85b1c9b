"""Code for GPUs, of which nothing runs: machine code counted in the disassembly, and predictions of its speed."""
