"""Commands on a whole queue manager: definitions, state, events and connections."""
