"""Control flow: loops and conditions of Python recorded as regions, with the variables that they carry."""
