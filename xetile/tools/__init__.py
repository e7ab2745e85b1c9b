"""Tools over the compiler: the command line and the tuner."""
