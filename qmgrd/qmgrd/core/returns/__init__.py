"""Messages that return: retries, dead letters, parked publications; and events."""
