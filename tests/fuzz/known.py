"""Faults that are known and not mended yet: the generator does not run into them.

An entry goes away with the fault: then the generator makes what it left out.
"""

KNOWN: dict[str, str] = {
    "padding of tf32": "load_tile(t, padding=4) of tf32",
    "i1 layout": "i1 vectors that are transposed, broadcast or converted to another layout",
    "unsigned numbers": "run-time numbers of u32 and u64 with Python numbers",
}
