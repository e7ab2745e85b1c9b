// The even and the odd rows of words of two rows: their low and their high halves.
