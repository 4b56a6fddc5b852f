"""Commands on message groups."""
