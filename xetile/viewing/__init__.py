"""A kernel as a page: its source beside every stage, the machine code, and pictures of its maps."""
