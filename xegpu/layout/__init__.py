"""Register and SLM layouts: the mapping of elements to lanes, registers and memory."""
