"""State that all parts of the core share: the open turn, sessions, units, producers, peers."""
