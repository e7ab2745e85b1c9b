"""Faults that are known and not mended yet: the generator does not run into them.

An entry goes away with the fault: then the generator makes what it left out.
"""

KNOWN: dict[str, str] = {
    "transposed shared memory": "a tile of 2, 4 or 8 rows in shared local memory that is loaded and transposed: XT3502",
    "odd rows of tf32": "tile_mma of tf32 with an odd number of rows, on targets of 16 lanes: XT3503",
}
