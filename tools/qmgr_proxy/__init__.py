"""`qmctl proxy`: simulates a bad network between a client and a queue manager."""
