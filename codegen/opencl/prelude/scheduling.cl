// A place that the compiler moves nothing across: a device that does not compile through vISA has no use for it.
