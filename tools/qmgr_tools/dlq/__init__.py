"""Commands on dead letters."""
