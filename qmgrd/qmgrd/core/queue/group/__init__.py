"""Groups of messages on one queue."""
