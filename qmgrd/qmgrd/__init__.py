"""The queue manager daemon."""
