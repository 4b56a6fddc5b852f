"""`qmctl top`: a live view of a queue manager."""
