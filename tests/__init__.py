"""The tests, in the folders of what they test; kernels, data and texts that several of them use stand here."""
