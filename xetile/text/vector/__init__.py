"""Operations of the vector dialect and of SuperVector in texts: their rules, and classes of those that xDSL lacks."""
