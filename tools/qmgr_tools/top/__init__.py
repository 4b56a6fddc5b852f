"""`qmctl top`: shows a live view of a queue manager."""
