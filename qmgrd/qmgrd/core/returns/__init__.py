"""Messages that come back: retries, dead letters, parked publications; and events."""
