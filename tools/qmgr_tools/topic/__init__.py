"""Commands on topics and publications."""
