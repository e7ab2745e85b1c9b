"""Element types, attributes and queries of the IR that no dialect owns."""
