"""Commands on a whole queue manager: its definitions, state, events and connections."""
