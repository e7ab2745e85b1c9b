"""Tools: the command line and the tuner."""
