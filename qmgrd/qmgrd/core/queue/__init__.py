"""One queue: its messages, leases, order, duplicates and journal."""
