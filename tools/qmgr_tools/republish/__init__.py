"""Commands that republish parked publications."""
