"""The rules and values of message groups, for clients."""
